"""How the parts of an execution come to its owner, in SQL that both dialects accept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import Delivery, Hold, Request
from flo.engine.stores.arrivals import new_token
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_deliveries import deliveries_of
from flo.engine.stores.sql_endings import PARENT_ENDED
from flo.engine.stores.sql_enqueue import define, new_execution
from flo.engine.stores.sql_holds import TURN, Held, lock
from flo.engine.stores.sql_rows import EXECUTION, FROM_EXECUTIONS, execution_of, read_json
from flo.engine.stores.sql_starting import insert_held

_FIND: Final = """
SELECT e.id FROM executions e WHERE e.parent_id = :parent AND e.parent_path = :path AND e.queue = ''
ORDER BY e.created_at, e.id LIMIT 1
"""
_PART: Final = "e.state, e.finished_at, e.error"
_LOCK_PART: Final = {
    "sqlite": f"SELECT {_PART} FROM executions e WHERE e.id = :id",
    "postgresql": f"{TURN} SELECT {_PART} FROM turn CROSS JOIN executions e WHERE e.id = :id FOR NO KEY UPDATE OF e",
}
_WAS_OPENED_AGAIN: Final = """
SELECT 1 FROM execution_attempts a WHERE a.execution_id = :parent AND a.ended_at >= :ended
  AND a.outcome IN ('failed', 'timed_out', 'retrying') LIMIT 1
"""
_KEEP_ATTEMPT: Final = """
INSERT INTO execution_attempts (execution_id, fence, worker, claimed_at, ended_at, outcome, error)
SELECT e.id, e.fence, e.worker, e.claimed_at, coalesce(e.finished_at, :now),
       CASE WHEN e.finished_at IS NULL THEN 'expired' ELSE e.state END,
       CASE WHEN e.finished_at IS NULL THEN NULL ELSE e.error END
FROM executions e WHERE e.id = :id AND e.worker IS NOT NULL
ON CONFLICT (execution_id, fence) DO NOTHING
"""
_TAKE_OVER: Final = """
UPDATE executions SET state = 'running', lease_token = :token, fence = fence + 1, deliveries = deliveries + 1,
    worker = :worker, claimed_at = :at, due_at = :until, started_at = coalesce(started_at, :at),
    attempt = attempt + CASE WHEN finished_at IS NULL THEN 0 ELSE 1 END,
    expiries = CASE WHEN finished_at IS NULL THEN expiries ELSE 0 END,
    deadline = CASE WHEN finished_at IS NULL THEN deadline ELSE NULL END,
    finished_at = NULL, output = NULL, error = NULL, dead_reason = NULL
WHERE id = :id
"""


def adopt(database: Database, parent: Hold, request: Request, lease: timedelta) -> Delivery | Execution:
    """As ``QueueStore.adopt``.

    A child that failed is given as it ended, unless the parent was opened again after that, by a resume or for another
    attempt: its step runs again then, and the child with it, as a new attempt that goes on after its last finished
    step. The same holds for a child that was cancelled since its parent had ended.
    """

    def work(execute: Execute) -> Delivery | Execution:
        held = lock(database, execute, parent)
        found = execute(_FIND, {"parent": parent.execution_id, "path": request.parent_path})
        if not found:
            return _new(execute, held, parent, request, lease)
        child_id: str = found[0][0]
        state, finished_at, error = execute(_LOCK_PART[database.dialect], {"id": child_id})[0]
        if finished_at is not None and not _goes_on(execute, held, ExecutionState(state), finished_at, error):
            (row,) = execute(f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE e.id = :id", {"id": child_id})
            return execution_of(database, row)
        execute(_KEEP_ATTEMPT, {"id": child_id})
        values = {"id": child_id, "token": new_token(), "worker": parent.worker, "at": held.now}
        execute(_TAKE_OVER, {**values, "until": held.now + lease})
        return deliveries_of(database, execute, [child_id], parent.worker)[0]

    return database.write(work)


def _new(execute: Execute, parent: Held, hold: Hold, request: Request, lease: timedelta) -> Delivery:
    define(execute, request.digest, request.definition)
    child = replace(
        new_execution(replace(request, parent_id=parent.id), parent.now, {parent.id: parent.depth}),
        queue=None,
        root_id=parent.root_id,
    )
    return insert_held(execute, child, request, hold.worker, parent.now, lease)


def _goes_on(execute: Execute, parent: Held, state: ExecutionState, finished_at: Any, error: str | None) -> bool:
    """Whether a child that has ended runs again, since its parent was opened again after that."""
    if state is ExecutionState.CANCELLED:
        came_with_parent = (read_json(error) or {}).get("code") == PARENT_ENDED
    else:
        came_with_parent = state in (ExecutionState.FAILED, ExecutionState.TIMED_OUT)
    return came_with_parent and bool(execute(_WAS_OPENED_AGAIN, {"parent": parent.id, "ended": finished_at}))
