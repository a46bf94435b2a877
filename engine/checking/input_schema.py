"""A workflow's ``inputSchema``: whether it is a JSON Schema, and whether an input fits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flo.engine.checking.fitting import fits
from flo.engine.checking.violations import Violation, against, violations
from flo.engine.values import Json, JsonObject, Place

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def schema_violations(schema: JsonObject) -> list[Violation]:
    """What is wrong with a schema (2020-12) itself. References lead to its own parts, nothing is fetched."""
    from jsonschema import Draft202012Validator

    meta: Any = Draft202012Validator(
        Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    try:
        found = violations(meta.iter_errors(schema))
        return found or list(_dangling(schema))
    except RecursionError:
        return [Violation((), "it nests too deep to be checked")]


def input_violations(schema: JsonObject, value: JsonObject) -> list[Violation]:
    """What a sound schema says against an input."""
    return [] if fits(schema, value) else against(_validator(_Held(schema)), value)


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A schema that is the same as itself alone: to compare two would take as long as to make a validator."""

    schema: JsonObject

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=128)
def _validator(held: _Held) -> Validator:
    from jsonschema import Draft202012Validator
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    return Draft202012Validator(held.schema, registry=REGISTRY)


def _dangling(schema: JsonObject) -> Iterator[Violation]:
    """References that lead nowhere. Those inside a part with an ``$id`` of its own are followed when they are used."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = REGISTRY.resolver_with_root(DRAFT202012.create_resource(schema))
    for place, reference in _references(schema, ()):
        try:
            sound = isinstance(resolver.lookup(reference).contents, Mapping | bool)
        except (Unresolvable, ValueError, AttributeError):
            sound = False
        if not sound:
            yield Violation(place, f"the reference {reference!r} leads to no schema in this one; nothing is fetched")


def _references(value: Json, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, Mapping):
        if place and isinstance(value.get("$id"), str):
            return
        for key, held in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(held, str):
                yield (*place, key), held
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(held, (*place, key))
    elif isinstance(value, list):
        for at, held in enumerate(value):
            yield from _references(held, (*place, at))
