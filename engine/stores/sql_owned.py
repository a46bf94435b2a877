"""What the owner of an execution writes, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from flo.engine.errors import NotFound
from flo.engine.executions import ExecutionState, LogLine, StepRecord
from flo.engine.jobs import Enqueued, Entries, Request, Wait
from flo.engine.stores.base import DataStore
from flo.engine.stores.database import Database, Execute, Values
from flo.engine.stores.sql_enqueue import enqueue_in
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_lists import recordsets
from flo.engine.stores.sql_rows import (
    LINE,
    STEP,
    WAIT,
    json_or_null,
    json_text,
    line_values,
    read_json,
    rows_text,
    step_values,
    wait_of,
)
from flo.engine.values import JsonObject, storable

_REPLACED: Final = """
ON CONFLICT (execution_id, path) DO UPDATE SET
    step_id = excluded.step_id, step_type = excluded.step_type, state = excluded.state,
    started_at = excluded.started_at, duration_ms = excluded.duration_ms, attempts = excluded.attempts,
    output = excluded.output, error = excluded.error, loop_path = excluded.loop_path,
    loop_index = excluded.loop_index, notices = excluded.notices, execution_attempt = excluded.execution_attempt
"""
_LEFT: Final = "ON CONFLICT (execution_id, number) DO NOTHING"

_RECORD_STEPS: Final = {
    "sqlite": f"""
INSERT INTO execution_steps ({STEP})
VALUES (:execution_id, :path, :step_id, :step_type, :state, :started_at, :duration_ms, :attempts,
        :output, :error, :loop_path, :loop_index, :notices, :execution_attempt)
{_REPLACED}""",
    "postgresql": f"""
INSERT INTO execution_steps ({STEP})
SELECT execution_id, path, step_id, step_type, state, started_at, duration_ms, attempts,
       output::json, error::json, loop_path, loop_index, notices::json, execution_attempt
FROM json_to_recordset(:rows::json) AS r (
    execution_id text, path text, step_id text, step_type text, state text, started_at timestamptz,
    duration_ms double precision, attempts integer, output text, error text, loop_path text, loop_index bigint,
    notices text, execution_attempt integer)
{_REPLACED}""",
}
_RECORD_LINES: Final = {
    "sqlite": f"""
INSERT INTO execution_lines ({LINE})
VALUES (:execution_id, :at, :level, :message, :step, :data, :number)
{_LEFT}""",
    "postgresql": f"""
