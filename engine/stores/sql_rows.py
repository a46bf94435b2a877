"""Rows of the SQL stores as records, and records as the values of statements."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final

from flo.engine.executions import DeadReason, Execution, ExecutionState, LogLine, StepRecord, StepState
from flo.engine.jobs import Wait
from flo.engine.stores.database import Database, Values
from flo.engine.values import Json, dump, storable

_ESCAPED: Final = re.compile(r"(\\\\)|\\u0000")
"""How U+0000 is written in JSON; a backslash before ``u0000`` is an escaped one itself."""

NO_QUEUE: Final = ""
"""The queue of an execution that no queue delivers, as its column has it."""

EXECUTION: Final = (
    "e.id, e.workflow, e.version, e.digest, d.document, e.input, e.state, e.created_at, e.started_at, e.finished_at,"
    " e.output, e.error, e.trigger_kind, e.attempt, e.handler, e.queue, e.priority, e.run_at, e.due_at, e.deadline,"
    " e.idempotency_key, e.concurrency_key, e.concurrency_limit, e.deliveries, e.expiries, e.fence, e.worker,"
    " e.claimed_at, e.parent_id, e.parent_path, e.root_id, e.depth, e.dead_reason, e.replay_of, e.replayed_as,"
    " e.trigger_id, e.environment, e.environment_chosen"
)
FROM_EXECUTIONS: Final = "FROM executions e JOIN definitions d ON d.digest = e.digest"
CHANGED: Final = EXECUTION.replace("e.", "").replace(
    "d.document", "(SELECT d.document FROM definitions d WHERE d.digest = executions.digest)"
)
"""The same columns of the row that a statement changes, behind ``RETURNING``."""

BARE: Final = EXECUTION.replace("d.document, e.input", "'', '{}'").replace("e.", "")
"""The same without what may be large: the definition and the input are empty."""

STEP: Final = (
    "execution_id, path, step_id, step_type, state, started_at, duration_ms, attempts, output, error, loop_path,"
    " loop_index, notices, execution_attempt"
)
LINE: Final = "execution_id, at, level, message, step, data, number"
WAIT: Final = "path, kind, name, until, details, answer"

DEFINE: Final = "INSERT INTO definitions (digest, document) VALUES (:digest, :document) ON CONFLICT (digest) DO NOTHING"

INSERT_EXECUTION: Final = """
INSERT INTO executions (id, workflow, version, digest, input, state, output, error, trigger_kind, attempt, handler,
                        queue, priority, run_at, due_at, deadline, idempotency_key, request_identity, concurrency_key,
                        concurrency_limit, deliveries, expiries, lease_token, fence, worker, claimed_at, parent_id,
                        parent_path, root_id, depth, dead_reason, replay_of, replayed_as, created_at, started_at,
                        finished_at, trigger_id, environment, environment_chosen)
VALUES (:id, :workflow, :version, :digest, :input, :state, :output, :error, :trigger_kind, :attempt, :handler,
        :queue, :priority, :run_at, :due_at, :deadline, :idempotency_key, :request_identity, :concurrency_key,
        :concurrency_limit, :deliveries, :expiries, :lease_token, :fence, :worker, :claimed_at, :parent_id,
        :parent_path, :root_id, :depth, :dead_reason, :replay_of, :replayed_as, :created_at, :started_at,
        :finished_at, :trigger_id, :environment, :environment_chosen)
