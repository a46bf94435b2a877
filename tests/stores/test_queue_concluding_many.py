"""Executions that end together: each as it would have ended alone, whatever becomes of the others."""

from __future__ import annotations

import dataclasses
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from flo.engine.errors import StoreError
from flo.engine.executions import DeadReason, Execution, ExecutionState, IllegalMove
from flo.engine.jobs import LEASE, Delivery, Ended, Ending, Entries, LeaseLost, Limits, Parked, Wait
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    ERROR,
    FAILURE,
    MINUTE,
    SECOND,
    START,
    SUCCESS,
    adopted,
    at_once,
    claimed,
    claimed_one,
    enqueued,
    found,
    held,
    line,
    outcomes,
    request,
    started,
    state_of,
    step,
    waiting,
)
from .test_queue_processes import opened
from .wanted import AFTER, added, slots

ENDS = (
    SUCCESS,
    Ended(ExecutionState.SUCCESS),
    Ended(ExecutionState.COMPLETED_WITH_ERRORS, {"é": [1.0, 2**70, None, '"\\'], "": {}}),
    FAILURE,
    Ended(ExecutionState.FAILED, error=ERROR, reason=DeadReason.MAX_ATTEMPTS),
    Ended(ExecutionState.CANCELLED, error={"code": "cancelled", "message": "a\x00b\ud800c"}),
    Ended(ExecutionState.TIMED_OUT, "late", ERROR),
)

REFUSAL = {
    "sqlite": "CREATE TRIGGER refusal BEFORE UPDATE ON executions WHEN new.output = '\"no\"'"
    " BEGIN SELECT RAISE(ABORT, 'refused'); END",
    "postgresql": "ALTER TABLE executions ADD CONSTRAINT refusal CHECK (output::text <> '\"no\"')",
}
"""No execution ends with such an output."""


def ending(delivery: Delivery, ended: Ended = SUCCESS, **entries: Any) -> Ending:
    return Ending(delivery.hold, ended, Entries(**entries), delivery.execution)


def many(store: Store, count: int, **changes: Any) -> list[Delivery]:
    """So many executions, held by one owner."""
    store.queue.enqueue([request(**changes) for _ in range(count)])
    deliveries = list(claimed(store, limit=count))
    assert len(deliveries) == count
    return deliveries


def test_each_ends_as_it_would_have_ended_alone(store: Store, clock: FrozenClock) -> None:
    deliveries, alone = many(store, len(ENDS)), many(store, len(ENDS))
    clock.forward(SECOND)
    ended = store.queue.conclude_many([ending(*pair) for pair in zip(deliveries, ENDS, strict=True)])
    for delivery, one, other, end in zip(deliveries, ended, alone, ENDS, strict=True):
        assert isinstance(one, Execution)
        assert one.id == delivery.execution.id
        assert found(store, one.id) == one
        same = store.queue.conclude(other.hold, end, of=other.execution)
        owned = {"id": one.id, "root_id": one.root_id, "created_at": one.created_at}
        assert one == dataclasses.replace(same, **owned)
        assert (one.finished_at, one.due_at, one.lease_until) == (START + SECOND, None, None)
        assert outcomes(store, one.id) == []
    assert [one.id for one in store.executions.list(dead=True)] == [alone[4].execution.id, deliveries[4].execution.id]


def test_each_ends_with_its_last_entries(store: Store) -> None:
    deliveries = many(store, 3)
    first, second, third = (delivery.execution.id for delivery in deliveries)
    store.queue.own(deliveries[2].hold, lambda owned: owned.record(Entries([step(third, "each[0].a", output="long")])))
    store.queue.conclude_many(
        [
            ending(deliveries[0], steps=[step(first, "a", output=1), step(first, "b")], lines=[line(first, 1)]),
            ending(deliveries[1], FAILURE, steps=[step(second, "a", error=ERROR)], variables={"v": 1}, tolerated=2),
            ending(deliveries[2], lines=[line(third, 1), line(third, 2)], covered=["each[0].a"]),
        ]
    )
    assert list(store.executions.steps(first)) == [step(first, "a", output=1), step(first, "b")]
    assert list(store.executions.lines(first)) == [line(first, 1)]
    assert list(store.executions.steps(second)) == [step(second, "a", error=ERROR)]
    assert list(store.executions.steps(third)) == [step(third, "each[0].a")]
    assert list(store.executions.lines(third)) == [line(third, 1), line(third, 2)]
    store.executions.resume(second)
    resumed = claimed_one(store)
    assert (resumed.variables, resumed.tolerated) == ({"v": 1}, 2)


def test_what_is_not_given_of_the_state_stays_as_it_was(store: Store) -> None:
    deliveries = many(store, 2)
    written = Entries(variables={"v": 1}, tolerated=3)
    store.queue.own(deliveries[0].hold, lambda owned: owned.record(written), exclusive=True)
    store.queue.conclude_many([ending(delivery, FAILURE) for delivery in deliveries])
    store.executions.resume(deliveries[0].execution.id)
    resumed = claimed_one(store)
    assert (resumed.variables, resumed.tolerated) == ({"v": 1}, 3)


