"""One schema for editors: the document, and the input of every step type. Checking itself goes in two stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flo.engine.checking.envelope import workflow_schema
from flo.engine.registry import Registry
from flo.engine.step import StepType
from flo.engine.values import JsonObject

TEMPLATE: Final = {"type": "string", "pattern": r"<<|\{\{|\{%"}
"""What may stand for a value of any type."""

_STEPS: Final = {"$ref": "#/$defs/steps"}
_CONDITION: Final = {"$ref": "#/$defs/condition"}
_DOCUMENT: Final = {"$ref": "#"}
_RULE: Final[dict[str, str]] = {}
"""Any JSON: what of it is JSONLogic, and whether that means something, is for checking itself to say."""
_TEXT_BOUNDS: Final = ("enum", "const", "pattern", "format", "maxLength")
_COMBINED: Final = ("oneOf", "anyOf", "allOf")


def editor_schema(registry: Registry) -> JsonObject:
    """The schema of workflows with the input of each step type that is known."""
    schema: dict[str, Any] = dict(workflow_schema())
    names = sorted(registry)
    definitions = dict(schema["$defs"])
    step = dict(definitions["step"])
    step["properties"] = {**step["properties"], "stepType": _step_type(step["properties"]["stepType"], names)}
    step["allOf"] = [_when(registry[name]) for name in names]
    definitions["step"] = step
    for name in names:
        definitions[f"input:{name}"] = _input(registry[name])
    return {**schema, "description": "A workflow of flo, with the input of every step type.", "$defs": definitions}


def _step_type(field: Mapping[str, Any], names: list[str]) -> JsonObject:
    """Offer the names; another spelling of one is accepted, and its input not looked at."""
    return {**field, "anyOf": [{"enum": names}, {"pattern": "[A-Z]|__"}]}


def _when(step_type: StepType) -> JsonObject:
    return {
        "if": {"properties": {"stepType": {"const": step_type.name}}, "required": ["stepType"]},
        "then": {"properties": {"input": {"$ref": f"#/$defs/input:{step_type.name}"}}},
    }


def _input(step_type: StepType) -> JsonObject:
    """A step type's input as it is written: with templates, steps and conditions in their places."""
    places = dict.fromkeys(step_type.branches, _STEPS) | dict.fromkeys(step_type.conditions, _CONDITION)
    places |= dict.fromkeys(step_type.documents, _DOCUMENT)
    places |= dict.fromkeys(step_type.rules, _RULE)
    fields = _opened_parts({"description": step_type.summary, **step_type.schema}, "", places)
    properties = fields.get("properties")
    if "continueOnError" not in (properties or {}) and step_type.branches and properties is not None:
        fields = {**fields, "properties": {**properties, "continueOnError": {"type": "boolean"}}}
    return fields


def _opened(schema: Any, place: str, places: Mapping[str, JsonObject]) -> Any:
    """A schema that also takes a template, unless it takes any text already."""
    if not isinstance(schema, Mapping):
        return schema
    if place in places:
        said = {"description": schema["description"]} if "description" in schema else {}
        return {**places[place], **said}
    parts = _opened_parts(schema, place, places)
    if _takes_any_text(schema):
        return parts
    said = {key: parts.pop(key) for key in ("description", "default") if key in parts}
    return {**said, "anyOf": [parts, TEMPLATE]}


def _opened_parts(schema: Mapping[str, Any], place: str, places: Mapping[str, JsonObject]) -> dict[str, Any]:
    """The same schema, what is inside it opened."""
    opened = dict(schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        opened["properties"] = {
            name: _opened(held, f"{place}.{name}" if place else name, places) for name, held in properties.items()
        }
    for key, inner in (("items", f"{place}[]"), ("additionalProperties", f"{place}.*")):
        if isinstance(schema.get(key), Mapping):
            opened[key] = _opened(schema[key], inner, places)
    for key in _COMBINED:
        if key in schema:
            opened[key] = [_opened_parts(held, place, places) for held in schema[key]]
    return opened


def _takes_any_text(schema: Mapping[str, Any]) -> bool:
    if any(key in schema for key in _TEXT_BOUNDS):
        return False
    kinds = schema.get("type")
    if kinds is None:
        return not any(key in schema for key in _COMBINED)
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
