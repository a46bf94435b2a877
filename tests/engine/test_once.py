"""What a step wrote once it does not write again, however often it is tried or delivered."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import StepFailed
from flo.engine.executions import ExecutionState, StepState
from flo.engine.step import Outcome, StepCall
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.values import Json, JsonObject

from .delivering import House, Owner, act

_S = ExecutionState
ONE_MORE = parse_changes([{"field": "n", "operation": "increment", "value": 1}])
PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}], "all")
RETRY = {"retry": {"maxAttempts": 3}}


def count(call: StepCall, key: str = "k") -> JsonObject:
    """Add one to a row; gives it."""
    updated = call.store.update("t", key, EVERY, ONE_MORE, upsert=True)
    assert updated.row is not None
    return updated.row.as_json()


def counted(house: House, key: str = "k") -> Json:
    row = house.store.data.get("t", key)
    return None if row is None else row.value["n"]  # type: ignore[call-overload, index, return-value]


def first_fails(house: House, work: Any) -> Any:
    """Do ``work``; fail after it the first time."""

    def run(call: StepCall, input: JsonObject) -> JsonObject:
        given: JsonObject = work(call)
        if house.ran[call.path] == 1:
            raise StepFailed("after it wrote")
        return given

    return run


def redelivered(house: House, work: Any) -> Any:
    """Run ``work`` in a step whose owner dies after it, and in the next delivery; gives what it gave both times."""
    gave: list[Any] = []
    house.acts["a"] = lambda call, input: (gave.append(work(call)), {})[1]  # type: ignore[func-returns-value]
    name = house.enqueue([act("a")])
    house.dies(in_step="a")
    assert house.ends().id == name
    assert house.get(name).state is _S.SUCCESS
    return gave


def test_a_step_that_writes_and_then_fails_writes_once(house: House) -> None:
    house.acts["a"] = first_fails(house, count)
    name = house.enqueue([act("a", **RETRY)])
    assert house.ends().state is _S.SUCCESS
    assert (house.ran["a"], counted(house)) == (2, 1)
    output = house.outputs(name)["a"]
    assert output["value"] == {"n": 1}


def test_a_step_that_is_delivered_again_writes_once_and_is_given_the_same(house: House) -> None:
    first, again = redelivered(house, count)
    assert first == again
    assert counted(house) == 1


def test_the_first_step_of_an_iteration_writes_once_too(house: House) -> None:
    """Nothing of the iteration is recorded yet."""
    house.acts["a"] = lambda call, input: count(call)
    house.enqueue(
        [{"stepId": "l", "stepType": "core.for-each", "input": {"items": [0, 1, 2], "steps": [act("a")]}}],
    )
    house.dies(in_step="l[1].a")
    assert house.ends().state is _S.SUCCESS
    assert (house.ran["l[1].a"], counted(house)) == (2, 3)


def test_every_write_of_a_step_is_told_apart_by_its_number(house: House) -> None:
    def thrice(call: StepCall, input: JsonObject) -> JsonObject:
        count(call)
        if house.ran[call.path] == 1:
            raise StepFailed("after the first")
        count(call, "other")
        count(call)
        if house.ran[call.path] == 2:
            raise StepFailed("after the third")
        return count(call)

    house.acts["a"] = thrice
    name = house.enqueue([act("a", **RETRY)])
    assert house.ends().state is _S.SUCCESS
    assert (counted(house), counted(house, "other")) == (3, 1)
    assert house.outputs(name)["a"]["value"] == {"n": 3}


def test_the_same_write_of_another_step_or_iteration_is_another_one(house: House) -> None:
    house.acts["a"] = house.acts["b"] = first_fails(house, count)
    inside = [act("a", **RETRY), act("b", **RETRY)]
    house.enqueue([{"stepId": "l", "stepType": "core.for-each", "input": {"items": [0, 1], "steps": inside}}])
    assert house.ends().state is _S.SUCCESS
    assert counted(house) == 4


def test_an_optimistic_update_that_did_not_hold_is_made_again(house: House) -> None:
    house.store.data.set("t", "k", {"n": 1, "version": 1})

    def update(call: StepCall) -> JsonObject:
        """Read, and change what was read; somebody else comes between the first time."""
        tries = []
        while True:
            row = call.store.get("t", "k")
            assert row is not None
            assert isinstance(row.value, dict)
            version = row.value["version"]
            if not tries and house.ran[call.path] == 1:
                house.store.data.set("t", "k", {"n": 5, "version": 2})
            guard = parse_where([{"field": "version", "operator": "equals", "value": version}], "all")
            seen = [
                {"field": "n", "operation": "increment", "value": 1},
                {"field": "version", "operation": "increment", "value": 1},
            ]
            updated = call.store.update("t", "k", guard, parse_changes(seen))
            tries.append(updated.updated)
            if updated.updated:
                assert updated.row is not None
                return {"tries": tries, "value": updated.row.value}

    first, again = redelivered(house, update)
    assert first == {"tries": [False, True], "value": {"n": 6, "version": 3}}
    assert again == {"tries": [True], "value": {"n": 6, "version": 3}}
    row = house.store.data.get("t", "k")
    assert row is not None
    assert row.value == {"n": 6, "version": 3}


def test_a_claim_gives_the_same_rows_again_and_takes_no_others(house: House) -> None:
    for key in "abcd":
        house.store.data.set("q", key, {"status": "pending"})

    def claim(call: StepCall) -> list[JsonObject]:
        rows = call.store.claim("q", PENDING, (), limit=2, holder=call.execution_id, changes=())
        return [row.as_json() for row in rows]

    first, again = redelivered(house, claim)
    assert [row["key"] for row in first] == ["a", "b"]
    assert first == again
    assert house.store.data.count("q", PENDING) == 2


def test_a_claim_that_found_nothing_looks_again(house: House) -> None:
    def claim(call: StepCall) -> int:
        rows = call.store.claim("q", PENDING, (), limit=2, holder=call.execution_id, changes=())
        house.store.data.set("q", "a", {"status": "pending"}, if_absent=True)
        return len(rows)

    assert redelivered(house, claim) == [0, 1]


def test_every_kind_of_write_gives_what_it_gave(house: House) -> None:
    house.store.data.set("t", "there", 0)

    def write(call: StepCall) -> list[Any]:
        store = call.store
        return [
            store.set("t", "a", {"big": 2**70, "f": 1.0}, ttl=timedelta(hours=1)),
            store.set("t", "there", 1, if_absent=True),
            store.set("t", "b", None, if_absent=True),
            store.set_many("t", [("b", 1), ("c", 2)]),
            store.set_many("t", [("there", 1)], if_absent=True),
            store.delete("t", parse_where([{"field": "key", "operator": "equals", "value": "c"}], "all")),
            store.delete("t", parse_where([{"field": "key", "operator": "equals", "value": "none"}], "all")),
            store.update("t", "none", EVERY, ONE_MORE),
            store.get("t", "a"),
            store.count("t", EVERY),
            [table.name for table in store.tables()],
            len(store.query("t", EVERY, limit=10).rows),
        ]

    first, again = redelivered(house, write)
    assert first == again
    assert [first[2].created, first[3], first[5]] == [True, (1, 1), 1]


@pytest.mark.parametrize("unanswered", [1, 2])
@pytest.mark.parametrize("kind", ["test.act", "test.act-whole"])
def test_a_write_whose_answer_was_lost_is_not_made_again(house: House, kind: str, unanswered: int) -> None:
    house.acts["a"] = lambda call, input: count(call)
    name = house.enqueue([act("a", kind=kind)])
    execution = Owner(house, unanswered=unanswered).deliver()
    assert execution is not None
    assert execution.state is _S.SUCCESS
    assert counted(house) == 1
    assert house.outputs(name)["a"]["value"] == {"n": 1}


def test_a_transactional_step_is_written_with_its_record_or_not_at_all(house: House) -> None:
    house.acts["a"] = first_fails(house, count)
    name = house.enqueue([act("a", kind="test.act-whole", **RETRY)])
    assert house.ends().state is _S.SUCCESS
    assert (house.ran["a"], counted(house)) == (2, 1)
    assert house.records(name)["a"].attempts == 2


def test_a_transactional_step_with_a_bad_outcome_writes_nothing(house: House) -> None:
    house.acts["a"] = lambda call, input: Outcome(count(call), operational_errors=["it went wrong"])
    name = house.enqueue([act("a", kind="test.act-whole", continueOnError=True)])
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert counted(house) is None
    record = house.records(name)["a"]
    assert (record.state, record.notices) == (StepState.FAILED, ("it went wrong",))


def test_a_transactional_step_whose_output_is_too_large_writes_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.outputs.MAX_OUTPUT", 100)
    house.acts["a"] = lambda call, input: {**count(call), "x": "x" * 100}
    name = house.enqueue([act("a", kind="test.act-whole")])
    assert house.ends().state is _S.FAILED
    assert counted(house) is None
    error = house.records(name)["a"].error
    assert error is not None
    assert error["code"] == "too_large"


@pytest.mark.parametrize("kind", ["test.act", "test.act-whole"])
@pytest.mark.parametrize("before", [False, True])
def test_a_step_that_was_given_up_by_its_timeout_writes_nothing_late(house: House, kind: str, before: bool) -> None:
    """``before``: it wrote already when it was given up. Then that stands, but in a transaction."""
    late: list[threading.Thread] = []

    def slow(call: StepCall, input: JsonObject) -> JsonObject:
        late.append(threading.current_thread())
        if before:
            count(call, "early")
        call.cancelled.wait(30)
        count(call)
        return {}

    def joined(call: StepCall, input: JsonObject) -> JsonObject:
        for thread in late:
            thread.join(30)
        return {}

    house.acts["a"], house.acts["b"] = slow, joined
    name = house.enqueue([act("a", kind=kind, timeoutMilliseconds=100, continueOnError=True), act("b")])
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert counted(house) is None
    assert counted(house, "early") == (1 if before and kind == "test.act" else None)
    error = house.records(name)["a"].error
    assert error is not None
    assert error["code"] == "timeout"


def test_the_next_attempt_after_a_timeout_writes_once_as_well(house: House) -> None:
    def slow(call: StepCall, input: JsonObject) -> JsonObject:
        given = count(call)
        if call.attempt == 1:
            call.cancelled.wait(30)
        return given

    house.acts["a"] = slow
    name = house.enqueue([act("a", timeoutMilliseconds=200, retry={"maxAttempts": 2, "delaySeconds": 0})])
    assert house.ends().state is _S.SUCCESS
    assert counted(house) == 1
    assert house.outputs(name)["a"]["value"] == {"n": 1}


def test_a_key_that_no_store_can_hold_fails_the_step_in_every_delivery(house: House) -> None:
    def write(call: StepCall) -> str:
        with pytest.raises(StepFailed) as refused:
            call.store.set("t", "a\x00b", 1)
        return refused.value.code

    first, again = redelivered(house, write)
    assert first == again
