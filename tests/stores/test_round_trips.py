"""Any JSON value comes back as it was, and compares as the plain reading says, on every adapter."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flo.engine.comparison import identical, sort_key
from flo.engine.stores.base import DataStore
from flo.engine.stores.filters import EVERY, Field, Operator, Test, holds
from flo.engine.stores.ordering import By
from flo.engine.values import Json
from flo.testing import FrozenClock

FIELD = Field("field", None, ("field",))
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40),
    st.integers(-3, 3),
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**300]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e300, 1e-7, -0.0, 0.0, 5e-324, 1.0, 1e22, 1.7976931348623157e308, float(2**53)]),
)
INSTANTS = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
SCALARS = st.one_of(
    st.none(), st.booleans(), NUMBERS, TEXT, INSTANTS, st.sampled_from(["", "a_b", "%", "\\", "'", '"'])
)
JSON: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)

on_one_store = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def same(left: Json, right: Json) -> bool:
    """Equal, and every number of the same type as before."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(held, right[key]) for key, held in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and identical(left, right)


@given(value=JSON)
@on_one_store
def test_a_value_comes_back_as_it_was(data: DataStore, value: Json) -> None:
    stored = data.set("t", "k", value)
    read = data.get("t", "k")
    assert same(stored.row.value, value)
    assert read is not None
    assert same(read.value, value)


@given(key=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20))
@on_one_store
def test_a_key_comes_back_as_it_was(data: DataStore, key: str) -> None:
    data.delete("t", EVERY)
    data.set("t", key, {key: key})
    (row,) = data.query("t", EVERY, limit=2).rows
    assert (row.key, row.value) == (key, {key: key})
    assert data.count("t", Test(Field("x", None, (key,)), Operator.EQUALS, key)) == 1


@given(stored=st.lists(JSON, min_size=1, max_size=6), operand=JSON)
@on_one_store
def test_values_compare_as_in_the_plain_reading(
    data: DataStore, clock: FrozenClock, stored: list[Json], operand: Json
) -> None:
    data.delete("t", EVERY)
    stored = [*stored, operand]
    data.set_many("t", [(str(number), {"field": value}) for number, value in enumerate(stored)])
    for operator, asked in [
        *((operator, operand) for operator in (Operator.EQUALS, Operator.LT, Operator.GTE, Operator.CONTAINS)),
        (Operator.NOT_IN, [operand, 1]),
    ]:
        found = {row.key for row in data.query("t", Test(FIELD, operator, asked), limit=99).rows}
        expected = {str(at) for at, value in enumerate(stored) if holds(operator, value, asked, clock.now())}
        assert found == expected, operator


@pytest.mark.parametrize("descending", [False, True])
@given(stored=st.lists(SCALARS, min_size=2, max_size=8))
@on_one_store
def test_values_sort_as_in_the_plain_reading(data: DataStore, descending: bool, stored: list[Json]) -> None:
    data.delete("t", EVERY)
    data.set_many("t", [(str(number), {"field": value}) for number, value in enumerate(stored)])
    expected = sorted(range(len(stored)), key=lambda at: sort_key(stored[at]), reverse=descending)  # ties stay in turn
    rows = data.query("t", EVERY, (By(FIELD, descending),), limit=99).rows
    assert [int(row.key) for row in rows] == expected
