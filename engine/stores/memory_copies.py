"""Copies that share nothing which could be changed: what the memory store keeps, and what it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Final, cast

from flo.engine.executions import Execution, LogLine, StepRecord, changed
from flo.engine.jobs import Attempt, Wait
from flo.engine.triggers import Firing, Trigger, WantedTrigger
from flo.engine.values import Json, JsonObject, dump, is_storable, storable

_WHOLE: Final = 2**63
"""Greater numbers may have more digits than are written or read."""


def copied(value: Json) -> Json:
    """JSON as every store keeps it: what no database can hold is replaced."""
    try:
        return _copied_quickly(value)
    except _Unusual:
        return _read(dump(value))


class _Unusual(Exception):
    """Not what would be read again as it is, when it was written."""


def _copied_quickly(value: Json) -> Json:
    """A copy of what reading JSON gives; anything else is ``_Unusual``."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str and is_storable(value):  # type: ignore[arg-type]
        return value
    if kind is int and -_WHOLE < value < _WHOLE:  # type: ignore[operator]
        return value
    if kind is float and isfinite(value):  # type: ignore[arg-type]
        return value
    if kind is dict and all(type(key) is str and is_storable(key) for key in value):  # type: ignore[union-attr]
        return {key: _copied_quickly(held) for key, held in value.items()}  # type: ignore[union-attr]
    if kind is list:
        return [_copied_quickly(held) for held in value]  # type: ignore[union-attr]
    raise _Unusual


def _read(text: str) -> Json:
    read = cast(Json, json.loads(storable(text)))
    return _without_nul(read) if "\\u0000" in text else read


def copied_object(value: JsonObject) -> JsonObject:
    """The same for an object."""
    return cast(JsonObject, copied(value))


def copied_error(value: JsonObject | None) -> JsonObject | None:
    """The same for an error or an answer, which need not be there."""
    return None if value is None else copied_object(value)


def copied_execution(row: Execution) -> Execution:
    return changed(row, input=copied_object(row.input), output=copied(row.output), error=copied_error(row.error))


def kept_step(step: StepRecord) -> StepRecord:
    """A record as it is kept: its output is JSON text alone, and is read when somebody asks for it."""
    kept = step if step.output is None and step.output_text else step.with_output(None, _text(step))
    if step.error is None and not step.notices and is_storable(step.path):
        return kept
    notices = tuple(map(storable, step.notices))
    return replace(kept, path=storable(step.path), error=copied_error(step.error), notices=notices)


def _text(step: StepRecord) -> str:
    return dump(step.output) if step.output_text is None else step.output_text


def given_step(kept: StepRecord) -> StepRecord:
    """The record of which ``kept_step`` made this."""
    assert kept.output_text is not None
    step = kept.with_output(_read(kept.output_text))
    return step if step.error is None else replace(step, error=copied_error(step.error))


def copied_line(line: LogLine) -> LogLine:
    if line.data is None and is_storable(line.message):
        return line  # nothing in it can change
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
