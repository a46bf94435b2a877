"""Whether a value fits a JSON Schema. Most do, and plainly: jsonschema, which says why one does not, takes longer to
import than a short workflow to run, so it is asked only where it is needed."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from flo.engine.checking.openness import OpenList, OpenObject, OpenText, about_presence, is_kind, passed_over, validator
from flo.engine.checking.violations import Violation, against
from flo.engine.values import JsonObject

_SILENT: Final = frozenset(
    {"description", "title", "default", "examples", "deprecated", "$comment", "$defs", "then", "else"}
)
"""Keywords that say nothing by themselves."""

_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": operator.ge, "exclusiveMinimum": operator.gt, "maximum": operator.le, "exclusiveMaximum": operator.lt,
}  # fmt: skip
_SIZES: Final[Mapping[str, Callable[[int, Any], bool]]] = {
    "minLength": operator.ge, "maxLength": operator.le, "minItems": operator.ge, "maxItems": operator.le,
}  # fmt: skip
_ABOUT: Final[Mapping[str, str]] = {
    **dict.fromkeys(_BOUNDS, "number"),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "items", "uniqueItems"), "array"),
    **dict.fromkeys(
        ("required", "properties", "additionalProperties", "dependentRequired", "dependentSchemas"), "object"
    ),
}
"""The kind of value that a keyword is about; others it leaves alone."""


class _Unsure(Exception):
    """A schema asks for more than is judged here."""


def misfits(schema: JsonObject, value: Any) -> list[Violation]:
    """What a schema says against a value, whether its templates have a value yet or not."""
    return [] if fits(schema, value) else against(validator(schema), value)


def fits(schema: JsonObject, value: Any, root: JsonObject | None = None) -> bool:
    """Say that a value surely fits, noting what is open in it. Where this is False, jsonschema may find that it does.

    ``root`` is the schema that references lead into, where it is another one.
    """
    try:
        return _fits(schema, value, schema if root is None else root)
    except Exception:  # unsure, nested too deep, or an author's schema that is broken: jsonschema says how
        return False


def _fits(schema: Any, value: Any, root: JsonObject) -> bool:
    """Say whether a value fits. Raises ``_Unsure``."""
    if isinstance(schema, bool):
        return schema
    if "patternProperties" in schema or "prefixItems" in schema:  # what these are about, others leave alone
        raise _Unsure
    return all(_holds(word, wanted, value, schema, root) for word, wanted in schema.items())


def _holds(word: str, wanted: Any, value: Any, schema: JsonObject, root: JsonObject) -> bool:
    if word in _SILENT or (word == "$schema" and schema is root):
        return True
    about = _ABOUT.get(word)
    if passed_over(word, wanted, value) or (about is not None and not is_kind(about, value)):
        return True
    if word in _BOUNDS:
        return _BOUNDS[word](value, wanted)
    if word in _SIZES:
        return _SIZES[word](len(value), wanted)
    if about == "object":
        return _holds_of_object(word, wanted, value, schema, root)
    return _holds_of_any(word, wanted, value, schema, root)


def _holds_of_any(word: str, wanted: Any, value: Any, schema: JsonObject, root: JsonObject) -> bool:
    match word:
        case "type" if isinstance(wanted, str):
            return is_kind(wanted, value)
        case "type":
            return any(is_kind(name, value) for name in wanted)
        case "enum" if all(choice is None or isinstance(choice, str) for choice in wanted):
            return value in wanted
        case "pattern":
            return re.search(wanted, value) is not None
        case "items":
            return all(_fits(wanted, held, root) for held in value)
        case "uniqueItems" if all(isinstance(held, str) for held in value):
            return not wanted or len(set(value)) == len(value)
        case "$ref":
            return _fits(_referred(wanted, root), value, root)
        case "allOf":
            return all(_fits(form, value, root) for form in wanted)
        case "anyOf":
            return any(_fits(form, value, root) for form in wanted)
        case "oneOf":
            return _fits_one(wanted, value, root)
        case "not":
            return not _fits(wanted, value, root)
        case "if":
            return _fits(schema.get("then" if _fits(wanted, value, root) else "else", True), value, root)
        case "format":  # is a description
            return True
    raise _Unsure


def _holds_of_object(word: str, wanted: Any, value: Any, schema: JsonObject, root: JsonObject) -> bool:
    match word:
        case "required":
            return all(name in value for name in wanted)
        case "properties":
            return all(_fits(inner, value[name], root) for name, inner in wanted.items() if name in value)
        case "additionalProperties":
            known: Any = schema.get("properties", {})
            return all(_fits(wanted, held, root) for name, held in value.items() if name not in known)
        case "dependentRequired":
            return all(other in value for name, others in wanted.items() if name in value for other in others)
        case _:
            return all(_fits(inner, value, root) for name, inner in wanted.items() if name in value)


def _fits_one(forms: Any, value: Any, root: JsonObject) -> bool:
    """``oneOf``, where something open may fit several forms: which one is known later."""
    fitting = [form for form in forms if _fits(form, value, root)]
    if len(fitting) > 1 and isinstance(value, OpenText | OpenObject | OpenList) and not all(map(about_presence, forms)):
        value.asked = True
        return True
    return len(fitting) == 1


def _referred(reference: str, root: JsonObject) -> Any:
    """What a reference leads to: a part of the root."""
    first, *parts = reference.split("/")
    if first != "#" or "~" in reference or "%" in reference:
        raise _Unsure
    part: Any = root
    for name in parts:
        part = part[name]
        if "$id" in part:  # references are relative to it
            raise _Unsure
    return part
