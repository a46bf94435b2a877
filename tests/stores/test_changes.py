"""Every operation of ``set``: what it makes of a value, and what is said where it cannot be done."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime

import pytest

from flo.engine.errors import FilterInvalid, StepFailed
from flo.engine.stores.base import DataStore
from flo.engine.stores.changes import Change, Operation, apply, parse_changes
from flo.engine.stores.filters import EVERY
from flo.engine.values import Json, dump
from flo.testing import FrozenClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)

MADE: list[tuple[Json, str, str, Json, Json]] = [
    # value, field, operation, operand, value afterwards
    ({}, "a", "set", 1, {"a": 1}),
    ({"a": 1, "b": 2}, "a", "set", None, {"a": None, "b": 2}),
    ({"a": 1}, "a", "set", {"x": [1]}, {"a": {"x": [1]}}),
    ({}, "a.b.c", "set", 1, {"a": {"b": {"c": 1}}}),
    ({"a": {"x": 1}}, "a.b.c", "set", 1, {"a": {"x": 1, "b": {"c": 1}}}),
    ({}, '["a.b"].c', "set", 1, {"a.b": {"c": 1}}),
    ({}, "a.0", "set", 1, {"a": {"0": 1}}),
    ({"a": {"0": 1}}, "a.0", "set", 2, {"a": {"0": 2}}),
    ({"a": [1, 2, 3]}, "a.0", "set", 9, {"a": [9, 2, 3]}),
    ({"a": [1, 2, 3]}, "a.-1", "set", 9, {"a": [1, 2, 9]}),
    ({"a": [1, 2, 3]}, "a[-3]", "set", 9, {"a": [9, 2, 3]}),
    ({"a": [{"b": 1}]}, "a[0].b", "set", 2, {"a": [{"b": 2}]}),
    ({"a": [{}]}, "a[0].b.c", "set", 2, {"a": [{"b": {"c": 2}}]}),
    ({}, "value.key", "set", "k", {"key": "k"}),
    ({}, "claimedBy", "set", "me", {"claimedBy": "me"}),
    ({"a": 1, "b": 2}, "a", "unset", None, {"b": 2}),
    ({"a": None}, "a", "unset", None, {}),
    ({"a": {"b": 1}}, "a.b", "unset", None, {"a": {}}),
    ({"b": 2}, "a", "unset", None, {"b": 2}),
    ({}, "a.b.c", "unset", None, {}),
    ({"a": "text"}, "a.b", "unset", None, {"a": "text"}),
    ({"a": None}, "a.b", "unset", None, {"a": None}),
    ({"a": [1, 2, 3]}, "a.1", "unset", None, {"a": [1, 3]}),
    ({"a": [1, 2, 3]}, "a.-1", "unset", None, {"a": [1, 2]}),
    ({"a": [1]}, "a.5", "unset", None, {"a": [1]}),
    ({"a": [1]}, "a.x", "unset", None, {"a": [1]}),
    ({"a": 1}, "a", "increment", 2, {"a": 3}),
    ({"a": 1}, "a", "decrement", 2, {"a": -1}),
    ({}, "a", "increment", 2, {"a": 2}),
    ({}, "a.b", "decrement", 2, {"a": {"b": -2}}),
    ({"a": 2**53}, "a", "increment", 1, {"a": 2**53 + 1}),
    ({"a": 2**63 - 1}, "a", "increment", 1, {"a": 2**63}),
    ({"a": 10**29}, "a", "decrement", 1, {"a": 10**29 - 1}),
    ({"a": 0.1}, "a", "increment", 0.2, {"a": 0.1 + 0.2}),
    ({"a": 1}, "a", "increment", 0.5, {"a": 1.5}),
    ({"a": 1.5}, "a", "increment", 1, {"a": 2.5}),
    ({"a": 1.5}, "a", "decrement", 0.5, {"a": 1.0}),
    ({"a": 1e300}, "a", "increment", 1, {"a": 1e300}),
    ({"a": 2**53 + 1}, "a", "increment", 0.0, {"a": float(2**53)}),
    ({"a": 1}, "a", "increment", 5e-324, {"a": 1.0}),
    ({"a": 5}, "a", "min", 3, {"a": 3}),
    ({"a": 5}, "a", "min", 7, {"a": 5}),
    ({"a": 5}, "a", "max", 7, {"a": 7}),
    ({"a": 5}, "a", "max", 3.5, {"a": 5}),
    ({}, "a", "min", 7, {"a": 7}),
    ({}, "a", "max", "x", {"a": "x"}),
    ({"a": "b"}, "a", "max", "c", {"a": "c"}),
    ({"a": 2**64}, "a", "max", 2**64 + 1, {"a": 2**64 + 1}),
    (
        {"a": "2026-04-01T10:00:00Z"},
        "a",
        "max",
        "2026-04-01T11:00:00+02:00",
        {"a": "2026-04-01T10:00:00Z"},
    ),
    ({"a": [1]}, "a", "append", 2, {"a": [1, 2]}),
    ({"a": [1]}, "a", "append", [2, 3], {"a": [1, [2, 3]]}),
    ({}, "a", "append", 2, {"a": [2]}),
    ({}, "a.b", "append", None, {"a": {"b": [None]}}),
    ({"a": [1]}, "a", "prepend", 2, {"a": [2, 1]}),
    ({}, "a", "prepend", {"x": 1}, {"a": [{"x": 1}]}),
    ({"a": [1, "1", True, 1.0, None]}, "a", "remove", 1, {"a": ["1", True, None]}),
    ({"a": [1, None, {"b": 1}]}, "a", "remove", {"b": 1}, {"a": [1, None]}),
    ({"a": [1, None]}, "a", "remove", None, {"a": [1]}),
    ({"a": ["2026-04-01T10:00:00Z", "x"]}, "a", "remove", "2026-04-01T12:00:00+02:00", {"a": ["x"]}),
    ({"a": [1]}, "a", "remove", 2, {"a": [1]}),
    ({}, "a", "remove", 1, {}),
    ({}, "a.b", "remove", 1, {}),
    ({"a": {"x": 1, "y": {"z": 1}}}, "a", "merge", {"y": 2, "n": None}, {"a": {"x": 1, "y": 2, "n": None}}),
    ({}, "a", "merge", {"x": 1}, {"a": {"x": 1}}),
    ({"a": {"x": 1}}, "a", "merge", {}, {"a": {"x": 1}}),
    ({}, "a", "now", None, {"a": "2026-01-01T00:00:00.000000Z"}),
    ({"a": 5}, "a", "now", None, {"a": "2026-01-01T00:00:00.000000Z"}),
]

REFUSED: list[tuple[Json, str, str, Json]] = [
    # value, field, operation, operand
    ({"a": "x"}, "a", "increment", 1),
    ({"a": "1"}, "a", "increment", 1),
    ({"a": None}, "a", "increment", 1),
    ({"a": True}, "a", "increment", 1),
    ({"a": []}, "a", "decrement", 1),
    ({"a": 1.7e308}, "a", "increment", 1.7e308),
    ({"a": -1.7e308}, "a", "decrement", 1.7e308),
    ({"a": 10**400}, "a", "increment", 0.5),
    ({"a": "x"}, "a", "min", 1),
    ({"a": 1}, "a", "max", "x"),
    ({"a": None}, "a", "max", 1),
    ({"a": True}, "a", "min", 1),
    ({"a": "x"}, "a", "append", 1),
    ({"a": None}, "a", "append", 1),
    ({"a": {}}, "a", "prepend", 1),
    ({"a": "x"}, "a", "remove", "x"),
    ({"a": {"x": 1}}, "a", "remove", "x"),
    ({"a": None}, "a", "remove", None),
    ({"a": []}, "a", "merge", {}),
    ({"a": None}, "a", "merge", {"x": 1}),
    ({"a": 1}, "a", "merge", {"x": 1}),
    ({"a": "text"}, "a.b", "set", 1),
    ({"a": 5}, "a.b", "increment", 1),
    ({"a": None}, "a.b", "set", 1),
    ({"a": True}, "a.b.c", "now", None),
    ({"a": [1]}, "a.b", "set", 1),
    ({"a": [1]}, "a.1", "set", 1),
    ({"a": [1]}, "a.-2", "set", 1),
    ({"a": [1]}, "a.00", "set", 1),
    ({"a": [[1]]}, "a.0.5", "append", 1),
    ([1], "0", "set", 1),
    ("text", "a", "set", 1),
    (None, "a", "set", 1),
]


def changes(field: str, operation: str, operand: Json) -> Json:
    change: dict[str, Json] = {"field": field, "operation": operation, "value": operand}
    if operation in ("unset", "now"):
        del change["value"]
    return change


@pytest.mark.parametrize(("value", "field", "operation", "operand", "after"), MADE)
def test_a_change_is_made(value: Json, field: str, operation: str, operand: Json, after: Json) -> None:
    before = deepcopy(value)
    changed = apply(value, parse_changes(changes(field, operation, operand)), NOW)
    assert dump(changed) == dump(after)
    assert dump(value) == dump(before)


@pytest.mark.parametrize(("value", "field", "operation", "operand"), REFUSED)
def test_a_change_that_cannot_be_made_says_which_one(value: Json, field: str, operation: str, operand: Json) -> None:
    with pytest.raises(FilterInvalid) as caught:
        apply(value, parse_changes([{"field": "other", "operation": "unset"}, changes(field, operation, operand)]), NOW)
    assert caught.value.place == ("set[1]" if isinstance(value, dict) else "set")


def test_every_store_makes_the_same_of_a_value(data: DataStore, clock: FrozenClock) -> None:
    for number, (value, field, operation, operand, after) in enumerate(MADE):
        clock.time = NOW
        key = f"k{number}"
        data.set("t", key, value)
        updated = data.update("t", key, EVERY, parse_changes([changes(field, operation, operand)]))
        assert updated.updated, (value, field, operation)
        for row in (updated.row, data.get("t", key)):
            assert row is not None
            assert canonical(row.value) == canonical(after), (value, field, operation, operand)


def test_every_store_refuses_the_same_and_changes_nothing(data: DataStore) -> None:
    for number, (value, field, operation, operand) in enumerate(REFUSED):
        key = f"k{number}"
        before = data.set("t", key, value).row
        asked = [{"field": "first", "operation": "set", "value": 1}, changes(field, operation, operand)]
        with pytest.raises(FilterInvalid) as caught:
            data.update("t", key, EVERY, parse_changes(asked))
        assert caught.value.place == ("set[1]" if isinstance(value, dict) else "set"), (value, field, operation)
        assert data.get("t", key) == before


def canonical(value: Json) -> str:
    """A value written with its keys sorted: a store may keep them in another order."""
    return json.dumps(value, sort_keys=True)


def test_changes_are_made_in_turn(data: DataStore) -> None:
    asked: Json = [
        {"field": "n", "operation": "set", "value": 1},
        {"field": "n", "operation": "increment", "value": 1},
        {"field": "list", "operation": "append", "value": 1},
        {"field": "list", "operation": "prepend", "value": 0},
        {"field": "list[1]", "operation": "increment", "value": 10},
        {"field": "gone", "operation": "unset"},
    ]
    data.set("t", "k", {"gone": True})
    updated = data.update("t", "k", EVERY, parse_changes(asked))
    assert updated.row is not None
    assert updated.row.value == {"n": 2, "list": [0, 11]}


@pytest.mark.parametrize(
    ("asked", "place", "message"),
    [
        (None, "set", "it must be a list of changes; null came"),
        ("x", "set", "text came"),
        (["x"], "set[0]", "it must be a change {field, operation, value}; text came"),
        ([{"operation": "now"}], "set[0]", "it has no field"),
        ([{"field": "a"}], "set[0].operation", "it is missing; set, unset"),
        ([{"field": "a", "operation": "incr", "value": 1}], "set[0].operation", "no operation 'incr'"),
        ([{"field": "a", "operation": "Set", "value": 1}], "set[0].operation", "did you mean 'set'?"),
        ([{"field": "a", "operation": 1}], "set[0].operation", "it must be the name of an operation"),
        ([{"field": "a", "operator": "set"}], "set[0]", "unknown key 'operator'; did you mean 'operation'?"),
        ([{"field": "a", "operation": "set"}], "set[0]", "set needs a value, and there is none"),
        ([{"field": "a", "operation": "remove"}], "set[0]", "remove needs a value, and there is none"),
        ([{"field": "a", "operation": "increment"}], "set[0]", "increment needs a value"),
        ([{"field": "a", "operation": "unset", "value": 1}], "set[0].value", "unset takes no value; 1 came"),
        ([{"field": "a", "operation": "now", "value": "5m"}], "set[0].value", 'now takes no value; "5m" came'),
        ([{"field": "a", "operation": "increment", "value": "1"}], "set[0].value", "needs a number; text came"),
        ([{"field": "a", "operation": "increment", "value": True}], "set[0].value", "needs a number; a boolean came"),
        ([{"field": "a", "operation": "max", "value": None}], "set[0].value", "needs a number or text; null came"),
        ([{"field": "a", "operation": "merge", "value": []}], "set[0].value", "needs an object; a list came"),
        ([{"field": "key", "operation": "set", "value": 1}], "set[0].field", 'write "value.key"'),
        ([{"field": "createdAt", "operation": "now"}], "set[0].field", 'write "value.createdAt"'),
        ([{"field": "value", "operation": "set", "value": {}}], "set[0].field", "it is the whole value"),
        ([{"field": "a..b", "operation": "now"}], "set[0].field", "starts no segment"),
    ],
)
def test_a_change_that_means_nothing_is_an_error_with_its_place(asked: Json, place: str, message: str) -> None:
    with pytest.raises(FilterInvalid) as caught:
        parse_changes(asked)
    assert caught.value.place == place
    assert message in caught.value.message


def test_a_change_does_not_nest_a_value_past_the_limit() -> None:
    def nested(depth: int) -> Json:
        return [nested(depth - 1)] if depth else 0

    parse_changes([{"field": "a.b", "operation": "set", "value": nested(198)}])
    for operation, depth in [("set", 199), ("append", 198), ("merge", 198)]:
        value: Json = {"x": nested(depth)} if operation == "merge" else nested(depth)
        with pytest.raises(FilterInvalid, match="the limit is 200"):
            parse_changes([{"field": "a.b", "operation": operation, "value": value}])


def test_an_integer_that_cannot_be_written_is_refused(data: DataStore) -> None:
    nines: Json = 10**4300 - 1
    before = data.set("t", "k", {"n": nines}).row
    with pytest.raises(StepFailed, match="digits"):
        data.update("t", "k", EVERY, [Change(("n",), Operation.INCREMENT, 1, "n")])
    assert data.get("t", "k") == before
