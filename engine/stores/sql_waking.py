"""Who waits for an answer comes due, once it is there.

Only the root of an execution is ever claimed. Who leaves an answer locks the root's row before he writes it, and looks
whether it is suspended after that; who suspends an execution looks for answers with its row locked. So one of them
sees the other. The end of an execution is an answer that keeps nobody waiting: who suspends an execution locks the rows
of what it waits for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from flo.engine.stores.database import Execute
from flo.engine.stores.sql_lists import listed, one_of

LOCKED: Final = {"sqlite": "", "postgresql": " FOR UPDATE"}
"""What ends a query that locks its rows. A transaction of SQLite has locked everything already."""

_WAITERS: Final = (
    "SELECT DISTINCT root_id FROM execution_waits WHERE kind = 'execution' AND taken = false AND name {ids}"
)
_TURNS: Final = """
SELECT pg_advisory_xact_lock(hashtextextended(e.id, 0))
FROM (SELECT id FROM executions WHERE id = ANY (:ids::text[]) AND state = 'running' ORDER BY id) AS e
"""
_LOCK: Final = "SELECT id FROM executions WHERE id {ids} ORDER BY id"
_WAKE: Final = "UPDATE executions SET due_at = :now WHERE id {ids} AND state = 'suspended' RETURNING queue"


def lock(execute: Execute, dialect: str, ids: Collection[str]) -> None:
    """Lock the rows of executions, by id, as everybody does who locks more than one; those that run in turn with
    their owners."""
    if dialect == "postgresql" and ids:
        values = {"ids": listed(dialect, ids)}
        execute(_TURNS, values)
        execute(_LOCK.format(ids=one_of(dialect, "ids")) + LOCKED[dialect], values)


def wake(execute: Execute, dialect: str, roots: Collection[str]) -> set[str]:
    """Make those of ``roots``, which are locked, due now that are suspended; gives their queues."""
    if not roots:
        return set()
    rows = execute(_WAKE.format(ids=one_of(dialect, "ids")), {"ids": listed(dialect, roots)})
    return {queue for (queue,) in rows}


def waiting_for(execute: Execute, dialect: str, ended: Collection[str]) -> set[str]:
    """The roots of what waits for the end of one of ``ended``."""
    rows = execute(_WAITERS.format(ids=one_of(dialect, "ids")), {"ids": listed(dialect, ended)})
    return {root for (root,) in rows}


def wake_suspended(execute: Execute, dialect: str, roots: Collection[str]) -> set[str]:
    """Make those of ``roots`` due now that are suspended, and waited for an end; gives their queues. One that runs is
    passed by: it sees that end before it is suspended."""
    if dialect == "postgresql" and roots:
        values = {"ids": listed(dialect, roots)}
        sql = _LOCK.format(ids=f"{one_of(dialect, 'ids')} AND state = 'suspended'") + LOCKED[dialect]
        roots = [row[0] for row in execute(sql, values)]
    return wake(execute, dialect, roots)


def wake_after(execute: Execute, dialect: str, ended: Collection[str], parts_of: Collection[str]) -> set[str]:
    """Make due what waits for the end of one of ``ended``, and the roots ``parts_of`` whose parts they are; gives the
    queues of what is due now."""
    roots = waiting_for(execute, dialect, ended).union(parts_of)
    lock(execute, dialect, roots)
    return wake(execute, dialect, roots)
