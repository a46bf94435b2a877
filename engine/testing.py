"""For tests of workflows, step types and stores: a clock that moves only when told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FrozenClock:
    """A clock that moves only when told to. Waiting on it moves it, and takes no time."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.time = start
        self._start = start
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - self._start).total_seconds()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        self.forward(timedelta(seconds=seconds))
        return event.is_set()

    def forward(self, step: timedelta) -> None:
        with self._lock:
            self.time += step
