"""An example of what a JSON Schema describes, and whether an example fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flo.engine.errors import FloError
from flo.engine.language.marks import has_marks
from flo.engine.values import Json, JsonObject, place_text

_FORMATS: Final = {
    "date-time": "2026-01-31T09:00:00Z", "date": "2026-01-31", "time": "09:00:00Z", "partial-time": "09:00:00",
    "duration": "PT5M",
    "email": "ada@example.org", "uri": "https://example.org/", "uuid": "0190a0a0-0000-7000-8000-000000000000",
    "decimal": "1.5", "hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "regex": ".*",
}  # fmt: skip
_HINTS: Final = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_BASE64: Final = "ZmxvCg=="
_DEEPEST: Final = 32


def example_of(schema: JsonObject, name: str = "value") -> Json:
    """A plausible value: what has to be there, and no more. The same schema gives the same value. It may break what a
    schema says by patterns and combinations: ``misfits`` tells. Raises ``FloError`` for a schema without an end."""
    return _Maker(schema).make(schema, name, 0)


def misfits(schema: JsonObject, example: Json) -> str | None:
    """What is wrong with an example, or with its schema; None where nothing is. Templates stand for any value."""
    if schema.keys() <= {"type", "description", "title"} and schema.get("type") == "object":
        return None if isinstance(example, Mapping) else "it is no object"
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
        for error in Draft202012Validator(schema).iter_errors(example):
            about_shape = error.validator in ("required", "additionalProperties", "type")
            if _has_template(error.instance) and (isinstance(error.instance, str) or not about_shape):
                continue
            return f"{place_text(('input', *error.absolute_path))}: {error.message}"
    except SchemaError as error:
        return f"the schema is none: {place_text(tuple(error.absolute_path))}: {error.message}"
    except Exception as error:  # jsonschema meets a reference that leads nowhere with errors of others
        return f"the schema cannot be used: {type(error).__name__}: {error}"
    return None


class _Maker:
    """Makes values of one schema and its parts."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def make(self, schema: Any, name: str, depth: int) -> Json:
        if depth > _DEEPEST:
            raise FloError("no example can be made: what the schema requires has no end")
        if not isinstance(schema, Mapping):
            return name
        if "$ref" in schema:
            return self.make({**self._referred(str(schema["$ref"])), **_without(schema, "$ref")}, name, depth + 1)
        for given in ("examples", "enum"):
            if isinstance(held := schema.get(given), list) and held:
                return held[0]  # type: ignore[no-any-return]
        for given in ("const", "default"):
            if given in schema:
                return schema[given]  # type: ignore[no-any-return]
        for combination in ("anyOf", "oneOf"):
            for choice in schema.get(combination, ()):
                if choice != {"type": "null"}:
                    return self.make({**_without(schema, combination), **choice}, name, depth + 1)
        for part in schema.get("allOf", ()):
            schema = {**schema, **part}
        return self._of_kind(schema, name, depth)

    def _of_kind(self, schema: Mapping[str, Any], name: str, depth: int) -> Json:
        match _kind(schema):
            case "object":
                return dict(self._pairs(schema, depth))
            case "array":
                return list(self._entries(schema, name, depth))
            case "integer":
                return int(_number(schema, whole=True))
            case "number":
                return _number(schema, whole=False)
            case "boolean":
                return True
            case "null":
                return None
        return _text(schema, name)

    def _pairs(self, schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Json]]:
        properties = schema.get("properties", {})
        required = list(schema.get("required", ()))
        more = [name for name in properties if name not in required]
        needed = max(schema.get("minProperties", 0) - len(required), 0)
        for name in [*required, *more[:needed]]:
            yield name, self.make(properties.get(name, True), name, depth + 1)
        values = schema.get("additionalProperties", True)
        if not properties and values is not False:
            wanted = max(schema.get("minProperties", 0), 1 if isinstance(values, Mapping) else 0)
            for key in self._keys({"type": "string", **schema.get("propertyNames", {})}, wanted, depth):
                yield key, self.make(values, "value", depth + 1)

    def _keys(self, schema: Mapping[str, Any], wanted: int, depth: int) -> Iterator[str]:
        """Keys of an object that may have any, each another one."""
        choices = schema.get("enum")
        if isinstance(choices, list):
            yield from map(str, choices[:wanted])
            return
        first = str(self.make(schema, "key", depth + 1))
        for number in range(wanted):
            yield f"{first}{number + 1}" if number else first

    def _entries(self, schema: Mapping[str, Any], name: str, depth: int) -> Iterator[Json]:
        first: Sequence[Any] = schema.get("prefixItems", ())
        yield from (self.make(held, name, depth + 1) for held in first)
        items = schema.get("items", True)
        if items is False or schema.get("maxItems", 1) == 0:
            return
        wanted = max(schema.get("minItems", 1), 0 if first else 1) - len(first)
        for number in range(wanted):
            made = self.make(items, name, depth + 1)
            yield f"{made}{number + 1}" if schema.get("uniqueItems") and number and isinstance(made, str) else made

    def _referred(self, reference: str) -> Mapping[str, Any]:
        found: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            if part:
                found = found.get(part.replace("~1", "/").replace("~0", "~"), {})
        return found if isinstance(found, Mapping) else {}


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return next((str(one) for one in kind if one != "null"), "null")
    if kind is not None:
        return str(kind)
    return next((kind for kind, words in _HINTS.items() if any(word in schema for word in words)), "string")


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    """A number within the bounds: one, where it is."""
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum", -math.inf)
    high = schema.get("maximum", math.inf)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    gap = step if whole or "multipleOf" in schema else _gap(above, below)
    if above is not None:
        low = max(low, above + gap)
    if below is not None:
        high = min(high, below - gap)
    number = min(max(1, low), high)
    return math.ceil(number / step) * step if whole or "multipleOf" in schema else number  # type: ignore[no-any-return]


def _gap(above: float | None, below: float | None) -> float:
    return 1 if above is None or below is None else min(1, (below - above) / 2)


def _text(schema: Mapping[str, Any], name: str) -> str:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    if schema.get("contentEncoding") == "base64":
        return _BASE64 if shortest <= len(_BASE64) <= longest else _BASE64[:4] * max(math.ceil(shortest / 4), 1)
    text = _FORMATS.get(str(schema.get("format")), name)
    if len(text) < shortest:
        text = (text or "x") * math.ceil(shortest / max(len(text), 1))
    return text if len(text) <= longest else text[: int(longest)]


def _without(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: held for name, held in schema.items() if name != key}


def _has_template(value: Any) -> bool:
    match value:
        case str():
            return has_marks(value)
        case Mapping():
            return any(_has_template(held) for held in value.values())
        case list():
            return any(_has_template(held) for held in value)
    return False
