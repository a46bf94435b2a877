"""Step types that say, remember and end: ``core.log``, ``core.set-variable``, ``core.return``, ``core.fail``."""

from __future__ import annotations

from typing import Final

from flo.engine.errors import StepFailed
from flo.engine.step import RunReturned, StepCall, step_type
from flo.engine.values import Json, JsonObject, dump

LEVELS: Final = ("debug", "info", "warn", "error")


@step_type(
    "core.log",
    schema={
        "type": "object",
        "required": ["message"],
        "additionalProperties": False,
        "properties": {
            "message": {"description": "What to say. Anything but text is written as JSON."},
            "level": {"type": "string", "enum": list(LEVELS), "default": "info", "description": "How loud."},
            "data": {"description": "Any value to keep with the line."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Words to find the line by."},
        },
    },
    output={
        "type": "object",
        "required": ["message", "level"],
        "additionalProperties": False,
        "properties": {
            "message": {"type": "string", "description": "What was said."},
            "level": {"enum": list(LEVELS), "description": "How loud."},
        },
    },
    example={"message": "Processing << initial.orderId >>", "level": "info"},
    touches=False,
    joins=True,
)
def log(call: StepCall, input: JsonObject) -> JsonObject:
    """Write a line to the execution's log.

    The line shows on the terminal while the run goes on, and stays with the execution's record.
    """
    message = input["message"]
    text = message if isinstance(message, str) else dump(message)
    level = str(input.get("level", "info"))
    data = input.get("data")
    if tags := input.get("tags"):
        data = {"data": data, "tags": tags} if data is not None else {"tags": tags}
    call.log(level, text, data)
    return {"message": text, "level": level}


@step_type(
    "core.set-variable",
    schema={
        "type": "object",
        "description": "Any keys. A later key may read an earlier one in `$vars`.",
    },
    output={"type": "object", "description": "The pairs that were merged."},
    example={"greeting": "Hello << initial.name >>", "shout": "<< $vars.greeting | upcase >>"},
    stepwise=True,
    touches=False,
)
def set_variable(call: StepCall, input: JsonObject) -> JsonObject:
    """Merge values into `$vars`, where every later step reads them.

    The pairs are merged together when the step ends. In a loop with `concurrency` above 1 the iterations write to the
    same `$vars`: the last one stands.
    """
    call.engine.set_variables(input)
    return input


@step_type(
    "core.return",
    schema={"type": "object", "description": "Any keys: the run's output."},
    output={"type": "object", "description": "Never seen by another step: the run has ended."},
    example={"orderId": "<< initial.orderId >>", "accepted": True},
    touches=False,
)
def return_(call: StepCall, input: JsonObject) -> JsonObject:
    """End the run at once, from any depth, with these keys as its output.

    Iterations of a loop that are under way end first; `finally` lists of `core.try` around it run.
    """
    raise RunReturned(input)


@step_type(
    "core.fail",
    schema={
        "type": "object",
        "required": ["message"],
        "additionalProperties": False,
        "properties": {
            "message": {"type": "string", "description": "Why."},
            "code": {"type": "string", "default": "failed", "description": "The kind, for `retryOn` and `$errors`."},
            "retryable": {"type": "boolean", "default": False, "description": "Whether another attempt may help."},
        },
    },
    output={"type": "object", "description": "Never: the step fails."},
    example={"message": "no such order << initial.orderId >>", "code": "not_found"},
    touches=False,
)
def fail(call: StepCall, input: JsonObject) -> JsonObject:
    """Fail, with a message and a code of your own."""
    code: Json = input.get("code", "failed")
    raise StepFailed(str(input["message"]), code=str(code), retryable=input.get("retryable") is True)
