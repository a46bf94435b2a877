"""Worker processes that tests start, stop and kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

STEP_TYPES = Path(__file__).with_name("step_types.py")

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start ``flo`` with arguments, in a folder of the test. What still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "flo.cli", *arguments],
            cwd=tmp_path,
            env=_environment(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "FLO_STEPS": str(STEP_TYPES), "PYTHONUTF8": "1", **more}


def ended(process: subprocess.Popen[str], within: float = 120) -> int:
    """How a process ended: well, or killed. What it said stands in the failure of anything else."""
    _, said = process.communicate(timeout=within)
    assert process.returncode in (0, -9), said
    return process.returncode
