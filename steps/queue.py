"""Step types over the queue: put a job into it, and wait for its end."""

from __future__ import annotations

from typing import Final

from flo.engine.errors import NotFound, StepFailed
from flo.engine.executions import ExecutionState
from flo.engine.jobs import JobOptions
from flo.engine.step import Outcome, StepCall, step_type
from flo.engine.values import Json, JsonObject
from flo.steps.times import DURATION, INSTANT, duration, end_of, instant, timed_out

_STATES: Final[list[Json]] = [state.value for state in ExecutionState]
_DONE: Final = (ExecutionState.SUCCESS, ExecutionState.COMPLETED_WITH_ERRORS)
_NEITHER: Final[JsonObject] = {"not": {"anyOf": [{"required": ["runAt"]}, {"required": ["delay"]}]}}


@step_type(
    "queue.enqueue",
    schema={
        "type": "object",
        "additionalProperties": False,
        "allOf": [
            {"oneOf": [{"required": ["workflow"]}, {"required": ["handler"]}]},
            {"oneOf": [{"required": ["runAt"]}, {"required": ["delay"]}, _NEITHER]},
        ],
        "properties": {
            "workflow": {"type": "string", "minLength": 1, "description": "The name of a stored workflow to run."},
            "handler": {"type": "string", "minLength": 1, "description": "Or a step type to run."},
            "input": {"type": "object", "default": {}, "description": "What it is given."},
            "queue": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "default": "default",
                "description": "The queue that it is put into.",
            },
            "priority": {
                "type": "integer",
                "minimum": -(2**31),
                "maximum": 2**31 - 1,
                "default": 0,
                "description": "Higher ones first.",
            },
            "runAt": {**INSTANT, "description": "Not before this instant."},
            "delay": {**DURATION, "description": 'Not before so long from now, such as `"10m"`.'},
            "deadline": {**INSTANT, "description": "What has not ended by then is given up as `timed_out`."},
            "key": {
                "type": "string",
                "minLength": 1,
                "maxLength": 512,
                "description": "An idempotency key: one job for it, however often it is enqueued.",
            },
            "concurrencyKey": {
                "type": "string",
                "minLength": 1,
                "maxLength": 512,
                "description": "Jobs of one such key are counted together against limits.",
            },
        },
    },
    output={
        "type": "object",
        "required": ["executionId", "created", "status"],
        "additionalProperties": False,
        "properties": {
            "executionId": {"type": "string", "description": "What `queue.wait` and `flo executions` take."},
            "created": {"type": "boolean", "description": "Whether this step made it; false where `key` is known."},
            "status": {"enum": _STATES, "description": "Where it stands."},
        },
    },
    example={
        "workflow": "send-invoice",
        "input": {"orderId": "<< initial.orderId >>"},
        "queue": "mail",
        "delay": "10m",
    },
)
def enqueue(call: StepCall, input: JsonObject) -> JsonObject:
    """Put a stored workflow, or a single step type, into a queue, and go on without waiting for it.

    One job for this step of this run, also where the run is taken up again after a crash. Cancelling the run cancels
    the job. `queue.wait` waits for its end.
    """
    target = input.get("workflow", input.get("handler"))
    options = JobOptions(
        queue=str(input.get("queue", "default")),
        priority=_whole(input.get("priority", 0)),
        run_at=instant(input, "runAt"),
        delay=duration(input, "delay"),
        deadline=instant(input, "deadline"),
        key=_text(input, "key"),
        concurrency_key=_text(input, "concurrencyKey"),
        kind="workflow" if "workflow" in input else "handler",
    )
    given = input.get("input", {})
    assert isinstance(given, dict)
    return call.engine.enqueue(str(target), given, options).as_json()


@step_type(
    "queue.wait",
    schema={
        "type": "object",
        "required": ["executionId"],
        "additionalProperties": False,
        "properties": {
            "executionId": {"type": "string", "minLength": 1, "description": "What `queue.enqueue` gave."},
            "timeout": {**DURATION, "description": "How long to wait; without, as long as it takes."},
        },
    },
    output={
        "type": "object",
        "required": ["executionId", "status", "output", "error"],
        "additionalProperties": False,
        "properties": {
            "executionId": {"type": "string", "description": "The execution that was waited for."},
            "status": {"enum": _STATES, "description": "How it ended."},
            "output": {"description": "What it returned."},
            "error": {"type": ["object", "null"], "description": "`code` and `message` of its failure."},
        },
    },
    example={"executionId": "<< initial.executionId >>", "timeout": "1h"},
    touches=False,
)
def wait(call: StepCall, input: JsonObject) -> Outcome:
    """Wait for the end of an execution.

    One that ended other than `success` or `completed_with_errors` fails this step, too; its `status`, `output` and
    `error` stay readable. One that has not ended when `timeout` is over goes on; this step fails with code `timeout`.
    """
    wanted = str(input["executionId"])
    try:
        ended = call.engine.wait("execution", name=wanted, until=end_of(call, input, "timeout"))
    except NotFound as missing:
        raise StepFailed(f"executionId: {missing}", code="not_found", retryable=False) from missing
    if ended is None:
        raise timed_out(input, f"execution {wanted} did not end")
    output: JsonObject = {field: ended.get(field) for field in ("executionId", "status", "output", "error")}
    if ended["status"] in _DONE:
        return Outcome(output)
    error = ended.get("error")
    why = f": {error['message']}" if isinstance(error, dict) and "message" in error else ""
    return Outcome(output, [f"execution {wanted} ended as {ended['status']}{why}"], retryable=False)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _text(input: JsonObject, field: str) -> str | None:
    value = input.get(field)
    return value if isinstance(value, str) else None
