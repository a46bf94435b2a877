"""What people do to executions, in SQL that both dialects accept: cancel, resume, answer, replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flo.engine.errors import InputInvalid, NotFound
from flo.engine.executions import RESUMABLE, Execution, ExecutionState, IllegalMove
from flo.engine.jobs import Enqueued, Request
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_endings import see_ends, tell_of_places
from flo.engine.stores.sql_enqueue import enqueue_in
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_plans import by_index
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_retention import GOING
from flo.engine.stores.sql_rows import EXECUTION, FROM_EXECUTIONS, NO_QUEUE, execution_of, json_text
from flo.engine.stores.sql_waking import LOCKED, lock, wake, wake_after
from flo.engine.values import JsonObject

_CANCELLED: Final[JsonObject] = {"code": "cancelled", "message": "cancelled on request"}

_UNFINISHED: Final = """
WITH RECURSIVE started (id) AS (
    SELECT id FROM executions WHERE id = :id
    UNION
    SELECT e.id FROM started s CROSS JOIN executions e WHERE e.parent_id = s.id
)
SELECT s.id FROM started s WHERE (SELECT e.finished_at IS NULL FROM executions e WHERE e.id = s.id)
"""

_CANCEL: Final = """
UPDATE executions SET state = 'cancelled', finished_at = :now, due_at = NULL, lease_token = NULL, output = NULL,
    error = :error
WHERE id {ids} AND finished_at IS NULL
RETURNING id, queue, root_id, concurrency_key, EXISTS (
    SELECT 1 FROM triggers t
    WHERE t.awaits = executions.workflow AND t.kind = 'event' AND t.enabled AND t.states LIKE '%,cancelled,%'
)
"""

_FORGET_EFFECTS: Final = "DELETE FROM execution_effects WHERE execution_id {ids}"

_KEEP_ATTEMPT: Final = """
INSERT INTO execution_attempts (execution_id, fence, worker, claimed_at, ended_at, outcome, error)
SELECT id, fence, worker, claimed_at, finished_at, state, error FROM executions WHERE id = :id
ON CONFLICT (execution_id, fence) DO NOTHING
"""
"""What ended between two claims was ended by none: what is kept of the last one stays."""

_RESUME: Final = """
UPDATE executions SET state = 'pending', run_at = :now, due_at = :now, finished_at = NULL, output = NULL, error = NULL,
    dead_reason = NULL, replayed_as = NULL, expiries = 0, deadline = NULL, attempt = attempt + 1, worker = NULL
