"""Triggers: the ``TriggerStore`` of both SQL adapters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from flo.engine.errors import NotFound
from flo.engine.executions import ExecutionState
from flo.engine.stores import sql_firing
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.queueing import Wakeups
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_standing import (
    FREE,
    FROM_TRIGGERS,
    LOCKED,
    TRIGGER,
    as_kept,
    insert,
    read_standing,
    remove,
    trigger_of,
    update,
)
from flo.engine.stores.standing import SCHEDULERS, attempt_of, new_standing, switched
from flo.engine.triggers import Due, EndSeen, Fire, Firing, Trigger, TriggerExists, WantedTrigger

_LOCK: Final = "SELECT t.id FROM triggers t WHERE t.id = :id"
_LOCK_WORKFLOW: Final = {
    "sqlite": "SELECT w.name FROM workflows w WHERE w.id = :id",
    "postgresql": "SELECT w.name FROM workflows w WHERE w.id = :id FOR SHARE",
}
_LOOK_AT: Final = """
UPDATE triggers SET look_at = :look_at
WHERE id IN (SELECT t.id FROM triggers t WHERE t.id = :id AND t.revision = :revision AND t.cursor = :cursor{free})
RETURNING id
"""

_SCHEDULES: Final = "FROM triggers t WHERE t.kind = 'schedule' AND t.enabled"
_OUTLOOK: Final = f"""
SELECT :now, (SELECT min(t.look_at) {_SCHEDULES}{{triggers}}),
    (SELECT min(f.seq) FROM firings f WHERE f.outcome = 'due'{{firings}})
