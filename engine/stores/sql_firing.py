"""Slots of triggers: fired once, kept for a time, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from flo.engine.faults import reach
from flo.engine.stores.database import Database, Execute, Values
from flo.engine.stores.sql_enqueue import enqueue_in
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_plans import by_index
from flo.engine.stores.sql_rows import json_or_null, read_json
from flo.engine.stores.sql_standing import FREE, LOCKED
from flo.engine.stores.standing import firing_of, refuses
from flo.engine.triggers import Fire, Firing
from flo.engine.values import dump

_FIRING: Final = (
    "f.trigger_id, f.slot, f.outcome, f.at, f.scheduled_at, f.execution_id, f.reason, f.error, f.passed, f.since"
)
# as a range: PostgreSQL would look for the newest of one trigger among the newest of all
_OF_TRIGGER: Final = f"""
SELECT {_FIRING} FROM firings f WHERE f.trigger_id >= :id AND f.trigger_id <= :id
ORDER BY f.trigger_id DESC, f.seq DESC LIMIT :limit
"""
_LAST: Final = f"""
SELECT {_FIRING} FROM (SELECT max(n.seq) AS seq FROM firings n GROUP BY n.trigger_id) AS l
JOIN firings f ON f.seq = l.seq JOIN triggers t ON t.id = f.trigger_id
"""

_TRIGGER: Final = "SELECT t.enabled, t.revision, t.cursor FROM triggers t WHERE t.id = :trigger_id"
_UNFINISHED: Final = "SELECT 1 FROM executions WHERE trigger_id = :trigger_id AND finished_at IS NULL LIMIT 1"
_TAKE_DUE: Final = (
    "DELETE FROM firings WHERE trigger_id = :trigger_id AND slot = :slot AND outcome = 'due' RETURNING subject, state"
)
_RECORD: Final = """
INSERT INTO firings (trigger_id, slot, outcome, at, scheduled_at, execution_id, reason, error, passed, since, subject,
                     state)
VALUES (:trigger_id, :slot, :outcome, :at, :scheduled_at, :execution_id, :reason, :error, :passed, :since, :subject,
        :state)