def test_a_lost_claim_leaves_the_others(store: Store, clock: FrozenClock) -> None:
    stalled = held(store)
    clock.forward(LEASE)
    second = claimed_one(store, worker="w2")
    cancelled, *deliveries = many(store, 3)
    store.executions.cancel(cancelled.execution.id)
    gone = dataclasses.replace(stalled, hold=dataclasses.replace(stalled.hold, execution_id="nobody"))
    asked = [deliveries[0], stalled, cancelled, gone, deliveries[1]]
    entries = [{"steps": [step(one.hold.execution_id, "a")], "variables": {"v": 1}} for one in asked]
    ends = store.queue.conclude_many([ending(one, **given) for one, given in zip(asked, entries, strict=True)])
    assert [one.id for one in ends if isinstance(one, Execution)] == [one.execution.id for one in deliveries]
    lost = [one for one in ends if isinstance(one, LeaseLost)]
    assert [(one.execution_id, one.state, one.worker) for one in lost] == [
        (second.execution.id, ExecutionState.RUNNING, "w2"),
        (cancelled.execution.id, ExecutionState.CANCELLED, "w1"),
        ("nobody", None, None),
    ]
    assert found(store, second.execution.id) == second.execution
    for execution_id in (second.execution.id, cancelled.execution.id, "nobody"):
        assert list(store.executions.steps(execution_id)) == []
    assert list(store.executions.steps(deliveries[0].execution.id)) == [step(deliveries[0].execution.id, "a")]


def test_an_execution_ends_once_however_often_it_is_given(store: Store) -> None:
    one, other = many(store, 2)
    guessed = dataclasses.replace(other, hold=dataclasses.replace(other.hold, token="guessed"))
    ends = store.queue.conclude_many([ending(one), ending(one, FAILURE), ending(guessed), ending(other, FAILURE)])
    assert [type(end) for end in ends] == [Execution, LeaseLost, LeaseLost, Execution]
    assert state_of(store, one.execution.id) is ExecutionState.SUCCESS
    assert state_of(store, other.execution.id) is ExecutionState.FAILED


def test_nothing_is_written_where_one_would_end_in_a_state_that_is_no_end(store: Store) -> None:
    deliveries = many(store, 2)
    for state in (ExecutionState.RETRYING, ExecutionState.REJECTED):
        with pytest.raises(IllegalMove):
            store.queue.conclude_many([ending(deliveries[0]), ending(deliveries[1], Ended(state))])
    assert [state_of(store, one.execution.id) for one in deliveries] == [ExecutionState.RUNNING] * 2


def test_to_end_none_does_nothing(store: Store) -> None:
    assert list(store.queue.conclude_many([])) == []


def test_who_waits_for_one_of_them_comes_due(store: Store, clock: FrozenClock) -> None:
    deliveries = many(store, 3)
    waiters = [held(store, queue="mail") for _ in range(3)]
    for waiter, awaited in zip(waiters, (0, 0, 2), strict=True):
        waiting(store, waiter.hold, Wait("job", "execution", deliveries[awaited].execution.id))
    for waiter in waiters[:2]:
        store.queue.conclude(waiter.hold, Parked())
    clock.forward(SECOND)
    store.queue.conclude_many([ending(one) for one in deliveries])
    parked = store.queue.conclude(waiters[2].hold, Parked(START + MINUTE))
    assert parked.due_at == START + SECOND
    for number, again in enumerate(claimed(store, "mail")):
        assert again.execution.id == waiters[number].execution.id
        answer = waiting(store, again.hold, Wait("job", "execution", "")).answer
        awaited_id = deliveries[0 if number < 2 else 2].execution.id
        assert answer == {"executionId": awaited_id, "status": "success", "output": {"n": 1}, "error": None}


def test_no_end_is_missed_by_who_is_parked_at_that_moment(store: Store) -> None:
    for _ in range(8):
        deliveries, waiter = many(store, 2), held(store, queue="mail")
        for one in deliveries:
            waiting(store, waiter.hold, Wait(f"job-{one.execution.id}", "execution", one.execution.id))

        def act(number: int, deliveries: Any = deliveries, waiter: Any = waiter) -> None:
            if number:
                store.queue.conclude_many([ending(one) for one in deliveries])
            else:
                store.queue.conclude(waiter.hold, Parked())

        at_once(2, act)
        assert claimed_one(store, "mail").execution.id == waiter.execution.id


def test_unfinished_parts_end_with_what_they_are_parts_of(store: Store) -> None:
    plain, whole = many(store, 2)
    part = adopted(store, whole.hold)
    below = adopted(store, part.hold)
    waiter = held(store, queue="mail")
    waiting(store, waiter.hold, Wait("part", "execution", below.execution.id))
    store.queue.conclude(waiter.hold, Parked())
    ends = store.queue.conclude_many([ending(plain), ending(whole, FAILURE)])
    assert all(isinstance(one, Execution) for one in ends)
    for one in (part, below):
        ended = found(store, one.execution.id)
        assert (ended.state, (ended.error or {}).get("code")) == (ExecutionState.CANCELLED, "parent_ended")
    assert claimed_one(store, "mail").execution.id == waiter.execution.id


