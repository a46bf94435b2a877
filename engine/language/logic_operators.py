"""The operators of JSONLogic that need nothing but their values. What they refuse is a ``ValueError``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Final, TypeGuard

from flo.engine.comparison import equal, identical, is_finite, order
from flo.engine.hiding import carried
from flo.engine.instants import read_instant
from flo.engine.language.bounds import check_elements, checked, joined, product
from flo.engine.language.filters_numbers import whole_number
from flo.engine.language.operators import written
from flo.engine.values import Json, kind_of, shown

Values = Sequence[Json]
_EXACT: Final = 2**53
_NUMBER: Final = re.compile(r"([+-]?\d+)|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def truthy(value: Json) -> bool:
    """Everything is true but false, null, 0, empty text and the empty list."""
    if value is None or isinstance(value, bool | int | float | str):
        return bool(value)
    return isinstance(value, Mapping) or len(value) > 0


def _number_in(text: str) -> int | float | None:
    """The number that a text is, blanks around it allowed; None for one that no float can hold."""
    found = _NUMBER.fullmatch(text.strip())
    if not found:
        return None
    try:
        number = int(found[1]) if found[1] else float(found[0])
    except ValueError:
        raise ValueError("a number of more than 4,300 digits") from None
    return number if is_finite(number) else None


def _coerced(value: Json) -> int | float | None:
    """The number that a value counts as in a comparison: null is 0, true is 1, empty text is 0; None where it is
    none."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return _number_in(value) if value.strip() else 0
    return None


def _loosely_equal(left: Json, right: Json) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        return equal(left, right)
    first, second = _coerced(left), _coerced(right)
    if first is None or second is None:
        return identical(left, right)
    return order(first, second) == 0


def _compared(left: Json, right: Json) -> int | None:
    """Two texts by their instants or their characters, everything else by its number."""
    if isinstance(left, str) and isinstance(right, str):
        return order(left, right)
    first, second = _coerced(left), _coerced(right)
    return None if first is None or second is None else order(first, second)


def _less(values: Values) -> Json:
    return all(_compared(left, right) == -1 for left, right in _neighbours(values))


def _at_most(values: Values) -> Json:
    return all(_compared(left, right) in (-1, 0) for left, right in _neighbours(values))


def _greater(values: Values) -> Json:
    return all(_compared(left, right) == 1 for left, right in _neighbours(values))


def _at_least(values: Values) -> Json:
    return all(_compared(left, right) in (0, 1) for left, right in _neighbours(values))


def _neighbours(values: Values) -> Sequence[tuple[Json, Json]]:
    return list(pairwise(values))


def _in(values: Values) -> Json:
    needle, holder = values[0], values[1]
    if isinstance(holder, str):
        is_text = isinstance(needle, str | int | float) and not isinstance(needle, bool)
        return is_text and written(needle) in holder
    return isinstance(holder, Sequence) and _holds(holder, needle)


def _is_plain(needle: Json) -> bool:
    """Whether equality with ``needle`` is what Python makes of it, but for numbers and booleans."""
    if isinstance(needle, str):
        return read_instant(needle) is None
    return needle is None or (isinstance(needle, bool | int | float) and abs(needle) <= _EXACT)


def _holds(holder: Sequence[Json], needle: Json) -> bool:
    if not _is_plain(needle):
        return any(equal(needle, item) for item in holder)
    if isinstance(needle, bool):
        return any(item is needle for item in holder)
    if isinstance(needle, int | float):
        return any(item == needle and not isinstance(item, bool) for item in holder)
    return needle in holder


def _cat(values: Values) -> Json:
    return carried(joined([written(value) for value in values]), values)


def _substr(values: Values) -> Json:
    text, start = written(values[0]), whole_number(values[1], "the start")
    part = text[max(start, -len(text)) :] if start < 0 else text[start:]
    if len(values) < 3 or values[2] is None:
        return carried(part, (text,))
    length = whole_number(values[2], "the length")
    return carried(part[:length] if length >= 0 else part[: max(len(part) + length, 0)], (text,))


def _merge(values: Values) -> Json:
    lists = [value if isinstance(value, Sequence) and not isinstance(value, str) else [value] for value in values]
    check_elements(sum(map(len, lists)))
    return [item for part in lists for item in part]


def _number(value: Json) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    number = _number_in(value) if isinstance(value, str) else None
    if number is None:
        came = shown(value) if isinstance(value, str | bool) else kind_of(value)
        raise ValueError(f"arithmetic takes numbers, not {came}")
    return number


