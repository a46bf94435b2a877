"""Conditions and orders in SQL, as far as SQLite reads them as we do; the rest is for the plain reading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from flo.engine.frozen import frozen
from flo.engine.instants import parse_instant, read_instant, write_instant
from flo.engine.stores.claiming import STATUS_LENGTH
from flo.engine.stores.filters import All, Condition, Operator, Test
from flo.engine.stores.ordering import Order, Position
from flo.engine.stores.selection import plain_text, required

COLUMNS: Final = "seq, key, value, created_at, updated_at, expires_at, claim_count"

_INSTANTS: Final = {"createdAt": "created_at", "updatedAt": "updated_at", "expiresAt": "expires_at"}
_SORTABLE: Final = {**_INSTANTS, "claimCount": "claim_count"}
"""Columns whose order in SQL is ours: instants in their one form, integers; an ``expiresAt`` that is null comes first
for both. A key may read as an instant, and then sorts as one."""

_RANGES: Final = {Operator.LT: "<=", Operator.LTE: "<=", Operator.GT: ">=", Operator.GTE: ">="}
"""The bound is cut to microseconds, so that the end itself is left for the plain reading to judge."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MANY: Final = 100
"""So many tests, and texts of a test, are put into SQL; SQLite has a limit on how large an expression is."""


@frozen
class Narrowed:
    """What follows ``WHERE``, and its values. Every row that matches is in it; if it is ``exact``, no other one is."""

    sql: str
    values: dict[str, object]
    exact: bool


def narrow(table: str, where: Condition) -> Narrowed:
    """The live rows of ``table`` that may match ``where``."""
    values: dict[str, object] = {"table": table}
    clauses = ["table_name = :table"]
    tests = list(required(where))
    exact = _is_conjunction(where) and len(tests) <= _MANY
    for test in tests[:_MANY]:
        clause, whole = _clause(test, values)
        exact = exact and whole
        if clause:
            clauses.append(clause)
    clauses.append("(expires_at IS NULL OR expires_at > :now)")
    return Narrowed(" AND ".join(clauses), values, exact)


def in_order(order: Order) -> str | None:
    """``ORDER BY`` for an order that SQL can give; None for one that it cannot."""
    if any(by.field.column not in _SORTABLE for by in order):
        return None
    parts = [f"{_SORTABLE[by.field.column or '']}{' DESC' if by.descending else ''}" for by in order]
    return f"ORDER BY {', '.join([*parts, 'seq'])}"


def from_place(order: Order, after: Position, values: dict[str, object]) -> str:
    """A condition, with ``AND`` before it, that leaves out rows far before a cursor's place; or nothing."""
    if not order:
        values["after"] = after.number
        return " AND seq > :after"
    column, place = order[0].field.column, after.values[0]
    if column not in ("createdAt", "updatedAt") or not isinstance(place, str):
        return ""
    values["after"] = place
    return f" AND {_INSTANTS[column]} {'<=' if order[0].descending else '>='} :after"


def _is_conjunction(where: Condition) -> bool:
    if isinstance(where, All):
        return all(map(_is_conjunction, where.conditions))
    return isinstance(where, Test)


def _clause(test: Test, values: dict[str, object]) -> tuple[str, bool]:
    """A necessary condition of ``test``, if there is a useful one, and whether it is the whole of it."""
    field = test.field
    if field.column in _INSTANTS:
        return _range(test, _INSTANTS[field.column], values), False
    texts = _texts(test)
    if not texts:
        return "", False
    if field.column == "key" and test.operator is not Operator.NOT_EQUALS:
        return f"key {_among(texts, values)}", True
    if field.path == ("status",):
        whole = all(len(text) < STATUS_LENGTH for text in texts)
        if test.operator is Operator.NOT_EQUALS:
            return (f"status IS NOT {_bind(texts[0], values)}", True) if whole else ("", False)
        return f"status {_among([text[:STATUS_LENGTH] for text in texts], values)}", whole
    if test.operator is not Operator.NOT_EQUALS and field.path and all(map(_IDENTIFIER.fullmatch, field.path)):
        path = _bind(f"$.{'.'.join(field.path)}", values)
        return f"json_extract(value, {path}) {_among(texts, values)}", False
    return "", False


def _among(texts: Sequence[str], values: dict[str, object]) -> str:
    names = [_bind(text, values) for text in texts]
    return f"= {names[0]}" if len(names) == 1 else f"IN ({', '.join(names)})"


def _texts(test: Test) -> list[str]:
    """The texts that a test compares with character by character; none where it does something else."""
    match test.operator:
        case Operator.EQUALS | Operator.NOT_EQUALS:
            text = plain_text(Test(test.field, Operator.EQUALS, test.value))
            return [] if text is None else [text]
        case Operator.IN if isinstance(test.value, Sequence) and len(test.value) <= _MANY:
            texts = [held for held in test.value if isinstance(held, str) and read_instant(held) is None]
            return texts if len(texts) == len(test.value) else []
    return []


def _range(test: Test, column: str, values: dict[str, object]) -> str:
    bound = parse_instant(test.value) if isinstance(test.value, str) else None
    if bound is None or test.operator not in _RANGES:
        return ""
    return f"{column} {_RANGES[test.operator]} {_bind(write_instant(bound), values)}"


def _bind(text: str, values: dict[str, object]) -> str:
    name = f"v{len(values)}"
    values[name] = text
    return f":{name}"
