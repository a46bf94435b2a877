"""Queues of the memory store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeVar

from flo.engine.errors import StoreError
from flo.engine.executions import RESUMABLE, Execution, ExecutionState, changed
from flo.engine.jobs import (
    NOTHING,
    Claimed,
    Conclusion,
    Delivery,
    Ending,
    Enqueued,
    Entries,
    Hold,
    LeaseLost,
    Limits,
    QueueInfo,
    Request,
)
from flo.engine.stores.arrivals import rejected
from flo.engine.stores.memory_burying import bury
from flo.engine.stores.memory_claims import claim, deliver, gates_for, is_claimable, is_idle
from flo.engine.stores.memory_copies import copied, copied_error, copied_execution, copied_object
from flo.engine.stores.memory_endings import conclude, find, held, is_over_with_parent, reopen
from flo.engine.stores.memory_enqueue import enqueue, find_by_key, insert, new_execution
from flo.engine.stores.memory_ledger import NO_QUEUE, Kept, Ledger
from flo.engine.stores.memory_owned import MemoryOwned, record
from flo.engine.stores.memory_rows import MemoryData
from flo.engine.stores.memory_wakeups import MemoryWakeups
from flo.engine.stores.queueing import Owned, Wakeups

T = TypeVar("T")

_RATE: Final = timedelta(seconds=60)
_OPENED_AGAIN: Final = frozenset({"failed", "timed_out", "retrying"})
"""How a claim ended after which there was another attempt."""


class MemoryQueue:
    """The ``QueueStore`` of the memory store."""

    def __init__(self, ledger: Ledger, data: MemoryData) -> None:
        self._ledger, self._data = ledger, data

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        return enqueue(self._ledger, requests)

    def start(self, request: Request, *, worker: str, lease: timedelta) -> Delivery | Execution | None:
        ledger = self._ledger
        with ledger.transaction():
            now = ledger.now()
            if (found := find_by_key(ledger, request)) is not None:
                return copied_execution(found.row)
            row = replace(new_execution(ledger, request, now), queue=None, run_at=now, due_at=now)
            kept = Kept(row)
            if not gates_for(ledger, [kept], now).full(NO_QUEUE, row.concurrency_key, row.concurrency_limit):
                return deliver(ledger, insert(ledger, row, request.identity), worker, lease, now)
            if request.when_full == "queue":
                return None
            return copied_execution(insert(ledger, rejected(row, now), request.identity).row)

    def adopt(self, parent: Hold, request: Request, *, lease: timedelta) -> Delivery | Execution:
        ledger = self._ledger
        with ledger.transaction():
            now = ledger.now()
            above = held(ledger, parent).row
            children = ledger.by_parent.get(above.id, {}).values()
            child = next((one for one in children if one.is_part and one.row.parent_path == request.parent_path), None)
            if child is None:
                row = replace(
                    new_execution(ledger, replace(request, parent_id=above.id), now),
                    queue=None,
                    run_at=now,
                    due_at=now,
                    root_id=above.root_id or above.id,
                )
                child = insert(ledger, row, request.identity)
            elif child.row.state.final:
                if not _goes_on(child.row, ledger.kept[above.id]):
                    return copied_execution(child.row)
                reopen(ledger, child, now)
            return deliver(ledger, child, parent.worker, lease, now)

    def claim(self, queues: Sequence[str], *, worker: str, lease: timedelta, limit: int, ahead: int = 0) -> Claimed:
        with self._ledger.transaction():
            return claim(self._ledger, queues, worker, lease, limit, ahead)

    def take(self, execution_id: str, *, worker: str, lease: timedelta) -> Delivery | None:
        ledger = self._ledger
        with ledger.transaction():
            now = ledger.now()
            kept = find(ledger, execution_id)
            row = kept.row
            if row.queue is not None or kept.is_part or row.state.final or not is_claimable(kept, now):
                return None
            if gates_for(ledger, [kept], now).full(NO_QUEUE, row.concurrency_key, row.concurrency_limit):
                return None
            return deliver(ledger, kept, worker, lease, now)

    def bury(self, limit: int = 100) -> Sequence[Execution]:
        with self._ledger.transaction():
            return [copied_execution(kept.row) for kept in bury(self._ledger, limit)]

    def renew(self, holds: Sequence[Hold], *, lease: timedelta) -> Sequence[Hold]:
        ledger = self._ledger
        with ledger.transaction():
            until = ledger.now() + lease
            valid = self.valid(holds)
            for hold in valid:
                kept = ledger.kept[hold.execution_id]
                ledger.assign(kept, row=replace(kept.row, due_at=until, lease_until=until))
            return valid

    def valid(self, holds: Sequence[Hold]) -> Sequence[Hold]:
        with self._ledger.transaction():
            return [hold for hold in holds if _is_valid(self._ledger, hold)]

    def own(self, hold: Hold, work: Callable[[Owned], T], *, exclusive: bool = False, brief: bool = False) -> T:
        # the locks make every transaction an exclusive one
        with self._ledger.transaction(), self._data.transaction():
            return work(MemoryOwned(self._ledger, held(self._ledger, hold), self._data))

    def conclude(
        self, hold: Hold, conclusion: Conclusion, entries: Entries = NOTHING, *, of: Execution | None = None
    ) -> Execution:
        with self._ledger.transaction():
            kept = held(self._ledger, hold)
            record(self._ledger, kept, entries)
            conclude(self._ledger, kept, conclusion)
            row = kept.row
            given = copied_object(row.input) if of is None else of.input
            return changed(row, input=given, output=copied(row.output), error=copied_error(row.error))

    def conclude_many(self, endings: Sequence[Ending]) -> Sequence[Execution | LeaseLost | StoreError]:
        with self._ledger.transaction():
            return [self._end(ending) for ending in endings]

    def queues(self) -> Sequence[QueueInfo]:
        ledger = self._ledger
        with ledger.transaction():
            by_queue: dict[str, list[Execution]] = {name: [] for name in (*ledger.paused, *ledger.limits)}
            for kept in ledger.kept.values():
                if kept.queue != NO_QUEUE:
                    by_queue.setdefault(kept.queue, []).append(kept.row)
            return [_info(ledger, name, rows) for name, rows in sorted(by_queue.items())]

    def pause(self, queue: str) -> None:
        with self._ledger.transaction():
            self._ledger.paused.add(queue)

    def unpause(self, queue: str) -> None:
        with self._ledger.transaction():
            self._ledger.paused.discard(queue)
            self._ledger.tell(queue)

    def limit(self, queue: str, limits: Limits) -> None:
        with self._ledger.transaction():
            if limits == Limits():
                self._ledger.limits.pop(queue, None)
            else:
                self._ledger.limits[queue] = limits
            self._ledger.tell(queue)

    def idle(self, queues: Sequence[str]) -> bool:
        with self._ledger.transaction():
            return is_idle(self._ledger, queues)

    def wakeups(self, queues: Sequence[str]) -> Wakeups:
        return MemoryWakeups(self._ledger.bell, queues)

    def _end(self, ending: Ending) -> Execution | LeaseLost:
        try:
            return self.conclude(ending.hold, ending.ended, ending.entries, of=ending.of)
        except LeaseLost as lost:
            return lost


def _is_valid(ledger: Ledger, hold: Hold) -> bool:
    try:
        held(ledger, hold)
    except LeaseLost:
        return False
    return True


def _goes_on(child: Execution, parent: Kept) -> bool:
    """Whether a part that has ended runs again: it failed, or ended with its parent, and the parent was opened again
    after that, by a resume or for another attempt."""
    ended_at = child.finished_at
    if ended_at is None or not (child.state in RESUMABLE or is_over_with_parent(child)):
        return False
    return any(one.outcome in _OPENED_AGAIN and one.ended_at >= ended_at for one in parent.attempts.values())


def _info(ledger: Ledger, name: str, rows: Sequence[Execution]) -> QueueInfo:
    now = ledger.now()
    due = [row.due_at for row in rows if row.due_at is not None and row.due_at <= now]
    ahead = [row.state for row in rows if not row.state.final and (row.due_at is None or row.due_at > now)]
    return QueueInfo(
        name,
        paused=name in ledger.paused,
        limits=ledger.limits.get(name, Limits()),
        due=len(due),
        later=ahead.count(ExecutionState.PENDING) + ahead.count(ExecutionState.RETRYING),
        running=ahead.count(ExecutionState.RUNNING),
        suspended=ahead.count(ExecutionState.SUSPENDED),
        dead=sum(row.reason is not None and row.replayed_as is None for row in rows),
        finished_last_minute=sum(row.finished_at is not None and row.finished_at > now - _RATE for row in rows),
        oldest_due=min(due, default=None),
    )