"""


def execution_of(database: Database, row: tuple[Any, ...]) -> Execution:
    """The execution of a row with the columns ``EXECUTION``."""

    def instant(stored: object) -> datetime | None:
        return None if stored is None else database.instant(stored)

    state = ExecutionState(row[6])
    return Execution(
        id=row[0],
        workflow=row[1],
        version=row[2],
        digest=row[3],
        definition=row[4],
        input=read_json(row[5]),
        state=state,
        created_at=database.instant(row[7]),
        started_at=instant(row[8]),
        finished_at=instant(row[9]),
        output=read_json(row[10]),
        error=read_json(row[11]),
        trigger=row[12],
        trigger_id=row[35],
        attempt=row[13],
        handler=row[14],
        queue=row[15] or None,
        priority=row[16],
        run_at=instant(row[17]),
        due_at=instant(row[18]),
        deadline=instant(row[19]),
        key=row[20],
        concurrency_key=row[21],
        concurrency_limit=row[22],
        deliveries=row[23],
        expiries=row[24],
        fence=row[25],
        worker=row[26],
        claimed_at=instant(row[27]),
        lease_until=instant(row[18]) if state is ExecutionState.RUNNING else None,
        parent_id=row[28],
        parent_path=row[29],
        root_id=row[30],
        depth=row[31],
        reason=None if row[32] is None else DeadReason(row[32]),
        replay_of=row[33],
        replayed_as=row[34],
        environment=row[36],
        environment_chosen=bool(row[37]),
    )


def execution_values(execution: Execution, *, token: str | None = None, identity: str | None = None) -> Values:
    """The values of ``INSERT_EXECUTION``."""
    return {
        "id": execution.id,
        "workflow": execution.workflow,
        "version": execution.version,
        "digest": execution.digest,
        "input": json_text(execution.input),
        "state": execution.state.value,
        "output": json_or_null(execution.output),
        "error": json_or_null(execution.error),
        "trigger_kind": execution.trigger,
        "trigger_id": execution.trigger_id,
        "attempt": execution.attempt,
        "handler": execution.handler,
        "queue": execution.queue or NO_QUEUE,
        "priority": execution.priority,
        "run_at": execution.run_at or execution.created_at,
        "due_at": execution.due_at,
        "deadline": execution.deadline,
        "idempotency_key": execution.key,
        "request_identity": identity,
        "concurrency_key": execution.concurrency_key,
        "concurrency_limit": execution.concurrency_limit,
        "deliveries": execution.deliveries,
        "expiries": execution.expiries,
        "lease_token": token,
        "fence": execution.fence,
        "worker": execution.worker,
        "claimed_at": execution.claimed_at,
        "parent_id": execution.parent_id,
        "parent_path": execution.parent_path,
        "root_id": execution.root_id or execution.id,
        "depth": execution.depth,
        "dead_reason": None if execution.reason is None else execution.reason.value,
        "replay_of": execution.replay_of,
        "replayed_as": execution.replayed_as,
        "environment": execution.environment,
        "environment_chosen": execution.environment_chosen,
        "created_at": execution.created_at,
        "started_at": execution.started_at,
        "finished_at": execution.finished_at,
    }


def step_of(database: Database, row: tuple[Any, ...]) -> StepRecord:
    """The record of a row with the columns ``STEP``."""
    return StepRecord(
        execution_id=row[0],
        path=row[1],
        step_id=row[2],
        step_type=row[3],
        state=StepState(row[4]),
        started_at=database.instant(row[5]),
        duration_ms=row[6],
        attempts=row[7],
        output=read_json(row[8]),
        error=read_json(row[9]),
        loop=row[10],
        index=row[11],
        notices=tuple(read_json(row[12]) or ()),
        execution_attempt=row[13],
    )


def step_values(step: StepRecord) -> Values:
    """The values of a step's record, named as its columns."""
    return {
        "execution_id": step.execution_id,
        "path": storable(step.path),
        "step_id": step.step_id,
        "step_type": step.step_type,
        "state": step.state.value,
        "started_at": step.started_at,
        "duration_ms": step.duration_ms,
        "attempts": step.attempts,
        "output": json_text(step.output),
        "error": json_or_null(step.error),
        "loop_path": step.loop,
        "loop_index": step.index,
        "notices": json_text(list(step.notices)) if step.notices else None,
        "execution_attempt": step.execution_attempt,
    }


def line_of(database: Database, row: tuple[Any, ...]) -> LogLine:
    """The log line of a row with the columns ``LINE``."""
    return LogLine(row[0], database.instant(row[1]), row[2], row[3], row[4], read_json(row[5]), row[6])


def line_values(line: LogLine) -> Values:
    """The values of a log line, named as its columns."""
    return {
        "execution_id": line.execution_id,
        "number": line.number,
        "at": line.at,
        "level": line.level,
        "step": line.step,
        "message": storable(line.message),
        "data": json_or_null(line.data),
    }


def wait_of(database: Database, row: tuple[Any, ...]) -> Wait:
    """The wait of a row with the columns ``WAIT``."""
    until = None if row[3] is None else database.instant(row[3])
    return Wait(row[0], row[1], row[2], until, read_json(row[4]), read_json(row[5]))


def json_text(value: Json) -> str:
    """JSON as it is stored: what no database can hold is replaced."""
    text = storable(dump(value))
    return _ESCAPED.sub(lambda found: found[1] or "\ufffd", text) if "\\u0000" in text else text


def json_or_null(value: Json) -> str | None:
    """The same; nothing for null."""
    return None if value is None else json_text(value)


def read_json(text: str | None) -> Any:
    """Read stored JSON; None where there is none."""
    return None if text is None else json.loads(text)
