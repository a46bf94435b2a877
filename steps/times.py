"""Durations and instants as they stand in the input of a step."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from flo.engine.errors import StepFailed
from flo.engine.instants import parse_duration, parse_instant
from flo.engine.step import StepCall
from flo.engine.values import JsonObject, shown

DURATION: Final[JsonObject] = {"type": "string", "description": 'How long, such as `"90s"`, `"1h 30m"` or `"2d"`.'}
INSTANT: Final[JsonObject] = {"type": "string", "description": "An instant, such as `2026-01-31T09:30:00Z`."}


def duration(input: JsonObject, field: str) -> timedelta | None:
    """A field's duration; None where it is not given. Raises ``StepFailed``."""
    if field not in input:
        return None
    found = parse_duration(input[field])
    if found is None:
        raise _refused(field, f'{shown(input[field])} is no duration such as "5m"')
    return found


def instant(input: JsonObject, field: str) -> datetime | None:
    """A field's instant; None where it is not given. Raises ``StepFailed``."""
    if field not in input:
        return None
    found = parse_instant(str(input[field]))
    if found is None:
        raise _refused(field, f'{shown(input[field])} is no instant such as "2026-01-31T09:30:00Z"')
    return found


def end_of(call: StepCall, input: JsonObject, field: str) -> datetime | None:
    """When a duration from now is over, by the store's clock; None where it is not given. Raises ``StepFailed``."""
    length = duration(input, field)
    return None if length is None else call.store.now() + length


def timed_out(input: JsonObject, what: str) -> StepFailed:
    """The failure of a step that waited for the whole of its ``timeout``."""
    return StepFailed(f"{what} within {shown(input['timeout'])}", code="timeout", retryable=False)


def _refused(field: str, what: str) -> StepFailed:
    return StepFailed(f"{field}: {what}", code="invalid_input", retryable=False)