INSERT INTO execution_lines ({LINE})
SELECT execution_id, at, level, message, step, data::json, number
FROM json_to_recordset(:rows::json) AS r (
    execution_id text, at timestamptz, level text, message text, step text, data text, number bigint)
{_LEFT}""",
}
"""On PostgreSQL all rows are one parameter: to write many as JSON takes less time than to send each on its own."""

_COVER: Final = "UPDATE execution_steps SET output = 'null' WHERE execution_id = :id AND path = :path"

_EFFECT: Final = "execution_id = :id AND path = :path AND name = :name AND number = :number"
_READ_EFFECT: Final = f"SELECT result FROM execution_effects WHERE {_EFFECT}"
_KEEP_EFFECT: Final = """
INSERT INTO execution_effects (execution_id, path, name, number, result) VALUES (:id, :path, :name, :number, :result)
ON CONFLICT (execution_id, path, name, number) DO UPDATE SET result = excluded.result
"""

_FIND_WAIT: Final = f"SELECT {WAIT}, taken FROM execution_waits WHERE execution_id = :id AND path = :path"
_ADD_WAIT: Final = """
INSERT INTO execution_waits (execution_id, path, root_id, kind, name, until, details, created_at)
SELECT id, :path, root_id, :kind, :name, :until, :details, :now FROM executions WHERE id = :id
"""
_TAKE_WAIT: Final = """
UPDATE execution_waits SET taken = true, answer = :answer WHERE execution_id = :id AND path = :path
"""
_OLDEST_SIGNAL: Final = """
SELECT seq, payload FROM execution_signals WHERE execution_id = :id AND name = :name AND taken_by IS NULL
ORDER BY seq LIMIT 1
"""
_TAKE_SIGNAL: Final = "UPDATE execution_signals SET taken_by = :path WHERE seq = :seq"


class SqlOwned:
    """The ``Owned`` of both SQL adapters: for use inside a transaction that keeps the claim on the execution ``id``."""

    def __init__(self, database: Database, execute: Execute, id: str, data: DataStore) -> None:
        self._database, self._execute, self._id = database, execute, id
        self.pipelined = database.dialect == "postgresql"
        self.data: DataStore = data

    def now(self) -> datetime:
        return clock(self._database, self._execute)

    def record(self, entries: Entries) -> None:
        record(self._database, self._execute, self._id, entries)

    def effect(self, path: str, name: str, number: int) -> JsonObject | None:
        rows = self._execute(_READ_EFFECT, self._effect(path, name, number))
        return read_json(rows[0][0]) if rows else None

    def keep_effect(self, path: str, name: str, number: int, result: JsonObject) -> None:
        text = json_text(result, rows_text(result) if "rows" in result else None)
        self._execute.later(_KEEP_EFFECT, {**self._effect(path, name, number), "result": text})

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        return enqueue_in(self._execute, self._database, requests)

    def wait(self, wait: Wait) -> Wait:
        key = {"id": self._id, "path": storable(wait.path)}
        rows = self._execute(_FIND_WAIT, key)
        if not rows:
            self._register(wait)
            rows = self._execute(_FIND_WAIT, key)
        found, taken = wait_of(self._database, rows[0]), bool(rows[0][6])
        if taken:
            return found
        answer = self._answer(found)
        if answer is not None or (found.until is not None and found.until <= self.now()):
            self._execute(_TAKE_WAIT, {**key, "answer": json_or_null(answer)})
        return Wait(found.path, found.kind, found.name, found.until, found.details, answer)

    def _effect(self, path: str, name: str, number: int) -> dict[str, object]:
        return {"id": self._id, "path": storable(path), "name": name, "number": number}

    def _register(self, wait: Wait) -> None:
        if wait.kind == "execution" and not self._execute("SELECT 1 FROM executions WHERE id = :id", {"id": wait.name}):
            raise NotFound("execution", wait.name)
        values = {
            "id": self._id,
            "path": storable(wait.path),
            "kind": wait.kind,
            "name": wait.name,
            "until": wait.until,
            "details": json_text(wait.details),
        }
        self._execute(_ADD_WAIT, values)

    def _answer(self, wait: Wait) -> JsonObject | None:
        """The answer to a wait, if it is there by now. A signal is taken."""
        if wait.kind == "signal":
            rows = self._execute(_OLDEST_SIGNAL, {"id": self._id, "name": wait.name})
            if not rows:
                return wait.answer
            self._execute(_TAKE_SIGNAL, {"seq": rows[0][0], "path": wait.path})
            return _object(rows[0][1])
        if wait.kind == "execution":
            return self._end_of(wait.name)
        return wait.answer

    def _end_of(self, execution_id: str) -> JsonObject | None:
        rows = self._execute("SELECT state, output, error FROM executions WHERE id = :id", {"id": execution_id})
        if not rows:
            raise NotFound("execution", execution_id)
        state, output, error = rows[0]
        if not ExecutionState(state).final:
            return None
        return {"executionId": execution_id, "status": state, "output": read_json(output), "error": read_json(error)}


def record(database: Database, execute: Execute, execution_id: str, entries: Entries) -> None:
    """Write records of steps, log lines, variables of one execution."""
    write_records(database, execute, entries.steps, entries.lines)
    if entries.covered:
        execute.many(_COVER, [{"id": execution_id, "path": storable(path)} for path in entries.covered])
    changes: dict[str, object] = {}
    if entries.variables is not None:
        changes["variables"] = json_text(entries.variables)
    if entries.tolerated is not None:
        changes["tolerated"] = entries.tolerated
    if changes:
        named = ", ".join(f"{name} = :{name}" for name in changes)
        execute.later(f"UPDATE executions SET {named} WHERE id = :id", {**changes, "id": execution_id})


def write_records(database: Database, execute: Execute, steps: Sequence[StepRecord], lines: Sequence[LogLine]) -> None:
    """Write records of steps and log lines of any executions. Of several records of one step the last one counts, in
    the place of the first; a line whose number is there already is left as it was."""
    last = {(step.execution_id, step.path): step for step in steps}
    _write_rows(database, execute, _RECORD_STEPS, [step_values(step) for step in last.values()])
    _write_rows(database, execute, _RECORD_LINES, [line_values(line) for line in lines])


def _write_rows(database: Database, execute: Execute, insert: Mapping[str, str], rows: Sequence[Values]) -> None:
    if database.dialect == "sqlite":
        if rows:
            execute.many(insert["sqlite"], rows)
        return
    for text in recordsets(rows):
        execute.later(insert["postgresql"], {"rows": text})


def _object(text: str) -> JsonObject:
    read: Any = read_json(text)
    assert isinstance(read, dict), "payloads are objects"
    return read
