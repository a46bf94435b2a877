"""The order of rows, and pages that go on where the last one ended."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import timedelta

import pytest

from flo.engine.errors import FilterInvalid
from flo.engine.stores.base import DataStore
from flo.engine.stores.filters import EVERY, parse_field, parse_where
from flo.engine.stores.ordering import By, Order, parse_order
from flo.engine.values import Json
from flo.testing import FrozenClock

MIXED: dict[str, Json] = {
    "text-b": {"p": "b"},
    "ten-text": {"p": "10"},
    "missing-1": {},
    "nine": {"p": 9},
    "list": {"p": [1]},
    "true": {"p": True},
    "later": {"p": "2026-04-01T10:00:00.5Z"},
    "big": {"p": 2**64},
    "null": {"p": None},
    "object": {"p": {"a": 1}},
    "ten": {"p": 10},
    "half": {"p": 9.5},
    "bigger": {"p": 2**64 + 1},
    "earlier": {"p": "2026-04-01T12:00:00+02:00"},
    "false": {"p": False},
    "text-a": {"p": "a"},
    "nine-again": {"p": 9.0},
    "missing-2": 7,
    "empty": {"p": ""},
    "minus": {"p": -1},
    "upper": {"p": "Z"},
    "astral": {"p": "😀"},
    "private": {"p": "\uffff"},
}
ASCENDING = [
    *("null", "false", "true", "minus", "nine", "nine-again", "half", "ten", "big", "bigger", "earlier", "later"),
    *(
        "empty",
        "ten-text",
        "upper",
        "text-a",
        "text-b",
        "private",
        "astral",
        "list",
        "object",
        "missing-1",
        "missing-2",
    ),
]
DESCENDING = [
    *("list", "object", "astral", "private", "text-b", "text-a", "upper", "ten-text", "empty", "later", "earlier"),
    *("bigger", "big", "ten", "half", "nine", "nine-again", "minus", "true", "false", "null", "missing-1", "missing-2"),
]


def keys(data: DataStore, order: Order, limit: int = 100) -> list[str]:
    """The keys of the whole table ``t``, read page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = data.query("t", EVERY, order, limit=limit, cursor=cursor)
        assert len(page.rows) <= limit
        found += [row.key for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_an_order_is_one_or_a_list() -> None:
    by = By(parse_field("a"))
    assert parse_order({"field": "a"}) == (by,)
    assert parse_order([{"field": "a", "direction": "ASC"}, {"field": "key", "direction": "Desc"}]) == (
        by,
        By(parse_field("key"), descending=True),
    )
    assert parse_order([]) == ()


@pytest.mark.parametrize(
    ("order", "place", "message"),
    [
        ("createdAt", "orderBy", "it must be {field, direction} or a list of them; text came"),
        (["createdAt"], "orderBy[0]", "it must be {field, direction}; text came"),
        ([{"direction": "asc"}], "orderBy[0]", "it has no field"),
        ([{"field": "a"}, {"field": ""}], "orderBy[1].field", "an empty text came"),
        ({"field": "a", "direction": "up"}, "orderBy.direction", 'it must be "asc" or "desc"; "up" came'),
        ({"field": "a", "direction": None}, "orderBy.direction", "null came"),
        ({"field": "a", "dir": "asc"}, "orderBy", "unknown key 'dir'; known are field, direction"),
    ],
)
def test_an_order_that_means_nothing_is_an_error_with_its_place(order: Json, place: str, message: str) -> None:
    with pytest.raises(FilterInvalid) as caught:
        parse_order(order)
    assert caught.value.place == place
    assert message in caught.value.message


@pytest.mark.parametrize("limit", [100, 1, 4])
@pytest.mark.parametrize(("direction", "expected"), [("asc", ASCENDING), ("desc", DESCENDING)])
def test_values_of_any_kind_have_one_order(data: DataStore, direction: str, expected: list[str], limit: int) -> None:
    data.set_many("t", list(MIXED.items()))
    assert keys(data, parse_order({"field": "p", "direction": direction}), limit) == expected


@pytest.mark.parametrize("limit", [100, 1, 3])
def test_without_an_order_rows_come_as_they_were_inserted(data: DataStore, limit: int) -> None:
    for key in "cab":
        data.set("t", key, {"n": 1})
    data.set("u", "x", 1)
    data.set("t", "d", {"n": 1})
    data.set("t", "a", {"n": 2})
    assert keys(data, (), limit) == ["c", "a", "b", "d"]


def test_a_row_that_was_deleted_and_set_again_is_the_last(data: DataStore) -> None:
    data.set_many("t", [(key, {}) for key in "abc"])
    data.delete("t", parse_where([{"field": "key", "operator": "equals", "value": "c"}]))
    data.delete("t", parse_where([{"field": "key", "operator": "equals", "value": "a"}]))
    data.set("t", "a", {})
    assert keys(data, ()) == ["b", "a"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ({"field": "createdAt"}, "abcd"),
        ({"field": "createdAt", "direction": "desc"}, "dbca"),
        ({"field": "updatedAt"}, "bcda"),
        ({"field": "updatedAt", "direction": "desc"}, "adbc"),
        ({"field": "expiresAt"}, "acdb"),
        ({"field": "expiresAt", "direction": "desc"}, "bdac"),
        ({"field": "claimCount", "direction": "desc"}, "cabd"),
        ({"field": "key", "direction": "desc"}, "dcba"),
        ([{"field": "claimCount"}, {"field": "createdAt", "direction": "desc"}], "dbac"),
        ([{"field": "g"}, {"field": "key", "direction": "desc"}], "dbca"),
        ({"field": "value", "direction": "desc"}, "abcd"),
    ],
)
def test_row_fields_order_too(data: DataStore, clock: FrozenClock, order: Json, expected: str) -> None:
    data.set("t", "a", {"g": 2})
    clock.forward(timedelta(seconds=1))
    data.set("t", "b", {"g": 1}, ttl=timedelta(days=2))
    data.set("t", "c", {"g": 2})
    clock.forward(timedelta(seconds=1))
    data.set("t", "d", {"g": 1}, ttl=timedelta(days=1))
    only_c = parse_where([{"field": "key", "operator": "equals", "value": "c"}])
    clock.time = clock.time - timedelta(seconds=1)
    data.claim("t", only_c, (), limit=1, holder="h", changes=())
    clock.forward(timedelta(seconds=5))
    data.update("t", "a", EVERY, ())
    assert keys(data, parse_order(order)) == list(expected)
    assert keys(data, parse_order(order), 1) == list(expected)