def _calculated(calculate: Callable[[], int | float]) -> int | float:
    """Do a calculation whose result JSON can hold."""
    try:
        result = calculate()
    except OverflowError:
        raise ValueError("the number is too large") from None
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    if isinstance(result, int):
        return checked(result)
    if not math.isfinite(result):
        raise ValueError("the number is too large")
    return result


def _multiply(left: int | float, right: int | float) -> int | float:
    return product(left, right) if isinstance(left, int) and isinstance(right, int) else left * right


def _add_all(values: Values) -> Json:
    return _calculated(lambda: sum(map(_number, values)))


def _multiply_all(values: Values) -> Json:
    return _calculated(lambda: reduce(_multiply, map(_number, values)))


def _subtract(values: Values) -> Json:
    first = _number(values[0])
    return -first if len(values) == 1 else _calculated(lambda: first - _number(values[1]))


def _divide(values: Values) -> Json:
    left, right = _number(values[0]), _number(values[1])
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return _calculated(lambda: left / right)


def _remainder(values: Values) -> Json:
    """The remainder with the sign of the dividend."""
    left, right = _number(values[0]), _number(values[1])
    if right == 0:
        raise ValueError("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return _calculated(lambda: math.fmod(left, right))


def _greatest(values: Values) -> Json:
    return reduce(lambda best, number: number if order(number, best) == 1 else best, map(_number, values))


def _least(values: Values) -> Json:
    return reduce(lambda best, number: number if order(number, best) == -1 else best, map(_number, values))


_WRITING: Final = frozenset({"cat", "substr"})
_COMPARING: Final = frozenset({"==", "!=", "===", "!=="})
_CHARACTERS: Final = 1024
_ELEMENTS: Final = 16
_WRITTEN: Final = 64
_MADE: Final = 8
"""So many characters or elements that are looked at, characters that are written as JSON, or of either that are made,
count as a step."""


def steps_before(name: str, values: Values, most: int) -> int:
    """How many steps an operator takes besides its own one; past ``most`` the count may stop."""
    if name in _COMPARING:
        return size_of(values[0], most) if _is_container(values[0]) and _is_container(values[1]) else 0
    if name == "in" and _is_container(values[1]) and not _is_plain(values[0]):
        return size_of(values[1], most) if _is_container(values[0]) else len(values[1])
    if name in _WRITING:
        return sum(size_of(value, most) for value in values)
    return sum(_steps(value, _CHARACTERS, _ELEMENTS) for value in values)


def steps_after(result: Json) -> int:
    """How many steps making a result has taken."""
    return _steps(result, _MADE, _MADE)


def _steps(value: Json, characters: int, elements: int) -> int:
    if isinstance(value, str):
        return len(value) // characters
    return len(value) // elements if _is_container(value) else 0


def _is_container(value: Json) -> TypeGuard[Sequence[Json] | Mapping[str, Json]]:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str)


def size_of(value: Json, most: int) -> int:
    """Count what a value holds at every depth, each thing as often as it would be written, in steps that handling it
    takes. Past ``most`` the count stops."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        held = waiting.pop()
        if isinstance(held, str):
            count += len(held) // _WRITTEN
        elif _is_container(held):
            count += len(held)
            waiting += held.values() if isinstance(held, Mapping) else held
    return count


OPERATORS: Final[Mapping[str, Callable[[Values], Json]]] = {
    "==": lambda values: _loosely_equal(values[0], values[1]),
    "!=": lambda values: not _loosely_equal(values[0], values[1]),
    "===": lambda values: equal(values[0], values[1]),
    "!==": lambda values: not equal(values[0], values[1]),
    "!": lambda values: not truthy(values[0]),
    "!!": lambda values: truthy(values[0]),
    ">": _greater,
    ">=": _at_least,
    "<": _less,
    "<=": _at_most,
    "max": _greatest,
    "min": _least,
    "+": _add_all,
    "-": _subtract,
    "*": _multiply_all,
    "/": _divide,
    "%": _remainder,
    "in": _in,
    "cat": _cat,
    "substr": _substr,
    "merge": _merge,
    "log": lambda values: values[0],
}
LEAST: Final[Mapping[str, int]] = {
    "==": 2, "!=": 2, "===": 2, "!==": 2, "!": 1, "!!": 1, ">": 2, ">=": 2, "<": 2, "<=": 2, "max": 1, "min": 1,
    "-": 1, "*": 1, "/": 2, "%": 2, "in": 2, "substr": 2, "log": 1,
    "missing_some": 2, "map": 2, "filter": 2, "reduce": 2, "all": 2, "some": 2, "none": 2,
}  # fmt: skip
"""How many arguments an operator needs at least, where it needs any."""
