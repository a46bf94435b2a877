"""How claims end, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from flo.engine.errors import StoreError, StoreFull, StoreUnavailable, worded
from flo.engine.executions import Execution, changed
from flo.engine.faults import reach
from flo.engine.jobs import (
    NOTHING,
    Again,
    Conclusion,
    Ended,
    Ending,
    Entries,
    Hold,
    LeaseLost,
    Parked,
    Released,
)
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_endings import tell_of_places
from flo.engine.stores.sql_finishing import HasParts, check_end, end, end_held
from flo.engine.stores.sql_holds import Held, lock
from flo.engine.stores.sql_owned import record
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_rows import BARE, EXECUTION, FROM_EXECUTIONS, execution_of, json_text

_GIVE_BACK: Final = f"""
UPDATE executions SET {{changes}}due_at = :due, lease_token = NULL, worker = NULL WHERE id = :id RETURNING {BARE}
"""
_AGAIN: Final = "state = 'retrying', attempt = attempt + 1, run_at = :due, error = :error, "
_RELEASED: Final = "state = 'pending', run_at = :due, "
_PARKED: Final = "state = 'suspended', "

_KEEP_ATTEMPT: Final = """
INSERT INTO execution_attempts (execution_id, fence, worker, claimed_at, ended_at, outcome, error)
VALUES (:id, :fence, :worker, :claimed_at, :now, :outcome, :error)
ON CONFLICT (execution_id, fence) DO NOTHING
"""

_LOCK_AWAITED: Final = """
SELECT e.id FROM executions e
WHERE e.id IN (
    SELECT w.name FROM execution_waits w WHERE w.root_id = :root AND w.taken = false AND w.kind = 'execution'
)
ORDER BY e.id FOR SHARE OF e
"""
_CAN_BE_ANSWERED: Final = """
SELECT 1 FROM execution_waits w WHERE w.root_id = :root AND w.taken = false AND (
    w.answer IS NOT NULL
    OR (w.kind = 'signal' AND EXISTS (
        SELECT 1 FROM execution_signals s
        WHERE s.execution_id = w.execution_id AND s.name = w.name AND s.taken_by IS NULL))
    OR (w.kind = 'execution' AND NOT EXISTS (
        SELECT 1 FROM executions e WHERE e.id = w.name AND e.finished_at IS NULL))
) LIMIT 1
"""
_WAS_CANCELLED: Final = """
WITH RECURSIVE parts (id, state, finished_at) AS (
    SELECT e.id, e.state, e.finished_at FROM executions e WHERE e.parent_id = :root AND e.queue = ''
    UNION ALL
    SELECT e.id, e.state, e.finished_at FROM parts p JOIN executions e ON e.parent_id = p.id WHERE e.queue = ''
)
SELECT 1 FROM parts WHERE state = 'cancelled' AND finished_at >= :claimed_at LIMIT 1
"""
"""A part was cancelled under the owner of the whole, who may not have seen it."""


def conclude(
    database: Database,
    hold: Hold,
    conclusion: Conclusion,
    entries: Entries = NOTHING,
    of: Execution | None = None,
) -> Execution:
    """As ``QueueStore.conclude``. An end mostly needs no lock first, as one of many."""
    if isinstance(conclusion, Ended) and of is not None:
        check_end(hold.execution_id, conclusion)
        ended = _end_together(database, {hold.execution_id: Ending(hold, conclusion, entries, of)})
        if ended:
            return ended[hold.execution_id]
    return _conclude_locked(database, hold, conclusion, entries, of)


def _conclude_locked(
    database: Database, hold: Hold, conclusion: Conclusion, entries: Entries, of: Execution | None
) -> Execution:
    ends = isinstance(conclusion, Ended)

    def write(entries: Entries) -> Execution:
        def work(execute: Execute) -> Execution:
            if isinstance(conclusion, Ended):
                execution = _end(database, execute, hold, conclusion, entries, of)
            else:
                execution = _conclude(database, execute, hold, conclusion, entries, of)
            reach("conclude.before-commit")
            return execution

        return database.write(work, vital=ends)

    try:
        execution = write(entries)
    except StoreFull:
        if not ends or not entries:
            raise
        execution = write(NOTHING)
    reach("conclude.committed")
    return execution


def conclude_many(database: Database, endings: Sequence[Ending]) -> Sequence[Execution | LeaseLost | StoreError]:
    """As ``QueueStore.conclude_many``."""
    for ending in endings:
        check_end(ending.hold.execution_id, ending.ended)
    first: dict[str, Ending] = {}
    for ending in endings:
        first.setdefault(ending.hold.execution_id, ending)
    ended: dict[str, Execution | None] = {**_end_together(database, first)}
    # each once: the second end of an execution finds its claim gone
    return [ended.pop(ending.hold.execution_id, None) or _end_alone(database, ending) for ending in endings]


def _end_together(database: Database, endings: Mapping[str, Ending]) -> Mapping[str, Execution]:
    """End in one transaction what can be ended so, each by its id; gives these as they are then, by id."""

    def work(execute: Execute) -> Mapping[str, Execution]:
        ended = end_held(database, execute, list(endings.values()))
        reach("conclude.before-commit")
        return ended

    if not endings:
        return {}
    try:
        ended = database.write(work)
    except HasParts as found:
        return _end_together(database, {name: one for name, one in endings.items() if name not in found.ids})
    except StoreUnavailable:
        raise
    except Exception:  # nothing was written: each is told by itself what it was
        return {}
    reach("conclude.committed")
    return ended


def _end_alone(database: Database, ending: Ending) -> Execution | LeaseLost | StoreError:
    try:
        return _conclude_locked(database, ending.hold, ending.ended, ending.entries, ending.of)
    except StoreUnavailable:
        raise
    except (LeaseLost, StoreError) as error:
        return error
    except Exception as refused:  # a value that cannot be stored, for one
        return StoreError(worded(refused))


def _end(
    database: Database, execute: Execute, hold: Hold, ended: Ended, entries: Entries, of: Execution | None
) -> Execution:
    check_end(hold.execution_id, ended)
    lock(database, execute, hold)
    return end(database, execute, Ending(hold, ended, entries, of or _read(database, execute, hold.execution_id)))


def _conclude(
    database: Database,
    execute: Execute,
    hold: Hold,
    conclusion: Again | Released | Parked,
    entries: Entries,
    of: Execution | None,
) -> Execution:
    parks = isinstance(conclusion, Parked) and database.dialect == "postgresql"
    if parks:
        _lock_awaited(execute, hold)
    held = lock(database, execute, hold)
    if parks:  # again, now that it registers no more; mostly all of it is locked by now
        _lock_awaited(execute, hold)
    if entries:
        record(database, execute, held.id, entries)
    match conclusion:
        case Again(delay, error):
            _keep_attempt(execute, held, hold, "retrying", json_text(error))
            row = _give_back(execute, held, _AGAIN, held.now + delay, {"error": json_text(error)})
        case Released(delay):
            _keep_attempt(execute, held, hold, "released")
            row = _give_back(execute, held, _RELEASED, held.now + delay)
        case Parked(until):
            _keep_attempt(execute, held, hold, "suspended")
            row = _give_back(execute, held, _PARKED, _end_of_wait(execute, held, until))
    if of is None:
        execution = _read(database, execute, held.id)
    else:
        execution = changed(execution_of(database, row), definition=of.definition, input=of.input)
    if held.bounded or (execution.due_at is not None and execution.due_at <= held.now):
        notify(execute, database.dialect, [held.queue])
    if held.concurrency_key is not None:
        tell_of_places(database, execute, (), [held.concurrency_key])
    return execution


def _read(database: Database, execute: Execute, execution_id: str) -> Execution:
    (row,) = execute(f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE e.id = :id", {"id": execution_id})
    return execution_of(database, row)


def _give_back(
    execute: Execute, held: Held, changes: str, due: datetime | None, values: dict[str, object] | None = None
) -> tuple[Any, ...]:
    (row,) = execute(_GIVE_BACK.replace("{changes}", changes), {"id": held.id, "due": due, **(values or {})})
    return row


def _keep_attempt(execute: Execute, held: Held, hold: Hold, outcome: str, error: str | None = None) -> None:
    values = {"id": held.id, "fence": hold.fence, "worker": hold.worker, "claimed_at": held.claimed_at}
    execute(_KEEP_ATTEMPT, {**values, "outcome": outcome, "error": error})


def _lock_awaited(execute: Execute, hold: Hold) -> None:
    """Keep what the execution waits for from ending until it is parked: either its end is seen here, or it sees that
    somebody is parked. What is awaited is locked before who waits."""
    rows = execute("SELECT root_id FROM executions WHERE id = :id", {"id": hold.execution_id})
    if rows and rows[0][0] == hold.execution_id:
        execute(_LOCK_AWAITED, {"root": hold.execution_id})


def _end_of_wait(execute: Execute, held: Held, until: datetime | None) -> datetime | None:
    """When an execution that waits is due. A part never is: the root is due for it."""
    if held.root_id != held.id:
        return None
    answered = execute(_CAN_BE_ANSWERED, {"root": held.id}) or execute(
        _WAS_CANCELLED, {"root": held.id, "claimed_at": held.claimed_at}
    )
    return held.now if answered else until
