"""Rows: written, read, replaced, expired and removed, the same on every adapter."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from flo.engine.errors import StepFailed
from flo.engine.stores.base import DataStore, Row, Stored, Table
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, Condition, parse_where
from flo.engine.stores.limits import MAX_VALUE_BYTES
from flo.engine.values import Json
from flo.testing import FrozenClock

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BUMP = parse_changes([{"field": "n", "operation": "increment", "value": 1}])


def test_now_is_the_clock(data: DataStore, clock: FrozenClock) -> None:
    clock.forward(MINUTE)
    assert data.now() == START + MINUTE


def test_a_new_row_is_created_now(data: DataStore) -> None:
    row = Row("k", {"a": [1, None]}, START, START)
    assert data.set("t", "k", {"a": [1, None]}) == Stored(row, created=True)
    assert data.get("t", "k") == row
    assert row.as_json() == {
        "key": "k",
        "value": {"a": [1, None]},
        "createdAt": "2026-01-01T00:00:00.000000Z",
        "updatedAt": "2026-01-01T00:00:00.000000Z",
        "expiresAt": None,
        "claimCount": 0,
    }


def test_what_is_not_there_is_not_found(data: DataStore) -> None:
    data.set("t", "k", 1)
    assert data.get("t", "other") is None
    assert data.get("other", "k") is None
    assert data.count("other", EVERY) == 0
    assert data.delete("other", EVERY) == 0
    assert data.claim("other", EVERY, (), limit=5, holder="h", changes=()) == []
    assert data.update("other", "k", EVERY, BUMP).reason == "not-found"
    assert data.tables() == [Table("t", 1)]


def test_setting_again_is_new_work_in_the_old_place(data: DataStore, clock: FrozenClock) -> None:
    data.set("t", "k", {"a": 1, "b": 2}, ttl=timedelta(hours=1))
    data.claim("t", EVERY, (), limit=1, holder="h", changes=())
    clock.forward(MINUTE)
    stored = data.set("t", "k", {"a": 3})
    assert stored == Stored(Row("k", {"a": 3}, START, START + MINUTE), created=False)
    assert data.get("t", "k") == stored.row


def test_a_row_that_is_there_is_left_alone_if_absent_is_asked_for(data: DataStore, clock: FrozenClock) -> None:
    first = data.set("t", "k", {"a": 1}, if_absent=True)
    clock.forward(MINUTE)
    second = data.set("t", "k", {"a": 2}, if_absent=True, ttl=MINUTE)
    assert (first.created, second.created) == (True, False)
    assert second.row == first.row == data.get("t", "k")


def test_one_of_many_concurrent_writers_creates_an_absent_key(data: DataStore) -> None:
    start = threading.Barrier(12)
    stored: list[Stored] = []

    def write(number: int) -> None:
        start.wait()
        stored.append(data.set("t", "k", {"by": number}, if_absent=True))

    run_all([threading.Thread(target=write, args=(number,)) for number in range(12)])
    assert sum(held.created for held in stored) == 1
    assert len({str(held.row.value) for held in stored}) == 1


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_many_rows_are_written_at_once(data: DataStore, clock: FrozenClock) -> None:
    data.set("t", "b", {"old": True}, ttl=timedelta(hours=1))
    clock.forward(MINUTE)
    assert data.set_many("t", [("c", 1), ("b", {"n": 2}), ("a", None)]) == (2, 1)
    rows = data.query("t", EVERY, limit=9).rows
    assert [(row.key, row.value, row.created_at, row.expires_at) for row in rows] == [
        ("b", {"n": 2}, START, None),
        ("c", 1, START + MINUTE, None),
        ("a", None, START + MINUTE, None),
    ]
    assert data.set_many("t", [("a", 1), ("d", 1)], if_absent=True) == (1, 0)
    assert data.get("t", "a") == rows[2]
    assert data.set_many("t", []) == (0, 0)


def test_of_a_key_given_twice_the_last_value_stands_in_the_first_place(data: DataStore) -> None:
    assert data.set_many("t", [("a", 1), ("b", 2), ("a", 3)]) == (2, 0)
    assert [(row.key, row.value) for row in data.query("t", EVERY, limit=9).rows] == [("a", 3), ("b", 2)]
    assert data.set_many("t", [("b", 4), ("b", 5)]) == (0, 1)
    assert data.set_many("t", [("c", 6), ("c", 7)], if_absent=True) == (1, 0)
    assert [row.value for row in data.query("t", EVERY, limit=9).rows] == [3, 5, 7]


def test_writers_of_many_rows_in_different_orders_do_not_block_each_other_for_ever(data: DataStore) -> None:
    keys = [f"k{number:03}" for number in range(60)]

    def write(turn: int) -> None:
        for _ in range(5):
            data.set_many("t", [(key, {"by": turn}) for key in (keys if turn % 2 else reversed(keys))])

    run_all([threading.Thread(target=write, args=(turn,)) for turn in range(4)])
    assert data.count("t", EVERY) == len(keys)


def test_what_one_of_many_cannot_be_is_written_as_none(data: DataStore) -> None:
    huge = "x" * (MAX_VALUE_BYTES + 1)
    with pytest.raises(StepFailed, match="16,777,216") as caught:
        data.set_many("t", [("a", 1), ("b", huge)])
    assert caught.value.code == "too_large"
    assert data.count("t", EVERY) == 0


def test_a_value_over_the_limit_is_refused_with_its_size(data: DataStore) -> None:
    fits = "é" * ((MAX_VALUE_BYTES - 2) // 2)
    assert cast(str, data.set("t", "k", fits).row.value) == fits
    with pytest.raises(StepFailed, match=r"row 'k' of table 't' would have 16,777,217 bytes.*16,777,216") as caught:
        data.set("t", "k", fits + "x")
    assert (caught.value.code, caught.value.retryable) == ("too_large", False)
    held = data.get("t", "k")
    assert held is not None
    assert held.value == fits


def test_a_change_that_makes_a_value_too_large_changes_nothing(data: DataStore) -> None:
    before = data.set("t", "k", {"list": ["x" * (9 * 1024 * 1024)]}).row
    more = parse_changes([{"field": "list", "operation": "append", "value": "y" * (8 * 1024 * 1024)}])
    with pytest.raises(StepFailed) as caught:
        data.update("t", "k", EVERY, more)
    assert caught.value.code == "too_large"
    with pytest.raises(StepFailed) as caught:
        data.claim("t", EVERY, (), limit=1, holder="h", changes=more)
    assert caught.value.code == "too_large"
    assert data.get("t", "k") == before


@pytest.mark.parametrize("name", ["", "x" * 513, "a\0b"])
def test_names_have_bounds(data: DataStore, name: str) -> None:
    for attempt in (
        lambda: data.set(name, "k", 1),
        lambda: data.set("t", name, 1),
        lambda: data.set_many(name, [("k", 1)]),
        lambda: data.set_many("t", [("k", 1), (name, 1)]),
        lambda: data.get(name, "k"),
        lambda: data.get("t", name),
        lambda: data.query(name, EVERY, limit=1),
        lambda: data.count(name, EVERY),
        lambda: data.delete(name, EVERY),
        lambda: data.claim(name, EVERY, (), limit=1, holder="h", changes=()),
        lambda: data.update(name, "k", EVERY, BUMP),
        lambda: data.update("t", name, EVERY, BUMP, upsert=True),
    ):
        with pytest.raises(StepFailed):
            attempt()
    assert data.tables() == []


@pytest.mark.parametrize("name", ["x" * 512, " ", "a/b:c%_'\"\\", "äöü😀", "é", "select"])
def test_names_within_the_bounds_are_taken_as_they_are(data: DataStore, name: str) -> None:
    data.set(name, name, {"n": 1})
    row = data.get(name, name)
    assert row is not None
    assert row.key == name
    assert data.tables() == [Table(name, 1)]
    assert data.delete(name, parse_where([{"field": "key", "operator": "equals", "value": name}])) == 1


def test_tables_are_listed_by_name_with_their_live_rows(data: DataStore, clock: FrozenClock) -> None:
    data.set_many("b", [("1", 1), ("2", 1)])
    data.set("B", "1", 1)
    data.set("a", "1", 1)
    data.set("a", "2", 1, ttl=MINUTE)
    data.set("c", "1", 1, ttl=MINUTE)
    clock.forward(MINUTE)
    assert data.tables() == [Table("B", 1), Table("a", 1), Table("b", 2)]


def test_an_expired_row_is_invisible_at_once(data: DataStore, clock: FrozenClock) -> None:
    data.set("t", "k", {"n": 1}, ttl=MINUTE)
    data.set("t", "stays", {"n": 1}, ttl=timedelta(minutes=2))
    clock.forward(MINUTE - timedelta(microseconds=1))
    row = data.get("t", "k")
    assert row is not None
    assert row.expires_at == START + MINUTE
    assert data.count("t", EVERY) == 2
    clock.forward(timedelta(microseconds=1))
    only = parse_where([{"field": "key", "operator": "equals", "value": "k"}])
    counted = parse_where([{"field": "n", "operator": "equals", "value": 1}])
    assert data.get("t", "k") is None
    assert [row.key for row in data.query("t", EVERY, limit=9).rows] == ["stays"]
    assert (data.count("t", EVERY), data.count("t", only), data.count("t", counted)) == (1, 0, 1)
    assert data.claim("t", only, (), limit=9, holder="h", changes=()) == []
    assert data.update("t", "k", EVERY, BUMP).reason == "not-found"
    assert data.delete("t", only) == 0
    assert data.tables() == [Table("t", 1)]


@pytest.mark.parametrize("how", ["set", "set if absent", "set many", "set many if absent", "upsert"])
def test_a_row_over_an_expired_one_is_new_in_every_way(data: DataStore, clock: FrozenClock, how: str) -> None:
    data.set("t", "k", {"n": 5}, ttl=MINUTE)
    data.claim("t", EVERY, (), limit=1, holder="h", changes=())
    data.set("t", "other", {"n": 1})
    clock.forward(MINUTE)
    match how:
        case "set" | "set if absent":
            assert data.set("t", "k", {"n": 1}, if_absent=how.endswith("absent")).created
        case "set many" | "set many if absent":
            assert data.set_many("t", [("k", {"n": 1})], if_absent=how.endswith("absent")) == (1, 0)
        case _:
            assert data.update("t", "k", EVERY, BUMP, upsert=True).updated
    assert data.get("t", "k") == Row("k", {"n": 1}, START + MINUTE, START + MINUTE)
    assert [row.key for row in data.query("t", EVERY, limit=9).rows] == ["other", "k"]


def test_expired_rows_are_removed_in_bounded_batches(data: DataStore, clock: FrozenClock) -> None:
    for number in range(7):
        data.set("t", f"k{number}", number, ttl=MINUTE)
    data.set("t", "stays", 1, ttl=timedelta(hours=1))
    data.set("t", "for ever", 1)
    assert data.remove_expired() == 0
    clock.forward(MINUTE)
    assert [data.remove_expired(limit=5), data.remove_expired(limit=5), data.remove_expired()] == [5, 2, 0]
    assert data.count("t", EVERY) == 2


def test_a_time_to_live_ends_within_the_calendar(data: DataStore) -> None:
    data.set("t", "k", 1, ttl=timedelta(days=365_000))
    with pytest.raises(StepFailed, match="366,000 days"):
        data.set("t", "k", 2, ttl=timedelta(days=999_999_999))
    row = data.get("t", "k")
    assert row is not None
    assert row.value == 1


def test_an_update_changes_only_what_matches_its_guard(data: DataStore, clock: FrozenClock) -> None:
    data.set("t", "k", {"n": 1, "owner": "a"}, ttl=timedelta(hours=1))
    clock.forward(MINUTE)
    refused = data.update("t", "k", owned_by("b"), BUMP)
    assert (refused.updated, refused.reason, refused.row) == (False, "guard", data.get("t", "k"))
    done = data.update("t", "k", owned_by("a"), BUMP)
    after = Row("k", {"n": 2, "owner": "a"}, START, START + MINUTE, START + timedelta(hours=1))
    assert (done.updated, done.reason, done.row) == (True, None, after)
    assert data.get("t", "k") == after
    assert data.update("t", "none", owned_by("a"), BUMP).reason == "not-found"


def owned_by(name: str) -> Condition:
    return parse_where([{"field": "owner", "operator": "equals", "value": name}])


def test_an_upsert_makes_a_missing_row_without_asking_the_guard(data: DataStore) -> None:
    made = data.update("t", "k", owned_by("a"), BUMP, upsert=True)
    assert (made.updated, made.row) == (True, Row("k", {"n": 1}, START, START))
    again = data.update("t", "k", owned_by("a"), BUMP, upsert=True)
    assert (again.updated, again.reason, again.row) == (False, "guard", made.row)
    nested = parse_changes([{"field": "a.b", "operation": "append", "value": 1}])
    assert data.update("t", "deep", EVERY, nested, upsert=True).row == Row("deep", {"a": {"b": [1]}}, START, START)


def test_an_update_keeps_the_claim_count(data: DataStore) -> None:
    data.set("t", "k", {"n": 0})
    data.claim("t", EVERY, (), limit=1, holder="h", changes=())
    updated = data.update("t", "k", EVERY, BUMP)
    assert updated.row is not None
    assert updated.row.claim_count == 1


def test_increments_from_many_threads_all_count(data: DataStore) -> None:
    def bump() -> None:
        for _ in range(10):
            data.update("t", "k", EVERY, BUMP, upsert=True)

    run_all([threading.Thread(target=bump) for _ in range(5)])
    row = data.get("t", "k")
    assert row is not None
    assert row.value == {"n": 50}


def test_a_guard_lets_one_of_many_through(data: DataStore) -> None:
    data.set("t", "lease", {"owner": None})
    free = parse_where([{"field": "owner", "operator": "isNull"}])
    won: list[int] = []

    def take(number: int) -> None:
        taken = parse_changes([{"field": "owner", "operation": "set", "value": number}])
        if data.update("t", "lease", free, taken).updated:
            won.append(number)

    run_all([threading.Thread(target=take, args=(number,)) for number in range(8)])
    row = data.get("t", "lease")
    assert row is not None
    assert [row.value] == [{"owner": number} for number in won]


def test_callers_share_nothing_with_the_store(data: DataStore) -> None:
    value: dict[str, Json] = {"list": [1]}
    stored = data.set("t", "k", value)
    for held in (value, stored.row.value, data.query("t", EVERY, limit=1).rows[0].value):
        cast(dict[str, list[int]], held)["list"].append(2)
    row = data.get("t", "k")
    assert row is not None
    assert row.value == {"list": [1]}


def test_rows_are_deleted_by_condition(data: DataStore) -> None:
    data.set_many(
        "t", [(f"k{number}", {"n": number, "status": "done" if number % 2 else "new"}) for number in range(6)]
    )
    done = parse_where([{"field": "status", "operator": "equals", "value": "done"}])
    high = parse_where([{"field": "n", "operator": "gte", "value": 3}])
    assert data.delete("t", high) == 3
    assert data.delete("t", done) == 1
    assert [row.key for row in data.query("t", EVERY, limit=9).rows] == ["k0", "k2"]
    assert data.delete("t", EVERY) == 2
    assert data.tables() == []
