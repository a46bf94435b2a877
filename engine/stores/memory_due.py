"""When the executions of the memory store are due, in the order of claims: a claim costs the same among any number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush

from flo.engine.executions import Execution

Find = Callable[[str], Execution | None]
"""Gives an execution as it is now, by its id."""

_Place = tuple[int, datetime, datetime, str]


@dataclass(slots=True)
class _Line:
    """The heaps of one queue: what has a time to come, by that time, and what is due, in the order of claims."""

    later: list[tuple[datetime, str]] = field(default_factory=list)
    due: list[_Place] = field(default_factory=list)


class DueOrder:
    """Notes of when executions are due. One that does not fit its execution any more is passed over when it comes up.

    Used under the lock of the ledger.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._lines: dict[str, _Line] = {}

    def add(self, queue: str, row: Execution) -> None:
        """Note an execution: after each change, and when it was given by ``due`` and is left as it was."""
        if row.due_at is not None:
            heappush(self._lines.setdefault(queue, _Line()).later, (row.due_at, row.id))

    def due(self, queues: Collection[str], now: datetime) -> Iterator[Execution]:
        """Give what is due in ``queues``, by priority, ``run_at`` and creation. What is given is not noted any more."""
        lines = [(queue, line) for queue in queues if (line := self._lines.get(queue)) is not None]
        for _, line in lines:
            self._move(line, now)
        given: set[str] = set()
        while waiting := [(queue, line) for queue, line in lines if line.due]:
            queue, line = min(waiting, key=lambda one: one[1].due[0])
            place = heappop(line.due)
            row = self._find(place[-1])
            if row is None or row.due_at is None or row.id in given or place != _place(row):
                continue
            if row.due_at > now:
                self.add(queue, row)
                continue
            given.add(row.id)
            yield row

    def next(self, queues: Collection[str], now: datetime) -> datetime | None:
        """When the next one of ``queues`` comes due."""
        lines = [line for queue in queues if (line := self._lines.get(queue)) is not None]
        for line in lines:
            self._move(line, now)
            while line.later and not self._fits(*line.later[0]):
                heappop(line.later)
        return min((line.later[0][0] for line in lines if line.later), default=None)

    def _move(self, line: _Line, now: datetime) -> None:
        """Put what has come due where it is in the order of claims."""
        while line.later and line.later[0][0] <= now:
            due_at, execution_id = heappop(line.later)
            row = self._find(execution_id)
            if row is not None and row.due_at == due_at:
                heappush(line.due, _place(row))

    def _fits(self, due_at: datetime, execution_id: str) -> bool:
        row = self._find(execution_id)
        return row is not None and row.due_at == due_at


def _place(row: Execution) -> _Place:
    return (-row.priority, row.run_at or row.created_at, row.created_at, row.id)
