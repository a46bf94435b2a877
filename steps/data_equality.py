"""Keys by which equal values are found: two values have one key where ``equal`` of ``engine.comparison`` says so."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from flo.engine.instants import read_instant
from flo.engine.values import Json

_EXACT: Final = 2**53
_SHORTEST: Final = len("2026-01-31T09:30:00Z")


def key_of(value: Json) -> Hashable:
    """The key of a value: ``5``, ``"5"`` and ``true`` have three, ``1`` and ``1.0`` one; texts that read as instants
    have that of their instant."""
    if isinstance(value, str) and len(value) >= _SHORTEST and value[4] == "-":
        instant = read_instant(value)
        if instant is not None:
            return "instant", instant
    return _part(value)


def _part(value: Json) -> Hashable:
    """The key of a part of a list or an object, in which texts are compared as they are written."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        return _number(value)
    if type(value) is dict or isinstance(value, Mapping):
        return "object", frozenset([(key, _part(held)) for key, held in value.items()])
    assert isinstance(value, Sequence)
    return "list", *map(_part, value)


def _number(value: int | float) -> int | float | Decimal:
    """Up to 2**53 whole numbers and others compare as Python has it, beyond that by their decimals."""
    if -_EXACT <= value <= _EXACT:
        return value
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
