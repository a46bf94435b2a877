"""What a JSON Schema says against a value, in our words: the place, what came, what was expected, the nearest right
thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flo.engine.checking.openness import Open, OpenText, about_presence
from flo.engine.errors import did_you_mean
from flo.engine.frozen import frozen
from flo.engine.values import Json, Place, kind_of, shown

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

ValidationError = Any
"""jsonschema's, whose fields are as varied as the schemas they are about."""

_KINDS: Final = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip
_BOUNDS: Final = {
    "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}", "pattern": "text that matches {}",
    "format": "text in the format {}",
}  # fmt: skip
_SIZES: Final = {
    "minLength": ("at least", "character"), "maxLength": ("at most", "character"), "minItems": ("at least", "entry"),
    "maxItems": ("at most", "entry"), "minProperties": ("at least", "field"), "maxProperties": ("at most", "field"),
}  # fmt: skip


@frozen
class Violation:
    """One thing that a schema says against a value; ``place`` is relative to the value."""

    place: Place
    message: str


def against(validator: Validator, value: Any) -> list[Violation]:
    """What a schema says against a value. Schemas come from authors: one that is itself broken says so, and a value
    that cannot be judged is refused."""
    try:
        return violations(validator.iter_errors(value))
    except RecursionError:
        return [Violation((), "it nests too deep to be checked")]
    except Exception as error:  # jsonschema meets a broken schema with whatever its code runs into
        return [Violation((), f"its schema is broken: {type(error).__name__}: {error}")]


def violations(errors: Iterable[ValidationError]) -> list[Violation]:
    """Put jsonschema's errors into words, one for each thing that is wrong."""
    return list(dict.fromkeys(violation for error in distinct(errors) for violation in _in_words(error)))


def distinct(errors: Iterable[ValidationError]) -> list[ValidationError]:
    """Leave out what is said already: a value that is none of a few choices need not be told its type too."""
    found = list(errors)
    if len(found) < 2:
        return found
    chosen = {tuple(error.absolute_path) for error in found if error.validator in ("enum", "const")}
    return [error for error in found if error.validator != "type" or tuple(error.absolute_path) not in chosen]


def came(value: object) -> str:
    """Say what came: ``5``, ``"5" (text)``, ``a list``."""
    match value:
        case Open():
            return "a template"
        case OpenText():
            return f"{shown(value)} (text around a template)"
        case str():
            return f"{shown(value)} (text)"
        case None | bool() | int() | float():
            return shown(value)
        case _:
            return kind_of(value)


def _in_words(error: ValidationError) -> Iterator[Violation]:
    keyword, wanted, value = error.validator, error.validator_value, error.instance
    place = tuple(error.absolute_path)
    match keyword:
        case "additionalProperties" | "unevaluatedProperties":
            yield from _unknown_fields(error, place)
        case "required":
            for name in wanted:
                if name not in value:
                    yield Violation(place, f"{name!r} is required")
        case "dependentRequired":
            for name, needed in wanted.items():
                for other in needed:
                    if name in value and other not in value:
                        yield Violation(place, f"{name!r} needs {other!r} beside it")
        case "anyOf" | "oneOf":
            yield from _alternatives(error, place)
        case "enum" | "const":
            yield Violation(place, _not_among(value, wanted if keyword == "enum" else [wanted]))
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            yield Violation(place, f"{came(value)} came, expected {_any_of(_kinds(kinds))}")
        case _:
            yield Violation(place, _out_of_bounds(str(keyword), wanted, value, error.schema))


def _unknown_fields(error: ValidationError, place: Place) -> Iterator[Violation]:
    schema: Any = error.schema
    known = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    patterns = schema.get("patternProperties", {}) if isinstance(schema, Mapping) else {}
    if patterns or error.validator != "additionalProperties":
        yield Violation(place, error.message)
        return
    free = [name for name in known if name not in error.instance]
    for name in error.instance:
        if name not in known:
            hint = did_you_mean(name, free) or (f"; known are {_listed(known)}" if known else "")
            yield Violation((*place, name), f"unknown field {name!r}{hint}")


