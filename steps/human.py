"""Step types that wait: for a time, for a signal, for somebody's decision. Meanwhile the worker is free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from flo.engine.errors import StepFailed
from flo.engine.instants import write_instant
from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject, place_text, shown
from flo.steps.times import DURATION, INSTANT, end_of, instant, timed_out

if TYPE_CHECKING:
    from jsonschema import SchemaError, ValidationError

MAX_TOLD: Final = 8
"""So many places of a payload that does not fit are told."""


@step_type(
    "core.wait",
    schema={
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": ["duration"]}, {"required": ["until"]}],
        "properties": {
            "duration": {**DURATION, "description": 'How long to wait, such as `"90s"`, `"1h 30m"` or `"2d"`.'},
            "until": {**INSTANT, "description": "When to go on, such as `2026-01-31T09:30:00Z`."},
        },
    },
    output={
        "type": "object",
        "required": ["waitedUntil"],
        "additionalProperties": False,
        "properties": {
            "waitedUntil": {"type": "string", "format": "date-time", "description": "When the run went on."}
        },
    },
    example={"duration": "5m"},
    touches=False,
)
def wait(call: StepCall, input: JsonObject) -> JsonObject:
    """Wait for a time to pass.

    The clock is the store's. A duration counts from when the step began first, whatever happens to the worker. The run
    goes on at once where `until` has passed.
    """
    until = instant(input, "until") or end_of(call, input, "duration")
    call.engine.wait("time", until=until)
    return {"waitedUntil": write_instant(call.store.now())}


@step_type(
    "core.wait-for-signal",
    schema={
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "What the signal is called."},
            "timeout": {**DURATION, "description": "How long to wait for it; without, as long as it takes."},
            "schema": {"type": "object", "description": "A JSON Schema (2020-12) that the payload has to fit."},
        },
    },
    output={"type": "object", "description": "The signal's payload."},
    example={"name": "payment-received", "timeout": "2d"},
    touches=False,
)
def wait_for_signal(call: StepCall, input: JsonObject) -> JsonObject:
    """Wait for a signal from outside, and give its payload.

    A signal that came before the step began is not lost. Each signal is taken by one step, the oldest first. Without
    one when `timeout` is over, the step fails with code `timeout`; with one that does not fit `schema`, with code
    `invalid_signal`.
    """
    name, until = str(input["name"]), end_of(call, input, "timeout")
    schema = input.get("schema")
    check = _payload_check(schema) if isinstance(schema, dict) else None
    payload = call.engine.wait("signal", name=name, until=until)
    if payload is None:
        raise timed_out(input, f"no signal {name!r} came")
    if check is not None and (wrong := check(payload)):
        what = f"the signal {name!r} does not fit: {'; '.join(wrong)}"
        raise StepFailed(what, code="invalid_signal", retryable=False)
    return payload


@step_type(
    "core.approval",
    schema={
        "type": "object",
        "required": ["message"],
        "additionalProperties": False,
        "properties": {
            "message": {"type": "string", "description": "What is to be decided, for the people who do."},
            "approvers": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "minLength": 1},
                "description": "Who may decide. Without it, anybody.",
            },
            "timeout": {**DURATION, "description": "How long to wait for a decision; without, as long as it takes."},
        },
    },
    output={
        "type": "object",
        "required": ["approved", "actor", "reason", "at"],
        "additionalProperties": False,
        "properties": {
            "approved": {"type": "boolean", "description": "What was decided."},
            "actor": {"type": ["string", "null"], "description": "Who decided."},
            "reason": {"type": ["string", "null"], "description": "Why, in their words."},
            "at": {"type": "string", "format": "date-time", "description": "When."},
        },
    },
    example={
        "message": "Refund << initial.amount >> to << initial.customer >>?",
        "approvers": ["maria", "jonas"],
        "timeout": "2d",
    },
    touches=False,
)
def approval(call: StepCall, input: JsonObject) -> JsonObject:
    """Wait until somebody approves or rejects.

    A rejection is no failure: `approved` is false, and the run goes on. Without a decision when `timeout` is over, the
    step fails with code `timeout`.
    """
    details = {name: input[name] for name in ("message", "approvers") if name in input}
    decision = call.engine.wait("approval", until=end_of(call, input, "timeout"), details=details)
    if decision is None:
        raise timed_out(input, f"nobody decided on {shown(input['message'])}")
    return {field: decision.get(field) for field in ("approved", "actor", "reason", "at")}


def _payload_check(schema: JsonObject) -> Callable[[JsonObject], Sequence[str]]:
    """What tells where a payload does not fit ``schema``. Raises ``StepFailed`` where that is no schema."""
    from jsonschema import Draft202012Validator, SchemaError  # here, since it takes a tenth of a second
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as error:
        raise _no_schema(f"{place_text(('schema', *error.absolute_path))}: {_words(error)}") from error
    validator = Draft202012Validator(schema, registry=REGISTRY)

    def wrong(payload: JsonObject) -> Sequence[str]:
        try:
            found = islice(validator.iter_errors(payload), MAX_TOLD)
            return [f"{place_text(('payload', *error.absolute_path))}: {_words(error)}" for error in found]
        except (Unresolvable, RecursionError) as error:
            raise _no_schema("schema: a reference leads nowhere, or round in a circle; nothing is fetched") from error

    return wrong


def _no_schema(what: str) -> StepFailed:
    return StepFailed(what, code="invalid_input", retryable=False)


def _words(error: ValidationError | SchemaError) -> str:
    """What jsonschema says, cut: it repeats the value, whatever its size."""
    message = str(error.message)
    return message if len(message) <= 200 else f"{message[:199]}…"
