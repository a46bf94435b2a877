"""Step types that compare items by a key: ``data.sort``, ``data.group``, ``data.unique`` and ``data.join``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from flo.engine.comparison import SortKey, sort_key
from flo.engine.errors import StepFailed
from flo.engine.step import StepCall, step_type
from flo.engine.values import Json, JsonObject, kind_of
from flo.steps.data_equality import key_of
from flo.steps.data_items import (
    COUNT,
    ITEMS,
    MAX_CHARACTERS,
    MAX_ROWS,
    RULE,
    SEEN,
    each,
    list_in,
    listed,
    too_large,
    written_size,
)

_DIRECTION: Final[JsonObject] = {"type": "string", "enum": ["asc", "desc", "ASC", "DESC"]}
_CRITERION: Final[JsonObject] = {
    "value": {"description": f"What to sort by. {RULE}"},
    "direction": {**_DIRECTION, "description": "Upwards or downwards; that of the step, where it is not given."},
}
_BY: Final[JsonObject] = {
    "properties": _CRITERION,
    "if": {"type": "object", "required": ["value"]},
    "then": {"additionalProperties": False, "properties": _CRITERION},
}
"""An object with `value` is a criterion, any other one a rule."""
_NULL_LAST: Final[Mapping[bool, int]] = {False: 9, True: -1}
"""The rank of null, after every other one in either direction."""


@step_type(
    "data.sort",
    schema={
        "type": "object",
        "required": ["items"],
        "additionalProperties": False,
        "properties": {
            "items": ITEMS,
            "by": {
                "type": ["string", "object", "array"],
                "minItems": 1,
                "description": f"What to sort by: a rule, `{{value, direction}}` with a rule in `value`, or a list of"
                f" these, the most important first. Without it the items themselves are compared. {RULE}",
                "items": {"type": ["string", "object"], **_BY},
                **_BY,
            },
            "direction": {**_DIRECTION, "default": "asc", "description": "Upwards or downwards."},
        },
    },
    output=listed({"type": "array", "description": "The items in their new order."}),
    example={
        "items": "<< initial.orders >>",
        "by": [{"value": "<< $item.total >>", "direction": "desc"}, "<< $item.customer | downcase >>"],
    },
    rules=("by", "by.value", "by[]", "by[].value"),
    sees=dict.fromkeys(("by", "by.value", "by[]", "by[].value"), SEEN),
    touches=False,
)
def sort(call: StepCall, input: JsonObject) -> JsonObject:
    """Sort items.

    The order is that of `orderBy`: booleans, numbers, instants, other text by code point; null and what is missing come
    last in both directions. Items that compare equal keep their order. Lists and objects have no order: as a key they
    are an error.
    """
    items = list_in(input)
    columns = [_column(call, items, field, descending) for field, descending in _criteria(call, input)]
    positions = list(range(len(items)))
    for keys, descending in reversed(columns):
        positions.sort(key=keys.__getitem__, reverse=descending)
    held = items if isinstance(items, list) else list(items)
    return {"items": [held[at] for at in positions], "count": len(positions)}


def _criteria(call: StepCall, input: JsonObject) -> list[tuple[str, bool]]:
    """The rules to sort by, the empty one for the item itself, and whether each goes downwards."""
    by: Any = input.get("by")
    default = input.get("direction")
    if isinstance(by, list):
        fields = [f"by[{at}]" if entry is None else f"by[{at}].value" for at, entry in enumerate(by)]
        return [(field, _descends(entry, default)) for field, entry in zip(fields, by, strict=True)]
    if call.engine.has_rule("by.value"):
        return [("by.value", _descends(by, default))]
    return [("by" if call.engine.has_rule("by") else "", _descends(None, default))]


def _descends(entry: Json, default: Json) -> bool:
    own = entry.get("direction", default) if isinstance(entry, Mapping) else default
    return isinstance(own, str) and own.lower() == "desc"


def _column(
    call: StepCall, items: Sequence[Json], field: str, descending: bool
) -> tuple[list[SortKey | tuple[int]], bool]:
    rule = call.engine.rule(field) if field else None
    keys: list[SortKey | tuple[int]] = []
    for item, names in each(call, items):
        value = item if rule is None else rule(names)
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            what = f"{field} gives {kind_of(value)} for items[{len(keys)}]" if field else _without_by(len(keys), value)
            message = f"{what}; a key to sort by is text, a number, a boolean or null"
            raise StepFailed(message, code="invalid_input", retryable=False)
        keys.append((_NULL_LAST[descending],) if value is None else sort_key(value))
    return keys, descending


def _without_by(index: int, value: Json) -> str:
    return f"items[{index}] is {kind_of(value)}, and there is no 'by'"


@step_type(
    "data.group",
    schema={
        "type": "object",
        "required": ["items", "by"],
        "additionalProperties": False,
        "properties": {"items": ITEMS, "by": {"description": f"The key of an item's group, any JSON. {RULE}"}},
    },
    output={
        "type": "object",
        "required": ["groups", "count"],
        "additionalProperties": False,
        "properties": {
            "groups": {
                "type": "array",
                "description": "The groups, in the order in which their first items stand.",
                "items": {
                    "type": "object",
                    "required": ["key", "items", "count"],
                    "additionalProperties": False,
                    "properties": {
                        "key": {"description": "What the rule gave for the first of the items."},
                        "items": {**ITEMS, "description": "The items of the group, in their order."},
                        "count": COUNT,
                    },
                },
            },
            "count": {**COUNT, "description": "How many groups there are."},
        },
    },
    example={"items": "<< initial.orders >>", "by": ["<< $item.customer >>", "<< $item.status >>"]},
    rules=("by",),
    sees={"by": SEEN},
    touches=False,
)
def group(call: StepCall, input: JsonObject) -> JsonObject:
    """Put items with the same key together.

    Keys are compared as `==` does: `5`, `"5"` and `true` are three keys, `1` and `1.0` are one, and so are two texts
    that read as the same instant. Null, or a key that is missing, is a key like any other.
    """
    rule = call.engine.rule("by")
    groups: dict[Hashable, tuple[Json, list[Json]]] = {}
    for item, names in each(call, list_in(input)):
        key = rule(names)
        groups.setdefault(key_of(key), (key, []))[1].append(item)
    return {
        "groups": [{"key": key, "items": held, "count": len(held)} for key, held in groups.values()],
        "count": len(groups),
    }


@step_type(
    "data.unique",
    schema={
        "type": "object",
        "required": ["items"],
        "additionalProperties": False,
        "properties": {
            "items": ITEMS,
            "by": {"description": f"What to compare, any JSON. Without it the items themselves are compared. {RULE}"},
        },
    },
    output=listed({"type": "array", "description": "The first item of each key, in their order."}),
    example={"items": "<< initial.orders >>", "by": "<< $item.customer | downcase >>"},
    rules=("by",),
    sees={"by": SEEN},
    touches=False,
)
def unique(call: StepCall, input: JsonObject) -> JsonObject:
    """Keep the first of the items that have the same key.

    Keys are compared as in `data.group`; of the items whose key is null or missing the first one is kept, too.
    """
    rule = call.engine.rule("by") if call.engine.has_rule("by") else None
    seen: dict[Hashable, Json] = {}
    for item, names in each(call, list_in(input)):
        seen.setdefault(key_of(item if rule is None else rule(names)), item)
    return {"items": list(seen.values()), "count": len(seen)}


@step_type(
    "data.join",
    schema={
        "type": "object",
        "required": ["items", "with"],
        "additionalProperties": False,
        "oneOf": [{"required": ["on"]}, {"required": ["left", "right"]}],
        "dependentRequired": {"left": ["right"], "right": ["left"]},
        "properties": {
            "items": {**ITEMS, "description": "The list on the left."},
            "with": {"type": "array", "description": "The list on the right."},
            "on": {"description": f"The key of an item of either list, any JSON. {RULE}"},
            "left": {"description": f"The key of an item of `items`, where the two differ. {RULE}"},
            "right": {"description": f"The key of an item of `with`, where the two differ. {RULE}"},
            "type": {
                "type": "string",
                "enum": ["inner", "left"],
                "default": "inner",
                "description": "`left` keeps the items that match nothing, with null on the right.",
            },
        },
    },
    output=listed(
        {
            "type": "array",
            "description": "One for each pair whose keys are equal, in the order of `items`, then of `with`.",
            "items": {
                "type": "object",
                "required": ["left", "right"],
                "additionalProperties": False,
                "properties": {
                    "left": {"description": "The item of `items`."},
                    "right": {"description": "The item of `with`, or null."},
                },
            },
        }
    ),
    example={
        "items": "<< initial.orders >>",
        "with": "<< initial.customers >>",
        "left": "<< $item.customerId >>",
        "right": "<< $item.id >>",
        "type": "left",
    },
    rules=("on", "left", "right"),
    sees=dict.fromkeys(("on", "left", "right"), SEEN),
    touches=False,
)
def join(call: StepCall, input: JsonObject) -> JsonObject:
    """Put the items of two lists together whose keys are equal.

    Keys are compared as in `data.group`, but for null: a key that is null or missing, or a list or object with such in
    it, matches nothing.
    """
    same = call.engine.has_rule("on")
    left, right = call.engine.rule("on" if same else "left"), call.engine.rule("on" if same else "right", "with")
    found: dict[Hashable, list[tuple[Json, int]]] = {}
    for other, names in each(call, list_in(input, "with")):
        if not _matches_nothing(key := right(names)):
            found.setdefault(key_of(key), []).append((other, written_size(other)))
    rows: list[Json] = []
    alone: list[tuple[Json, int]] = [(None, 1)] if input.get("type") == "left" else []
    room = MAX_CHARACTERS
    for item, names in each(call, list_in(input)):
        key = left(names)
        matches = alone if _matches_nothing(key) else found.get(key_of(key), alone)
        own = written_size(item)
        for other, size in matches:
            rows.append({"left": item, "right": other})
            room -= own + size
            if room < 0:
                raise too_large(f"items[{names['$index']}]")
            if len(rows) > MAX_ROWS:
                message = f"more than {MAX_ROWS:,} pairs at items[{names['$index']}]: too many items have the same key"
                raise StepFailed(message, code="too_large", retryable=False)
    return {"items": rows, "count": len(rows)}


def _matches_nothing(key: Json) -> bool:
    """Whether a key, or something in it, is null: what is missing must never widen a match."""
    if key is None or isinstance(key, str | int | float):
        return key is None
    return any(map(_matches_nothing, key.values() if isinstance(key, Mapping) else key))
