"""Step types that hold other steps: branches, loops, parallel lists, and ``core.try``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flo.engine.errors import StepFailed
from flo.engine.jobs import LeaseLost
from flo.engine.step import Loop, Outcome, StepCall, Suspended, step_type
from flo.engine.values import Json, JsonObject

STEPS: Final[JsonObject] = {"type": "array", "items": {"type": "object"}, "description": "Steps, run in order."}
CONDITION: Final[JsonObject] = {
    "description": "A boolean, one expression in marks, JSONLogic, or a row condition over names of the workflow.",
}
CONCURRENCY: Final[JsonObject] = {
    "type": "integer",
    "minimum": 1,
    "default": 1,
    "description": "How many run at a moment.",
}
LOOP_OUTPUT: Final[JsonObject] = {
    "type": "object",
    "required": ["count", "succeeded", "failed", "skipped", "items"],
    "additionalProperties": False,
    "properties": {
        "count": {"type": "integer", "description": "How many iterations there were."},
        "succeeded": {"type": "integer", "description": "Iterations that ended well."},
        "failed": {"type": "integer", "description": "Iterations that failed."},
        "skipped": {"type": "integer", "description": "Iterations in which every step was skipped."},
        "items": {
            "type": "array",
            "description": "One result for each iteration, in input order; `output` has the outputs by stepId.",
            "items": {
                "type": "object",
                "required": ["index", "status", "output"],
                "properties": {
                    "index": {"type": "integer", "description": "Its place among the items, from 0."},
                    "status": {"enum": ["success", "failed", "skipped"], "description": "How it ended."},
                    "output": {"type": "object", "description": "The outputs of its steps by stepId."},
                    "error": {"type": "object", "description": "Of a failed one: `stepId path code message kind`."},
                },
            },
        },
    },
}


@step_type(
    "core.if",
    schema={
        "type": "object",
        "required": ["condition"],
        "additionalProperties": False,
        "properties": {"condition": CONDITION, "then": STEPS, "else": STEPS},
    },
    output={
        "type": "object",
        "required": ["conditionResult", "branch"],
        "additionalProperties": False,
        "properties": {
            "conditionResult": {"type": "boolean", "description": "Whether the condition held."},
            "branch": {"enum": ["then", "else", "none"], "description": "Which list ran."},
        },
    },
    example={
        "condition": "<< initial.total > 100 >>",
        "then": [{"stepId": "thank", "stepType": "core.log", "input": {"message": "A large order"}}],
        "else": [{"stepId": "note", "stepType": "core.log", "input": {"message": "A small order"}}],
    },
    branches=("then", "else"),
    conditions=("condition",),
    touches=False,
    joins=True,
)
def if_(call: StepCall, input: JsonObject) -> JsonObject:
    """Run one list of steps or another, by a condition."""
    result = call.engine.holds("condition")
    wanted = "then" if result else "else"
    branch = wanted if call.engine.has_branch(wanted) else "none"
    call.engine.run_children(wanted)
    return {"conditionResult": result, "branch": branch}


@step_type(
    "core.switch",
    schema={
        "type": "object",
        "required": ["cases"],
        "additionalProperties": False,
        "properties": {
            "cases": {
                "type": "array",
                "description": "Looked at in order; the first one that holds runs.",
                "items": {
                    "type": "object",
                    "required": ["caseId", "when", "steps"],
                    "additionalProperties": False,
                    "properties": {
                        "caseId": {"type": "string", "description": "A name for the case."},
                        "when": CONDITION,
                        "steps": STEPS,
                    },
                },
            },
            "default": STEPS,
        },
    },
    output={
        "type": "object",
        "required": ["caseId", "matched"],
        "additionalProperties": False,
        "properties": {
            "caseId": {"type": ["string", "null"], "description": "The case that ran, null for the default."},
            "matched": {"type": "boolean", "description": "Whether a case held."},
        },
    },
    example={
        "cases": [
            {
                "caseId": "refund",
                "when": "<< initial.kind == 'refund' >>",
                "steps": [{"stepId": "pay-back", "stepType": "core.log", "input": {"message": "Paying back"}}],
            }
        ],
        "default": [{"stepId": "ignore", "stepType": "core.log", "input": {"message": "Nothing to do"}}],
    },
    branches=("cases[].steps", "default"),
    conditions=("cases[].when",),
    touches=False,
    joins=True,
)
def switch(call: StepCall, input: JsonObject) -> JsonObject:
    """Run the steps of the first case whose condition holds, else those of the default."""
    cases = input["cases"]
    assert isinstance(cases, Sequence)
    for index, case in enumerate(cases):
        assert isinstance(case, dict)
        if call.engine.holds(f"cases[{index}].when"):
            call.engine.run_children(f"cases[{index}].steps")
            return {"caseId": case["caseId"], "matched": True}
    call.engine.run_children("default")
    return {"caseId": None, "matched": False}


@step_type(
    "core.for-each",
    schema={
        "type": "object",
        "required": ["items", "steps"],
        "additionalProperties": False,
        "properties": {
            "items": {"type": "array", "description": "The list to go through."},
            "steps": STEPS,
            "concurrency": CONCURRENCY,
            "continueOnError": {
                "type": "boolean",
                "default": False,
                "description": "Whether a failed iteration leaves the others running.",
            },
        },
    },
    output=LOOP_OUTPUT,
    example={
        "items": "<< initial.orders >>",
        "concurrency": 5,
        "continueOnError": True,
        "steps": [{"stepId": "say", "stepType": "core.log", "input": {"message": "Order << $item.id >>"}}],
    },
    branches=("steps",),
    loops=("steps",),
    touches=False,
)
def for_each(call: StepCall, input: JsonObject) -> Outcome:
    """Run a list of steps once for each item of a list.

    Inside, `$item` is the item, `$index` counts from 0, `$isFirst` and `$isLast` say what they say, and `$parent` is
    the iteration around. Results stand in input order, whatever the order in which the iterations ended. Without
    `continueOnError` nothing new starts after the first failure, what is under way ends, and the step fails.
    """
    items = input["items"]
    assert isinstance(items, Sequence)
    loop = call.engine.loop(
        "steps", items, concurrency=_concurrency(input), tolerate=input.get("continueOnError") is True
    )
    return _loop_outcome(loop)


@step_type(
    "core.repeat",
    schema={
        "type": "object",
        "required": ["steps"],
        "additionalProperties": False,
        "oneOf": [{"required": ["times"]}, {"required": ["while"]}],
        "properties": {
            "times": {"type": "integer", "minimum": 0, "description": "How often."},
            "while": {**CONDITION, "description": "Asked before each turn; ends the loop when it does not hold."},
            "maxIterations": {
                "type": "integer",
                "minimum": 1,
                "default": 1000,
                "description": "With `while`: a turn beyond this fails the step.",
            },
            "steps": STEPS,
        },
    },
    output=LOOP_OUTPUT,
    example={
        "times": 3,
        "steps": [{"stepId": "knock", "stepType": "core.log", "input": {"message": "Knock << $index >>"}}],
    },
    branches=("steps",),
    loops=("steps",),
    conditions=("while",),
    sees={"while": ("$index",)},
    touches=False,
)
def repeat(call: StepCall, input: JsonObject) -> Outcome:
    """Run a list of steps a number of times, or while a condition holds.

    `while` sees `$index`, the number of the coming turn from 0, and what earlier turns wrote to `$vars` or a table.
    """
    times = input.get("times")
    if isinstance(times, int):
        return _loop_outcome(call.engine.loop("steps", range(times)))
    most = input.get("maxIterations", 1000)
    assert isinstance(most, int)

    def before(index: int) -> bool:
        if not call.engine.holds("while", {"$index": index}):
            return False
        if index >= most:
            raise StepFailed(
                f"`while` still holds after {most} iterations", code="too_many_iterations", retryable=False
            )
        return True

    return _loop_outcome(call.engine.loop("steps", _endless(), before=before))


@step_type(
    "core.parallel",
    schema={
        "type": "object",
        "required": ["steps"],
        "additionalProperties": False,
        "properties": {
            "steps": {**STEPS, "description": "Steps, all run at once."},
            "concurrency": {**CONCURRENCY, "default": 16},
        },
    },
    output={"type": "object", "description": "The steps' outputs by stepId."},
    example={
        "steps": [
            {"stepId": "left", "stepType": "core.log", "input": {"message": "left"}},
            {"stepId": "right", "stepType": "core.log", "input": {"message": "right"}},
        ]
    },
    branches=("steps",),
    parallel=("steps",),
    touches=False,
)
def parallel(call: StepCall, input: JsonObject) -> JsonObject:
    """Run steps at the same time; they do not see one another."""
    concurrency = input.get("concurrency")
    return call.engine.run_parallel("steps", concurrency if isinstance(concurrency, int) else None)


@step_type(
    "core.try",
    schema={
        "type": "object",
        "required": ["steps"],
        "additionalProperties": False,
        "properties": {
            "steps": STEPS,
            "catch": {
                **STEPS,
                "description": "Run after a failure in `steps`, which it handles. `$errors.last` is the failure.",
            },
            "finally": {
                **STEPS,
                "description": "Run in any case: after a failure, a return, or when the run is cancelled.",
            },
        },
    },
    output={
        "type": "object",
        "required": ["succeeded", "error"],
        "additionalProperties": False,
        "properties": {
            "succeeded": {"type": "boolean", "description": "Whether `steps` ran without a failure."},
            "error": {
                "type": ["object", "null"],
                "description": "`code` and `message` of the failure that was handled.",
            },
        },
    },
    example={
        "steps": [{"stepId": "risky", "stepType": "core.fail", "input": {"message": "no luck"}}],
        "catch": [{"stepId": "tell", "stepType": "core.log", "input": {"message": "<< $errors.last.message >>"}}],
    },
    branches=("steps", "catch", "finally"),
    follows={"catch": ("steps",), "finally": ("steps", "catch")},
    touches=False,
)
def try_(call: StepCall, input: JsonObject) -> JsonObject:
    """Run steps, handle their failure, and clean up in any case.

    Without `catch` a failure goes on after `finally`. A handled failure leaves the run a success. A failure in `catch`
    or in `finally` fails the step. A run that waits has not ended: `finally` runs once it has gone on to the end.
    """
    error: JsonObject | None = None
    goes_on = False
    try:
        try:
            call.engine.run_children("steps")
        except StepFailed as failed:
            if not call.engine.has_branch("catch"):
                raise
            error = {"code": failed.code, "message": failed.message}
            call.engine.run_children("catch")
    except (Suspended, LeaseLost):  # it comes here again, or another worker has it
        goes_on = True
        raise
    finally:
        if not goes_on:
            call.engine.run_children("finally", shielded=True)
    return {"succeeded": error is None, "error": error}


def _concurrency(input: JsonObject) -> int:
    concurrency = input.get("concurrency", 1)
    assert isinstance(concurrency, int)
    return concurrency


def _endless() -> Iterator[Json]:
    turn = 0
    while True:
        yield turn
        turn += 1


def _loop_outcome(loop: Loop) -> Outcome:
    """A loop's output; failures that were tolerated are a warning that `$meta` shows."""
    output: JsonObject = {
        "count": loop.count,
        "succeeded": loop.succeeded,
        "failed": loop.failed,
        "skipped": loop.skipped,
        "items": loop.items,
    }
    return Outcome(output, warnings=[f"{loop.failed} of {loop.count} iterations failed"] if loop.failed else [])