def test_a_part_ends_together_with_others(store: Store) -> None:
    whole, plain = started(store), held(store)
    part = adopted(store, whole.hold)
    ends = store.queue.conclude_many([ending(part), ending(plain)])
    assert all(isinstance(one, Execution) for one in ends)
    assert state_of(store, whole.execution.id) is ExecutionState.RUNNING
    assert state_of(store, part.execution.id) is ExecutionState.SUCCESS


def test_effects_are_forgotten_where_nobody_can_resume_what_had_them(store: Store) -> None:
    done, failed = many(store, 2)
    for one in (done, failed):
        store.queue.own(one.hold, lambda owned: owned.keep_effect("a", "set", 1, {"n": 1}))
    store.queue.conclude_many([ending(done), ending(failed, FAILURE)])
    store.executions.resume(failed.execution.id)
    assert store.queue.own(claimed_one(store).hold, lambda owned: owned.effect("a", "set", 1)) == {"n": 1}


def test_triggers_see_each_end_that_they_wait_for(store: Store) -> None:
    trigger = added(store, AFTER)
    deliveries, other = many(store, 3), held(store, queue="mail", workflow="other")
    store.queue.conclude_many([ending(one, FAILURE) for one in (*deliveries, other)])
    assert slots(store, trigger) == [(f"{one.execution.id}:1", "due") for one in reversed(deliveries)]


def test_a_place_that_becomes_free_is_told(store: Store) -> None:
    store.queue.limit("default", Limits(running=2))
    store.queue.enqueue([request() for _ in range(3)])
    keyed = held(store, queue="mail", concurrency_key="c")
    enqueued(store, queue="mail", concurrency_key="c")
    first = claimed(store, limit=5)
    assert len(first) == 2
    for queue, ends in (("default", [ending(one) for one in first]), ("mail", [ending(keyed)])):
        wakeups = store.queue.wakeups([queue])
        while wakeups.wait(0):
            pass
        store.queue.conclude_many(ends)
        assert wakeups.wait(30)
        assert len(claimed(store, queue)) == 1
        wakeups.close()


def test_what_its_own_strand_is_writing_ends_after_it(store: Store) -> None:
    busy, free = many(store, 2)
    ended: list[Any] = []

    def end(number: int) -> None:
        if number:
            ended.extend(store.queue.conclude_many([ending(busy), ending(free)]))
        else:
            store.queue.own(busy.hold, lambda owned: owned.record(Entries([step(busy.execution.id, "a")])))

    for _ in range(5):
        ended.clear()
        with suppress(LeaseLost):  # the write came too late
            at_once(2, end)
        assert [type(one) for one in ended] == [Execution, Execution]
        busy, free = many(store, 2)


def test_what_a_store_refuses_of_one_leaves_the_others(shared_url: str, clock: FrozenClock) -> None:
    with opened(shared_url, clock) as store:
        database: Any = store._database  # type: ignore[attr-defined]
        database.write(lambda execute: execute(REFUSAL[database.dialect]))
        deliveries = many(store, 3)
        outputs = ("yes", "no", "yes")
        ends = store.queue.conclude_many(
            [
                ending(one, Ended(ExecutionState.SUCCESS, output), steps=[step(one.execution.id, "a")])
                for one, output in zip(deliveries, outputs, strict=True)
            ]
        )
        assert [type(one) for one in ends] == [Execution, StoreError, Execution]
        assert state_of(store, deliveries[1].execution.id) is ExecutionState.RUNNING
        assert [len(store.executions.steps(one.execution.id)) for one in deliveries] == [1, 0, 1]


def test_who_waits_for_one_whose_claim_was_lost_is_not_woken_by_the_others(store: Store, clock: FrozenClock) -> None:
    lost, other = many(store, 2)
    waits = started(store)
    waiting(store, waits.hold, Wait("w", "execution", lost.execution.id))
    store.queue.conclude(waits.hold, Parked())
    clock.forward(2 * LEASE)
    (again,) = claimed(store, limit=1)
    assert again.execution.id == lost.execution.id
    ends = store.queue.conclude_many([ending(lost), ending(other)])
    assert [type(one) for one in ends] == [LeaseLost, Execution]
    assert found(store, waits.execution.id).due_at is None


def test_without_space_for_their_entries_executions_end_without_them(tmp_path: Path, clock: FrozenClock) -> None:
    with closing(SqliteStore.open(tmp_path / "flo.sqlite", clock, synchronous="OFF")) as store:
        store.migrate()
        deliveries = many(store, 3)
        pages = store._database.read("PRAGMA page_count")[0][0]
        store._database.write(lambda execute: execute(f"PRAGMA max_page_count = {pages + 2}"))
        ends = store.queue.conclude_many(
            [ending(one, steps=[step(one.execution.id, "a", output="x" * 100_000)]) for one in deliveries]
        )
        assert all(isinstance(one, Execution) for one in ends)
        for one in deliveries:
            assert state_of(store, one.execution.id) is ExecutionState.SUCCESS
            assert list(store.executions.steps(one.execution.id)) == []
