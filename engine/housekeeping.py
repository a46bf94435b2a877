"""Takes expired rows away, a bounded number at a time, when a run has ended."""

from __future__ import annotations

import logging
import threading

from flo.engine.clock import Clock
from flo.engine.errors import StoreError
from flo.engine.stores.base import DataStore

log = logging.getLogger("flo.housekeeping")

SWEEP_SECONDS = 60.0
SWEEP_ROWS = 1_000


class Sweeper:
    """Removes rows that have expired, at most ``SWEEP_ROWS`` every ``SWEEP_SECONDS`` and process.

    They are invisible already; this gives their space back. Where it fails, the next run tries again.
    """

    def __init__(self, data: DataStore, clock: Clock) -> None:
        self._data, self._clock = data, clock
        self._due = clock.monotonic()
        self._lock = threading.Lock()

    def sweep(self) -> None:
        """Remove some, if it is time."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._due:
                return
            self._due = now + SWEEP_SECONDS
        try:
            self._data.remove_expired(SWEEP_ROWS)
        except StoreError as error:
            log.warning("cannot remove expired rows: %s", error)
