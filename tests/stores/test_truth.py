"""Every operator says the same of every value on every adapter, and in the plain reading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest

from flo.engine.stores.base import DataStore, Row
from flo.engine.stores.fields import ABSENT, Absent
from flo.engine.stores.filters import Field, Operator, Test, holds, matches
from flo.engine.values import Json, dump
from flo.testing import FrozenClock

from .truth import CASES, EVERYTHING, NOW, Case

FIELD = Field("field", None, ("field",))
STATUS = Field("status", None, ("status",))


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOW)


def written(value: Json | Absent) -> str:
    return "absent" if value is ABSENT else dump(value)


def fill(data: DataStore, table: str, field: str, values: Iterable[Json | Absent]) -> dict[str, str]:
    """One row for each value. Gives what each key's field holds, as it is written."""
    distinct = {written(value): value for value in values}
    keys = {f"k{index}": text for index, text in enumerate(distinct)}
    rows: list[tuple[str, Json]] = []
    for key, text in keys.items():
        value = distinct[text]
        rows.append((key, {} if value is ABSENT else {field: value}))
    data.set_many(table, rows)
    return keys


def found(data: DataStore, table: str, test: Test) -> set[str]:
    rows = data.query(table, test, limit=1000).rows
    assert data.count(table, test) == len(rows)
    return {row.key for row in rows}


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{written(case.stored)} {case.operator} {dump(case.operand)}"[:90]
)
def test_the_plain_reading_is_the_table(case: Case) -> None:
    assert holds(case.operator, case.stored, case.operand, NOW) is case.holds


@pytest.mark.parametrize("operator", Operator)
def test_the_store_is_the_table(data: DataStore, operator: Operator) -> None:
    cases = [case for case in CASES if case.operator is operator]
    for field in (FIELD, STATUS):
        keys = fill(data, field.text, field.text, (case.stored for case in cases))
        by_operand: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            by_operand[written(case.operand)].append(case)
        for group in by_operand.values():
            hits = found(data, field.text, Test(field, operator, group[0].operand))
            hit = {keys[key] for key in hits}
            wrong = [case for case in group if (written(case.stored) in hit) is not case.holds]
            assert not wrong


def operands(operator: Operator) -> Sequence[Json]:
    """What an operator can be asked with, of every kind."""
    values = [value for value in EVERYTHING if value is not ABSENT]
    match operator:
        case Operator.SET | Operator.NOT_SET | Operator.IS_NULL:
            return [None]
        case Operator.IN | Operator.NOT_IN:
            return [[], *([value] for value in values), values]
        case Operator.OLDER_THAN | Operator.NEWER_THAN:
            return ["0s", "5m", "100d"]
    return values


@pytest.mark.parametrize("operator", Operator)
def test_the_store_agrees_with_the_plain_reading_of_every_kind_of_value(data: DataStore, operator: Operator) -> None:
    for field in (FIELD, STATUS):
        keys = fill(data, field.text, field.text, EVERYTHING)
        values = {written(value): value for value in EVERYTHING}
        for operand in operands(operator):
            expected = {key for key, text in keys.items() if holds(operator, values[text], operand, NOW)}
            assert found(data, field.text, Test(field, operator, operand)) == expected, operand


@pytest.mark.parametrize("column", ["key", "createdAt", "updatedAt", "expiresAt", "claimCount"])
@pytest.mark.parametrize("operator", Operator)
def test_the_store_agrees_with_the_plain_reading_of_row_fields(
    data: DataStore, clock: FrozenClock, operator: Operator, column: str
) -> None:
    expected_rows: list[Row] = data_rows(data, clock)
    asked: list[Json] = list(operands(operator))
    if operator not in (Operator.SET, Operator.NOT_SET, Operator.IS_NULL, Operator.OLDER_THAN, Operator.NEWER_THAN):
        more: list[Json] = ["a", "b", 0, 1, 2.5]
        for row in expected_rows:
            more += [value for value in row.as_json().values() if isinstance(value, str)]
        asked += [[value] for value in more] if operator in (Operator.IN, Operator.NOT_IN) else more
    for operand in asked:
        test = Test(Field(column, column, ()), operator, operand)
        expected = {row.key for row in expected_rows if matches(test, row, clock.now())}
        assert found(data, "rows", test) == expected, operand


def data_rows(data: DataStore, clock: FrozenClock) -> list[Row]:
    """Rows that differ in every row field."""
    data.set("rows", "a", {"status": "x"})
    clock.forward(timedelta(minutes=10, microseconds=1))
    data.set("rows", "2026-04-01T12:00:00+00:00", {"status": "y"}, ttl=timedelta(hours=1))
    clock.forward(timedelta(minutes=10))
    data.set("rows", "b", {"status": "y"}, ttl=timedelta(days=400))
    data.claim("rows", Test(Field("key", "key", ()), Operator.EQUALS, "b"), (), limit=1, holder="h", changes=())
    clock.forward(timedelta(seconds=1))
    rows = [data.get("rows", key) for key in ("a", "2026-04-01T12:00:00+00:00", "b")]
    return [row for row in rows if row is not None]
