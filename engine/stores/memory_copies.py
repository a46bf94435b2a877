"""Copies that share nothing which could be changed: what the memory store keeps, and what it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from flo.engine.executions import Execution, LogLine, StepRecord
from flo.engine.jobs import Attempt, Wait
from flo.engine.triggers import Firing, Trigger, WantedTrigger
from flo.engine.values import Json, JsonObject, dump, storable


def copied(value: Json) -> Json:
    """JSON as every store keeps it: what no database can hold is replaced."""
    if value is None:
        return None
    text = dump(value)
    read = cast(Json, json.loads(storable(text)))
    return _without_nul(read) if "\\u0000" in text else read


def copied_object(value: JsonObject) -> JsonObject:
    """The same for an object."""
    return cast(JsonObject, copied(value))


def copied_error(value: JsonObject | None) -> JsonObject | None:
    """The same for an error or an answer, which need not be there."""
    return None if value is None else copied_object(value)


def copied_execution(row: Execution) -> Execution:
    return replace(row, input=copied_object(row.input), output=copied(row.output), error=copied_error(row.error))


def copied_step(step: StepRecord) -> StepRecord:
    return replace(
        step,
        path=storable(step.path),
        output=copied(step.output),
        error=copied_error(step.error),
        notices=tuple(storable(notice) for notice in step.notices),
    )


def copied_line(line: LogLine) -> LogLine:
    return replace(line, message=storable(line.message), data=copied(line.data))


def copied_attempt(attempt: Attempt) -> Attempt:
    return replace(attempt, error=copied_error(attempt.error))


def copied_wait(wait: Wait) -> Wait:
    return replace(wait, details=copied_object(wait.details), answer=copied_error(wait.answer))


def copied_wanted(wanted: WantedTrigger) -> WantedTrigger:
    return replace(wanted, config=copied_object(wanted.config))


def copied_trigger(trigger: Trigger) -> Trigger:
    return replace(trigger, config=copied_object(trigger.config))


def copied_firing(firing: Firing) -> Firing:
    return replace(firing, error=copied_error(firing.error))


def _without_nul(value: Json) -> Json:
    """The same, U+0000 replaced: JSON text hides it behind an escape."""
    match value:
        case str():
            return storable(value)
        case Mapping():
            return {storable(key): _without_nul(held) for key, held in value.items()}
        case Sequence():
            return [_without_nul(held) for held in value]
    return value
