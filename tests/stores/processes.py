"""Other processes that work on the store of a test: scripts of this folder, which begin at one moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Process = subprocess.Popen[str]


@contextmanager
def processes(script: Path, *arguments: Sequence[str], fault: str = "") -> Iterator[Sequence[Process]]:
    """A process of ``script`` for each of ``arguments``. They have opened the store; they begin to work at one moment.
    ``fault`` is where they are killed."""
    running: list[Process] = []
    pipe = subprocess.PIPE
    environment = {**os.environ, "FLO_FAULT": fault}
    try:
        for given in arguments:
            command = [sys.executable, str(script), *given]
            started = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", env=environment)
            running.append(started)
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def said(process: Process) -> list[Any]:
    """What a process said, that ended well."""
    out, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]
