"""Whole processes: what the command needs from its start to its end, against a Python that does nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from benchmarks.contestants import ContestantFailed, child_environment
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Line, compared
from benchmarks.measuring import Sample, Way, by_turns

NOTHING: Final = "python -c pass"

TWO_STEPS: Final = {
    "steps": [
        {
            "stepId": "write",
            "stepType": "data-store.set",
            "input": {"tableName": "greetings", "key": "<< $util.uuid >>", "value": {"text": "hello"}},
        },
        {"stepId": "say", "stepType": "core.log", "input": {"message": "wrote << write.key >>"}},
    ]
}

_LAUNCHER: Final = """
import os, sys, time
silent = [(os.POSIX_SPAWN_OPEN, at, os.devnull, os.O_RDWR, 0) for at in (1, 2)]
began = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
_, code, used = os.wait4(process, 0)
print(time.perf_counter() - began, code, used.ru_maxrss)
"""
"""Starts a command, and tells how long it took and its peak of memory. It is small, for a process that is started
inherits the peak of the one that starts it."""


def start_lines(ground: Ground) -> Iterator[Line]:
    """``flo --help``, and ``flo run`` with an SQLite file that is there."""
    folder = ground.server.folder
    recipe = folder / "two-steps.json"
    recipe.write_text(json.dumps(TWO_STEPS), encoding="utf-8")
    run = ["run", str(recipe), "--store", f"sqlite:{folder}/starting.sqlite", "--json"]
    for what, store, arguments, aim in (
        ("flo --help", "none", ["--help"], 80.0),
        ("flo run of a two-step recipe", "SQLite", run, 350.0),
    ):
        # not the installed script: it may belong to another interpreter
        ways = [
            Way(OWN, partial(_starts, [sys.executable, "-m", "flo.cli", *arguments])),
            Way(NOTHING, partial(_starts, [sys.executable, "-c", "pass"])),
        ]
        series = by_turns(ways, ground.sizes.starts, ground.sizes.rounds)
        yield from compared(what, store, series[OWN], [(Against(NOTHING, aim, "ms more"), series[NOTHING])])


def _starts(command: Sequence[str], times: int) -> Sample:
    taken = [_start(command) for _ in range(times)]
    return Sample(sum(sample.seconds for sample in taken) / times, max(sample.peak for sample in taken))


def _start(command: Sequence[str]) -> Sample:
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    told = subprocess.run(launcher, check=True, stdout=subprocess.PIPE, text=True, env=child_environment())
    seconds, code, peak = told.stdout.split()
    if code != "0":
        raise ContestantFailed(f"it ended with {code}")
    return Sample(float(seconds), int(peak) * (1 if sys.platform == "darwin" else 1024))
