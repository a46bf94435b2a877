"""What an owner writes is written together: all of it, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.executions import StepState
from flo.engine.jobs import (
    LEASE,
    Again,
    Conclusion,
    Entries,
    KeyConflict,
    Parked,
    Released,
    Wait,
)
from flo.engine.stores.filters import EVERY
from flo.engine.stores.queueing import Owned
from flo.engine.stores.store import Store
from flo.engine.values import Json, JsonObject
from flo.testing import FrozenClock

from .jobs import (
    ERROR,
    FAILURE,
    MINUTE,
    SECOND,
    START,
    at_once,
    claimed_one,
    enqueued,
    found,
    held,
    line,
    recorded,
    request,
    started,
    step,
    waiting,
)


def test_a_transaction_of_an_owner_gives_what_its_work_gave(store: Store, clock: FrozenClock) -> None:
    delivery = held(store)
    clock.forward(SECOND)
    assert store.queue.own(delivery.hold, lambda owned: (owned.now(), "x")) == (START + SECOND, "x")
    assert found(store, delivery.execution.id) == delivery.execution


def everything(owned: Owned, execution_id: str, job_key: str = "job") -> None:
    """One of each write that an owner can make."""
    owned.data.set("t", "new", {"n": 1})
    owned.data.set("t", "old", {"n": 2})
    owned.data.delete("u", EVERY)
    owned.record(Entries([step(execution_id, "a", output=1)], [line(execution_id, 1)], variables={"v": 1}, tolerated=2))
    owned.keep_effect("a", "set", 1, {"n": 1})
    owned.wait(Wait("b", "signal", "go"))
    owned.enqueue([request(queue="mail", key=job_key, identity="i")])


def test_a_transaction_commits_all_that_it_did(store: Store, clock: FrozenClock) -> None:
    store.data.set("u", "row", 1)
    delivery = held(store)
    execution_id = delivery.execution.id
    store.queue.own(delivery.hold, lambda owned: everything(owned, execution_id), exclusive=True)
    assert [row.value for row in store.data.query("t", EVERY, limit=9).rows] == [{"n": 1}, {"n": 2}]
    assert store.data.count("u", EVERY) == 0
    assert list(store.executions.steps(execution_id)) == [step(execution_id, "a", output=1)]
    assert list(store.executions.lines(execution_id)) == [line(execution_id, 1)]
    assert list(store.executions.waits(execution_id)) == [Wait("b", "signal", "go")]
    assert len(store.executions.list(queue="mail")) == 1
    assert store.queue.own(delivery.hold, lambda owned: owned.effect("a", "set", 1)) == {"n": 1}
    clock.forward(LEASE)
    second = claimed_one(store, worker="w2")
    assert (second.variables, second.tolerated, second.last_line, second.begun) == ({"v": 1}, 2, 1, True)


@pytest.mark.parametrize(
    "value",
    [2**70, -(2**64), 1e16, 1e-7, -0.0, 100.0, "\u2028 é \U0001f600", {"nested": [None, True, {"n": 1}]}, {"": ""}],
)
def test_rows_that_are_kept_come_back_as_they_were(store: Store, value: Json) -> None:
    kept: JsonObject = {"rows": [{"key": "a", "value": value, "claimCount": 1}]}
    delivery = held(store)
    store.queue.own(delivery.hold, lambda owned: owned.keep_effect("a", "claim:t:", 0, kept))
    assert repr(store.queue.own(delivery.hold, lambda owned: owned.effect("a", "claim:t:", 0))) == repr(kept)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_what_no_database_holds_is_replaced_in_rows_that_are_kept(store: Store, text: str) -> None:
    delivery = held(store)
    store.queue.own(delivery.hold, lambda owned: owned.keep_effect("a", "claim:t:", 0, {"rows": [text]}))
    kept = store.queue.own(delivery.hold, lambda owned: owned.effect("a", "claim:t:", 0))
    assert kept == {"rows": ["a\ufffdb"]}


def test_what_work_raises_undoes_all_that_it_did(store: Store, clock: FrozenClock) -> None:
    store.data.set("t", "old", {"n": 1})
    store.data.set("u", "row", 1)
    delivery = held(store)
    execution_id = delivery.execution.id
    store.executions.signal(execution_id, "go", {"n": 1})

    def fail(owned: Owned) -> None:
        everything(owned, execution_id)
        raise ZeroDivisionError("by the work")

    with pytest.raises(ZeroDivisionError, match="by the work"):
        store.queue.own(delivery.hold, fail, exclusive=True)
    assert [(row.key, row.value) for row in store.data.query("t", EVERY, limit=9).rows] == [("old", {"n": 1})]
    assert store.data.count("u", EVERY) == 1
    assert list(store.executions.steps(execution_id)) == []
    assert list(store.executions.lines(execution_id)) == []
    assert list(store.executions.waits(execution_id)) == []
    assert list(store.executions.list(queue="mail")) == []
    assert store.queue.own(delivery.hold, lambda owned: owned.effect("a", "set", 1)) is None
    assert waiting(store, delivery.hold, Wait("b", "signal", "go")).answer == {"n": 1}
    assert store.queue.enqueue([request(queue="other", key="job", identity="i")])[0].created
    clock.forward(LEASE)
    second = claimed_one(store, worker="w2")
    assert (second.variables, second.tolerated, second.last_line) == ({}, 0, 0)


def test_a_key_of_another_request_undoes_the_whole_transaction(store: Store) -> None:
    enqueued(store, key="job", identity="other", queue="elsewhere")
    delivery = held(store)
    with pytest.raises(KeyConflict):
        store.queue.own(delivery.hold, lambda owned: everything(owned, delivery.execution.id), exclusive=True)
    assert store.data.count("t", EVERY) == 0
    assert list(store.executions.steps(delivery.execution.id)) == []


def test_inside_a_transaction_its_own_writes_are_seen(store: Store) -> None:
    delivery = held(store)

    def work(owned: Owned) -> tuple[Any, ...]:
        owned.data.set("t", "k", {"n": 1})
        row = owned.data.get("t", "k")
        owned.keep_effect("a", "set", 1, {"kept": True})
        made = owned.enqueue([request(key="k")])
        again = owned.enqueue([request(key="k")])
        return (
            row and row.value,
            owned.data.count("t", EVERY),
            owned.effect("a", "set", 1),
            [one.created for one in (*made, *again)],
        )

    assert store.queue.own(delivery.hold, work, exclusive=True) == ({"n": 1}, 1, {"kept": True}, [True, False])


def test_effects_are_kept_by_path_name_and_number(store: Store) -> None:
    delivery, other = held(store), held(store)
    kept = [("a", "set", 1), ("a", "set", 2), ("a", "delete", 1), ("a[0].b", "set", 1)]

    def keep(owned: Owned) -> None:
        for number, place in enumerate(kept):
            owned.keep_effect(*place, {"n": number})

    store.queue.own(delivery.hold, keep)
    read = store.queue.own(delivery.hold, lambda owned: [owned.effect(*place) for place in kept])
    assert read == [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}]
    assert store.queue.own(delivery.hold, lambda owned: owned.effect("a", "set", 3)) is None
    assert store.queue.own(other.hold, lambda owned: owned.effect("a", "set", 1)) is None


@pytest.mark.parametrize("conclusion", [Again(MINUTE, ERROR), Released(MINUTE), Parked(START + MINUTE), None])
def test_effects_outlive_the_claim(store: Store, clock: FrozenClock, conclusion: Conclusion | None) -> None:
    first = held(store)
    store.queue.own(first.hold, lambda owned: owned.keep_effect("a", "set", 1, {"n": 1}))
    if conclusion is not None:
        store.queue.conclude(first.hold, conclusion)
    clock.forward(MINUTE)
    second = claimed_one(store, worker="w2")
    assert store.queue.own(second.hold, lambda owned: owned.effect("a", "set", 1)) == {"n": 1}


def test_effects_are_kept_over_a_failure_for_it_may_be_resumed(store: Store) -> None:
    first, other = held(store), held(store)
    for delivery in (first, other):
        store.queue.own(delivery.hold, lambda owned: owned.keep_effect("a", "set", 1, {"n": 1}))
    store.queue.conclude(first.hold, FAILURE)
    store.executions.resume(first.execution.id)
    second = claimed_one(store)
    assert store.queue.own(second.hold, lambda owned: owned.effect("a", "set", 1)) == {"n": 1}
    assert store.queue.own(other.hold, lambda owned: owned.effect("a", "set", 1)) == {"n": 1}


def test_records_are_replaced_in_their_place(store: Store) -> None:
    delivery = started(store)
    execution_id = delivery.execution.id
    first = [step(execution_id, path, output={"whole": 1.0, "big": 2**70, "text": "é"}) for path in "bac"]
    recorded(store, delivery.hold, Entries(first))
    again = step(execution_id, "a", state=StepState.FAILED, attempts=3, error=ERROR, notices=("odd",))
    recorded(store, delivery.hold, Entries([again]))
    assert list(store.executions.steps(execution_id)) == [first[0], again, first[2]]


def test_of_records_of_one_step_that_are_written_together_the_last_counts_in_the_place_of_the_first(
    store: Store,
) -> None:
    delivery = started(store)
    execution_id = delivery.execution.id
    first, other = step(execution_id, "a", output=1), step(execution_id, "b", output={"é": "\\u0000 \ud7ff '\""})
    again = step(execution_id, "a", state=StepState.FAILED, error=ERROR)
    lines = [line(execution_id, 1, "first"), line(execution_id, 1, "another")]
    recorded(store, delivery.hold, Entries([first, other, again], lines))
    assert list(store.executions.steps(execution_id)) == [again, other]
    assert [one.message for one in store.executions.lines(execution_id)] == ["first"]


def test_records_of_any_size_are_written_together(store: Store) -> None:
    delivery = started(store)
    execution_id = delivery.execution.id
    large = [step(execution_id, f"s{number}", output={"text": "é" * (5 << 20)}) for number in range(5)]
    recorded(store, delivery.hold, Entries(large))
    assert [record.output == large[0].output for record in store.executions.steps(execution_id)] == [True] * 5


def test_what_lies_in_the_record_of_its_iteration_is_not_kept_twice(store: Store) -> None:
    delivery = held(store)
    execution_id = delivery.execution.id
    inner = [step(execution_id, f"each[{index}].a", output={"n": index}) for index in range(2)]
    recorded(store, delivery.hold, Entries(inner))
    whole = step(execution_id, "each[0]", loop="each", index=0, output={"a": {"n": 0}})
    recorded(store, delivery.hold, Entries([whole], covered=["each[0].a"]))
    outputs = {record.path: record.output for record in store.executions.steps(execution_id)}
    assert outputs == {"each[0].a": None, "each[1].a": {"n": 1}, "each[0]": {"a": {"n": 0}}}


def test_variables_are_left_alone_where_none_are_given(store: Store, clock: FrozenClock) -> None:
    delivery = held(store)
    recorded(store, delivery.hold, Entries(variables={"v": {"é": 2**70}}, tolerated=3))
    recorded(store, delivery.hold, Entries(lines=[line(delivery.execution.id, number) for number in (1, 2, 3)]))
    clock.forward(LEASE)
    second = claimed_one(store)
    assert (second.variables, second.tolerated, second.last_line) == ({"v": {"é": 2**70}}, 3, 3)
    recorded(store, second.hold, Entries(variables={}, tolerated=0))
    clock.forward(LEASE)
    third = claimed_one(store)
    assert (third.variables, third.tolerated, third.last_line) == ({}, 0, 3)


def test_a_line_that_is_recorded_again_is_left_as_it_was(store: Store) -> None:
    delivery = held(store)
    execution_id = delivery.execution.id
    recorded(store, delivery.hold, Entries(lines=[line(execution_id, 1, "first"), line(execution_id, 2, "second")]))
    recorded(store, delivery.hold, Entries(lines=[line(execution_id, 2, "another"), line(execution_id, 3, "third")]))
    assert [one.message for one in store.executions.lines(execution_id)] == ["first", "second", "third"]


def test_strands_of_one_execution_write_side_by_side(store: Store) -> None:
    delivery = held(store)
    execution_id = delivery.execution.id

    def write(strand: int) -> None:
        for number in range(10):
            path, n = f"each[{strand}].s{number}", strand * 10 + number

            def work(owned: Owned, path: str = path, n: int = n) -> None:
                owned.data.set("t", path, n)
                owned.keep_effect(path, "set", 1, {"n": n})
                owned.record(Entries([step(execution_id, path)], [line(execution_id, n + 1)]))

            store.queue.own(delivery.hold, work)
            if strand == 0:
                recorded(store, delivery.hold, Entries(variables={"n": number}))

    at_once(4, write)
    assert len(store.executions.steps(execution_id)) == 40
    assert [one.number for one in store.executions.lines(execution_id)] == list(range(1, 41))
    assert store.data.count("t", EVERY) == 40
