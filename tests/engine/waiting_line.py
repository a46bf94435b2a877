"""The line of those who wait for their turn, as a test sees it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from flo.engine.joining import Joining

PATIENCE = 30.0


class WaitingLine(deque[Any]):
    """Takes the place of a joining's own line, and tells when somebody has come to wait."""

    def __init__(self, joining: Joining[Any]) -> None:
        super().__init__()
        self._came = threading.Semaphore(0)
        joining._waiting = self

    def append(self, place: Any) -> None:
        super().append(place)
        self._came.release()

    def wait_for_next(self) -> None:
        """Wait until one more has come."""
        assert self._came.acquire(timeout=PATIENCE), "nobody waits"
