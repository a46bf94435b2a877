"""What the tests of recipes share: engines, the recipes, and processes that run them at the same moment."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = Path(__file__).with_name("rounds.py")

Result = dict[str, Any]
Process = subprocess.Popen[str]


@pytest.fixture
def recipe() -> Callable[[str], Path]:
    """The file of a recipe, by its name."""
    return lambda name: ROOT / "recipes" / f"{name}.json"


@pytest.fixture
def engine(store_url: str) -> Iterator[app.Flo]:
    with app.open(store_url) as opened:
        yield opened


@pytest.fixture
def shared(shared_url: str) -> Iterator[app.Flo]:
    """An engine in this process, over the store that the other processes use."""
    with app.open(shared_url) as opened:
        yield opened


@pytest.fixture
def at_once(shared_url: str, tmp_path: Path) -> Callable[..., list[list[Result]]]:
    """Run a workflow in so many processes at once; gives the results of each. All of them have to be successes."""

    def start(count: int, file: Path, initial: Result, *options: str) -> list[list[Result]]:
        ended = _run(shared_url, tmp_path, count, file, initial, options)
        for code, results, stderr in ended:
            assert code == 0, stderr
            for result in results:
                assert result["status"] == "success", result["error"]
        return [results for _, results, _ in ended]

    return start


@pytest.fixture
def killed_at(shared_url: str, tmp_path: Path) -> Callable[[str, Path, Result], None]:
    """Run a workflow in a process that dies by SIGKILL when the step of a path starts."""

    def start(path: str, file: Path, initial: Result) -> None:
        ((code, results, stderr),) = _run(shared_url, tmp_path, 1, file, initial, ["--die-at", path])
        assert (code, results) == (-signal.SIGKILL, []), stderr

    return start


def _run(
    url: str, folder: Path, count: int, file: Path, initial: Result, options: list[str] | tuple[str, ...]
) -> list[tuple[int, list[Result], str]]:
    """Start the processes, wait until each has opened the store, let all of them go together, wait for their ends."""
    written = [folder / f"results-{number}" for number in range(count)]
    running: list[Process] = []
    try:
        for results in written:
            command = [sys.executable, str(ROUNDS), url, str(file), json.dumps(initial), str(results), *options]
            pipe = subprocess.PIPE
            running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8"))
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [
            (process.wait(timeout=120), _read(results), process.communicate()[1])
            for process, results in zip(running, written, strict=True)
        ]
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _read(results: Path) -> list[Result]:
    return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