ON CONFLICT (trigger_id, slot) DO NOTHING RETURNING seq
"""
_CORRECT: Final = "UPDATE firings SET execution_id = :execution_id WHERE trigger_id = :trigger_id AND slot = :slot"
_MOVE: Final = "UPDATE triggers SET cursor = :cursor, look_at = :look_at WHERE id = :trigger_id"

_TO_PRUNE: Final = (
    "SELECT f.seq FROM firings f WHERE f.at < :before AND f.outcome <> 'due' ORDER BY f.at LIMIT :limit",
    # an end that was seen while the trigger was removed: nobody will deal with it
    """
    SELECT f.seq FROM firings f
    WHERE f.outcome = 'due' AND NOT EXISTS (SELECT 1 FROM triggers t WHERE t.id = f.trigger_id) LIMIT :limit
    """,
)
# as a range, both: PostgreSQL would look for the oldest of one trigger among the oldest of all
_BEYOND: Final = """
SELECT t.id, (
    SELECT f.seq FROM firings f WHERE f.trigger_id >= t.id AND f.trigger_id <= t.id
    ORDER BY f.trigger_id DESC, f.seq DESC LIMIT 1 OFFSET :keep
) FROM triggers t WHERE t.id > :after ORDER BY t.id LIMIT 10
"""
"""Of some triggers: the newest that is one too many, or none. It counts them all, so it asks for no more than it takes
to find enough to remove."""

_TO_PRUNE_OF: Final = """
SELECT f.seq FROM firings f
WHERE f.trigger_id >= :id AND f.trigger_id <= :id AND f.seq <= :seq AND f.outcome <> 'due'
ORDER BY f.trigger_id, f.seq LIMIT :limit
"""
_PRUNE: Final = {
    "sqlite": "DELETE FROM firings WHERE seq IN (SELECT value FROM json_each(:seqs)) RETURNING 1",
    # what somebody else removes at this moment is left to him
    "postgresql": "DELETE FROM firings WHERE seq = ANY (ARRAY"
    " (SELECT seq FROM firings WHERE seq = ANY (:seqs::bigint[]) FOR UPDATE SKIP LOCKED)) RETURNING 1",
}


def fire(database: Database, fire: Fire) -> Firing | None:
    """As ``TriggerStore.fire``."""

    def work(execute: Execute) -> Firing | None:
        firing = _fire(database, execute, fire)
        if firing is not None:
            reach("fire.before-commit")
        return firing

    firing = database.write(work)
    if firing is not None:
        reach("fire.committed")
    return firing


def firings(database: Database, trigger_id: str, limit: int) -> Sequence[Firing]:
    """As ``TriggerStore.firings``."""
    rows = database.read(_OF_TRIGGER, {"id": trigger_id, "limit": limit})
    return [_firing_of(database, row) for row in rows]


def last_firings(database: Database) -> Mapping[str, Firing]:
    """As ``TriggerStore.last_firings``."""
    return {row[0]: _firing_of(database, row) for row in database.read(_LAST)}


def prune(database: Database, before: datetime, keep: int, limit: int) -> int:
    """As ``TriggerStore.prune``."""
    removed = 0
    for search, values in _searches(database, before, keep):
        rows = database.read(search, {**values, "limit": limit - removed})
        if rows:  # mostly there is nothing, and then nobody is kept waiting
            removed += _remove(database, [row[0] for row in rows])
        if removed >= limit:
            break
    return removed


def _searches(database: Database, before: datetime, keep: int) -> Iterator[tuple[str, Values]]:
    """What to ask for firings to remove, one after the other; each needs a ``limit``."""
    old, forgotten = _TO_PRUNE
    yield old, {"before": before}
    after = ""
    while rows := database.read(_BEYOND, {"keep": keep, "after": after}):
        for trigger_id, seq in rows:
            if seq is not None:
                yield _TO_PRUNE_OF, {"id": trigger_id, "seq": seq}
        after = rows[-1][0]
    yield forgotten, {}


def _fire(database: Database, execute: Execute, fire: Fire) -> Firing | None:
    slot: dict[str, object] = {"trigger_id": fire.trigger_id, "slot": fire.slot}
    # one fire that hangs keeps no scheduler from the other triggers; a person waits
    locked = LOCKED if fire.revision is None else FREE
    rows = execute(_TRIGGER + locked[database.dialect], slot)
    if not rows:
        return None
    enabled, revision, cursor = rows[0]
    if refuses(fire, enabled=bool(enabled), revision=revision, cursor=database.instant(cursor)):
        return None
    seen = execute(_TAKE_DUE, slot) if fire.of_end else []
    if fire.of_end and not seen:
        return None
    subject, state = seen[0] if seen else (None, None)
    overlaps = fire.alone and _is_unfinished(database, execute, fire.trigger_id)
    firing = firing_of(fire, clock(database, execute), overlaps=overlaps)
    # the key of the table is the guard: who comes second enqueues nothing
    recorded = execute(_RECORD, {**_values(firing), "subject": subject, "state": state})
    if recorded and fire.request is not None and firing.execution_id is not None:
        (enqueued,) = enqueue_in(execute, database, [replace(fire.request, trigger_id=fire.trigger_id)])
        if enqueued.execution_id != firing.execution_id:  # that of its idempotency key
            firing = replace(firing, execution_id=enqueued.execution_id)
            execute(_CORRECT, {**slot, "execution_id": firing.execution_id})
    if fire.cursor is not None:
        execute(_MOVE, {"trigger_id": fire.trigger_id, "cursor": fire.cursor, "look_at": fire.look_at})
    return firing if recorded else None


def _is_unfinished(database: Database, execute: Execute, trigger_id: str) -> bool:
    by_index(execute, database.dialect)
    return bool(execute(_UNFINISHED, {"trigger_id": trigger_id}))


def _remove(database: Database, seqs: Sequence[int]) -> int:
    held = list(seqs) if database.dialect == "postgresql" else dump(list(seqs))
    return len(database.write(lambda execute: execute(_PRUNE[database.dialect], {"seqs": held})))


def _firing_of(database: Database, row: tuple[Any, ...]) -> Firing:
    def instant(stored: object) -> datetime | None:
        return None if stored is None else database.instant(stored)

    return Firing(
        row[0],
        row[1],
        row[2],
        database.instant(row[3]),
        scheduled_at=instant(row[4]),
        execution_id=row[5],
        reason=row[6],
        error=read_json(row[7]),
        passed=row[8],
        since=instant(row[9]),
    )


def _values(firing: Firing) -> Values:
    return {
        "trigger_id": firing.trigger_id,
        "slot": firing.slot,
        "outcome": firing.outcome,
        "at": firing.at,
        "scheduled_at": firing.scheduled_at,
        "execution_id": firing.execution_id,
        "reason": firing.reason,
        "error": json_or_null(firing.error),
        "passed": firing.passed,
        "since": firing.since,
    }