def _not_among(value: object, choices: Sequence[Json]) -> str:
    texts = [choice for choice in choices if isinstance(choice, str)]
    hint = did_you_mean(value, texts) if isinstance(value, str) else ""
    return f"{came(value)} came, expected {_any_of([shown(choice) for choice in choices])}{hint}"


def _out_of_bounds(keyword: str, wanted: Any, value: Any, schema: Any) -> str:
    if keyword == "pattern" and isinstance(schema, Mapping) and (examples := schema.get("examples")):
        return f"{came(value)} came, expected text such as {_any_of([shown(example) for example in examples])}"
    if keyword in _BOUNDS:
        return f"{came(value)} came, expected {_BOUNDS[keyword].format(shown(wanted))}"
    if keyword in _SIZES:
        how, noun = _SIZES[keyword]
        return f"{kind_of(value)} with {_counted(len(value), noun)} came, expected {how} {_counted(wanted, noun)}"
    if keyword == "uniqueItems":
        return "an entry stands twice in the list"
    if keyword == "contains":
        return "the list lacks an entry that it needs"
    return f"{came(value)} is not allowed here"


def _counted(count: int, noun: str) -> str:
    plural = {"entry": "entries"}.get(noun, f"{noun}s")
    return f"{count} {noun if count == 1 else plural}"


def _alternatives(error: ValidationError, place: Place) -> Iterator[Violation]:
    """Say why no form fits, by the form that was most likely meant; or that more than one does."""
    forms: Any = error.validator_value
    if all(map(about_presence, forms)):
        yield Violation(place, _presence(error, forms))
        return
    if not error.context:
        yield Violation(place, "it fits more than one of the forms it may have")
        return
    branches: dict[int, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
    wrong_kind = {at: _wrong_kind(errors, place) for at, errors in branches.items()}
    likely = [errors for at, errors in branches.items() if not wrong_kind[at]]
    if likely:
        for inner in min(likely, key=_distance):
            yield from _in_words(inner)
        return
    expected = _any_of(list(dict.fromkeys(kind for kinds in wrong_kind.values() for kind in kinds)))
    yield Violation(place, f"{came(error.instance)} came, expected {expected}")


def _wrong_kind(errors: Sequence[ValidationError], place: Place) -> list[str]:
    """What a form expects in place of the whole value, where the value is of another kind."""
    for error in errors:
        if tuple(error.absolute_path) == place:
            if error.validator == "type":
                wanted = error.validator_value
                return _kinds([wanted] if isinstance(wanted, str) else wanted)
            if error.validator in ("enum", "const"):
                choices: Any = error.validator_value if error.validator == "enum" else [error.validator_value]
                return [shown(choice) for choice in choices]
    return []


def _distance(errors: Sequence[ValidationError]) -> tuple[int, int]:
    """How far a value is from a form: fields that are missing or unknown count more than wrong values in known ones."""
    shape = sum(error.validator in ("required", "additionalProperties") for error in errors)
    return shape, len(errors)


def _presence(error: ValidationError, forms: Sequence[Json]) -> str:
    names = list(dict.fromkeys(name for form in forms for name in _names(form)))
    given = [name for name in names if name in error.instance]
    if error.context or len(given) < 2:
        return f"one of {_any_of([repr(name) for name in names])} is required"
    return f"{' and '.join(map(repr, given))} exclude each other"


def _names(schema: Json) -> Iterator[str]:
    if isinstance(schema, Mapping):
        required = schema.get("required", ())
        if isinstance(required, Sequence):
            yield from (str(name) for name in required)
        for combination in ("anyOf", "oneOf", "allOf"):
            held = schema.get(combination, ())
            if isinstance(held, Sequence):
                for inner in held:
                    yield from _names(inner)


def _kinds(names: Iterable[str]) -> list[str]:
    return [_KINDS.get(name, name) for name in names]


def _any_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _listed(names: Iterable[str]) -> str:
    held = [repr(name) for name in names]
    return ", ".join(held[:8]) + (", …" if len(held) > 8 else "")
