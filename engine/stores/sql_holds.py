"""Whether an owner still holds its execution: looked at under a lock, so that it stays true until the commit.

On PostgreSQL the strands of one execution share the lock of its row, and whoever changes the row waits for them. New
strands would go on sharing it, and whoever waits would wait for ever: so all of them take an advisory lock first, which
is given in the order in which it was asked for. It only keeps the turns; the row's own lock decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from flo.engine.errors import StoreUnavailable
from flo.engine.executions import ExecutionState
from flo.engine.frozen import frozen
from flo.engine.jobs import Hold, LeaseLost
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_lists import listed, one_of

_COLUMNS: Final = (
    "e.root_id, e.depth, e.queue, e.concurrency_key, e.claimed_at,"
    " EXISTS (SELECT 1 FROM queues q WHERE q.name = e.queue AND q.max_running IS NOT NULL), :now"
)
IS_HELD: Final = "e.id = :id AND e.lease_token = :token AND e.state = 'running'"

SHARED_TURN: Final = "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(hashtextextended(:id, 0)))"
TURN: Final = "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended(:id, 0)))"
"""Waits for its turn at the execution ``id``, where the statement joins ``turn``: before it locks any row."""

_LOCK: Final = {
    "sqlite": f"SELECT {_COLUMNS} FROM executions e WHERE {IS_HELD}",
    "postgresql": f"{TURN} SELECT {_COLUMNS} FROM turn CROSS JOIN executions e WHERE {IS_HELD} FOR NO KEY UPDATE OF e",
}

_STANDS: Final = "SELECT e.lease_token = :token AND e.state = 'running' AS stands, e.state, e.worker, e.fence"
_LOOK: Final = f"{_STANDS} FROM executions e WHERE e.id = :id"
_KEEP: Final = """
{turn}, held AS MATERIALIZED ({stands} FROM turn CROSS JOIN executions e WHERE e.id = :id FOR {lock} OF e)
SELECT CASE WHEN count(*) FILTER (WHERE stands) = 1 THEN true
    ELSE flo.claim_is_lost(:id, max(state), max(worker), max(fence)) END FROM held
"""
_KEEP_SHARED: Final = _KEEP.format(turn=SHARED_TURN, stands=_STANDS, lock="SHARE")
_KEEP_ALONE: Final = _KEEP.format(turn=TURN, stands=_STANDS, lock="NO KEY UPDATE")
"""PostgreSQL's, which fails where the claim is lost: nobody has to hear of it before the commit."""

_RENEW_ONE: Final = {
    "sqlite": "UPDATE executions AS e SET due_at = :until WHERE {held} RETURNING id",
    "postgresql": "{turn} UPDATE executions AS e SET due_at = :now + :lease::interval FROM turn WHERE {held}"
    " RETURNING e.id",
}
_RENEW: Final = """
WITH held AS MATERIALIZED (
    SELECT e.id FROM unnest(:ids::text[], :tokens::text[]) AS h (id, token)
    JOIN executions e ON e.id = h.id AND e.lease_token = h.token AND e.state = 'running'
    ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED
)
UPDATE executions AS e SET due_at = :now + :lease::interval FROM held WHERE e.id = held.id
RETURNING e.id, e.lease_token
"""
_PATIENCE: Final = "SET LOCAL lock_timeout = '2s'"
_IMPATIENCE: Final = "SET LOCAL lock_timeout = '100ms'"
"""Before the server looks for a deadlock, which it does after a second."""


@frozen
class Held:
    """What the row of a held execution says. ``claimed_at`` is as the database gives it, ``now`` its clock;
    ``bounded``: its queue runs so many at a time."""

    id: str
    root_id: str
    depth: int
    queue: str
    concurrency_key: str | None
    claimed_at: object
    bounded: bool
    now: datetime


