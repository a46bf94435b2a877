"""Step types that take a list item by item: ``data.filter``, ``map``, ``reduce``, ``classify`` and ``chunk``."""

from __future__ import annotations

from typing import Any, Final

from flo.engine.errors import StepFailed
from flo.engine.step import StepCall, step_type
from flo.engine.values import Json, JsonObject
from flo.steps.data_items import (
    COUNT,
    ITEMS,
    MAX_CHARACTERS,
    RULE,
    SEEN,
    each,
    list_in,
    listed,
    too_large,
    written_size,
)

CONDITION: Final = "A boolean, one expression in marks, JSONLogic, or a row condition; it sees `$item` and `$index`."


@step_type(
    "data.filter",
    schema={
        "type": "object",
        "required": ["items", "condition"],
        "additionalProperties": False,
        "properties": {"items": ITEMS, "condition": {"description": CONDITION}},
    },
    output=listed({"type": "array", "description": "The items for which the condition holds, in their order."}),
    example={"items": "<< initial.orders >>", "condition": "<< $item.total > 100 and $item.status == 'open' >>"},
    conditions=("condition",),
    sees={"condition": SEEN},
    touches=False,
)
def filter_(call: StepCall, input: JsonObject) -> JsonObject:
    """Keep the items for which a condition holds.

    The condition is asked once for each item, and counts as that of `core.if` does. Items stay as they are.
    """
    holds = call.engine.rule("condition")
    kept = [item for item, names in each(call, list_in(input)) if holds(names)]
    return {"items": kept, "count": len(kept)}


@step_type(
    "data.map",
    schema={
        "type": "object",
        "required": ["items", "value"],
        "additionalProperties": False,
        "properties": {"items": ITEMS, "value": {"description": f"What stands in an item's place. {RULE}"}},
    },
    output=listed({"type": "array", "description": "What the rule gave for each item, in their order."}),
    example={
        "items": "<< initial.people >>",
        "value": {"name": "<< $item.first >> << $item.last | upcase >>", "position": {"+": [{"var": "$index"}, 1]}},
    },
    rules=("value",),
    sees={"value": SEEN},
    touches=False,
)
def map_(call: StepCall, input: JsonObject) -> JsonObject:
    """Make a value of each item."""
    rule = call.engine.rule("value")
    made: list[Json] = []
    room = MAX_CHARACTERS
    for _, names in each(call, list_in(input)):
        made.append(value := rule(names))
        room -= written_size(value)
        if room < 0:
            raise too_large(f"items[{len(made) - 1}]")
    return {"items": made, "count": len(made)}


@step_type(
    "data.reduce",
    schema={
        "type": "object",
        "required": ["items", "initial", "value"],
        "additionalProperties": False,
        "properties": {
            "items": ITEMS,
            "initial": {"description": "What `$accumulator` is for the first item, and what is given for no items."},
            "value": {"description": f"What `$accumulator` is for the next item. {RULE}"},
        },
    },
    output={
        "type": "object",
        "required": ["value"],
        "additionalProperties": False,
        "properties": {"value": {"description": "What the rule gave for the last item."}},
    },
    example={
        "items": "<< initial.lines >>",
        "initial": 0,
        "value": "<< $accumulator + $item.price * $item.count >>",
    },
    rules=("value",),
    sees={"value": (*SEEN, "$accumulator")},
    touches=False,
)
def reduce(call: StepCall, input: JsonObject) -> JsonObject:
    """Make one value of all items.

    The rule is evaluated once for each item, from the first to the last; `$accumulator` is what it gave for the item
    before.
    """
    rule, items = call.engine.rule("value"), list_in(input)
    value = input["initial"]
    for _, names in each(call, items):
        names["$accumulator"] = value
        value = rule(names)
    if written_size(value) > MAX_CHARACTERS:  # it is huge where each turn put the last value in twice
        raise too_large("the last item")
    return {"value": value}


@step_type(
    "data.classify",
    schema={
        "type": "object",
        "required": ["items", "cases"],
        "additionalProperties": False,
        "properties": {
            "items": ITEMS,
            "cases": {
                "type": "array",
                "minItems": 1,
                "description": "Asked in this order for each item.",
                "items": {
                    "type": "object",
                    "required": ["caseId", "when"],
                    "additionalProperties": False,
                    "properties": {
                        "caseId": {"type": "string", "description": "A name for the case, and for its group."},
                        "when": {"description": CONDITION},
                    },
                },
            },
            "default": {
                "type": "string",
                "default": "default",
                "description": "The group of the items for which no case holds. It may be that of a case.",
            },
        },
    },
    output={
        "type": "object",
        "required": ["groups", "counts"],
        "additionalProperties": False,
        "properties": {
            "groups": {
                "type": "object",
                "additionalProperties": {"type": "array"},
                "description": "The items by caseId, in their order. Every case is there, also one without items.",
            },
            "counts": {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "description": "How many items each group has.",
            },
        },
    },
    example={
        "items": "<< initial.orders >>",
        "cases": [
            {"caseId": "large", "when": "<< $item.total >= 1000 >>"},
            {"caseId": "refund", "when": {"<": [{"var": "$item.total"}, 0]}},
        ],
        "default": "ordinary",
    },
    conditions=("cases[].when",),
    sees={"cases[].when": SEEN},
    touches=False,
)
def classify(call: StepCall, input: JsonObject) -> JsonObject:
    """Sort items into named groups, each into that of the first case whose condition holds.

    Each item is in exactly one group. Two cases of one name are an error; `{"or": […]}` joins two conditions.
    """
    cases: Any = input["cases"]
    groups: dict[str, list[Json]] = {}
    for at, case in enumerate(cases):
        name = str(case["caseId"])
        if name in groups:
            message = f"cases[{at}].caseId: another case is called {name!r} already; each has a name of its own"
            raise StepFailed(message, code="invalid_input", retryable=False)
        groups[name] = []
    rules = [(call.engine.rule(f"cases[{at}].when"), groups[str(case["caseId"])]) for at, case in enumerate(cases)]
    rest = groups.setdefault(str(input.get("default", "default")), [])
    for item, names in each(call, list_in(input)):
        next((group for holds, group in rules if holds(names)), rest).append(item)
    return {"groups": groups, "counts": {name: len(held) for name, held in groups.items()}}


@step_type(
    "data.chunk",
    schema={
        "type": "object",
        "required": ["items", "size"],
        "additionalProperties": False,
        "properties": {
            "items": ITEMS,
            "size": {"type": "integer", "minimum": 1, "description": "How many items a part has at most."},
        },
    },
    output={
        "type": "object",
        "required": ["items", "count"],
        "additionalProperties": False,
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "array"},
                "description": "The parts, each a list. Only the last one may have fewer items than `size`.",
            },
            "count": {**COUNT, "description": "How many parts there are."},
        },
    },
    example={"items": "<< initial.addresses >>", "size": 100},
    touches=False,
)
def chunk(call: StepCall, input: JsonObject) -> JsonObject:
    """Cut a list into parts of a size, for a loop that takes many items at a time."""
    size: Any = input["size"]
    parts: list[list[Json]] = []
    for item, _ in each(call, list_in(input)):
        if not parts or len(parts[-1]) == size:
            parts.append([])
        parts[-1].append(item)
    return {"items": parts, "count": len(parts)}
