"""Executions with their steps and log lines, in SQL that both dialects accept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from flo.engine.errors import NotFound
from flo.engine.executions import MOVES, Execution, ExecutionState, IllegalMove, LogLine, StepRecord, StepState
from flo.engine.stores.database import Database, Execute, Values
from flo.engine.values import Json, JsonObject, dump, storable

_AFTER_EVERY_ID: Final = "\U0010ffff"

_EXECUTION: Final = (
    "e.id, e.workflow, e.version, e.digest, d.document, e.input, e.state, e.created_at, e.started_at, e.finished_at,"
    " e.output, e.error, e.trigger_kind, e.attempt"
)
_FROM: Final = "FROM executions e JOIN definitions d ON d.digest = e.digest"

DEFINE: Final = "INSERT INTO definitions (digest, document) VALUES (:digest, :document) ON CONFLICT (digest) DO NOTHING"

_CREATE: Final = """
INSERT INTO executions (id, workflow, version, digest, input, state, output, error, trigger_kind, attempt,
                        created_at, started_at, finished_at)
VALUES (:id, :workflow, :version, :digest, :input, :state, :output, :error, :trigger_kind, :attempt,
        :created_at, :started_at, :finished_at)
"""

_RECORD_STEP: Final = """
INSERT INTO execution_steps (execution_id, path, step_id, step_type, state, started_at, duration_ms, attempts,
                             output, error, loop_path, loop_index)
VALUES (:execution_id, :path, :step_id, :step_type, :state, :started_at, :duration_ms, :attempts,
        :output, :error, :loop_path, :loop_index)
ON CONFLICT (execution_id, path) DO UPDATE SET
    step_id = excluded.step_id, step_type = excluded.step_type, state = excluded.state,
    started_at = excluded.started_at, duration_ms = excluded.duration_ms, attempts = excluded.attempts,
    output = excluded.output, error = excluded.error, loop_path = excluded.loop_path, loop_index = excluded.loop_index
