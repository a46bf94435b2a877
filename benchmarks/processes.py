"""Whole processes: what the command needs from its start to its end, against a Python that does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.databases import Server
from benchmarks.measuring import Line, Way, compare
from benchmarks.sizes import Sizes

TWO_STEPS = {
    "steps": [
        {
            "stepId": "write",
            "stepType": "data-store.set",
            "input": {"tableName": "greetings", "key": "<< $util.uuid >>", "value": {"text": "hello"}},
        },
        {"stepId": "say", "stepType": "core.log", "input": {"message": "wrote << write.key >>"}},
    ]
}


def process_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """``flo --help`` and ``flo run``, with an SQLite file that is there, against ``python -c pass``."""
    python = Way("python -c pass", lambda: _run([sys.executable, "-c", "pass"], sizes.starts))
    with TemporaryDirectory(prefix="flo-benchmark-") as folder:
        recipe = Path(folder) / "two-steps.json"
        recipe.write_text(json.dumps(TWO_STEPS), encoding="utf-8")
        run = ["run", str(recipe), "--store", f"sqlite:{folder}/flo.sqlite", "--json"]
        for name, store, arguments in (("flo --help", "none", ["--help"]), ("flo run, 2 steps", "SQLite", run)):
            # not the installed script: it may belong to another interpreter
            command = [sys.executable, "-m", "flo.cli", *arguments]
            way = Way("whole process", partial(_run, command, sizes.starts))
            yield from compare(name, store, [way], [python], operations=sizes.starts, rounds=sizes.rounds)


def _run(command: Sequence[str], times: int) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLO_")}
    for _ in range(times):
        subprocess.run(command, check=True, capture_output=True, env=environment)
