"""Filters that calculate, and the conversions to numbers and booleans."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from flo.engine.comparison import equal, order
from flo.engine.language.bounds import checked, product
from flo.engine.values import Json, kind_of, shown

Number = int | float

_DECIMAL: Final = re.compile(r"-?\d+\.\d+", re.ASCII)
_LEADING_DIGITS: Final = re.compile(r"[+-]?\d+", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)
_REAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MOST_PLACES: Final = 400
"""Rounding to more decimal places than this changes no float."""
_LEAST_PLACES: Final = -4400
"""Rounding this many digits before the point leaves 0 of any number."""


def lenient_number(value: Json) -> Number:
    """Read a number as Liquid's arithmetic does: text by its leading digits, everything else counts as 0."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        return 0
    text = value.strip()
    if _DECIMAL.fullmatch(text):
        return _finite(float(text))
    digits = _LEADING_DIGITS.match(text)
    return _integer(digits[0]) if digits else 0


def whole_number(value: Json, what: str) -> int:
    """Read an argument that must be a whole number: ``2``, ``2.0`` or ``"2"``. ``what`` names it in the error."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return _integer(value.strip())
    raise ValueError(f"{what} must be a whole number, not {_named(value)}")


def _named(value: Json) -> str:
    return shown(value) if isinstance(value, str | int | float) else kind_of(value)


def _integer(text: str) -> int:
    try:
        return checked(int(text))
    except ValueError:
        raise ValueError("the number has more than 4,300 digits") from None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("the number is too large")
    return number


def exact(number: Number) -> Fraction:
    """The decimal that a number is written as, exactly."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def rounded_float(number: Fraction) -> float:
    """The float nearest to an exact number."""
    try:
        return float(number)
    except OverflowError:
        raise ValueError("the number is too large") from None


def _calculate(
    left: Json,
    right: Json,
    whole: Callable[[int, int], int],
    real: Callable[[Fraction, Fraction], Fraction],
) -> Number:
    """Two integers give an integer; anything else is calculated in decimals, so that 0.1 and 0.2 make 0.3."""
    first, second = lenient_number(left), lenient_number(right)
    if isinstance(first, int) and isinstance(second, int):
        return checked(whole(first, second))
    return rounded_float(real(exact(first), exact(second)))


def plus(value: Json, other: Json) -> Json:
    """Add a number."""
    return _calculate(value, other, lambda a, b: a + b, lambda a, b: a + b)


def minus(value: Json, other: Json) -> Json:
    """Subtract a number."""
    return _calculate(value, other, lambda a, b: a - b, lambda a, b: a - b)


def times(value: Json, other: Json) -> Json:
    """Multiply by a number."""
    return _calculate(value, other, product, lambda a, b: a * b)


def divided_by(value: Json, other: Json) -> Json:
    """Divide by a number; two integers give an integer, rounded down."""
    _refuse_zero(other)
    return _calculate(value, other, lambda a, b: a // b, lambda a, b: a / b)


def modulo(value: Json, other: Json) -> Json:
    """Give what is left after dividing by a number; it has the sign of the divisor."""
    _refuse_zero(other)
    return _calculate(value, other, lambda a, b: a % b, lambda a, b: a % b)


def _refuse_zero(divisor: Json) -> None:
    if lenient_number(divisor) == 0:
        raise ValueError(f"cannot divide by {_named(divisor)}")


def absolute(value: Json) -> Json:
    """Take the sign off a number."""
    return abs(lenient_number(value))


def ceil(value: Json) -> Json:
    """Round up to a whole number."""
    return math.ceil(lenient_number(value))


def floor(value: Json) -> Json:
    """Round down to a whole number."""
    return math.floor(lenient_number(value))


def round_to(value: Json, digits: Json = 0) -> Json:
    """Round to a number of decimal places (0), halves away from zero."""
    number = lenient_number(value)
    places = max(_LEAST_PLACES, min(_MOST_PLACES, int(lenient_number(digits))))
    if isinstance(number, int) and places >= 0:
        return number
    scale = Fraction(10) ** places
    whole = math.floor(abs(exact(number)) * scale + Fraction(1, 2))
    result = (whole if number >= 0 else -whole) / scale
    return rounded_float(result) if places > 0 else checked(int(result))


def at_least(value: Json, least: Json) -> Json:
    """Give the number, or the limit if the number is below it."""
    number, limit = lenient_number(value), lenient_number(least)
    return limit if order(number, limit) == -1 else number


def at_most(value: Json, most: Json) -> Json:
    """Give the number, or the limit if the number is above it."""
    number, limit = lenient_number(value), lenient_number(most)
    return limit if order(number, limit) == 1 else number


def total(numbers: list[Number]) -> Number:
    """Add numbers up: exactly, an integer when all of them are integers."""
    if all(isinstance(number, int) for number in numbers):
        return checked(int(sum(numbers)))
    return rounded_float(sum(map(exact, numbers), Fraction(0)))


def gt(value: Json, other: Json) -> Json:
    """Say whether the value is greater; false across types."""
    return order(value, other) == 1


def gte(value: Json, other: Json) -> Json:
    """Say whether the value is greater or equal; false across types."""
    return order(value, other) in (0, 1)


def lt(value: Json, other: Json) -> Json:
    """Say whether the value is less; false across types."""
    return order(value, other) == -1


def lte(value: Json, other: Json) -> Json:
    """Say whether the value is less or equal; false across types."""
    return order(value, other) in (-1, 0)


def eq(value: Json, other: Json) -> Json:
    """Say whether two values are equal, types included; instants by their instant."""
    return equal(value, other)


def ne(value: Json, other: Json) -> Json:
    """Say whether two values differ, types included; instants by their instant."""
    return not equal(value, other)


def to_number(value: Json) -> Json:
    """Read text as a number, exactly; text that is no number is an error."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip()
        if _WHOLE.fullmatch(text):
            return _integer(text)
        if _REAL.fullmatch(text):
            return _finite(float(text))
    raise ValueError(f"{_named(value)} is no number")


_BOOLEANS: Final = {
    "true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "1": True, "0": False,
}  # fmt: skip


def to_boolean(value: Json) -> Json:
    """Read true, yes, on, 1 and false, no, off, 0 (as text in any case, or as numbers); everything else is an error."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and (word := value.strip().lower()) in _BOOLEANS:
        return _BOOLEANS[word]
    raise ValueError(f"{_named(value)} is no boolean")
