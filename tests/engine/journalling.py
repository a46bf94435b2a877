"""A desk at which a test writes down what an execution does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flo.engine.executions import LogLine, StepRecord, StepState
from flo.engine.jobs import LEASE, Entries, LeaseLost, Request
from flo.engine.journal import Journal, Strand
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.queueing import Owned
from flo.engine.values import JsonObject
from flo.testing import FrozenClock

from .delivering import Over


class Desk:
    """A claimed execution of a memory store, its journal, and the writes that were made, each as what it recorded."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.store = MemoryStore(self.clock)
        self.store.queue.enqueue([Request("{}", "d" * 64, {})])
        [delivery] = self.store.queue.claim(["default"], worker="w", lease=LEASE, limit=1).deliveries
        self.hold, self.id = delivery.hold, delivery.execution.id
        self.writes: list[Entries] = []
        self.exclusive: list[bool] = []
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        self.lost: list[LeaseLost] = []
        self.variables: JsonObject = {}
        self.tolerated = 0
        queue: Any = Over(self.store.queue, own=self._own)
        self.journal = Journal(queue, self.hold, self.clock, last_line=0, on_lost=self.lost.append)
        self.strand = Strand(self.journal, lambda: (self.variables, self.tolerated))

    def _own(self, hold: Any, work: Callable[[Owned], Any], *, exclusive: bool = False, brief: bool = False) -> Any:
        made: list[Entries] = []

        def noted(owned: Owned) -> Any:
            def record(entries: Entries) -> None:
                made.append(entries)
                owned.record(entries)

            seen: Any = Over(owned, record=record)
            return work(seen)

        self.before()
        result = self.store.queue.own(hold, noted, exclusive=exclusive, brief=brief)
        self.writes.append(made[0] if made else Entries())
        self.exclusive.append(exclusive)
        self.after()
        return result

    def step(self, path: str, characters: int = 10, strand: Strand | None = None, **fields: Any) -> None:
        made = {"output": {"x": 1}, **fields}
        record = StepRecord(self.id, path, "s", "core.log", StepState.SUCCESS, self.clock.now(), 1.0, **made)
        (strand or self.strand).step(record, characters)

    def iteration(self, path: str, state: StepState = StepState.SUCCESS) -> None:
        loop, _, index = path.rstrip("]").rpartition("[")
        record = StepRecord(
            self.id, path, loop, "core.for-each", state, self.clock.now(), 1.0, loop=loop, index=int(index)
        )
        self.strand.iteration(record, 10)

    def line(self, message: str, strand: Strand | None = None) -> None:
        (strand or self.strand).line(LogLine(self.id, self.clock.now(), "info", message))

    def paths(self) -> list[str]:
        """What is stored of steps."""
        return [record.path for record in self.store.executions.steps(self.id)]

    def messages(self) -> list[tuple[int, str]]:
        return [(line.number, line.message) for line in self.store.executions.lines(self.id)]

    def outputs(self) -> dict[str, Any]:
        return {record.path: record.output for record in self.store.executions.steps(self.id)}
