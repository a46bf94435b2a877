"""Requests as executions of the memory store."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from flo.engine.errors import InputInvalid, StoreError
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import MAX_BATCH, Enqueued, KeyConflict, Request
from flo.engine.stores.memory_copies import copied_execution
from flo.engine.stores.memory_ledger import Kept, Ledger


def enqueue(ledger: Ledger, requests: Sequence[Request]) -> Sequence[Enqueued]:
    """Store executions as ``pending``, all or none, and tell those who listen to their queues."""
    if len(requests) > MAX_BATCH:
        raise InputInvalid(
            "enqueue", f"{len(requests):,} requests came, at most {MAX_BATCH:,} go together; make several calls"
        )
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
    """What a request asks for, ``pending`` from its time on; its own root."""
    parent = None if request.parent_id is None else ledger.kept.get(request.parent_id)
    run_at = now + request.delay if request.delay is not None else request.run_at or now
    return Execution(
        id=request.id,
        workflow=request.workflow,
        version=request.version,
        digest=request.digest,
        definition=request.definition,
        input=request.input,
        state=ExecutionState.PENDING,
        created_at=now,
        trigger=request.trigger,
        handler=request.handler,
        queue=request.queue,
        priority=request.priority,
        run_at=run_at,
        due_at=run_at,
        deadline=request.deadline,
        key=request.key,
        concurrency_key=request.concurrency_key,
        concurrency_limit=request.concurrency_limit,
        parent_id=request.parent_id,
        parent_path=request.parent_path,
        root_id=request.id,
        depth=1 if parent is None else parent.row.depth + 1,
        replay_of=request.replay_of,
    )


def rejected(row: Execution, now: datetime) -> Execution:
    """The same execution, turned away since its concurrency key is full."""
    return replace(row, state=ExecutionState.REJECTED, due_at=None, finished_at=now)


def new_token() -> str:
    """The secret of one claim."""
    return secrets.token_hex(16)


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
