"""How executions end, one or many in a transaction, in SQL that both dialects accept.

On PostgreSQL a transaction that locks nothing first, as those do that end many, waits for nothing that another such has
locked: what somebody works on at the moment is passed by, to be ended by itself, and so is what has unfinished parts.
It only waits for those that are suspended, in the order of their ids; where somebody cancels one of them at that
moment, PostgreSQL lets one of the two try again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Raw

from flo.engine.executions import MOVES, Execution, ExecutionState, IllegalMove, changed
from flo.engine.jobs import Ended, Ending, Entries
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_endings import Left, left_by, see_to, tell_of_places
from flo.engine.stores.sql_holds import IS_HELD
from flo.engine.stores.sql_lists import listed, one_of, recordsets
from flo.engine.stores.sql_owned import record, write_records
from flo.engine.stores.sql_rows import json_or_null, read_json

_ENDED: Final = """
state = {end}state, finished_at = :now, due_at = NULL, lease_token = NULL, output = {end}output, error = {end}error,
    dead_reason = {end}reason, variables = coalesce({end}variables, e.variables),
    tolerated = coalesce({end}tolerated, e.tolerated)
"""
_END: Final = f"UPDATE executions AS e SET {_ENDED.format(end=':')} WHERE {IS_HELD}"
HELD: Final = f"""
SELECT e.id, CASE e.state WHEN 'running' THEN e.lease_token END, :now FROM executions e
WHERE e.id {one_of("sqlite", "ids")}
"""
"""Asked on SQLite, where nobody else writes until the commit: RETURNING makes an update twice as long."""

END_MANY: Final = f"""
WITH asked AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:ends::json) AS a (
        id text, token text, state text, reason text, tolerated integer, output json, error json, variables json)
), held AS MATERIALIZED (
    SELECT a.* FROM asked a
    JOIN executions e ON e.id = a.id AND a.token = CASE e.state WHEN 'running' THEN e.lease_token END
    WHERE e.id = ANY (ARRAY(SELECT id FROM asked))
    FOR NO KEY UPDATE OF e SKIP LOCKED
)
UPDATE executions AS e SET {_ENDED.format(end="held.")} FROM held WHERE e.id = held.id RETURNING e.id, e.finished_at
"""
"""Whoever makes a plan for this while there is little finds no index for it but that of the key."""

_JSON: Final = ("output", "error", "variables")

Row = Mapping[str, Any]
"""The values of an end."""


class HasParts(Exception):
    """Some executions cannot end together with others: they have unfinished parts, which somebody may have locked."""

    def __init__(self, ids: Collection[str]) -> None:
        self.ids = ids
        super().__init__("unfinished parts")


def check_end(execution_id: str, ended: Ended) -> None:
    """Raise ``IllegalMove`` where an execution that runs cannot end so."""
    if not ended.state.final or ended.state not in MOVES[ExecutionState.RUNNING]:
        raise IllegalMove(execution_id, ExecutionState.RUNNING, ended.state)


def end(database: Database, execute: Execute, ending: Ending) -> Execution:
    """End an execution whose row is locked; gives it as it is then."""
    (ended,), left = _end(database, execute, [ending])
    _see_to(database, execute, [ended], left)
    return ended


def end_held(database: Database, execute: Execute, endings: Sequence[Ending]) -> Mapping[str, Execution]:
    """End those of ``endings``, each of another execution, that are held and that nobody else has locked; gives these
    as they are then, by id. Raises ``HasParts``."""
    ended, left = _end(database, execute, endings)
    if "part" in left and database.dialect == "postgresql":
        raise HasParts(left["part"])
    _see_to(database, execute, ended, left)
    return {execution.id: execution for execution in ended}


def _end(database: Database, execute: Execute, endings: Sequence[Ending]) -> tuple[Sequence[Execution], Left]:
    """Write the ends and the last entries of what is held; gives what that is then, and what these ends have to see
    to."""
    rows = [_row(ending) for ending in endings]
    marked = _mark(database, execute, rows)
    left = _left(database, execute, endings)
    at = {execution_id: database.instant(then) for execution_id, then in marked}
    held = [ending for ending in endings if ending.hold.execution_id in at]
    if left and len(held) < len(endings):
        left = _left(database, execute, held)
    steps = [step for ending in held for step in ending.entries.steps]
    lines = [line for ending in held for line in ending.entries.lines]
    write_records(database, execute, steps, lines)
    for ending in held:
        if ending.entries.covered:
            record(database, execute, ending.hold.execution_id, Entries(covered=ending.entries.covered))
    ended = [_ended(ending, row, at[row["id"]]) for ending, row in zip(endings, rows, strict=True) if row["id"] in at]
    return ended, left


def _mark(database: Database, execute: Execute, rows: Sequence[Row]) -> Sequence[tuple[str, object]]:
    """Say in the rows of what is held that it has ended; gives the ids and when, by the time of the next answer."""
    marked: list[tuple[Any, ...]] = []
    if database.dialect == "sqlite":
        tokens = {row["id"]: row["token"] for row in rows}
        found = execute(HELD, {"ids": listed(database.dialect, tokens)})
        marked += [(execution_id, now) for execution_id, token, now in found if token == tokens[execution_id]]
        held = {execution_id for execution_id, _ in marked}
        execute.many(_END, [row for row in rows if row["id"] in held])
        return marked
    written = [{**row, **{name: Raw(row[name] or "null") for name in _JSON}} for row in rows]
    for ends in recordsets(written):
        execute.later(END_MANY, {"ends": ends}, marked.extend)
    return marked


def _left(database: Database, execute: Execute, endings: Sequence[Ending]) -> Left:
    queues = {ending.of.queue for ending in endings if ending.of.queue is not None}
    return left_by(database, execute, [ending.hold.execution_id for ending in endings], queues)


def _see_to(database: Database, execute: Execute, ended: Sequence[Execution], left: Left) -> None:
    if not ended:
        return
    see_to(database, execute, [execution.id for execution in ended], left)
    keys = {execution.concurrency_key for execution in ended if execution.concurrency_key is not None}
    if keys:
        tell_of_places(database, execute, (), keys)


def _row(ending: Ending) -> Row:
    """The values of an end; JSON as text."""
    hold, ended, entries = ending.hold, ending.ended, ending.entries
    return {
        "id": hold.execution_id,
        "token": hold.token,
        "state": ended.state.value,
        "output": json_or_null(ended.output),
        "error": json_or_null(ended.error),
        "reason": None if ended.reason is None else ended.reason.value,
        "variables": json_or_null(entries.variables),
        "tolerated": entries.tolerated,
    }


def _ended(ending: Ending, row: Row, at: datetime) -> Execution:
    return changed(
        ending.of,
        state=ending.ended.state,
        finished_at=at,
        due_at=None,
        lease_until=None,
        output=read_json(row["output"]),
        error=read_json(row["error"]),
        reason=ending.ended.reason,
    )
