"""Claims: rows go to one holder each, in order, and stay with it while it lives."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from flo.engine.errors import FilterInvalid
from flo.engine.stores.base import DataStore, Row
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.values import Json
from flo.testing import FrozenClock

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])
STALE = parse_where(
    [
        {"field": "status", "operator": "equals", "value": "in_flight"},
        {"field": "claimedAt", "operator": "olderThan", "value": "5m"},
    ]
)
OLDEST = parse_order({"field": "createdAt", "direction": "asc"})
DONE = parse_changes([{"field": "status", "operation": "set", "value": "done"}])


def held_by(holder: str) -> Mapping[str, Json]:
    return {"status": "in_flight", "claimedBy": holder}


def fill(data: DataStore, count: int) -> None:
    data.set_many("t", [(f"k{number:04}", {"status": "pending", "n": number}) for number in range(count)])


def test_a_claim_writes_who_has_the_row_since_when(data: DataStore, clock: FrozenClock) -> None:
    data.set("t", "k", {"status": "pending", "payload": {"n": 1}}, ttl=timedelta(hours=1))
    clock.forward(MINUTE)
    rows = data.claim("t", PENDING, OLDEST, limit=5, holder="run-1", changes=())
    value = {"payload": {"n": 1}, "claimedAt": "2026-01-01T00:01:00.000000Z", **held_by("run-1")}
    assert rows == [Row("k", value, START, START + MINUTE, START + timedelta(hours=1), 1)]
    assert data.get("t", "k") == rows[0]
    assert data.claim("t", PENDING, OLDEST, limit=5, holder="run-2", changes=()) == []


def test_changes_add_to_what_a_claim_writes_or_replace_it(data: DataStore) -> None:
    data.set("t", "k", {"status": "pending"})
    changes = parse_changes(
        [
            {"field": "status", "operation": "set", "value": "working"},
            {"field": "attempts", "operation": "increment", "value": 1},
            {"field": "claimedBy", "operation": "unset"},
        ]
    )
    (row,) = data.claim("t", PENDING, (), limit=1, holder="h", changes=changes)
    assert row.value == {"status": "working", "claimedAt": "2026-01-01T00:00:00.000000Z", "attempts": 1}


def test_a_claim_takes_rows_in_order_up_to_its_limit(data: DataStore, clock: FrozenClock) -> None:
    for key, priority in [("a", 1), ("b", 3), ("c", 2), ("d", 3)]:
        data.set("t", key, {"status": "pending", "priority": priority})
        clock.forward(timedelta(seconds=1))
    by_priority = parse_order([{"field": "priority", "direction": "desc"}, {"field": "createdAt"}])
    claims = [data.claim("t", PENDING, by_priority, limit=3, holder="h", changes=()) for _ in range(3)]
    assert [[row.key for row in rows] for rows in claims] == [["b", "d", "c"], ["a"], []]


@pytest.mark.parametrize(("direction", "keys"), [("asc", "abc"), ("desc", "cba")])
def test_a_claim_takes_the_oldest_or_the_newest(data: DataStore, clock: FrozenClock, direction: str, keys: str) -> None:
    for key in "abcd" if direction == "asc" else "xabc":
        data.set("t", key, {"status": "pending"})
        clock.forward(timedelta(seconds=1))
    order = parse_order({"field": "createdAt", "direction": direction})
    rows = data.claim("t", PENDING, order, limit=3, holder="h", changes=())
    assert "".join(row.key for row in rows) == keys


def test_without_an_order_a_claim_takes_what_was_inserted_first(data: DataStore, clock: FrozenClock) -> None:
    for key in "cab":
        data.set("t", key, {"status": "pending"})
        clock.time -= timedelta(seconds=1)
    assert [row.key for row in data.claim("t", PENDING, (), limit=2, holder="h", changes=())] == ["c", "a"]


def test_rows_whose_value_is_no_object_are_never_claimed(data: DataStore) -> None:
    values: list[Json] = [None, 5, "pending", ["pending"], {"status": "pending"}, True]
    data.set_many("t", [(f"k{number}", value) for number, value in enumerate(values)])
    assert [row.key for row in data.claim("t", EVERY, (), limit=9, holder="h", changes=())] == ["k4"]
    whole = parse_where([{"field": "value", "operator": "equals", "value": 5}])
    assert data.claim("t", whole, (), limit=9, holder="h", changes=()) == []


def test_a_change_that_cannot_be_made_claims_nothing(data: DataStore) -> None:
    fill(data, 3)
    data.set("t", "odd", {"status": "pending", "n": "text"})
    changes = parse_changes([{"field": "n", "operation": "increment", "value": 1}])
    with pytest.raises(FilterInvalid) as caught:
        data.claim("t", PENDING, (), limit=9, holder="h", changes=changes)
    assert caught.value.place == "set[0]"
    assert data.count("t", PENDING) == 4


def test_an_empty_list_claims_nothing(data: DataStore) -> None:
    fill(data, 3)
    none = parse_where([{"field": "status", "operator": "in", "value": []}])
    assert data.claim("t", none, (), limit=9, holder="h", changes=()) == []
    assert data.count("t", PENDING) == 3


def test_a_stale_claim_is_taken_over(data: DataStore, clock: FrozenClock) -> None:
    fill(data, 1)
    data.claim("t", PENDING, (), limit=1, holder="dead", changes=())
    clock.forward(timedelta(minutes=5))
    assert data.claim("t", STALE, (), limit=1, holder="alive", changes=()) == []
    clock.forward(timedelta(microseconds=1))
    (row,) = data.claim("t", STALE, (), limit=1, holder="alive", changes=())
    assert row.claim_count == 2
    late = data.update("t", "k0000", parse_where([{"field": "claimedBy", "operator": "eq", "value": "dead"}]), DONE)
    assert (late.updated, late.reason) == (False, "guard")


def test_concurrent_claims_get_every_row_once(data: DataStore) -> None:
    fill(data, 300)
    claimed: list[str] = []

    def work(holder: str) -> None:
        while rows := data.claim("t", PENDING, OLDEST, limit=7, holder=holder, changes=()):
            assert [row.key for row in rows] == sorted(row.key for row in rows)
            claimed.extend(row.key for row in rows)

    threads = [threading.Thread(target=work, args=(f"h{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == [f"k{number:04}" for number in range(300)]


def test_claims_updates_sets_and_deletes_mix(data: DataStore) -> None:
    fill(data, 120)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(12):
                for row in data.claim("t", PENDING, OLDEST, limit=2, holder=f"h{number}", changes=()):
                    data.update("t", row.key, EVERY, DONE)
                data.set("t", f"new-{number}-{turn}", {"status": "pending"})
                one = parse_where([{"field": "key", "operator": "equals", "value": f"new-{number}-{turn - 1}"}])
                data.delete("t", one)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert data.count("t", EVERY) == 120 + 8


def test_a_holder_renews_what_it_still_has(data: DataStore, clock: FrozenClock) -> None:
    fill(data, 5)
    rows = data.claim("t", PENDING, (), limit=5, holder="h", changes=())
    held = {row.key: row.claim_count for row in rows}
    data.update("t", "k0001", EVERY, DONE)
    data.update("t", "k0002", EVERY, parse_changes([{"field": "claimedBy", "operation": "set", "value": "other"}]))
    clock.forward(timedelta(minutes=10))
    data.claim("t", parse_where([{"field": "n", "operator": "eq", "value": 3}]), (), limit=1, holder="h", changes=())
    data.delete("t", parse_where([{"field": "n", "operator": "eq", "value": 4}]))
    clock.forward(MINUTE)
    assert list(data.renew("t", held, holder="h")) == ["k0000"]
    row = data.get("t", "k0000")
    assert row is not None
    value = {"n": 0, "claimedAt": "2026-01-01T00:11:00.000000Z", **held_by("h")}
    assert row == Row("k0000", value, START, START + timedelta(minutes=11), None, 1)
    assert [row.key for row in data.claim("t", STALE, (), limit=9, holder="new", changes=())] == ["k0002"]


def test_nothing_of_another_holder_is_renewed(data: DataStore, clock: FrozenClock) -> None:
    fill(data, 1)
    (row,) = data.claim("t", PENDING, (), limit=1, holder="h", changes=())
    clock.forward(MINUTE)
    assert list(data.renew("t", {row.key: 1, "none": 1}, holder="other")) == []
    assert list(data.renew("t", {row.key: 2}, holder="h")) == []
    assert list(data.renew("t", {}, holder="h")) == []
    assert list(data.renew("none", {row.key: 1}, holder="h")) == []
    assert data.get("t", row.key) == row


def test_concurrent_claims_by_a_field_of_the_value_get_every_row_once(data: DataStore) -> None:
    data.set_many("t", [(f"k{number:03}", {"status": "pending", "priority": number % 5}) for number in range(100)])
    by_priority = parse_order({"field": "priority", "direction": "desc"})
    claimed: list[str] = []

    def work(holder: str) -> None:
        while rows := data.claim("t", PENDING, by_priority, limit=3, holder=holder, changes=()):
            priorities = [row.value["priority"] for row in rows if isinstance(row.value, dict)]
            assert priorities == sorted(priorities, key=str, reverse=True)
            claimed.extend(row.key for row in rows)

    threads = [threading.Thread(target=work, args=(f"h{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == [f"k{number:03}" for number in range(100)]
