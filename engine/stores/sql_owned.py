"""What the owner of an execution writes, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from flo.engine.errors import NotFound
from flo.engine.executions import ExecutionState
from flo.engine.jobs import Enqueued, Entries, Request, Wait
from flo.engine.stores.base import DataStore
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_enqueue import enqueue_in
from flo.engine.stores.sql_holds import Held, clock
from flo.engine.stores.sql_rows import (
    WAIT,
    json_or_null,
    json_text,
    line_values,
    read_json,
    step_values,
    wait_of,
)
from flo.engine.values import JsonObject, storable

_RECORD_STEP: Final = """
INSERT INTO execution_steps (execution_id, path, step_id, step_type, state, started_at, duration_ms, attempts,
                             output, error, loop_path, loop_index, notices, execution_attempt)
VALUES (:execution_id, :path, :step_id, :step_type, :state, :started_at, :duration_ms, :attempts,
        :output, :error, :loop_path, :loop_index, :notices, :execution_attempt)
ON CONFLICT (execution_id, path) DO UPDATE SET
    step_id = excluded.step_id, step_type = excluded.step_type, state = excluded.state,
    started_at = excluded.started_at, duration_ms = excluded.duration_ms, attempts = excluded.attempts,
    output = excluded.output, error = excluded.error, loop_path = excluded.loop_path,
    loop_index = excluded.loop_index, notices = excluded.notices, execution_attempt = excluded.execution_attempt
"""
_RECORD_LINE: Final = """
INSERT INTO execution_lines (execution_id, number, at, level, step, message, data)
VALUES (:execution_id, :number, :at, :level, :step, :message, :data)
ON CONFLICT (execution_id, number) DO NOTHING
"""
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
VALUES (:id, :path, :root_id, :kind, :name, :until, :details, :now)
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
    """The ``Owned`` of both SQL adapters: for use inside the transaction that ``held`` was read in."""

    def __init__(self, database: Database, execute: Execute, held: Held, data: DataStore) -> None:
        self._database, self._execute, self._held = database, execute, held
        self.data: DataStore = data

    def now(self) -> datetime:
        return clock(self._database, self._execute)

    def record(self, entries: Entries) -> None:
        record(self._execute, self._held.id, entries)

    def effect(self, path: str, name: str, number: int) -> JsonObject | None:
        rows = self._execute(_READ_EFFECT, self._effect(path, name, number))
        return read_json(rows[0][0]) if rows else None

    def keep_effect(self, path: str, name: str, number: int, result: JsonObject) -> None:
        self._execute(_KEEP_EFFECT, {**self._effect(path, name, number), "result": json_text(result)})

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        return enqueue_in(self._execute, self._database, requests)

    def wait(self, wait: Wait) -> Wait:
        key = {"id": self._held.id, "path": storable(wait.path)}
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
        return {"id": self._held.id, "path": storable(path), "name": name, "number": number}

    def _register(self, wait: Wait) -> None:
        if wait.kind == "execution" and not self._execute("SELECT 1 FROM executions WHERE id = :id", {"id": wait.name}):
            raise NotFound("execution", wait.name)
        values = {
            "id": self._held.id,
            "path": storable(wait.path),
            "root_id": self._held.root_id,
            "kind": wait.kind,
            "name": wait.name,
            "until": wait.until,
            "details": json_text(wait.details),
        }
        self._execute(_ADD_WAIT, values)

    def _answer(self, wait: Wait) -> JsonObject | None:
        """The answer to a wait, if it is there by now. A signal is taken."""
        if wait.kind == "signal":
            rows = self._execute(_OLDEST_SIGNAL, {"id": self._held.id, "name": wait.name})
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


def record(execute: Execute, execution_id: str, entries: Entries) -> None:
    """Write records of steps, log lines, variables of one execution."""
    if entries.steps:
        execute.many(_RECORD_STEP, [step_values(step) for step in entries.steps])
    if entries.lines:
        execute.many(_RECORD_LINE, [line_values(line) for line in entries.lines])
    if entries.covered:
        execute.many(_COVER, [{"id": execution_id, "path": storable(path)} for path in entries.covered])
    changes: dict[str, object] = {}
    if entries.variables is not None:
        changes["variables"] = json_text(entries.variables)
    if entries.tolerated is not None:
        changes["tolerated"] = entries.tolerated
    if changes:
        named = ", ".join(f"{name} = :{name}" for name in changes)
        execute(f"UPDATE executions SET {named} WHERE id = :id", {**changes, "id": execution_id})


def _object(text: str) -> JsonObject:
    read: Any = read_json(text)
    assert isinstance(read, dict), "payloads are objects"
    return read
