"""Changes to a row's value: what ``set`` says, as records, and the plain application that every adapter agrees with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from flo.engine.comparison import equal, order
from flo.engine.errors import FilterInvalid, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.stores.fields import ABSENT, Absent, check_keys, index_of
from flo.engine.stores.filters import parse_field
from flo.engine.stores.limits import check_storable
from flo.engine.stores.remembering import remembering
from flo.engine.values import MAX_DEPTH, Json, kind_of, shown


class Operation(StrEnum):
    """What a change does to a field."""

    SET = "set"
    UNSET = "unset"
    INCREMENT = "increment"
    DECREMENT = "decrement"
    MIN = "min"
    MAX = "max"
    APPEND = "append"
    PREPEND = "prepend"
    REMOVE = "remove"
    MERGE = "merge"
    NOW = "now"


_P = Operation
_SPELLINGS: Final[Mapping[str, Operation]] = {operation.value: operation for operation in _P}
_UNARY: Final = frozenset({_P.UNSET, _P.NOW})
_NUMERIC: Final = frozenset({_P.INCREMENT, _P.DECREMENT})
_EXTREMES: Final = frozenset({_P.MIN, _P.MAX})
_LISTS: Final = frozenset({_P.APPEND, _P.PREPEND, _P.REMOVE})
_REMOVING: Final = frozenset({_P.UNSET, _P.REMOVE})
_KEYS: Final = ("field", "operation", "value")


@frozen
class Change:
    """One change of one field of the value. ``path`` leads into the value; missing objects on the way are made."""

    path: tuple[str, ...]
    operation: Operation
    value: Json = None
    text: str = ""


@remembering
def parse_changes(changes: Json, place: str = "set") -> tuple[Change, ...]:
    """Read ``set``: one ``{field, operation, value}`` or a list of them. Raises ``FilterInvalid`` with the place of
    what is wrong and the nearest right word."""
    if isinstance(changes, Mapping):
        return (_change(changes, place),)
    if isinstance(changes, str) or not isinstance(changes, Sequence):
        raise FilterInvalid(place, f"it must be a list of changes; {kind_of(changes)} came")
    return tuple(_change(held, f"{place}[{index}]") for index, held in enumerate(changes))


def _change(change: Json, place: str) -> Change:
    if not isinstance(change, Mapping):
        raise FilterInvalid(place, f"it must be a change {{field, operation, value}}; {kind_of(change)} came")
    check_keys(change, _KEYS, place)
    if "field" not in change:
        raise FilterInvalid(place, "it has no field; a change is {field, operation, value}")
    field = parse_field(change["field"], f"{place}.field")
    if field.column is not None:
        remedy = f'write "value.{field.text}" for the field of that name in the value'
        raise FilterInvalid(f"{place}.field", f"{field.text!r} is the row's own and cannot be changed; {remedy}")
    if not field.path:
        raise FilterInvalid(f"{place}.field", "it is the whole value; name a field of it, or use data-store.set")
    operation = _operation(change.get("operation"), f"{place}.operation")
    value = change.get("value")
    if operation in _UNARY:
        if value is not None:
            raise FilterInvalid(f"{place}.value", f"{operation} takes no value; {shown(value)} came")
    elif "value" not in change:
        raise FilterInvalid(place, f"{operation} needs a value, and there is none")
    else:
        check_storable(value, f"{place}.value")
        _check_value(operation, value, f"{place}.value")
        _check_depth(len(field.path), operation, value, f"{place}.value")
    return Change(field.path, operation, value, field.text)


def _operation(name: Json, place: str) -> Operation:
    if isinstance(name, str):
        if name in _SPELLINGS:
            return _SPELLINGS[name]
        raise FilterInvalid(place, f"no operation {name!r}{did_you_mean(name, _SPELLINGS)}")
    if name is None:
        raise FilterInvalid(place, f"it is missing; {', '.join(_P)} are known")
    raise FilterInvalid(place, f"it must be the name of an operation; {kind_of(name)} came")


def _check_value(operation: Operation, value: Json, place: str) -> None:
    needed = None
    if operation in _NUMERIC and not _is_number(value):
        needed = "a number"
    elif operation in _EXTREMES and not _is_number(value) and not isinstance(value, str):
        needed = "a number or text"
    elif operation is _P.MERGE and not isinstance(value, Mapping):
        needed = "an object"
    if needed:
        raise FilterInvalid(place, f"{operation} needs {needed}; {kind_of(value)} came")


def _check_depth(above: int, operation: Operation, value: Json, place: str) -> None:
    depth = above + (operation in _LISTS) + _depth(value)
    if depth > MAX_DEPTH:
        raise FilterInvalid(place, f"it would nest the row's value {depth} deep; the limit is {MAX_DEPTH}")


def _depth(value: Json) -> int:
    if isinstance(value, Mapping):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _is_number(value: Json | Absent) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def apply(value: Json, changes: Sequence[Change], now: datetime, place: str = "set") -> Json:
    """Give ``value`` with ``changes`` made in turn; ``value`` itself stays as it is.

    Missing objects on the way are made; an index leads to an element that a list has. A missing number counts as 0, a
    missing list as empty, a missing object as empty; a missing extreme is the operand. ``append`` and ``prepend`` add
    their value as one element, ``remove`` takes every element that is equal to it, ``merge`` is shallow. Integers stay
    exact; a calculation with a float is IEEE 754's. ``unset`` and ``remove`` leave a missing field missing; ``unset``
    takes an element out of its list. What cannot be done raises ``FilterInvalid`` with the place of the change.
    """
    if changes and not isinstance(value, Mapping):
        raise FilterInvalid(place, f"the row's value is {kind_of(value)}; only fields of an object can be changed")
    for index, change in enumerate(changes):
        value = _along(value, change, 0, now, f"{place}[{index}]")
    return value


def _along(held: Json, change: Change, depth: int, now: datetime, place: str) -> Json:
    """``held``, which the first ``depth`` segments lead to, with the change made below it."""
    segment = change.path[depth]
    if isinstance(held, Mapping):
        inner = _below(held.get(segment, ABSENT), change, depth, now, place)
        if inner is not ABSENT:
            return {**held, segment: inner}
        return {key: kept for key, kept in held.items() if key != segment}
    if isinstance(held, Sequence) and not isinstance(held, str):
        index = index_of(segment)
        if index is None or not -len(held) <= index < len(held):
            if change.operation in _REMOVING:
                return held
            what = f"a list of {len(held)}, and {segment!r} is no index of an element it has"
            raise FilterInvalid(place, f"cannot {change.operation} {change.text!r}: {_way(change, depth)} is {what}")
        inner = _below(held[index], change, depth, now, place)
        kept = list(held)
        kept[index : index % len(held) + 1] = [] if inner is ABSENT else [inner]
        return kept
    if change.operation in _REMOVING:
        return held
    raise FilterInvalid(
        place, f"cannot {change.operation} {change.text!r}: {_way(change, depth)} is {kind_of(held)} {shown(held)}"
    )


def _below(held: Json | Absent, change: Change, depth: int, now: datetime, place: str) -> Json | Absent:
    if depth + 1 == len(change.path):
        return _changed(held, change, now, place)
    if held is ABSENT:
        if change.operation in _REMOVING:
            return ABSENT
        held = {}
    return _along(held, change, depth + 1, now, place)


def _way(change: Change, depth: int) -> str:
    return repr(".".join(change.path[:depth]))


def _changed(held: Json | Absent, change: Change, now: datetime, place: str) -> Json | Absent:
    """What the field holds afterwards; ``ABSENT`` takes it away."""
    match change.operation:
        case _P.SET:
            return change.value
        case _P.UNSET:
            return ABSENT
        case _P.NOW:
            return write_instant(now)
    try:
        return _CALCULATIONS[change.operation](held, change.value)
    except _Refused as refused:
        raise FilterInvalid(place, f"cannot {change.operation} {change.text!r}: {refused}") from None


class _Refused(Exception):
    """Why a change cannot be made."""


def _increment(held: Json | Absent, operand: Json) -> Json:
    held = 0 if held is ABSENT else held
    if isinstance(held, bool) or not isinstance(held, int | float):
        raise _Refused(f"it holds {kind_of(held)} {shown(held)}")
    assert isinstance(operand, int | float)
    try:
        total = held + operand
    except OverflowError:
        total = math.inf
    if isinstance(total, float) and not math.isfinite(total):
        raise _Refused(f"{shown(held)} and {shown(operand)} give a number that is too large")
    return total


def _decrement(held: Json | Absent, operand: Json) -> Json:
    assert isinstance(operand, int | float)
    return _increment(held, -operand)


def _extreme(sign: int) -> Callable[[Json | Absent, Json], Json]:
    def extreme(held: Json | Absent, operand: Json) -> Json:
        if held is ABSENT:
            return operand
        found = order(operand, held)
        if found is None:
            raise _Refused(f"it holds {kind_of(held)} {shown(held)}, which has no order with {shown(operand)}")
        return operand if found == sign else held

    return extreme


def _list(held: Json | Absent) -> list[Json]:
    if held is ABSENT:
        return []
    if isinstance(held, str) or not isinstance(held, Sequence):
        raise _Refused(f"it holds {kind_of(held)} {shown(held)}, not a list")
    return list(held)


def _append(held: Json | Absent, operand: Json) -> Json:
    return [*_list(held), operand]


def _prepend(held: Json | Absent, operand: Json) -> Json:
    return [operand, *_list(held)]


def _remove(held: Json | Absent, operand: Json) -> Json | Absent:
    return ABSENT if held is ABSENT else [element for element in _list(held) if not equal(element, operand)]


def _merge(held: Json | Absent, operand: Json) -> Json:
    held = {} if held is ABSENT else held
    if not isinstance(held, Mapping):
        raise _Refused(f"it holds {kind_of(held)} {shown(held)}, not an object")
    assert isinstance(operand, Mapping)
    return {**held, **operand}


_CALCULATIONS: Final[Mapping[Operation, Callable[[Json | Absent, Json], Json | Absent]]] = {
    _P.INCREMENT: _increment,
    _P.DECREMENT: _decrement,
    _P.MIN: _extreme(-1),
    _P.MAX: _extreme(1),
    _P.APPEND: _append,
    _P.PREPEND: _prepend,
    _P.REMOVE: _remove,
    _P.MERGE: _merge,
}
