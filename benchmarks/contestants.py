"""Starts contestants in processes of their own, and asks one of them, or all of a team at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks.contestant import Answer, Refusal

PATIENCE_SECONDS: Final = 600.0
"""How long an answer may take."""


class ContestantFailed(Exception):
    """A contestant could not do what it was asked for; the text says why."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A process that does one thing at a time."""

    process: subprocess.Popen[bytes]
    _connection: Connection

    def ask(self, method: str, *values: Any) -> None:
        """Let it begin with something."""
        try:
            self._connection.send((method, values))
        except OSError as error:
            raise ContestantFailed(f"it ended with {self.process.poll()}") from error

    def answer(self) -> Answer:
        """Wait until it has done what it was asked for."""
        if not self._connection.poll(PATIENCE_SECONDS):
            self.process.kill()  # else its answer would be taken for that to the next question
            raise ContestantFailed(f"no answer within {PATIENCE_SECONDS:g} s")
        try:
            told = self._connection.recv()
        except (EOFError, OSError):
            raise ContestantFailed(f"it ended with {self.process.wait(10)}") from None
        if isinstance(told, Refusal):
            raise ContestantFailed(told.reason)
        assert isinstance(told, Answer)
        return told

    def do(self, method: str, *values: Any) -> Answer:
        """Ask, and wait for the answer."""
        self.ask(method, *values)
        return self.answer()


@dataclass(frozen=True, slots=True)
class Team:
    """Processes of one contestant on one database."""

    url: str
    members: Sequence[Contestant]

    @property
    def first(self) -> Contestant:
        return self.members[0]

    def part(self, size: int) -> Team:
        """The first ones of it."""
        return Team(self.url, self.members[:size])

    def release(self, method: str, *values: Any) -> tuple[float, list[Answer]]:
        """Let all begin at once; gives when that was, and their answers. All have answered when one of them failed."""
        began = time.monotonic()
        for member in self.members:
            member.ask(method, *values)
        answers, failures = [], []
        for member in self.members:
            try:
                answers.append(member.answer())
            except ContestantFailed as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return began, answers


@contextmanager
def team(module: str, url: str, folder: Path, size: int = 1) -> Iterator[Team]:
    """Start processes, one after the other: the first one makes the schema. Raises ``ContestantFailed``."""
    with ExitStack() as stack:
        yield Team(url, [stack.enter_context(_contestant(module, url, folder)) for _ in range(size)])


@contextmanager
def _contestant(module: str, url: str, folder: Path) -> Iterator[Contestant]:
    ours, theirs = Pipe()
    with theirs, (folder / "contestants.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contestant", module, url, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=child_environment(),
        )
    with ours:
        started = Contestant(process, ours)
        try:
            started.answer()
            yield started
        finally:
            ours.close()
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself when nobody asks any more; if not, it is killed."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def child_environment() -> dict[str, str]:
    """What is set for processes that are measured: nothing of flo's, and they keep the bytecode that they compile."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLO_") and name != "PYTHONDONTWRITEBYTECODE"
    }
