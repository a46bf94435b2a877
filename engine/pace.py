"""How many executions a worker may claim before it has places for them: as many as it will have begun in a moment."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

AHEAD_SECONDS: Final = 0.05
"""What waits in a worker shall begin within that, by how long executions took of late: nobody else can have it."""

MOST_AHEAD: Final = 100

_WEIGHT: Final = 0.1
"""Of the newest execution in the mean."""

_LONGEST: Final = 20.0
"""One that took long counts as so many times ``AHEAD_SECONDS``: a single one is soon forgotten."""


class Pace:
    """The mean time of executions of late, of which ``size`` run at once. Not safe for threads by itself."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._mean: float | None = None

    def ran(self, seconds: float) -> None:
        """One has run for so long."""
        seconds = min(seconds, _LONGEST * AHEAD_SECONDS)
        self._mean = seconds if self._mean is None else self._mean + _WEIGHT * (seconds - self._mean)

    def wanted(self, since: Iterable[float]) -> int:
        """How many may wait for a place. ``since`` says when those began that run now, on the machine's monotonic
        clock: one that takes long will not leave its place soon."""
        if self._mean is None:
            return 0
        long_ago = time.monotonic() - AHEAD_SECONDS
        places = self._size - sum(begun < long_ago for begun in since)
        return min(MOST_AHEAD, int(places * AHEAD_SECONDS / max(self._mean, 1e-6)))
