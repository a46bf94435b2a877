"""Which rows a condition and an order pick out of a stream of candidates: what memory and SQLite do in Python."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from flo.engine.instants import read_instant
from flo.engine.stores.base import Page, Row
from flo.engine.stores.filters import All, Condition, Operator, Test, matches
from flo.engine.stores.ordering import Order, Position, PositionKey, position, position_key, write_cursor

Numbered = tuple[int, Row]
"""A row and its number in the insertion order."""


def select(
    candidates: Iterable[Numbered],
    where: Condition,
    order: Order,
    now: datetime,
    *,
    limit: int,
    after: Position | None = None,
    in_order: bool = False,
) -> list[Numbered]:
    """The first ``limit`` candidates that match, in ``order``, from ``after`` on.

    Candidates that come ``in_order`` already are read only as far as needed. Otherwise all are read, and ``limit`` of
    them held in memory.
    """
    found: Iterator[Numbered] = (held for held in candidates if matches(where, held[1], now))
    if after is not None:
        start = position_key(order, after)
        found = (held for held in found if _key(order, held) > start)
    if in_order:
        return list(islice(found, limit))
    return heapq.nsmallest(limit, found, key=lambda held: _key(order, held))


def _key(order: Order, held: Numbered) -> PositionKey:
    number, row = held
    return position_key(order, position(order, row, number))


def page(found: list[Numbered], order: Order, limit: int) -> Page:
    """The first ``limit`` of the rows found, and a cursor if there is one more."""
    rows = [row for _, row in found[:limit]]
    if len(found) <= limit or not rows:
        return Page(rows, None)
    number, last = found[limit - 1]
    return Page(rows, write_cursor(order, position(order, last, number)))


def required(where: Condition) -> Iterator[Test]:
    """The tests that every row has to pass which matches: those that no ``any`` stands around."""
    match where:
        case Test():
            yield where
        case All(conditions):
            for condition in conditions:
                yield from required(condition)


def plain_text(test: Test) -> str | None:
    """The text that a field has to be, character by character; None where the test asks for something else.

    A text that reads as an instant is equal to other texts too, so it is none of these.
    """
    if test.operator is not Operator.EQUALS or not isinstance(test.value, str) or read_instant(test.value):
        return None
    return test.value
