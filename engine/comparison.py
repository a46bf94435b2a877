"""How two JSON values compare: the one meaning behind conditions, expressions, and every store.

Equality is strict about types: ``5``, ``"5"`` and ``true`` are three values; ``1`` and ``1.0`` are one number, and
numbers compare by the decimal they are written as, exact at any size. Where both sides read as RFC 3339 instants, the
instants are compared. Order exists between two numbers, and between two texts (by code point); across types there is
none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from flo.engine.instants import Instant, read_instant
from flo.engine.values import Json

_EXACT = 2**53


def equal(left: object, right: object) -> bool:
    """Say whether two values are equal, instants by their instant. Lists and objects are equal when their parts are."""
    if isinstance(left, str) and isinstance(right, str):
        if left == right:
            return True
        instant = read_instant(left)
        return instant is not None and instant == read_instant(right)
    return identical(left, right)


def identical(left: object, right: object) -> bool:
    """Equality without the rule for instants: what the parts of lists and objects are held to."""
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return order(left, right) == 0
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(identical(value, right[key]) for key, value in left.items())
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return len(left) == len(right) and all(map(identical, left, right))
    return False


def order(left: object, right: object) -> int | None:
    """Give -1, 0 or 1 for two numbers or two texts, None for everything else."""
    if isinstance(left, str) and isinstance(right, str):
        first, second = read_instant(left), None
        if first is not None:
            second = read_instant(right)
        if first is not None and second is not None:
            return (first > second) - (first < second)
        return (left > right) - (left < right)
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int | float) and isinstance(right, int | float):
        first_number, second_number = _comparable(left, right)
        return (first_number > second_number) - (first_number < second_number)
    return None


def _comparable(left: float, right: float) -> tuple[float | Decimal, float | Decimal]:
    """Numbers as they compare by their decimals; only a big integer beside a float needs more than Python's own
    order."""
    if type(left) is type(right) or (abs(left) <= _EXACT and abs(right) <= _EXACT):
        return left, right
    return _decimal(left), _decimal(right)


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


SortKey = tuple[int, Decimal | Instant | str]


def sort_key(value: Json) -> SortKey:
    """Give a key that sorts any values: null, booleans, numbers, instants, other text; lists and objects tie, last.

    A missing value has no key: callers put it after everything, in both directions.
    """
    match value:
        case None:
            return 0, ""
        case bool():
            return 1, Decimal(value)
        case int() | float():
            return 2, Decimal(0) if value == 0 else _decimal(value)
        case str():
            instant = read_instant(value)
            return (4, value) if instant is None else (3, instant)
        case _:
            return 5, ""


def is_finite(number: float) -> bool:
    """Say whether a number is one that JSON can hold."""
    return isinstance(number, int) or math.isfinite(number)
