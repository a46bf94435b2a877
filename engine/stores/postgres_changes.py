"""Changes as an expression of PostgreSQL that gives what ``changes.apply`` gives, or refuses with its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flo.engine.stores.changes import Change, Operation
from flo.engine.stores.postgres_statement import Values

NOW: Final = """to_jsonb(to_char(:now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))"""
_ASSIGNED: Final = (Operation.SET, Operation.NOW)


def changes_sql(value: str, changes: Sequence[Change], values: Values, place: str = "set") -> str:
    """``value``, an expression that gives an object, with ``changes`` made in turn."""
    index = 0
    while index < len(changes):
        end = index
        while end < len(changes) and len(changes[end].path) == 1 and changes[end].operation in _ASSIGNED:
            end += 1
        if end > index:  # fields of the object itself need no path
            pairs = [
                f"{values.bind(change.path[0], 'text')}, {_operand(change, values)}" for change in changes[index:end]
            ]
            value = f"({value} || jsonb_build_object({', '.join(pairs)}))"
            index = end
            continue
        value = _changed(value, changes[index], values, f"{place}[{index}]")
        index += 1
    return value


def _changed(value: str, change: Change, values: Values, place: str) -> str:
    if change.operation is Operation.UNSET and len(change.path) == 1:
        return f"({value} - {values.bind(change.path[0], 'text')})"
    path = values.bind(list(change.path), "text[]")
    named = [
        values.bind(change.operation.value, "text"),
        _operand(change, values),
        values.bind(repr(change.text), "text"),
        values.bind(place, "text"),
    ]
    return f"flo.change({value}, {path}, 0, {', '.join(named)})"


def _operand(change: Change, values: Values) -> str:
    match change.operation:
        case Operation.NOW:
            return NOW
        case Operation.DECREMENT:
            assert isinstance(change.value, int | float)
            return values.json(-change.value)
    return values.json(change.value)
