"""Requests as executions of queues, in SQL that both dialects accept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from flo.engine.errors import StoreUnavailable
from flo.engine.executions import Execution, ExecutionState
from flo.engine.faults import reach
from flo.engine.jobs import Enqueued, KeyConflict, Request
from flo.engine.stores import arrivals
from flo.engine.stores.arrivals import check_batch
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_inserting import Row, insert, row_of
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_rows import DEFINE

_KEYS_LOCK: Final = 0x666C6F6B
"""The number under which PostgreSQL lets one count the executions of a concurrency key at a time."""

_BY_KEY: Final = (
    "SELECT idempotency_key, id, request_identity, state FROM executions"
    " WHERE tenant = 'default' AND idempotency_key {keys}"
)
_UNFINISHED: Final = """
SELECT concurrency_key, count(*) FROM executions
WHERE concurrency_key IS NOT NULL AND finished_at IS NULL AND concurrency_key {keys}
  AND NOT (queue = '' AND state = 'running' AND due_at <= :now)
GROUP BY concurrency_key
"""
_KEYED: Final = "SELECT name FROM queues WHERE keyed AND name {names}"
_MARK_KEYED: Final = """
INSERT INTO queues (name, keyed) VALUES (:name, true) ON CONFLICT (name) DO UPDATE SET keyed = true
"""
_PATIENCE: Final = 3

Known = tuple[str, str | None, ExecutionState]
"""The execution of an idempotency key: its id, the identity of its request, its state."""


def enqueue(database: Database, requests: Sequence[Request]) -> Sequence[Enqueued]:
    """As ``QueueStore.enqueue``."""

    def work(execute: Execute) -> Sequence[Enqueued]:
        became = enqueue_in(execute, database, requests)
        reach("enqueue.before-commit")
        return became

    became = database.write(work)
    reach("enqueue.committed")
    return became


def enqueue_in(execute: Execute, database: Database, requests: Sequence[Request]) -> Sequence[Enqueued]:
    """As ``QueueStore.enqueue``, in a transaction that is under way.

    Locks definitions first, then queues, then concurrency keys, then idempotency keys, each in order, as everybody
    does.
    """
    check_batch(requests)
    if not requests:
        return []
    asked = _once_a_key(requests)
    _define(execute, asked)
    _mark_keyed(execute, database, asked)
    rejecting = any(request.when_full == "reject" and request.concurrency_key is not None for request in asked)
    if rejecting:
        lock_keys(execute, database)
    known = known_by_key(execute, database, asked)
    rows = _rows(execute, database, [one for one in asked if one.key is None or one.key not in known])
    inserted = _insert(execute, database, rows)
    pending = [row for row in rows if row["state"] == ExecutionState.PENDING]
    # workers learn of what is due later, too: they sleep until the next time that they know of
    notify(execute, database.dialect, {row["queue"] for row in pending})
    return _became(requests, {row["id"]: ExecutionState(row["state"]) for row in rows}, known, inserted)


def new_execution(request: Request, now: datetime, depths: Mapping[str, int]) -> Execution:
    """What a request becomes. ``depths`` are those of parents."""
    return arrivals.new_execution(request, now, 0 if request.parent_id is None else depths.get(request.parent_id, 0))


def lock_keys(execute: Execute, database: Database) -> None:
    """Let nobody else count executions of concurrency keys until the commit; statements after this one see what those
    before did. SQLite has one writer at a time anyway."""
    if database.dialect == "postgresql":
        execute.later(f"SELECT pg_advisory_xact_lock({_KEYS_LOCK})")


def define(execute: Execute, digest: str, definition: str) -> None:
    """Store the document of an execution."""
    execute.later(DEFINE, {"digest": digest, "document": definition})


def known_by_key(execute: Execute, database: Database, requests: Iterable[Request]) -> dict[str, Known]:
    """What the idempotency keys of requests belong to, where they are there."""
    return _known_of(execute, database, [request.key for request in requests if request.key is not None])


def check_identity(request: Request, found: Known) -> None:
    """Raise ``KeyConflict`` where its idempotency key is that of another request."""
    if found[1] != request.identity:
        raise KeyConflict(request.key or "", found[0])


def depths(execute: Execute, database: Database, requests: Iterable[Request]) -> dict[str, int]:
    """How deep the parents of requests are, by id."""
    parents = {request.parent_id for request in requests if request.parent_id is not None}
    if not parents:
        return {}
    sql = f"SELECT id, depth FROM executions WHERE id {one_of(database.dialect, 'ids')}"
    return dict(execute(sql, {"ids": listed(database.dialect, parents)}))


def limit(request: Request) -> int:
    """How many executions of its concurrency key may run at a moment."""
    return 1 if request.concurrency_limit is None else request.concurrency_limit


def _define(execute: Execute, requests: Iterable[Request]) -> None:
    documents = {request.digest: request.definition for request in requests}
    for digest in sorted(documents):
        define(execute, digest, documents[digest])


def _mark_keyed(execute: Execute, database: Database, requests: Iterable[Request]) -> None:
    """Say of queues that claims have to count, once; claims lock the row for their time."""
    names = {one.queue for one in requests if one.concurrency_key is not None and one.queue}
    if not names:
        return
    sql = _KEYED.format(names=one_of(database.dialect, "names"))
    marked = {name for (name,) in execute(sql, {"names": listed(database.dialect, names)})}
    for name in sorted(names - marked):
        execute.later(_MARK_KEYED, {"name": name})


def _once_a_key(requests: Sequence[Request]) -> list[Request]:
    """The requests but those whose key stands before them. Raises ``KeyConflict``."""
    first: dict[str, Request] = {}
    kept = []
    for request in requests:
        if request.key is not None:
            held = first.setdefault(request.key, request)
            if held is not request:
                check_identity(request, (held.id, held.identity, ExecutionState.PENDING))
                continue
        kept.append(request)
    return kept


def _rows(execute: Execute, database: Database, requests: Sequence[Request]) -> list[Row]:
    """What new requests become: ``pending``, or ``rejected`` where their concurrency key has its limit."""
    of_parents = depths(execute, database, requests)
    now = clock(database, execute) if any(one.delay is not None for one in requests) else None
    keys = {one.concurrency_key for one in requests if one.when_full == "reject" and one.concurrency_key is not None}
    unfinished = _unfinished(execute, database, keys)
    rows = []
    for request in requests:
        state = ExecutionState.PENDING
        if (key := request.concurrency_key) is not None:
            if request.when_full == "reject" and unfinished[key] >= limit(request):
                state = ExecutionState.REJECTED
            else:
                unfinished[key] += 1
        run_at = None if now is None or request.delay is None else now + request.delay
        rows.append(row_of(request, of_parents.get(request.parent_id or "", 0), run_at, state))
    return rows


def _insert(execute: Execute, database: Database, rows: Sequence[Row]) -> dict[str, Known]:
    """Store new executions. Gives what the keys among them belong to: concurrent calls may have been first."""
    known: dict[str, Known] = {}
    left = rows
    for _ in range(_PATIENCE):  # what was there may be removed before it is read
        insert(execute, database.dialect, left)
        left = [row for row in left if "idempotency_key" in row]
        known |= _known_of(execute, database, [row["idempotency_key"] for row in left])
        left = [row for row in left if row["idempotency_key"] not in known]
        if not left:
            return known
    raise StoreUnavailable(f"{database.url}: the key {left[0]['idempotency_key']!r} comes and goes; try again")


def _known_of(execute: Execute, database: Database, keys: Sequence[str]) -> dict[str, Known]:
    if not keys:
        return {}
    rows = execute(_BY_KEY.format(keys=one_of(database.dialect, "keys")), {"keys": listed(database.dialect, keys)})
    return {key: (found, identity, ExecutionState(state)) for key, found, identity, state in rows}


def _became(
    requests: Sequence[Request],
    made: Mapping[str, ExecutionState],
    known: Mapping[str, Known],
    inserted: Mapping[str, Known],
) -> Sequence[Enqueued]:
    became, named = [], set(known)
    for request in requests:
        if request.key is None:
            became.append(Enqueued(request.id, True, made[request.id]))
            continue
        found = known.get(request.key) or inserted[request.key]
        check_identity(request, found)
        became.append(Enqueued(found[0], found[0] == request.id and request.key not in named, found[2]))
        named.add(request.key)
    return became


def _unfinished(execute: Execute, database: Database, keys: set[str]) -> Counter[str]:
    if not keys:
        return Counter()
    rows: list[tuple[Any, ...]] = execute(
        _UNFINISHED.format(keys=one_of(database.dialect, "keys")), {"keys": listed(database.dialect, keys)}
    )
    return Counter(dict(rows))
