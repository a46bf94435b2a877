"""Checking a value against a JSON Schema before its templates have a value: what they leave open is passed over, and
noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from flo.engine.values import OBJECT, Json, JsonObject, Place

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Marks = Literal["none", "text", "lone"]
"""What a string holds: no template, templates with text around, or nothing but one expression."""


class Open:
    """The value of a lone expression: any JSON. ``asked`` says that a schema wants to know more about it."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False


class OpenText(str):
    """A text whose templates have no value yet."""

    asked = False


class OpenObject(dict[str, Any]):
    """An object with something open in it."""

    asked = False


class OpenList(list[Any]):
    """A list with something open in it."""

    asked = False


Holder = Open | OpenText | OpenObject | OpenList
_HOLDERS: Final = frozenset(get_args(Holder))

_PYTHON: Final[Mapping[str, type | tuple[type, ...]]] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": (list, Sequence),  # the first one is known at once
    "object": OBJECT,
}

_ABOUT_THE_WHOLE: Final = ("enum", "const", "uniqueItems", "contains", "not", "if", "unevaluatedItems")
_ABOUT_TEXT: Final = ("enum", "const", "not", "if", "pattern", "minLength", "maxLength", "format")
_TRANSPARENT: Final = ("$ref", "$dynamicRef", "allOf")
_PRESENCE: Final = {"required", "dependentRequired", "not", "anyOf", "oneOf", "allOf", "description", "title"}


def opened(value: Json, marks: Callable[[str], Marks], found: dict[Place, Holder], place: Place = ()) -> Any:
    """A copy of ``value`` in which templates stand open. ``found`` takes what is open, by its place."""
    if isinstance(value, str):
        kind = marks(value)
        if kind == "none":
            return value
        found[place] = held = Open() if kind == "lone" else OpenText(value)
        return held
    before = len(found)
    if isinstance(value, Mapping):
        pairs = {key: opened(inner, marks, found, (*place, key)) for key, inner in value.items()}
        if len(found) == before:
            return pairs
        found[place] = around = OpenObject(pairs)
        return around
    if isinstance(value, Sequence):
        items = [opened(inner, marks, found, (*place, index)) for index, inner in enumerate(value)]
        if len(found) == before:
            return items
        found[place] = listed = OpenList(items)
        return listed
    return value


def about_presence(schema: Json) -> bool:
    """Say whether a schema asks only which fields are there, never what they hold."""
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    inner: list[Json] = [schema["not"]] if "not" in schema else []
    for combination in ("anyOf", "oneOf", "allOf"):
        held = schema.get(combination, ())
        inner += held if isinstance(held, list) else []
    return schema.keys() <= _PRESENCE and all(map(about_presence, inner))


def validator(schema: JsonObject) -> Validator:
    """A validator (2020-12) of step inputs. A whole number is written without a point; references stay inside."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    return _validator_class()(schema, registry=REGISTRY)  # type: ignore[no-any-return]


@cache
def _validator_class() -> Callable[..., Any]:
    """Made once, when something is wrong for the first time: jsonschema takes a tenth of a second to import."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    kinds = {name: _kind_check(name) for name in _PYTHON}
    types = Draft202012Validator.TYPE_CHECKER.redefine_many(kinds)
    keywords = {name: _guarded(name, function) for name, function in Draft202012Validator.VALIDATORS.items()}
    made: Callable[..., Any] = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {**keywords, "oneOf": _one_of}, type_checker=types
    )
    return made


def is_kind(name: str, value: Any) -> bool:
    """Say whether a value is of a kind that schemas have a name for."""
    python = _PYTHON[name]
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, str):
        return name == "string"
    return isinstance(value, python)


def _kind_check(name: str) -> Callable[[Any, Any], bool]:
    return lambda checker, value: is_kind(name, value)


def passed_over(word: str, wanted: Any, value: Any) -> bool:
    """Say whether a keyword, which wants ``wanted``, has to leave a value alone, as that is open; it is noted then."""
    if type(value) not in _HOLDERS:
        return False
    match value:
        case Open():
            over = word not in _TRANSPARENT
        case OpenText():
            over = word in _ABOUT_TEXT
        case _:
            over = word in _ABOUT_THE_WHOLE and not (word == "not" and about_presence(wanted))
    value.asked = value.asked or over
    return over


Keyword = Callable[[Any, Any, Any, Any], "Iterator[ValidationError] | None"]


def _guarded(name: str, function: Keyword) -> Keyword:
    def keyword(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        return None if passed_over(name, wanted, instance) else function(validator, wanted, instance, schema)

    return keyword


def _one_of(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """``oneOf``, where something open may fit several forms: which one is known later."""
    from jsonschema import Draft202012Validator

    if isinstance(instance, Open):
        instance.asked = True
        return
    errors = list(Draft202012Validator.VALIDATORS["oneOf"](validator, wanted, instance, schema) or ())
    several = bool(errors) and not errors[0].context
    if several and isinstance(instance, OpenText | OpenObject | OpenList) and not all(map(about_presence, wanted)):
        instance.asked = True
        return
    yield from errors
