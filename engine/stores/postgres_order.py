"""Orders and cursors as expressions of PostgreSQL that sort as ``comparison.sort_key`` does."""

from __future__ import annotations

from typing import Final

from flo.engine.errors import FilterInvalid
from flo.engine.frozen import frozen
from flo.engine.instants import parse_instant
from flo.engine.stores.claiming import STATUS_LENGTH
from flo.engine.stores.fields import ABSENT, Absent
from flo.engine.stores.filters import Condition
from flo.engine.stores.ordering import By, Order, Position
from flo.engine.stores.postgres_statement import Values, field_json
from flo.engine.stores.postgres_where import is_status
from flo.engine.stores.selection import plain_text, required
from flo.engine.values import Json

_PLAIN: Final = {"createdAt": "r.created_at", "updatedAt": "r.updated_at", "claimCount": "r.claim_count"}


@frozen
class Part:
    """One expression to sort by, and, where a cursor is given, what it is there."""

    expression: str
    descending: bool = False
    at: str = ""


def sorting(order: Order, where: Condition, at: Position | None, values: Values) -> tuple[Part, ...]:
    """The expressions that ``order`` sorts by; the number of the row comes last and breaks every tie.

    Where no order is asked for, and ``where`` asks for one status, the number is written so that only the index of the
    rows of a status gives it: the one of the whole table would lead a claim through all that is finished.
    """
    parts: list[Part] = []
    for index, by in enumerate(order):
        held = ABSENT if at is None else at.values[index]
        parts += _parts(by, held, at is not None, values)
    number = "(r.seq + 0)" if not order and asks_for_a_status(where) else "r.seq"
    parts.append(Part(number, at="" if at is None else values.bind(at.number, "bigint")))
    return tuple(parts)


def order_sql(parts: tuple[Part, ...]) -> str:
    """What stands after ORDER BY."""
    return ", ".join(f"{part.expression} DESC" if part.descending else part.expression for part in parts)


def after_sql(parts: tuple[Part, ...]) -> str:
    """The condition that a row comes after the cursor's place."""
    first, *rest = parts
    beyond = f"{first.expression} {'<' if first.descending else '>'} {first.at}"
    return f"({beyond} OR ({first.expression} = {first.at} AND {after_sql(tuple(rest))}))" if rest else f"({beyond})"


def asks_for_a_status(where: Condition) -> bool:
    """Whether every row that matches has one status, which the index tells."""
    return any(
        is_status(test.field) and (text := plain_text(test)) is not None and len(text) < STATUS_LENGTH
        for test in required(where)
    )


def _parts(by: By, held: Json | Absent, placed: bool, values: Values) -> list[Part]:
    column = by.field.column
    if column in _PLAIN:
        return [Part(_PLAIN[column], by.descending, _plain_place(column, held, values) if placed else "")]
    found = field_json(by.field, values)
    at = ""
    if placed:
        at = f"flo.sort_key({'NULL' if held is ABSENT else values.json(held)})"
    key = Part(f"flo.sort_key({found})", by.descending, at)
    if column is not None:
        return [key]
    return [Part(f"({found} IS NULL)", at="true" if held is ABSENT else "false"), key]


def _plain_place(column: str, held: Json | Absent, values: Values) -> str:
    if column == "claimCount" and isinstance(held, int):
        return values.bind(held, "bigint")
    instant = parse_instant(held) if isinstance(held, str) else None
    if instant is None:
        raise FilterInvalid("cursor", "it is no nextCursor of a query")
    return values.bind(instant, "timestamptz")
