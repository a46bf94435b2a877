"""The time, as an argument, so that tests move it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits. Everything in the engine that looks at a clock is given one."""

    def now(self) -> datetime:
        """The wall clock: aware, UTC."""

    def monotonic(self) -> float:
        """Seconds that only rise; differences of it are durations."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until ``event`` is set (true) or ``seconds`` have passed (false)."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)
