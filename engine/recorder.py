"""Writes what happened in an execution to its store: in batches, and in order."""

from __future__ import annotations

import threading

from flo.engine.clock import Clock
from flo.engine.executions import LogLine, StepRecord
from flo.engine.stores.base import ExecutionStore
from flo.engine.values import dump

BATCH = 200
BATCH_CHARACTERS = 4 * 1024 * 1024
BATCH_SECONDS = 0.5
MAX_MESSAGE = 64 * 1024


class Recorder:
    """Collects records of steps and log lines, and stores them when enough have come together.

    Safe from many threads: one of them stores a batch while the others go on collecting. After ``seal`` nothing more is
    taken, so that a step which was given up cannot write into an execution that has ended.
    """

    def __init__(self, store: ExecutionStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._steps: list[StepRecord] = []
        self._lines: list[LogLine] = []
        self._characters = 0
        self._flushed_at = clock.monotonic()
        self._collecting = threading.Lock()
        self._storing = threading.Lock()
        self._sealed = False

    def step(self, record: StepRecord, characters: int) -> None:
        """Take the record of a step whose output has so many characters as JSON."""
        with self._collecting:
            if self._sealed:
                return
            self._steps.append(record)
            self._characters += characters
            due = self._due()
        if due:
            self.flush()

    def line(self, line: LogLine) -> None:
        """Take a log line."""
        with self._collecting:
            if self._sealed:
                return
            self._lines.append(line)
            self._characters += len(line.message) + (0 if line.data is None else len(dump(line.data)))
            due = self._due()
        if due:
            self.flush()

    def flush(self) -> None:
        """Store all that was taken before this call. Raises ``StoreError``."""
        with self._storing:
            with self._collecting:
                steps, lines = self._steps, self._lines
                self._steps, self._lines, self._characters = [], [], 0
                self._flushed_at = self._clock.monotonic()
            if steps or lines:
                self._store.record(steps, lines)

    def seal(self) -> None:
        """Take nothing more."""
        with self._collecting:
            self._sealed = True

    def _due(self) -> bool:
        return (
            len(self._steps) + len(self._lines) >= BATCH
            or self._characters >= BATCH_CHARACTERS
            or self._clock.monotonic() - self._flushed_at >= BATCH_SECONDS
        )