def keep(database: Database, execute: Execute, hold: Hold, *, alone: bool, brief: bool) -> None:
    """Keep a claim from ending until the commit, ``alone`` or together with other strands of its owner. A ``brief``
    transaction rather fails than waits for locks.

    Raises ``LeaseLost``. On PostgreSQL the transaction fails with that, at the latest with its commit.
    """
    values = {"id": hold.execution_id, "token": hold.token}
    if database.dialect == "sqlite":
        stands, *there = (execute(_LOOK, values) or [(False, None, None, None)])[0]
        if not stands:
            raise lease_lost(hold.execution_id, *there)
        return
    if brief:
        execute.later(_IMPATIENCE)
    execute.later(_KEEP_ALONE if alone else _KEEP_SHARED, values)


def lease_lost(execution_id: str, state: str | None, worker: str | None, fence: int | None) -> LeaseLost:
    """What is wrong with a claim, by the row of its execution: its ``state`` is None where there is none."""
    return LeaseLost(execution_id, None if state is None else ExecutionState(state), worker, fence)


def lock(database: Database, execute: Execute, hold: Hold) -> Held:
    """Lock the row of a claim, alone. Raises ``LeaseLost``."""
    return _held(database, execute, hold, _LOCK[database.dialect])


def renew(database: Database, holds: Sequence[Hold], lease: timedelta) -> Sequence[Hold]:
    """As ``QueueStore.renew``."""
    if not holds:
        return []
    if database.dialect == "sqlite":
        return database.write(lambda execute: _renew_each(database, execute, holds, lease))
    values = {"ids": [hold.execution_id for hold in holds], "tokens": [hold.token for hold in holds], "lease": lease}
    renewed = {(row[0], row[1]) for row in database.write(lambda execute: execute(_RENEW, values))}
    left = [hold for hold in holds if (hold.execution_id, hold.token) not in renewed]
    # a row that its own strands have locked must not keep the others from being renewed in time
    busy = {id(hold) for hold in valid(database, left) if _renew_busy(database, hold, lease)}
    return [hold for hold in holds if (hold.execution_id, hold.token) in renewed or id(hold) in busy]


def valid(database: Database, holds: Sequence[Hold]) -> Sequence[Hold]:
    """As ``QueueStore.valid``."""
    if not holds:
        return []
    rows = database.read(
        f"SELECT id, lease_token FROM executions WHERE state = 'running' AND id {one_of(database.dialect, 'ids')}",
        {"ids": listed(database.dialect, {hold.execution_id for hold in holds})},
    )
    tokens = dict(rows)
    return [hold for hold in holds if tokens.get(hold.execution_id) == hold.token]


def _held(database: Database, execute: Execute, hold: Hold, sql: str) -> Held:
    rows = execute(sql, {"id": hold.execution_id, "token": hold.token})
    if not rows:
        raise _lost(execute, hold.execution_id)
    root_id, depth, queue, key, claimed_at, bounded, now = rows[0]
    return Held(hold.execution_id, root_id, depth, queue, key, claimed_at, bool(bounded), database.instant(now))


def _lost(execute: Execute, execution_id: str) -> LeaseLost:
    rows = execute("SELECT state, worker, fence FROM executions WHERE id = :id", {"id": execution_id})
    return lease_lost(execution_id, *rows[0]) if rows else LeaseLost(execution_id, None)


def _renew_each(database: Database, execute: Execute, holds: Sequence[Hold], lease: timedelta) -> Sequence[Hold]:
    sql = _RENEW_ONE["sqlite"].format(held=IS_HELD)
    until = clock(database, execute) + lease
    return [hold for hold in holds if execute(sql, {"id": hold.execution_id, "token": hold.token, "until": until})]


def _renew_busy(database: Database, hold: Hold, lease: timedelta) -> bool:
    """Renew a lease whose row somebody has locked. Says whether the hold stands: what is locked for long by its own
    owner does, and is renewed another time."""
    sql = _RENEW_ONE["postgresql"].format(held=IS_HELD, turn=TURN)

    def work(execute: Execute) -> bool:
        execute(_PATIENCE)
        return bool(execute(sql, {"id": hold.execution_id, "token": hold.token, "lease": lease}))

    try:
        return database.write(work)
    except StoreUnavailable:
        return bool(valid(database, [hold]))


def clock(database: Database, execute: Execute) -> datetime:
    """The store's clock, inside a transaction."""
    return database.instant(execute("SELECT :now")[0][0])
