"""flo as a queue: enqueued executions of one step, and workers that drain them."""

from __future__ import annotations

import threading
import time
from typing import Final

from benchmarks import tables
from benchmarks.contestant import Taken
from benchmarks.own import steps
from flo.engine import app
from flo.engine.commands.garbage import collect_rarely
from flo.engine.events import ClaimEnded, Event
from flo.engine.jobs import JobOptions
from flo.engine.values import JsonObject

BATCH: Final = 1_000
STEP_TYPE: Final = JobOptions(kind="handler")
"""It is a step type that is meant: no stored workflow is looked for under its name."""
CONCURRENCY: Final = 4
"""How many executions a worker has at once; that of the command."""


class Contestant:
    """An engine over one database."""

    def __init__(self, url: str) -> None:
        collect_rarely()  # as the command does
        self._url = url
        self._engine = app.open(url, steps=["benchmarks.own.steps"], listeners=[self._listen])
        self._last_end = 0.0
        self._stop = threading.Event()
        self._idle: threading.Thread | None = None

    def fill(self, jobs: int) -> None:
        """Have so many executions wait, and nothing else."""
        tables.run(self._url, tables.CLEAR_EXECUTIONS)
        self.enqueue(jobs, BATCH)
        tables.settle(self._url)

    def enqueue(self, jobs: int, size: int) -> None:
        """Enqueue so many, ``size`` in a call."""
        for at in range(0, jobs, size):
            inputs: list[JsonObject] = [{"number": number} for number in range(at, min(jobs, at + size))]
            self._engine.enqueue_many(steps.NOTHING, inputs, STEP_TYPE)

    def clear(self) -> None:
        """Forget every execution."""
        tables.run(self._url, tables.CLEAR_EXECUTIONS)

    def _listen(self, event: Event) -> None:
        if isinstance(event, ClaimEnded):
            self._last_end = time.monotonic()

    def drain(self) -> Taken:
        """Work until nothing is due or running; gives how many ended well. What it waits for others does not count."""
        began = time.monotonic()
        self._last_end = began
        tally = self._engine.worker(concurrency=CONCURRENCY).run(threading.Event(), drain=True)
        return Taken(began, self._last_end, tally.counts.get("success", 0))

    def succeeded(self) -> int:
        """How many have ended well, as the tables say."""
        return tables.number(self._url, tables.SUCCEEDED)

    def listen(self) -> None:
        """Have a worker that waits for something to do."""
        self._idle = threading.Thread(target=self._engine.worker().run, args=(self._stop,))
        self._idle.start()

    def woken(self) -> float:
        """Wait for the next execution to start; gives when that was."""
        return steps.noted.get(timeout=30)

    def wake(self) -> float:
        """Enqueue one; gives when that began."""
        began = time.monotonic()
        self._engine.enqueue(steps.NOTE)
        return began

    def close(self) -> None:
        """End the worker and the engine."""
        self._stop.set()
        if self._idle is not None:
            self._idle.join()
        self._engine.close()
