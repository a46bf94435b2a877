"""What goes with the end of an execution, in SQL that both dialects accept: parts, effects, who waits for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from flo.engine.executions import RESUMABLE, ExecutionState
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_rows import json_text
from flo.engine.stores.sql_waking import waiting_for, wake_suspended
from flo.engine.stores.standing import SCHEDULERS
from flo.engine.values import dump

PARENT_ENDED: Final = "parent_ended"
"""The code of a part that was cancelled since what it was a part of had ended."""

Left = Mapping[str, Collection[str]]
"""What ends have to see to, by its kind: ``part``: what has unfinished parts; ``wait``: the roots of what waits for an
end; ``effect``: what has effects; ``trigger``: which triggers wait; ``place``: queues in which a place is free. Mostly
there is nothing."""

_FINAL: Final = ", ".join(f"'{state}'" for state in ExecutionState if state.final)
_LEFT: Final = f"""
WITH seen AS MATERIALIZED (SELECT e.workflow, e.state FROM executions e WHERE e.id {{ids}} ORDER BY e.id)
SELECT 'part', e.parent_id FROM executions e
WHERE e.parent_id {{ids}} AND e.queue = '' AND e.state NOT IN ({_FINAL})
UNION ALL
SELECT 'wait', w.root_id FROM execution_waits w WHERE w.kind = 'execution' AND w.taken = false AND w.name {{ids}}
UNION ALL
SELECT DISTINCT 'effect', f.execution_id FROM execution_effects f WHERE f.execution_id {{ids}}
UNION ALL
SELECT 'trigger', t.id FROM seen s JOIN triggers t ON t.awaits = s.workflow
WHERE t.kind = 'event' AND t.enabled AND t.states LIKE '%,' || s.state || ',%'
UNION ALL
SELECT 'place', q.name FROM queues q WHERE q.name {{queues}} AND q.max_running IS NOT NULL
"""
"""Parts are told by their states: no index that is for claims can be taken for this, which would be read wholly. And
what is seen is asked for in an order, which the key has, and no other index with the id in it."""

_AMONG: Final = {
    "sqlite": one_of("sqlite", "ids"),
    "postgresql": "= ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))",
}
"""As ``one_of``, for many: a driver takes longer to write a list than the server to read this."""

_PARTS: Final = """
WITH RECURSIVE parts (id) AS (
    SELECT e.id FROM executions e WHERE e.parent_id {ids} AND e.queue = '' AND e.finished_at IS NULL
    UNION
    SELECT e.id FROM parts p JOIN executions e ON e.parent_id = p.id WHERE e.queue = '' AND e.finished_at IS NULL
)
SELECT e.id FROM executions e WHERE e.id IN (SELECT id FROM parts) ORDER BY e.id
"""
_LOCK: Final = {"sqlite": "", "postgresql": " FOR NO KEY UPDATE OF e"}
_CANCEL: Final = """
UPDATE executions SET state = 'cancelled', finished_at = :now, due_at = NULL, lease_token = NULL, output = NULL,
    error = :error
WHERE id {ids} AND finished_at IS NULL
"""
_RESUMABLE: Final = ", ".join(f"'{state}'" for state in sorted(RESUMABLE))
_FORGET: Final = f"""
DELETE FROM execution_effects WHERE execution_id IN (
    SELECT e.id FROM executions e WHERE e.id {{ids}} AND e.state NOT IN ({_RESUMABLE})
)
"""

# no trigger is locked, and nobody else writes this slot, so that nobody waits
_SEE: Final = """
WITH seen AS MATERIALIZED (SELECT e.id, e.attempt, e.workflow, e.state FROM executions e WHERE e.id {ids} ORDER BY e.id)
INSERT INTO firings (trigger_id, slot, outcome, at, subject, state)
SELECT t.id, e.id || ':' || e.attempt, 'due', :now, e.id, e.state FROM seen e JOIN triggers t ON t.awaits = e.workflow
WHERE t.kind = 'event' AND t.enabled AND t.states LIKE '%,' || e.state || ',%'
ORDER BY e.id, t.id
ON CONFLICT (trigger_id, slot) DO NOTHING
"""

_OF_QUEUE: Final = "SELECT q.name FROM queues q WHERE q.name {queues} AND q.max_running IS NOT NULL"
_OF_KEYS: Final = """
SELECT q.name FROM queues q WHERE q.keyed AND EXISTS (
    SELECT 1 FROM executions e WHERE e.queue = q.name AND e.concurrency_key IS NOT NULL AND e.finished_at IS NULL
    AND e.concurrency_key {keys} AND e.state IN ('pending', 'retrying', 'suspended')
)
"""


@cache
def left_statement(dialect: str) -> str:
    """The one statement of ``left_by``."""
    return _LEFT.format(ids=_AMONG[dialect], queues=one_of(dialect, "queues"))


def left_by(database: Database, execute: Execute, ended: Collection[str], queues: Collection[str] = ()) -> Left:
    """What is to be seen to after the ends of executions, whose rows say already that they have ended, and which were
    in ``queues``.

    A new statement, which sees every wait that was there before the rows were locked.
    """
    dialect = database.dialect
    values = {"ids": dump(list(ended)), "queues": listed(dialect, queues)}
    left: dict[str, set[str]] = {}
    for kind, name in execute(left_statement(dialect), values):
        left.setdefault(kind, set()).add(name)
    return left


def see_to(database: Database, execute: Execute, ended: Collection[str], left: Left | None = None) -> None:
    """Do what goes with the end of executions: their unfinished parts end with them, their effects are forgotten where
    nobody can resume them, who waits for them comes due, and their ends are seen by triggers; not those of the parts.
    ``left`` is what ``left_by`` gave."""
    dialect = database.dialect
    if left is None:
        left = left_by(database, execute, ended)
    if not left:
        return
    ids, values = one_of(dialect, "ids"), {"ids": listed(dialect, ended)}
    free, waiting = set(left.get("place", ())), set(left.get("wait", ()))
    if "trigger" in left:
        see_ends(database, execute, ended)
    if "part" in left:
        gone = [row[0] for row in execute(_PARTS.format(ids=ids) + _LOCK[dialect], values)]
        error = {"code": PARENT_ENDED, "message": "what it was a part of has ended"}
        execute(_CANCEL.format(ids=ids), {"ids": listed(dialect, gone), "error": json_text(error)})
        waiting |= waiting_for(execute, dialect, gone)
    if "effect" in left:
        execute(_FORGET.format(ids=ids), values)
    notify(execute, dialect, free | wake_suspended(execute, dialect, waiting))


def see_ends(database: Database, execute: Execute, ended: Collection[str]) -> None:
    """Let the ends of executions be slots, which are due, of the triggers that wait for them."""
    values = {"ids": listed(database.dialect, ended)}
    execute(_SEE.format(ids=one_of(database.dialect, "ids")), values)
    notify(execute, database.dialect, [SCHEDULERS])


def tell_of_places(database: Database, execute: Execute, queues: Collection[str], keys: Collection[str]) -> None:
    """Tell workers of the places that those of ``queues`` and concurrency ``keys`` have left. SQLite's see that the
    file changed."""
    dialect = database.dialect
    if dialect != "postgresql":
        return
    free: set[str] = set()
    if queues:
        sql = _OF_QUEUE.format(queues=one_of(dialect, "queues"))
        free |= {row[0] for row in execute(sql, {"queues": listed(dialect, queues)})}
    if keys:
        sql = _OF_KEYS.format(keys=one_of(dialect, "keys"))
        free |= {row[0] for row in execute(sql, {"keys": listed(dialect, keys)})}
    notify(execute, dialect, free)
