"""Whose turn it is to write, among the processes that share one SQLite file.

SQLite lets waiting writers poll, and the one that has just written polls at the best moment: one process can write on
while the others starve. So writers queue at two locks: whoever has the second one writes, one more waits for it with
the first in hand, the rest wait for the first. A writer that comes back has to get past the one that waits. The system
drops the locks of a process that dies.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such locks there: SQLite's own are what is left
    fcntl = None  # type: ignore[assignment]


class Turnstile:
    """The two locks, on files beside the database. Where the system or the disk has none, everyone may pass."""

    def __init__(self, database: Path) -> None:
        self._files: list[int] = []
        if fcntl is None:
            return
        try:
            for suffix in ("-queue", "-turn"):
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._files.append(os.open(f"{database}{suffix}", flags, 0o600))
        except OSError:
            self.close()
        # a forked child would keep its parent's turn after the parent was killed
        reference = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _close_copy(reference()))

    @contextmanager
    def turn(self, *, wait: bool = True) -> Iterator[bool]:
        """Have the turn; says so. Without ``wait`` it is had at once or not at all."""
        if not self._files:
            yield True
            return
        queue, turn = self._files
        try:
            had = _wait(queue, turn) if wait else _try(queue, turn)
        except OSError:  # a disk without locks
            yield True
            return
        try:
            yield had
        finally:
            if had:
                fcntl.flock(turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files, and so give up the locks."""
        files, self._files = self._files, []
        for file in files:
            os.close(file)


def _wait(queue: int, turn: int) -> bool:
    fcntl.flock(queue, fcntl.LOCK_EX)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
    finally:
        fcntl.flock(queue, fcntl.LOCK_UN)
    return True


def _try(queue: int, turn: int) -> bool:
    """Take the turn if nobody has it, and nobody waits for it."""
    try:
        fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        fcntl.flock(queue, fcntl.LOCK_UN)
    return True


def _close_copy(turnstile: Turnstile | None) -> None:
    if turnstile is not None:
        turnstile.close()