"""
"""What comes first, in the order of the indexes, so that none of it reads a whole table."""

_DUE: Final = f"""
SELECT {TRIGGER} {FROM_TRIGGERS} WHERE t.kind = 'schedule' AND t.enabled AND t.look_at <= :at{{triggers}}
ORDER BY t.look_at, t.id LIMIT :limit
"""
_ENDS: Final = f"""
SELECT f.slot, f.subject, f.state, f.at, {TRIGGER} FROM firings f JOIN triggers t ON t.id = f.trigger_id
JOIN workflows w ON w.id = t.workflow_id
WHERE f.outcome = 'due'{{firings}} ORDER BY f.seq LIMIT :limit
"""
_NEXT: Final = f"SELECT min(t.look_at) {_SCHEDULES} AND t.look_at > :at{{triggers}}"


def due_statements(dialect: str, *, apart: bool) -> tuple[str, str, str, str]:
    """How to ask what comes first, for the schedules that are due, for the ends, and for the next schedule after them.
    ``apart``: without those of the triggers of that parameter."""
    those = one_of(dialect, "apart")
    conditions = {"triggers": f" AND NOT (t.id {those})", "firings": f" AND NOT (f.trigger_id {those})"}
    left_out = conditions if apart else dict.fromkeys(conditions, "")
    outlook, due, ends, following = (sql.format(**left_out) for sql in (_OUTLOOK, _DUE, _ENDS, _NEXT))
    return outlook, due, ends, following


class SqlTriggers:
    """The ``TriggerStore`` of both SQL adapters."""

    def __init__(self, database: Database, *, wakeups: Callable[[], Wakeups]) -> None:
        self._database, self._wakeups = database, wakeups

    def list(self, *, workflow: str | None = None) -> Sequence[Trigger]:
        named = "" if workflow is None else "WHERE w.name = :workflow "
        values = {} if workflow is None else {"workflow": workflow}
        rows = self._database.read(f"SELECT {TRIGGER} {FROM_TRIGGERS} {named}ORDER BY w.name, t.name", values)
        return [trigger_of(self._database, row) for row in rows]

    def get(self, trigger_id: str) -> Trigger | None:
        rows = self._database.read(f"SELECT {TRIGGER} {FROM_TRIGGERS} WHERE t.id = :id", {"id": trigger_id})
        return trigger_of(self._database, rows[0]) if rows else None

    def add(self, workflow_id: str, wanted: WantedTrigger) -> Trigger:
        database = self._database

        def work(execute: Execute) -> Trigger:
            rows = execute(_LOCK_WORKFLOW[database.dialect], {"id": workflow_id})
            if not rows:
                raise NotFound("workflow", workflow_id)
            standing = new_standing(workflow_id, rows[0][0], as_kept(wanted), clock(database, execute))
            if not insert(execute, standing):
                raise TriggerExists(standing.trigger.full_name)
            notify(execute, database.dialect, [SCHEDULERS])
            return standing.trigger

        return database.write(work)

    def enable(self, trigger_id: str, enabled: bool) -> Trigger:
        database = self._database

        def work(execute: Execute) -> Trigger:
            self._lock(execute, trigger_id)
            (standing,) = read_standing(database, execute, "t.id = :id", {"id": trigger_id})
            afterwards = switched(standing, enabled, clock(database, execute))
            if afterwards is not standing:
                update(execute, afterwards)
                notify(execute, database.dialect, [SCHEDULERS])
            return afterwards.trigger

        return database.write(work)

    def remove(self, trigger_id: str) -> None:
        dialect = self._database.dialect

        def work(execute: Execute) -> None:
            self._lock(execute, trigger_id)
            remove(execute, dialect, [trigger_id])
            notify(execute, dialect, [SCHEDULERS])

        self._database.write(work)

    def due(self, limit: int, *, apart: Collection[str] = ()) -> Due:
        database = self._database
        ask_outlook, ask_schedules, ask_ends, ask_next = due_statements(database.dialect, apart=bool(apart))
        values = {"apart": listed(database.dialect, apart)} if apart else {}
        now, first, seen = database.read(ask_outlook, values)[0]
        at = database.instant(now)
        look_at = None if first is None else database.instant(first)
        schedules: list[Trigger] = []
        ends: list[EndSeen] = []
        if look_at is not None and look_at <= at:
            rows = database.read(ask_schedules, {**values, "at": at, "limit": limit + 1})
            schedules = [trigger_of(database, row) for row in rows]
            # after them: one that was moved on in between is found at its new time
            following = database.read(ask_next, {**values, "at": at})[0][0]
            look_at = None if following is None else database.instant(following)
        if seen is not None:
            rows = database.read(ask_ends, {**values, "limit": limit + 1})
            ends = [_end_seen(database, row) for row in rows]
        if len(schedules) > limit or len(ends) > limit:
            look_at = at
        return Due(at, schedules[:limit], ends[:limit], look_at)

    def look_at(self, trigger_id: str, revision: int, cursor: datetime, look_at: datetime | None) -> bool:
        values = {"id": trigger_id, "revision": revision, "cursor": cursor, "look_at": look_at}
        sql = _LOOK_AT.format(free=FREE[self._database.dialect])
        return bool(self._database.write(lambda execute: execute(sql, values)))

    def fire(self, fire: Fire) -> Firing | None:
        return sql_firing.fire(self._database, fire)

    def firings(self, trigger_id: str, *, limit: int = 50) -> Sequence[Firing]:
        return sql_firing.firings(self._database, trigger_id, limit)

    def last_firings(self) -> Mapping[str, Firing]:
        return sql_firing.last_firings(self._database)

    def prune(self, before: datetime, *, keep: int, limit: int = 1000) -> int:
        return sql_firing.prune(self._database, before, keep, limit)

    def wakeups(self) -> Wakeups:
        return self._wakeups()

    def _lock(self, execute: Execute, trigger_id: str) -> None:
        if not execute(_LOCK + LOCKED[self._database.dialect], {"id": trigger_id}):
            raise NotFound("trigger", trigger_id)


def _end_seen(database: Database, row: tuple[Any, ...]) -> EndSeen:
    slot, subject, state, at, *trigger = row
    return EndSeen(
        trigger_of(database, trigger), slot, subject, attempt_of(slot), ExecutionState(state), database.instant(at)
    )