@pytest.mark.parametrize("field", ["n", "createdAt", None])
def test_a_cursor_goes_on_after_its_row_whatever_happens_to_the_rows(
    data: DataStore, clock: FrozenClock, field: str | None
) -> None:
    for number in range(0, 20, 2):
        data.set("t", f"k{number:02}", {"n": number})
        clock.forward(timedelta(seconds=1))
    order = () if field is None else parse_order({"field": field})
    first = data.query("t", EVERY, order, limit=4)
    assert [row.key for row in first.rows] == ["k00", "k02", "k04", "k06"]
    for key in ("k00", "k06", "k08", "k18"):
        data.delete("t", parse_where([{"field": "key", "operator": "equals", "value": key}]))
    clock.time = clock.time - timedelta(seconds=30)
    data.set("t", "before", {"n": 1})
    clock.forward(timedelta(seconds=60))
    data.set("t", "after", {"n": 99})
    rest = data.query("t", EVERY, order, limit=100, cursor=first.next_cursor)
    late = ["before", "after"] if field is None else ["after"]
    assert [row.key for row in rest.rows] == ["k10", "k12", "k14", "k16", *late]
    assert rest.next_cursor is None


def test_the_last_page_has_no_cursor(data: DataStore) -> None:
    data.set_many("t", [(f"k{number}", {}) for number in range(4)])
    page = data.query("t", EVERY, limit=4)
    assert (len(page.rows), page.next_cursor) == (4, None)
    assert data.query("nothing", EVERY, limit=4).rows == []


def test_a_cursor_keeps_to_its_condition(data: DataStore) -> None:
    data.set_many("t", [(f"k{number}", {"odd": number % 2}) for number in range(10)])
    odd = parse_where([{"field": "odd", "operator": "equals", "value": 1}])
    first = data.query("t", odd, limit=2)
    rest = data.query("t", odd, limit=9, cursor=first.next_cursor)
    assert [row.key for row in (*first.rows, *rest.rows)] == ["k1", "k3", "k5", "k7", "k9"]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "null",
        "🙂",
        *(urlsafe_b64encode(text).decode() for text in (b"[]", b"[1,2,3]", b'["x",[],"y"]', b"[" * 9999)),
    ],
)
def test_a_cursor_of_something_else_is_an_error(data: DataStore, cursor: str) -> None:
    data.set("t", "a", {})
    with pytest.raises(FilterInvalid) as caught:
        data.query("t", EVERY, limit=1, cursor=cursor)
    assert caught.value.place == "cursor"


def test_a_cursor_of_another_order_is_an_error(data: DataStore) -> None:
    data.set_many("t", [("a", {}), ("b", {})])
    cursor = data.query("t", EVERY, parse_order({"field": "n"}), limit=1).next_cursor
    with pytest.raises(FilterInvalid, match="another orderBy"):
        data.query("t", EVERY, parse_order({"field": "n", "direction": "desc"}), limit=1, cursor=cursor)


def test_priority_and_age_order_a_queue(data: DataStore, clock: FrozenClock) -> None:
    for key, priority in [("low", 1), ("none", None), ("high-1", 9), ("text", "10"), ("high-2", 9)]:
        data.set("t", key, {} if priority is None else {"priority": priority})
        clock.forward(timedelta(seconds=1))
    order = parse_order([{"field": "priority", "direction": "desc"}, {"field": "createdAt", "direction": "asc"}])
    assert keys(data, order) == ["text", "high-1", "high-2", "low", "none"]
