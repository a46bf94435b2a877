"""Rows of triggers as records, and records as rows, in SQL that both dialects accept.

Who locks a trigger and more than that locks the workflow first, then triggers by their ids, then what ``enqueue_in``
locks. Who ends executions locks no trigger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from flo.engine.executions import ExecutionState
from flo.engine.stores.database import Database, Execute, Values
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_rows import json_text, read_json
from flo.engine.stores.standing import SCHEDULERS, Standing, declared_again, new_standing
from flo.engine.triggers import Trigger, WantedTrigger

TRIGGER: Final = (
    "t.id, t.workflow_id, w.name, t.name, t.kind, t.config, t.enabled, t.declared, t.revision, t.anchor, t.cursor,"
    " t.look_at, t.created_at, t.updated_at, t.awaits"
)
FROM_TRIGGERS: Final = "FROM triggers t JOIN workflows w ON w.id = t.workflow_id"
LOCKED: Final = {"sqlite": "", "postgresql": " FOR NO KEY UPDATE OF t"}
"""What ends a query that locks its triggers. It joins nothing: what is joined is not read anew after a wait."""

FREE: Final = {**LOCKED, "postgresql": f"{LOCKED['postgresql']} SKIP LOCKED"}
"""The same, where those that somebody else has locked are left out. What it gives is the newest, as after a wait."""

_INSERT: Final = """
INSERT INTO triggers (id, workflow_id, name, kind, config, timing, enabled, declared, revision, anchor, cursor, look_at,
                      awaits, states, created_at, updated_at)
VALUES (:id, :workflow_id, :name, :kind, :config, :timing, :enabled, :declared, :revision, :anchor, :cursor, :look_at,
        :awaits, :states, :created_at, :updated_at)
ON CONFLICT (workflow_id, name) DO NOTHING RETURNING id
"""
_UPDATE: Final = """
UPDATE triggers SET kind = :kind, config = :config, timing = :timing, enabled = :enabled, declared = :declared,
    revision = :revision, anchor = :anchor, cursor = :cursor, look_at = :look_at, awaits = :awaits, states = :states,
    updated_at = :updated_at
WHERE id = :id
"""
_REMOVE: Final = (
    "DELETE FROM triggers WHERE id {ids}",
    "DELETE FROM firings WHERE trigger_id {ids} AND outcome = 'due'",
)


def trigger_of(database: Database, row: Sequence[Any]) -> Trigger:
    """The trigger of a row with the columns ``TRIGGER``."""
    return Trigger(
        id=row[0],
        workflow_id=row[1],
        workflow=row[2],
        name=row[3],
        kind=row[4],
        config=read_json(row[5]),
        enabled=bool(row[6]),
        declared=row[7] is not None,
        revision=row[8],
        anchor=database.instant(row[9]),
        cursor=database.instant(row[10]),
        look_at=None if row[11] is None else database.instant(row[11]),
        created_at=database.instant(row[12]),
        updated_at=database.instant(row[13]),
        awaits=row[14],
    )


def read_standing(database: Database, execute: Execute, where: str, values: Values) -> list[Standing]:
    """The triggers of which ``where`` holds."""
    rows = execute(f"SELECT {TRIGGER}, t.timing, t.states {FROM_TRIGGERS} WHERE {where} ORDER BY t.id", values)
    return [_standing_of(database, row) for row in rows]


def insert(execute: Execute, standing: Standing) -> bool:
    """Store a new trigger; whether there was none of its name."""
    return bool(execute(_INSERT, _values(standing)))


def update(execute: Execute, standing: Standing) -> None:
    """Store what became of a trigger, which is locked."""
    execute(_UPDATE, _values(standing))


def remove(execute: Execute, dialect: str, ids: Iterable[str]) -> None:
    """Remove triggers, which are locked; what they fired stays, and what became of their slots."""
    values = {"ids": listed(dialect, ids)}
    for statement in _REMOVE:
        execute(statement.format(ids=one_of(dialect, "ids")), values)


def as_kept(wanted: WantedTrigger) -> WantedTrigger:
    """What is wanted, as it will be read."""
    return replace(wanted, config=read_json(json_text(wanted.config)))


def bring_in_step(
    database: Database, execute: Execute, workflow_id: str, workflow: str, wanted: Sequence[WantedTrigger]
) -> None:
    """Let the triggers of a workflow, whose row is locked, be as its document declares them."""
    dialect, of_workflow = database.dialect, {"workflow_id": workflow_id}
    locked = execute(
        "SELECT t.id FROM triggers t WHERE t.workflow_id = :workflow_id ORDER BY t.id" + LOCKED[dialect], of_workflow
    )
    if not locked and not wanted:
        return
    now = clock(database, execute)
    found = read_standing(database, execute, "t.workflow_id = :workflow_id", of_workflow)
    standing = {one.trigger.name: one for one in found}
    names = {one.name for one in wanted}
    gone = [one.trigger.id for one in found if one.said is not None and one.trigger.name not in names]
    if gone:
        remove(execute, dialect, gone)
    changed = bool(gone)
    for one in map(as_kept, wanted):
        if one.name not in standing:
            insert(execute, new_standing(workflow_id, workflow, one, now, declared=True))
        elif (afterwards := declared_again(standing[one.name], one, now)) != standing[one.name]:
            update(execute, afterwards)
        else:
            continue
        changed = True
    if changed:
        notify(execute, dialect, [SCHEDULERS])


def _standing_of(database: Database, row: tuple[Any, ...]) -> Standing:
    said = None if row[7] is None else bool(row[7])
    states = frozenset(ExecutionState(state) for state in (row[16] or "").split(",") if state)
    return Standing(trigger_of(database, row), row[15], states, said)


def _values(standing: Standing) -> Values:
    trigger = standing.trigger
    return {
        "id": trigger.id,
        "workflow_id": trigger.workflow_id,
        "name": trigger.name,
        "kind": trigger.kind,
        "config": json_text(trigger.config),
        "timing": standing.timing,
        "enabled": trigger.enabled,
        "declared": standing.said,
        "revision": trigger.revision,
        "anchor": trigger.anchor,
        "cursor": trigger.cursor,
        "look_at": trigger.look_at,
        "awaits": trigger.awaits,
        "states": f",{','.join(sorted(standing.states))}," if standing.states else None,
        "created_at": trigger.created_at,
        "updated_at": trigger.updated_at,
    }