"""
_STEP: Final = (
    "execution_id, path, step_id, step_type, state, started_at, duration_ms, attempts, output, error, loop_path,"
    " loop_index"
)

_NUMBER_LINES: Final = "UPDATE executions SET line_count = line_count + :count WHERE id = :id RETURNING line_count"

_RECORD_LINE: Final = """
INSERT INTO execution_lines (execution_id, number, at, level, step, message, data)
VALUES (:execution_id, :number, :at, :level, :step, :message, :data)
"""


class SqlExecutions:
    """The ``ExecutionStore`` of both SQL adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, execution: Execution) -> None:
        values = {
            "id": execution.id,
            "workflow": execution.workflow,
            "version": execution.version,
            "digest": execution.digest,
            "input": _json(execution.input),
            "state": execution.state.value,
            "output": _json_or_null(execution.output),
            "error": _json_or_null(execution.error),
            "trigger_kind": execution.trigger,
            "attempt": execution.attempt,
            "created_at": execution.created_at,
            "started_at": execution.started_at,
            "finished_at": execution.finished_at,
        }

        def work(execute: Execute) -> None:
            execute(DEFINE, {"digest": execution.digest, "document": execution.definition})
            execute(_CREATE, values)

        self._database.write(work)

    def move(
        self, execution_id: str, to: ExecutionState, *, output: Json = None, error: JsonObject | None = None
    ) -> None:
        values = {"id": execution_id, "output": _json_or_null(output), "error": _json_or_null(error)}

        def work(execute: Execute) -> None:
            if execute(_MOVES[to], values):
                return
            rows = execute("SELECT state FROM executions WHERE id = :id", {"id": execution_id})
            if not rows:
                raise NotFound("execution", execution_id)
            raise IllegalMove(execution_id, ExecutionState(rows[0][0]), to)

        self._database.write(work, vital=to.final)

    def record(self, steps: Sequence[StepRecord], lines: Sequence[LogLine]) -> None:
        records = [_step_values(step) for step in steps]
        by_execution = sorted(lines, key=lambda line: line.execution_id)

        def work(execute: Execute) -> None:
            if records:
                execute.many(_RECORD_STEP, records)
            numbered: list[Values] = []
            # by id, so that two writers lock executions in one order
            for execution_id, group in groupby(by_execution, key=lambda line: line.execution_id):
                written = list(group)
                rows = execute(_NUMBER_LINES, {"id": execution_id, "count": len(written)})
                if not rows:
                    raise NotFound("execution", execution_id)
                first = rows[0][0] - len(written) + 1
                numbered.extend(_line_values(line, number) for number, line in enumerate(written, first))
            if numbered:
                execute.many(_RECORD_LINE, numbered)

        self._database.write(work)

    def get(self, execution_id: str) -> Execution | None:
        if not execution_id:
            return None
        rows = self._database.read(
            f"SELECT {_EXECUTION} {_FROM} WHERE e.id >= :id AND e.id <= :end ORDER BY e.id LIMIT 2",
            {"id": execution_id, "end": execution_id + _AFTER_EVERY_ID},
        )
        if len(rows) == 1 or (rows and rows[0][0] == execution_id):
            return self._execution(rows[0])
        return None

    def list(
        self, *, state: ExecutionState | None = None, workflow: str | None = None, limit: int = 50
    ) -> Sequence[Execution]:
        values: dict[str, object] = {"limit": limit}
        tests = []
        if state is not None:
            tests.append("e.state = :state")
            values["state"] = state.value
        if workflow is not None:
            tests.append("e.workflow = :workflow")
            values["workflow"] = workflow
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        rows = self._database.read(
            f"SELECT {_EXECUTION} {_FROM}{where} ORDER BY e.created_at DESC, e.id DESC LIMIT :limit", values
        )
        return [self._execution(row) for row in rows]

    def steps(self, execution_id: str) -> Sequence[StepRecord]:
        rows = self._database.read(
            f"SELECT {_STEP} FROM execution_steps WHERE execution_id = :id ORDER BY seq", {"id": execution_id}
        )
        return [self._step(row) for row in rows]

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        rows = self._database.read(
            f"SELECT {_STEP} FROM execution_steps WHERE execution_id = :id AND loop_path = :loop"
            " AND loop_index >= :start AND loop_index < :end ORDER BY loop_index",
            {"id": execution_id, "loop": loop, "start": start, "end": start + limit},
        )
        return [self._step(row) for row in rows]

    def lines(self, execution_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        rows = self._database.read(
            "SELECT execution_id, at, level, message, step, data, number FROM execution_lines"
            " WHERE execution_id = :id AND number > :after ORDER BY number LIMIT :limit",
            {"id": execution_id, "after": after, "limit": limit},
        )
        return [
            LogLine(row[0], self._database.instant(row[1]), row[2], row[3], row[4], _read(row[5]), row[6])
            for row in rows
        ]

    def _execution(self, row: tuple[Any, ...]) -> Execution:
        instant = self._database.instant
        return Execution(
            id=row[0],
            workflow=row[1],
            version=row[2],
            digest=row[3],
            definition=row[4],
            input=_read(row[5]),
            state=ExecutionState(row[6]),
            created_at=instant(row[7]),
            started_at=None if row[8] is None else instant(row[8]),
            finished_at=None if row[9] is None else instant(row[9]),
            output=_read(row[10]),
            error=_read(row[11]),
            trigger=row[12],
            attempt=row[13],
        )

    def _step(self, row: tuple[Any, ...]) -> StepRecord:
        return StepRecord(
            execution_id=row[0],
            path=row[1],
            step_id=row[2],
            step_type=row[3],
            state=StepState(row[4]),
            started_at=self._database.instant(row[5]),
            duration_ms=row[6],
            attempts=row[7],
            output=_read(row[8]),
            error=_read(row[9]),
            loop=row[10],
            index=row[11],
        )


def _move_to(state: ExecutionState) -> str:
    """The one statement that moves an execution to ``state`` from where that is allowed, and from nowhere else."""
    sources = ", ".join(f"'{source}'" for source, targets in MOVES.items() if state in targets)
    started = ", started_at = coalesce(started_at, :now)" if state is ExecutionState.RUNNING else ""
    finished = ", finished_at = :now" if state.final else ""
    return (
        f"UPDATE executions SET state = '{state}', output = :output, error = :error{started}{finished}"
        f" WHERE id = :id AND state IN ({sources}) RETURNING id"
    )


_MOVES: Final[Mapping[ExecutionState, str]] = {state: _move_to(state) for state in ExecutionState}


def _step_values(step: StepRecord) -> Values:
    return {
        "execution_id": step.execution_id,
        "path": storable(step.path),
        "step_id": step.step_id,
        "step_type": step.step_type,
        "state": step.state.value,
        "started_at": step.started_at,
        "duration_ms": step.duration_ms,
        "attempts": step.attempts,
        "output": _json(step.output),
        "error": _json_or_null(step.error),
        "loop_path": step.loop,
        "loop_index": step.index,
    }


def _line_values(line: LogLine, number: int) -> Values:
    return {
        "execution_id": line.execution_id,
        "number": number,
        "at": line.at,
        "level": line.level,
        "step": line.step,
        "message": storable(line.message),
        "data": _json_or_null(line.data),
    }


def _json(value: Json) -> str:
    return storable(dump(value))


def _json_or_null(value: Json) -> str | None:
    return None if value is None else _json(value)


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)
