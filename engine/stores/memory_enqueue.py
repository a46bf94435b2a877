"""Requests as executions of the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from flo.engine.errors import StoreError
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import Enqueued, KeyConflict, Request
from flo.engine.stores import arrivals
from flo.engine.stores.arrivals import check_batch, rejected
from flo.engine.stores.memory_copies import copied_execution
from flo.engine.stores.memory_ledger import Kept, Ledger


def enqueue(ledger: Ledger, requests: Sequence[Request]) -> Sequence[Enqueued]:
    """Store executions as ``pending``, all or none, and tell those who listen to their queues."""
    check_batch(requests)
    with ledger.transaction():
        now = ledger.now()
        return [_enqueue(ledger, request, now) for request in requests]


def find_by_key(ledger: Ledger, request: Request) -> Kept | None:
    """The execution that the request's idempotency key made before. Raises ``KeyConflict``."""
    if request.key is None or request.key not in ledger.by_key:
        return None
    found = ledger.kept[ledger.by_key[request.key]]
    if found.identity != request.identity:
        raise KeyConflict(request.key, found.row.id)
    return found


def insert(ledger: Ledger, row: Execution, identity: str | None = None) -> Kept:
    """Keep a copy of a new execution."""
    if row.id in ledger.kept:
        raise StoreError(f"execution {row.id} is stored already")
    if row.key is not None and row.key in ledger.by_key:
        raise StoreError(f"the key {row.key!r} belongs to execution {ledger.by_key[row.key]} already")
    kept = Kept(copied_execution(row), identity=identity)
    ledger.insert(kept)
    return kept


def new_execution(ledger: Ledger, request: Request, now: datetime) -> Execution:
    """What a request becomes."""
    parent = None if request.parent_id is None else ledger.kept.get(request.parent_id)
    return arrivals.new_execution(request, now, 0 if parent is None else parent.row.depth)


def _enqueue(ledger: Ledger, request: Request, now: datetime) -> Enqueued:
    found = find_by_key(ledger, request)
    if found is not None:
        return Enqueued(found.row.id, False, found.row.state)
    row = new_execution(ledger, request, now)
    if request.when_full == "reject" and _has_its_limit(ledger, request, now):
        row = rejected(row, now)
    kept = insert(ledger, row, request.identity)
    if not row.state.final:
        ledger.tell(kept.queue)
    return Enqueued(row.id, True, row.state)


def _has_its_limit(ledger: Ledger, request: Request, now: datetime) -> bool:
    """Whether as many unfinished executions have the concurrency key as may run: what waits counts too, but not what no
    queue delivers and whose owner is gone."""
    if request.concurrency_key is None:
        return False
    of_key = ledger.by_concurrency_key.get(request.concurrency_key, {}).values()
    limit = 1 if request.concurrency_limit is None else request.concurrency_limit
    return sum(not kept.row.state.final and not _is_left(kept, now) for kept in of_key) >= limit


def _is_left(kept: Kept, now: datetime) -> bool:
    row = kept.row
    is_over = row.due_at is not None and row.due_at <= now
    return row.queue is None and row.state is ExecutionState.RUNNING and is_over
