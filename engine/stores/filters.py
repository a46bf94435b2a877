"""Conditions on rows: what ``where`` says, as records, and the plain reading that every adapter agrees with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flo.engine.values import Json


class Operator(StrEnum):
    """What a test asks of a field."""

    EQUALS = "equals"
    NOT_EQUALS = "notEquals"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"
    IN = "in"
    NOT_IN = "notIn"
    CONTAINS = "contains"
    NOT_CONTAINS = "notContains"
    STARTS_WITH = "startsWith"
    ENDS_WITH = "endsWith"
    SET = "set"
    NOT_SET = "notSet"
    IS_NULL = "isNull"
    OLDER_THAN = "olderThan"
    NEWER_THAN = "newerThan"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a row: ``column`` names a row field, else ``path`` leads into the value."""

    text: str
    column: str | None
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """One test of one field. ``value`` is the operand as it came (None for the operators that take none)."""

    field: Field
    operator: Operator
    value: Json = None


@dataclass(frozen=True, slots=True)
class All:
    """Holds when each of its conditions holds; an empty one always holds."""

    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds when one of its conditions holds; an empty one never does."""

    conditions: tuple[Condition, ...] = ()


Condition = Test | All | AnyOf
EVERY = All()


def parse_where(where: Json, mode: str = "all", place: str = "where") -> Condition:
    """Read ``where`` and ``filterMode``. Raises ``FilterInvalid`` with the place of what is wrong and the nearest
    right word."""
    raise NotImplementedError