WHERE id = :id
"""

_SIGNAL: Final = "INSERT INTO execution_signals (execution_id, name, payload, at) VALUES (:id, :name, :payload, :now)"

_WAITS_FOR_SIGNAL: Final = (
    "SELECT 1 FROM execution_waits WHERE execution_id = :id AND kind = 'signal' AND name = :name AND taken = false"
    " LIMIT 1"
)

_APPROVAL: Final = (
    "SELECT answer, taken FROM execution_waits WHERE execution_id = :id AND path = :path AND kind = 'approval'"
)
_DECIDE: Final = "UPDATE execution_waits SET answer = :answer WHERE execution_id = :id AND path = :path"

_Cancelled = tuple[str, str, str, str | None, bool]


def cancel(database: Database, execution_id: str) -> Sequence[str]:
    """As ``ExecutionStore.cancel``."""
    dialect = database.dialect

    def work(execute: Execute) -> Sequence[str]:
        by_index(execute, dialect)
        cancelled: list[_Cancelled] = []
        # an owner may have started more until its row was locked: look again until nothing is left
        while ids := [row[0] for row in execute(_UNFINISHED, {"id": execution_id})]:
            lock(execute, dialect, ids)
            values = {"ids": listed(dialect, ids), "error": json_text(_CANCELLED)}
            cancelled += execute(_CANCEL.format(ids=one_of(dialect, "ids")), values)
            _check_moved(execute, execution_id, cancelled)
        _check_moved(execute, execution_id, cancelled)
        moved = [row[0] for row in cancelled]
        execute(_FORGET_EFFECTS.format(ids=one_of(dialect, "ids")), {"ids": listed(dialect, moved)})
        woken = wake_after(execute, dialect, moved, {one[2] for one in cancelled if one[1] == NO_QUEUE})
        notify(execute, dialect, woken)
        keys = {key for _, _, _, key, _ in cancelled if key is not None}
        tell_of_places(database, execute, {queue for _, queue, *_ in cancelled}, keys)
        # a part that only ends with what it is a part of is no end of its own
        awaited = [one for one, queue, *_, seen in cancelled if seen and (queue != NO_QUEUE or one == execution_id)]
        if awaited:
            see_ends(database, execute, awaited)
        return moved

    return database.write(work, vital=True)


def resume(database: Database, execution_id: str) -> Execution:
    """As ``ExecutionStore.resume``."""

    def work(execute: Execute) -> Execution:
        rows = execute(
            "SELECT state, queue, parent_id, lease_token FROM executions WHERE id = :id" + LOCKED[database.dialect],
            {"id": execution_id},
        )
        if not rows or rows[0][3] == GOING:
            raise NotFound("execution", execution_id)
        state, queue, parent = ExecutionState(rows[0][0]), *rows[0][1:3]
        if state not in RESUMABLE:
            raise IllegalMove(execution_id, state, ExecutionState.PENDING)
        if parent is not None and queue == NO_QUEUE:
            raise InputInvalid(
                f"execution {execution_id!r}", f"is a part of execution {parent!r}, which resumes it; resume that one"
            )
        execute(_KEEP_ATTEMPT, {"id": execution_id})
        execute(_RESUME, {"id": execution_id})
        notify(execute, database.dialect, [queue])
        (row,) = execute(f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE e.id = :id", {"id": execution_id})
        return execution_of(database, row)

    return database.write(work)


def signal(database: Database, execution_id: str, name: str, payload: JsonObject) -> None:
    """As ``ExecutionStore.signal``."""

    def work(execute: Execute) -> None:
        root = _lock_root(execute, database.dialect, execution_id)
        if (state := _state(execute, execution_id)).final:
            raise IllegalMove(execution_id, state, ExecutionState.RUNNING)
        execute(_SIGNAL, {"id": execution_id, "name": name, "payload": json_text(payload)})
        if execute(_WAITS_FOR_SIGNAL, {"id": execution_id, "name": name}):
            notify(execute, database.dialect, wake(execute, database.dialect, [root]))

    database.write(work)


def decide(database: Database, execution_id: str, path: str, decision: JsonObject) -> None:
    """As ``ExecutionStore.decide``."""
    key = {"id": execution_id, "path": path}

    def work(execute: Execute) -> None:
        root = _lock_root(execute, database.dialect, execution_id)
        rows = execute(_APPROVAL + LOCKED[database.dialect], key)
        if rows and rows[0][0] is not None:
            raise InputInvalid(f"approval {path!r}", f"of execution {execution_id!r} was decided already")
        if not rows or rows[0][1] or _state(execute, execution_id).final:
            raise NotFound("approval", path)
        execute(_DECIDE, {**key, "answer": json_text(decision)})
        notify(execute, database.dialect, wake(execute, database.dialect, [root]))

    database.write(work)


def replay_dead(database: Database, execution_id: str, request: Request) -> Enqueued:
    """As ``ExecutionStore.replay_dead``."""

    def work(execute: Execute) -> Enqueued:
        rows = execute(
            "SELECT replayed_as FROM executions WHERE id = :id AND dead_reason IS NOT NULL" + LOCKED[database.dialect],
            {"id": execution_id},
        )
        if not rows:
            raise NotFound("dead letter", execution_id)
        if (replay := rows[0][0]) is not None:
            return Enqueued(replay, False, _state(execute, replay))
        (enqueued,) = enqueue_in(execute, database, [request])
        execute(
            "UPDATE executions SET replayed_as = :replay WHERE id = :id",
            {"id": execution_id, "replay": enqueued.execution_id},
        )
        return enqueued

    return database.write(work)


def _check_moved(execute: Execute, execution_id: str, cancelled: Sequence[_Cancelled]) -> None:
    if not any(moved == execution_id for moved, *_ in cancelled):
        raise IllegalMove(execution_id, _state(execute, execution_id), ExecutionState.CANCELLED)


def _lock_root(execute: Execute, dialect: str, execution_id: str) -> str:
    """Lock the root of an execution, before anything else is looked at; gives its id."""
    rows = execute("SELECT root_id FROM executions WHERE id = :id", {"id": execution_id})
    if not rows:
        raise NotFound("execution", execution_id)
    root: str = rows[0][0] or execution_id
    lock(execute, dialect, [root])
    return root


def _state(execute: Execute, execution_id: str) -> ExecutionState:
    rows = execute("SELECT state FROM executions WHERE id = :id", {"id": execution_id})
    if not rows:
        raise NotFound("execution", execution_id)
    return ExecutionState(rows[0][0])
