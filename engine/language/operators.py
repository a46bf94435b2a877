"""What the operators of expressions do to values. A failure is a ``ValueError`` with the message; the parser's nodes
place it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeGuard

from flo.engine.comparison import equal, order
from flo.engine.errors import TemplateFailed
from flo.engine.hiding import joined_text
from flo.engine.language.lexer import MAX_BITS
from flo.engine.language.scope import Missing, OnMissing
from flo.engine.secrecy import Secret, shown_forms
from flo.engine.values import OBJECT, SIMPLE, Json, dump, kind_of

MAX_TEXT: Final = 16 * 1024 * 1024
"""A template, an operator or a filter makes text of this many characters at most."""
MAX_ITEMS: Final = 10_000_000
"""A list that an operator or a filter makes has this many items at most."""
MAX_RANGE: Final = 100_000
"""A range has this many numbers at most."""

Value = Json | Missing


def settle(value: Value, on_missing: OnMissing) -> Json:
    """Turn a missing value into null, and tell."""
    if not isinstance(value, Missing):
        return value
    try:
        on_missing(value)
    except TemplateFailed as failure:
        if failure.text or not value.source:
            raise
        raise TemplateFailed(
            failure.reason, text=value.source, position=value.position, place=failure.place
        ) from failure.__cause__
    return None


def truthy(value: Value, on_missing: OnMissing) -> bool:
    """Only false, null and what is missing are false."""
    if type(value) is Missing:
        settle(value, on_missing)
        return False
    return value is not None and value is not False


def written(value: Json) -> str:
    """Write a value as it stands in text: text as it is, null as nothing, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if not isinstance(value, int | float) and check_size(value):
        return Secret(dump(value), dump(shown_forms(value)))
    try:
        return dump(value)
    except ValueError:
        raise ValueError("a number of more than 4,300 digits cannot be written") from None


def check_size(value: Json) -> bool:
    """Refuse a list or an object whose JSON has more than ``MAX_TEXT`` characters before it is written: a value may
    hold one part many times. Says whether a text in it is secret."""
    size, waiting, secret = 0, [value], False
    while waiting:
        held = waiting.pop()
        if isinstance(held, str):
            size += len(held)
            secret = secret or type(held) is Secret
        elif type(held) in SIMPLE:
            continue
        elif isinstance(held, OBJECT):
            size += 2 * len(held) + sum(map(len, held))
            waiting += held.values()
        elif isinstance(held, Sequence):
            size += len(held)
            waiting += held
        if size > MAX_TEXT:
            raise ValueError(f"text longer than {MAX_TEXT:,} characters")
    return secret


def bounded(value: Json) -> Json:
    """Give ``value`` back if it is not larger than what an expression may make."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ValueError(f"text longer than {MAX_TEXT:,} characters")
    elif isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueError("a number of more than 4,300 digits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number that is too large")
    elif isinstance(value, list) and len(value) > MAX_ITEMS:
        raise ValueError(f"a list of more than {MAX_ITEMS:,} items")
    return value


def add(left: Value, right: Value) -> Json:
    """Add two numbers, or join two texts or two lists."""
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > MAX_TEXT:
            raise ValueError(f"text longer than {MAX_TEXT:,} characters")
        return joined_text((left, right))
    if _is_list(left) and _is_list(right):
        if len(left) + len(right) > MAX_ITEMS:
            raise ValueError(f"a list of more than {MAX_ITEMS:,} items")
        return [*left, *right]
    return _calculate(left, right, "add", "to", lambda first, second: first + second)


def subtract(left: Value, right: Value) -> Json:
    return _calculate(left, right, "subtract", "from", lambda first, second: first - second)


def multiply(left: Value, right: Value) -> Json:
    return _calculate(left, right, "multiply", "by", lambda first, second: first * second)


def divide(left: Value, right: Value) -> Json:
    """Divide two numbers; whole when both are whole and nothing is left over."""
    if right == 0 and right is not False and _is_number(left):
        raise ValueError("division by zero")
    return _calculate(left, right, "divide", "by", _quotient)


def remainder(left: Value, right: Value) -> Json:
    """What a division leaves over; it has the sign of the divisor, as in Python and Liquid."""
    if right == 0 and right is not False and _is_number(left):
        raise ValueError("division by zero")
    return _calculate(left, right, "take the remainder of", "by", lambda first, second: first % second)


def negate(value: Value) -> Json:
    if not _is_number(value):
        raise ValueError(f"cannot negate {_named(value)}{_hint(value)}")
    return -value


def _quotient(left: float, right: float) -> float:
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _calculate(
    left: Value, right: Value, verb: str, preposition: str, operation: Callable[[float, float], float]
) -> Json:
    if not (_is_number(left) and _is_number(right)):
        first, second = (right, left) if preposition in ("to", "from") else (left, right)
        raise ValueError(f"cannot {verb} {_named(first)} {preposition} {_named(second)}{_hint(left)}{_hint(right)}")
    try:
        return bounded(operation(left, right))
    except OverflowError:
        raise ValueError("a number that is too large") from None


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Value) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _named(value: Value) -> str:
    return f"{value.path!r} (missing)" if isinstance(value, Missing) else kind_of(value)


def _hint(value: Value) -> str:
    return value.hint if isinstance(value, Missing) else ""


def within(needle: Json, holder: Json) -> bool:
    """Say whether a text holds a text, a list an equal item, or an object a key. Everything else holds nothing."""
    if isinstance(holder, str):
        return isinstance(needle, str) and needle in holder
    if isinstance(holder, Mapping):
        return isinstance(needle, str) and needle in holder
    if isinstance(holder, Sequence):
        return any(equal(item, needle) for item in holder)
    return False


def less(left: Json, right: Json) -> bool:
    return order(left, right) == -1


def at_most(left: Json, right: Json) -> bool:
    return order(left, right) in (-1, 0)


def greater(left: Json, right: Json) -> bool:
    return order(left, right) == 1


def at_least(left: Json, right: Json) -> bool:
    return order(left, right) in (0, 1)


def unequal(left: Json, right: Json) -> bool:
    return not equal(left, right)


def is_empty(value: Json) -> bool:
    """What Liquid's ``empty`` equals: text, a list or an object with nothing in it."""
    return isinstance(value, str | Sequence | Mapping) and len(value) == 0


def is_blank(value: Json) -> bool:
    """What Liquid's ``blank`` equals: what is empty, null, false, and text of nothing but blanks."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value is False or is_empty(value)


def span(start: Value, end: Value) -> Json:
    """The whole numbers from ``start`` to ``end``, both included; fractions are cut off."""
    if not (_is_number(start) and _is_number(end)):
        odd = end if _is_number(start) else start
        raise ValueError(f"a range goes from number to number, but {_named(odd)} came{_hint(odd)}")
    first, last = int(start), int(end)
    if last - first >= MAX_RANGE:
        raise ValueError(f"a range of more than {MAX_RANGE:,} numbers")
    return list(range(first, last + 1))
