"""Rows of the SQL stores as records, and records as the values of statements."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.json import Decoder, Encoder

from flo.engine.executions import DeadReason, Execution, ExecutionState, LogLine, StepRecord, StepState
from flo.engine.jobs import Wait
from flo.engine.stores.database import Database, Values
from flo.engine.values import Json, dump, storable

_DECODER: Final = Decoder()
"""Gives what ``json.loads`` gives, in a tenth of the time."""

_ENCODER: Final = Encoder()

_ESCAPED: Final = re.compile(r"(\\\\)|\\u0000")
"""How U+0000 is written in JSON; a backslash before ``u0000`` is an escaped one itself."""

NO_QUEUE: Final = ""
"""The queue of an execution that no queue delivers, as its column has it."""

_NAMES: Final = {
    "definition": "document",
    "trigger": "trigger_kind",
    "key": "idempotency_key",
    "reason": "dead_reason",
}
"""Columns whose names are not those of the fields of ``Execution``."""

_FIELDS: Final = tuple(each.name for each in fields(Execution) if each.name != "lease_until")
_COLUMNS: Final = tuple(_NAMES.get(name, name) for name in _FIELDS)
_STATES: Final = {state.value: state for state in ExecutionState}

_place = _FIELDS.index
_INSTANTS: Final = tuple(
    map(_place, ("created_at", "started_at", "finished_at", "run_at", "due_at", "deadline", "claimed_at"))
)
_DOCUMENTS: Final = tuple(map(_place, ("input", "output", "error")))
_DEFINITION, _STATE, _QUEUE = map(_place, ("definition", "state", "queue"))
_DUE, _REASON, _CHOSEN = map(_place, ("due_at", "reason", "environment_chosen"))
_LEASE: Final = [each.name for each in fields(Execution)].index("lease_until")

EXECUTION: Final = ", ".join("d.document" if column == "document" else f"e.{column}" for column in _COLUMNS)
"""The columns of an execution, in the order of its fields. ``lease_until`` is ``due_at`` of one that runs."""

FROM_EXECUTIONS: Final = "FROM executions e JOIN definitions d ON d.digest = e.digest"
LEAN: Final = EXECUTION.replace("d.document", "''")
"""The same without the document, which many executions share."""

BARE: Final = LEAN.replace("e.input", "'{}'").replace("e.", "")
"""The same of the row that a statement changes, without the input too: both are empty."""

STEP: Final = (
    "execution_id, path, step_id, step_type, state, started_at, duration_ms, attempts, output, error, loop_path,"
    " loop_index, notices, execution_attempt"
)
LINE: Final = "execution_id, at, level, message, step, data, number"
WAIT: Final = "path, kind, name, until, details, answer"

DEFINE: Final = "INSERT INTO definitions (digest, document) VALUES (:digest, :document) ON CONFLICT (digest) DO NOTHING"

_STORED: Final = tuple(column for column in _COLUMNS if column != "document")

INSERT_EXECUTION: Final = f"""
INSERT INTO executions ({", ".join(_STORED)}, request_identity, lease_token)
VALUES ({", ".join(f":{column}" for column in _STORED)}, :request_identity, :lease_token)
"""


def execution_of(database: Database, row: tuple[Any, ...], definition: str | None = None) -> Execution:
    """The execution of a row that begins with the columns ``EXECUTION``, or ``LEAN`` with its ``definition``."""
    values = list(row[: len(_FIELDS)])
    for at in _INSTANTS:
        if values[at] is not None:
            values[at] = database.instant(values[at])
    for at in _DOCUMENTS:
        values[at] = read_json(values[at])
    if definition is not None:
        values[_DEFINITION] = definition
    state = values[_STATE] = _STATES[values[_STATE]]
    values[_QUEUE] = values[_QUEUE] or None
    values[_REASON] = values[_REASON] and DeadReason(values[_REASON])
    values[_CHOSEN] = bool(values[_CHOSEN])
    values.insert(_LEASE, values[_DUE] if state is ExecutionState.RUNNING else None)
    return Execution(*values)


def execution_values(
    execution: Execution, *, token: str | None = None, identity: str | None = None, input_text: str | None = None
) -> Values:
    """The values of ``INSERT_EXECUTION``. ``input_text`` is the input as it is stored, where that was written
    already."""
    values = {column: getattr(execution, name) for name, column in zip(_FIELDS, _COLUMNS, strict=True)}
    del values["document"]
    return {
        **values,
        "input": json_text(execution.input) if input_text is None else input_text,
        "output": json_or_null(execution.output),
        "error": json_or_null(execution.error),
        "state": execution.state.value,
        "dead_reason": None if execution.reason is None else execution.reason.value,
        "queue": execution.queue or NO_QUEUE,
        "run_at": execution.run_at or execution.created_at,
        "root_id": execution.root_id or execution.id,
        "request_identity": identity,
        "lease_token": token,
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
        "output": json_text(step.output, step.output_text),
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


def json_text(value: Json, text: str | None = None) -> str:
    """JSON as it is stored: what no database can hold is replaced. ``text`` is that of ``value``, where it is known."""
    text = storable(dump(value) if text is None else text)
    return _ESCAPED.sub(lambda found: found[1] or "\ufffd", text) if "\\u0000" in text else text


def rows_text(result: Json) -> str | None:
    """JSON of what holds rows as the store gave them, in a fifth of the time: nothing in them is refused, or would be
    read back as something else. None where some of it has to be written with care."""
    try:
        return _ENCODER.encode(result).decode()
    except (MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def json_or_null(value: Json) -> str | None:
    """The same; nothing for null."""
    return None if value is None else json_text(value)


def read_json(text: str | None) -> Any:
    """Read stored JSON; None where there is none."""
    if text is None:
        return None
    try:
        return _DECODER.decode(text)
    except MsgspecError:  # it refuses what is read otherwise elsewhere, such as a number past every float
        return json.loads(text)
