"""Executions that nobody will end any more, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from flo.engine.executions import DeadReason, Execution, ExecutionState
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.jobs import MAX_EXPIRIES
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_endings import see_to, tell_of_places
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_queues import notify
from flo.engine.stores.sql_rows import EXECUTION, FROM_EXECUTIONS, NO_QUEUE, execution_of, json_text
from flo.engine.stores.sql_waking import wake_after
from flo.engine.values import JsonObject

_DOOMED: Final = "e.id, e.queue, e.worker, e.due_at, e.expiries, e.deadline, e.concurrency_key, e.parent_id, e.root_id"
_SKIP_LOCKED: Final = {"sqlite": "", "postgresql": " FOR UPDATE OF e SKIP LOCKED"}
_BURY: Final = """
UPDATE executions SET state = :state, finished_at = :now, due_at = NULL, lease_token = NULL, output = NULL,
    error = :error, dead_reason = :reason
WHERE id = :id
"""

Row = tuple[Any, ...]


@frozen
class _Fate:
    """Why nobody ends an execution: how those are found, in the order of an index, and what becomes of them."""

    index: str
    where: str
    order: str
    state: ExecutionState
    error: Callable[[Database, Row], JsonObject]
    reason: DeadReason | None = None


def _late(database: Database, row: Row) -> JsonObject:
    deadline = write_instant(database.instant(row[5]))
    return {"code": "timeout", "message": f"it is past its deadline, {deadline}"}


def _poisonous(database: Database, row: Row) -> JsonObject:
    return {"code": "poison", "message": f"its worker was lost {row[4] + 1} times"}


def _crashed(database: Database, row: Row) -> JsonObject:
    since = write_instant(database.instant(row[3]))
    return {"code": "crashed", "message": f"the process that ran it (worker {row[2]!r}) was not heard of since {since}"}


_FATES: Final = (
    _Fate(
        "executions_by_deadline",
        "e.deadline IS NOT NULL AND e.finished_at IS NULL AND e.deadline <= :now",
        "e.deadline",
        ExecutionState.TIMED_OUT,
        _late,
    ),
    _Fate(
        "executions_poisoned",
        f"e.state = 'running' AND e.expiries >= {MAX_EXPIRIES} AND e.due_at <= :now AND e.queue <> ''",
        "e.due_at",
        ExecutionState.FAILED,
        _poisonous,
        DeadReason.POISON,
    ),
    _Fate(
        "executions_running",
        "e.queue = '' AND e.state = 'running' AND e.due_at <= :now AND e.parent_id IS NULL",
        "e.due_at",
        ExecutionState.FAILED,
        _crashed,
    ),
)
_FROM: Final = {"sqlite": "executions AS e INDEXED BY {index}", "postgresql": "executions AS e"}


def _search(dialect: str, fate: _Fate, columns: str, limit: str) -> str:
    table = _FROM[dialect].format(index=fate.index)
    return f"SELECT {columns} FROM {table} WHERE {fate.where} ORDER BY {fate.order} LIMIT {limit}"


SEARCHES: Final = {dialect: tuple(_search(dialect, fate, _DOOMED, ":limit") for fate in _FATES) for dialect in _FROM}
"""The query for each fate, by dialect."""

ANYTHING: Final = {
    dialect: "SELECT " + " OR ".join(f"({_search(dialect, fate, 'e.id', '1')}) IS NOT NULL" for fate in _FATES)
    for dialect in _FROM
}
"""The query whether there is anything to bury. EXISTS would do away with the order, by which the index is chosen."""


def bury(database: Database, limit: int) -> Sequence[Execution]:
    """As ``QueueStore.bury``."""
    if not database.read(ANYTHING[database.dialect])[0][0]:
        return []  # mostly there is nothing, and then nobody is kept waiting
    return database.write(lambda execute: _bury(database, execute, limit))


def _bury(database: Database, execute: Execute, limit: int) -> Sequence[Execution]:
    buried: list[Row] = []
    for fate, search in zip(_FATES, SEARCHES[database.dialect], strict=True):
        rows = execute(search + _SKIP_LOCKED[database.dialect], {"limit": limit - len(buried)})
        for row in rows:
            values = {
                "id": row[0],
                "state": fate.state.value,
                "error": json_text(fate.error(database, row)),
                "reason": None if fate.reason is None else fate.reason.value,
            }
            execute(_BURY, values)
        buried += rows
    ids = [row[0] for row in buried]
    if not ids:
        return []
    see_to(database, execute, ids)
    wholes = {row[8] for row in buried if row[1] == NO_QUEUE and row[7] is not None}
    if wholes:
        notify(execute, database.dialect, wake_after(execute, database.dialect, (), wholes))
    queues, keys = {row[1] for row in buried} - {NO_QUEUE}, {row[6] for row in buried} - {None}
    tell_of_places(database, execute, queues, keys)
    sql = f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE e.id {one_of(database.dialect, 'ids')}"
    found = {row[0]: execution_of(database, row) for row in execute(sql, {"ids": listed(database.dialect, ids)})}
    return [found[execution_id] for execution_id in ids]
