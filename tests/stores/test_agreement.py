"""Any operations in any order leave the same rows, answers and refusals on an adapter as in the memory store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from flo.engine.errors import StepFailed
from flo.engine.stores.base import DataStore, Row
from flo.engine.stores.changes import Change, Operation
from flo.engine.stores.filters import COLUMNS, EVERY, All, AnyOf, Condition, Field, Operator, Test
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.ordering import By, Order
from flo.engine.values import Json
from flo.testing import FrozenClock

NUMBERS: tuple[int | float, ...] = (
    0, 1, -1, 1.0, 0.1, 3.5, 1e300, -1e300, 1.7e308, 5e-324, 1e-7, 2**53, 2**53 + 1, float(2**53), 10**30,
)  # fmt: skip
TEXTS = (
    "", "a", "b", "A", "é", "🙂", "1", "true", "null", "a'b", 'a"b', "a\\b", "{}", "2026-01-01T00:00:00Z",
    "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00.0000001Z", "2025-12-31T23:59:59Z", "2026-13-01T00:00:00Z",
)  # fmt: skip
SEGMENTS = ("a", "b", "x y", "status", "0", "1", "-1", "01", "+1", "-0", " 1", "99999999999")
KEYS = (*(f"k{number}" for number in range(20)), "2026-01-01T00:00:00Z")
Answer = object
Ask = Callable[[DataStore], Answer]


class Chance:
    """Makes values, conditions, orders, changes and calls by chance, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def value(self, depth: int = 0) -> Json:
        kind = self.random.random()
        if depth < 3 and kind < 0.2:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if depth < 3 and kind < 0.45:
            return {self.random.choice(SEGMENTS): self.value(depth + 1) for _ in range(self.random.randrange(4))}
        return self.random.choice((None, True, False, *NUMBERS, *TEXTS))

    def field(self) -> Field:
        kind = self.random.random()
        if kind < 0.15:
            column = self.random.choice(COLUMNS)
            return Field(column, column, ())
        if kind < 0.35:
            return Field("status", None, ("status",))
        path = tuple(self.random.choice(SEGMENTS) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3))))
        return Field(".".join(path), None, path)

    def condition(self, depth: int = 0) -> Condition:
        kind = self.random.random()
        if depth < 2 and kind < 0.4:
            group = All if kind < 0.2 else AnyOf
            return group(tuple(self.condition(depth + 1) for _ in range(self.random.randrange(3))))
        operator = self.random.choice(list(Operator))
        operand = self.value(1)
        if operator in (Operator.OLDER_THAN, Operator.NEWER_THAN):
            operand = self.random.choice(("0s", "5m", "1h"))
        elif operator in (Operator.IN, Operator.NOT_IN):
            operand = [self.value(1) for _ in range(self.random.randrange(4))]
        return Test(self.field(), operator, operand)

    def order(self) -> Order:
        return tuple(By(self.field(), self.random.random() < 0.5) for _ in range(self.random.randrange(3)))

    def change(self) -> Change:
        operation = self.random.choice(list(Operation))
        path = tuple(self.random.choice(SEGMENTS) for _ in range(self.random.choice((1, 1, 2, 3))))
        value = self.value(1)
        if operation in (Operation.INCREMENT, Operation.DECREMENT):
            value = self.random.choice(NUMBERS)
        elif operation in (Operation.MIN, Operation.MAX):
            value = self.random.choice((*NUMBERS, *TEXTS))
        elif operation is Operation.MERGE:
            value = {self.random.choice(SEGMENTS): self.value(1)}
        elif operation in (Operation.UNSET, Operation.NOW):
            value = None
        return Change(path, operation, value, ".".join(path))

    def changes(self) -> tuple[Change, ...]:
        return tuple(self.change() for _ in range(self.random.choice((0, 1, 1, 2, 3))))

    def ask(self) -> Ask:
        """One call. It gives something that two stores can be compared by."""
        key, once, limit = self.random.choice(KEYS), self.random.random() < 0.3, self.random.choice((1, 3, 100))
        where, order, changes = self.condition(), self.order(), self.changes()
        guard = where if once else EVERY
        match self.random.randrange(12):
            case 0 | 1 | 2:
                value: Json = {segment: self.value(1) for segment in SEGMENTS[:4]} if limit > 1 else self.value()
                ttl = timedelta(minutes=10) if self.random.random() < 0.2 else None
                return lambda data: data.set("t", key, value, ttl=ttl, if_absent=once)
            case 3:
                entries = [(self.random.choice(KEYS), self.value()) for _ in range(5)]
                return lambda data: data.set_many("t", entries, if_absent=once)
            case 4 | 5 | 6:
                return lambda data: data.update("t", key, guard, changes, upsert=limit == 1)
            case 7:
                return lambda data: list(data.claim("t", where, order, limit=limit, holder="h", changes=changes[:1]))
            case 8:
                held = {held: self.random.randrange(3) for held in KEYS}
                return lambda data: sorted(data.renew("t", held, holder="h"))
            case 9:
                some = All((where, Test(Field("a", None, ("a",)), Operator.SET)))
                return lambda data: (data.delete("t", some), data.remove_expired() < 0)
            case _:
                return lambda data: (data.count("t", where), pages(data, where, order, limit))


def pages(data: DataStore, where: Condition, order: Order, limit: int) -> list[Row]:
    rows: list[Row] = []
    cursor = None
    while True:
        page = data.query("t", where, order, limit=limit, cursor=cursor)
        rows += page.rows
        cursor = page.next_cursor
        if cursor is None:
            return rows


def answer(ask: Ask, data: DataStore) -> Answer:
    """What a call gives, or with which code and where it was refused."""
    try:
        return ask(data)
    except StepFailed as refused:
        return "refused", refused.code, getattr(refused, "place", "")


@pytest.mark.parametrize("seed", range(4))
def test_a_store_answers_as_the_memory_store_does(data: DataStore, clock: FrozenClock, seed: int) -> None:
    memory, chance = MemoryStore(clock).data, Chance(seed)
    for _ in range(250):
        clock.forward(timedelta(microseconds=chance.random.choice((0, 0, 1, 10**6, 3 * 10**8))))
        ask = chance.ask()
        assert answer(ask, data) == answer(ask, memory)
    rows = pages(data, EVERY, (), 100)
    assert rows == pages(memory, EVERY, (), 100)
    assert [kinds(row.value) for row in rows] == [kinds(row.value) for row in pages(memory, EVERY, (), 100)]


def kinds(value: Json) -> object:
    """The shape of a value with the type of each number in it: 1, 1.0 and true are equal in Python."""
    if isinstance(value, dict):
        return {key: kinds(held) for key, held in value.items()}
    return [kinds(held) for held in value] if isinstance(value, list) else type(value)
