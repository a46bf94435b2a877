"""The parts of which the schemas of the data-store steps are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flo.engine.stores.changes import Operation
from flo.engine.stores.filters import Operator
from flo.engine.values import Json, JsonObject

MAX_PAGE: Final = 10_000
DEFAULT_PAGE: Final = 1_000

TABLE: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 512,
    "description": "The table. It appears with its first row.",
}
KEY: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": 512, "description": "The row's key."}
_CONDITION: Final[JsonObject] = {
    "field": {"type": "string", "minLength": 1, "description": "A row field, else a path into the value."},
    "operator": {
        "type": "string",
        "enum": [*(held.value for held in Operator), "eq", "ne"],
        "description": "What is asked of it.",
    },
    "value": {"description": "What it is compared with."},
    "all": {"type": "array", "description": "A group: each of these conditions."},
    "any": {"type": "array", "description": "A group: one of these conditions."},
}
WHERE: Final[JsonObject] = {
    "type": ["array", "object"],
    "description": "Conditions `{field, operator, value}`, groups `{all: […]}` and `{any: […]}`.",
    "items": {"type": "object", "additionalProperties": False, "properties": _CONDITION},
    "properties": _CONDITION,
    "additionalProperties": False,
}
FILTER_MODE: Final[JsonObject] = {
    "type": "string",
    "enum": ["all", "any"],
    "default": "all",
    "description": "Whether every condition must hold, or one.",
}
_BY: Final[JsonObject] = {
    "field": {"type": "string", "minLength": 1, "description": "A row field, else a path into the value."},
    "direction": {
        "type": "string",
        "enum": ["asc", "desc", "ASC", "DESC"],
        "default": "asc",
        "description": "Rising or falling.",
    },
}
ORDER_BY: Final[JsonObject] = {
    "type": ["array", "object"],
    "description": "`{field, direction}` or a list of them; ties fall by insertion order, a missing field comes last.",
    "items": {"type": "object", "required": ["field"], "additionalProperties": False, "properties": _BY},
    "properties": _BY,
    "additionalProperties": False,
}
_CHANGE: Final[JsonObject] = {
    "field": {"type": "string", "minLength": 1, "description": "A path into the value."},
    "operation": {"type": "string", "enum": [held.value for held in Operation], "description": "What is done to it."},
    "value": {"description": "What it is done with."},
}
SET: Final[JsonObject] = {
    "type": ["array", "object"],
    "description": "Changes `{field, operation, value}`, applied together or not at all.",
    "items": {
        "type": "object",
        "required": ["field", "operation"],
        "additionalProperties": False,
        "properties": _CHANGE,
    },
    "properties": _CHANGE,
    "additionalProperties": False,
}
VALUE: Final[JsonObject] = {"description": "Any JSON."}
ROW: Final[JsonObject] = {
    "type": "object",
    "required": ["key", "value", "createdAt", "updatedAt", "expiresAt", "claimCount"],
    "properties": {
        "key": {"type": "string", "description": "The row's key."},
        "value": {"description": "Its value."},
        "createdAt": {"type": "string", "format": "date-time", "description": "When it was made."},
        "updatedAt": {"type": "string", "format": "date-time", "description": "When it was changed last."},
        "expiresAt": {"type": ["string", "null"], "format": "date-time", "description": "When it ends; null: never."},
        "claimCount": {"type": "integer", "description": "How often it was claimed."},
    },
}


def fields(required: Sequence[str], properties: JsonObject, **more: Json) -> JsonObject:
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
        **more,
    }


def row_and(**more: Json) -> JsonObject:
    properties = ROW["properties"]
    assert isinstance(properties, dict)
    return fields(list(more), {**properties, **more})
