"""How claims end: with the execution, for another try, given back, or parked; and what is kept of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.executions import RESUMABLE, DeadReason, ExecutionState, IllegalMove
from flo.engine.jobs import LEASE, Again, Attempt, Ended, Entries, LeaseLost, Parked, Released
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    CONCLUSIONS,
    ERROR,
    FAILURE,
    INSTANT,
    MINUTE,
    SECOND,
    START,
    SUCCESS,
    adopted,
    at_once,
    claimed,
    claimed_ids,
    claimed_one,
    enqueued,
    found,
    held,
    line,
    outcomes,
    request,
    started,
    step,
)

FAILED = ExecutionState.FAILED
FINAL = [state for state in ExecutionState if state.final and state is not ExecutionState.REJECTED]


@pytest.mark.parametrize("state", FINAL)
def test_an_execution_ends_at_the_stores_time(store: Store, clock: FrozenClock, state: ExecutionState) -> None:
    delivery = held(store)
    clock.forward(SECOND)
    ended = store.queue.conclude(delivery.hold, Ended(state, {"é": [1.0, 2**70, None]}, ERROR))
    assert (ended.state, ended.output, ended.error) == (state, {"é": [1.0, 2**70, None]}, ERROR)
    assert (ended.started_at, ended.finished_at) == (START, START + SECOND)
    assert (ended.due_at, ended.lease_until, ended.reason) == (None, None, None)
    assert (ended.worker, ended.claimed_at, ended.fence, ended.attempt) == ("w1", START, 1, 1)
    assert found(store, ended.id) == ended
    assert outcomes(store, ended.id) == []


@pytest.mark.parametrize("reason", DeadReason)
def test_a_reason_makes_it_a_dead_letter(store: Store, reason: DeadReason) -> None:
    plain, dead = held(store), held(store)
    store.queue.conclude(plain.hold, FAILURE)
    ended = store.queue.conclude(dead.hold, Ended(FAILED, error=ERROR, reason=reason))
    assert ended.reason is reason
    assert list(store.executions.list(dead=True)) == [ended]


def test_a_claim_may_end_with_its_last_entries(store: Store, clock: FrozenClock) -> None:
    for number, conclusion in enumerate(CONCLUSIONS):
        delivery = held(store, queue=f"q{number}")
        execution_id = delivery.execution.id
        entries = Entries([step(execution_id, "a", output=number)], [line(execution_id, 1)], variables={"v": number})
        store.queue.conclude(delivery.hold, conclusion, entries)
        assert list(store.executions.steps(execution_id)) == [step(execution_id, "a", output=number)]
        assert list(store.executions.lines(execution_id)) == [line(execution_id, 1)]
    clock.forward(MINUTE)
    assert [delivery.variables for delivery in claimed(store, "q2", "q3")] == [{"v": 3}, {"v": 2}]


def test_a_failure_is_tried_again_after_its_delay(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    clock.forward(SECOND)
    waits = store.queue.conclude(first.hold, Again(MINUTE, ERROR))
    due = START + SECOND + MINUTE
    assert (waits.state, waits.attempt, waits.due_at, waits.run_at) == (ExecutionState.RETRYING, 2, due, due)
    assert (waits.lease_until, waits.finished_at, waits.expiries) == (None, None, 0)
    assert found(store, waits.id) == waits
    assert list(store.executions.attempts(waits.id)) == [Attempt(1, "w1", START, START + SECOND, "retrying", ERROR)]
    clock.time = due - INSTANT
    assert claimed_ids(store) == []
    clock.time = due
    second = claimed_one(store, worker="w2")
    assert (second.execution.attempt, second.execution.fence, second.execution.deliveries) == (2, 2, 2)
    assert (second.execution.expiries, second.execution.started_at) == (0, START)
    assert second.begun
    ended = store.queue.conclude(second.hold, SUCCESS)
    assert (ended.attempt, ended.error, ended.output) == (2, None, {"n": 1})


def test_what_was_released_is_as_if_it_had_not_been_claimed(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    clock.forward(SECOND)
    given_back = store.queue.conclude(first.hold, Released(MINUTE))
    assert (given_back.state, given_back.attempt, given_back.expiries) == (ExecutionState.PENDING, 1, 0)
    assert (given_back.due_at, given_back.lease_until) == (START + SECOND + MINUTE, None)
    (attempt,) = store.executions.attempts(given_back.id)
    assert attempt == Attempt(1, "w1", START, START + SECOND, "released")
    assert claimed_ids(store) == []
    clock.forward(MINUTE)
    second = claimed_one(store, worker="w2")
    assert (second.execution.attempt, second.execution.expiries, second.hold.fence) == (1, 0, 2)


def test_what_was_released_without_a_delay_is_due_at_once(store: Store) -> None:
    store.queue.conclude(held(store).hold, Released())
    assert claimed_one(store, worker="w2").hold.fence == 2


@pytest.mark.parametrize("until", [START + MINUTE, None])
def test_what_was_parked_waits_until_its_time(store: Store, clock: FrozenClock, until: Any) -> None:
    first = held(store)
    parked = store.queue.conclude(first.hold, Parked(until))
    assert (parked.state, parked.due_at, parked.lease_until) == (ExecutionState.SUSPENDED, until, None)
    assert (parked.attempt, parked.finished_at) == (1, None)
    assert found(store, parked.id) == parked
    assert outcomes(store, parked.id) == [(1, "w1", "suspended")]
    clock.time = START + MINUTE - INSTANT
    assert claimed_ids(store) == []
    clock.time = START + MINUTE
    assert claimed_ids(store) == ([] if until is None else [parked.id])


def test_who_comes_back_from_a_wait_was_not_lost(store: Store, clock: FrozenClock) -> None:
    store.queue.conclude(held(store).hold, Parked(START + MINUTE))
    clock.forward(timedelta(hours=1))
    second = claimed_one(store, worker="w2").execution
    assert (second.state, second.expiries, second.attempt) == (ExecutionState.RUNNING, 0, 1)


def test_a_lease_that_ran_out_during_the_last_write_counts_as_kept(store: Store, clock: FrozenClock) -> None:
    delivery = held(store)
    clock.forward(timedelta(hours=1))
    again = store.queue.conclude(delivery.hold, Again(SECOND, ERROR))
    assert (again.expiries, again.attempt) == (0, 2)
    assert outcomes(store, again.id) == [(1, "w1", "retrying")]


def test_the_claims_of_an_execution_are_kept_by_their_numbers(store: Store, clock: FrozenClock) -> None:
    execution_id = enqueued(store)
    for number, conclusion in enumerate(
        [Again(SECOND, ERROR), Released(SECOND), Parked(START + MINUTE), None, FAILURE]
    ):
        hold = claimed_one(store, worker=f"w{number}").hold
        if conclusion is not None:
            store.queue.conclude(hold, conclusion)
        clock.forward(MINUTE)
    store.executions.resume(execution_id)
    store.queue.conclude(claimed_one(store, worker="w5").hold, SUCCESS)
    ends = ["retrying", "released", "suspended", "expired", "failed"]
    assert outcomes(store, execution_id) == [(n + 1, f"w{n}", outcome) for n, outcome in enumerate(ends)]
    execution = found(store, execution_id)
    assert (execution.fence, execution.deliveries, execution.worker) == (6, 6, "w5")


@pytest.mark.parametrize("end", [FAILURE, Ended(ExecutionState.TIMED_OUT, error=ERROR)])
@pytest.mark.parametrize("queue", ["default", None])
def test_a_failed_execution_is_resumed_for_a_new_claim(
    store: Store, clock: FrozenClock, end: Ended, queue: str | None
) -> None:
    how: dict[str, Any] = {"deadline": START + MINUTE}
    first = held(store, **how) if queue else started(store, **how)
    execution_id = first.execution.id
    reason = DeadReason.MAX_ATTEMPTS if queue else None
    entries = Entries([step(execution_id, "a", output=1)], variables={"v": 1})
    store.queue.conclude(first.hold, Ended(end.state, error=ERROR, reason=reason), entries)
    clock.forward(timedelta(hours=1))
    resumed = store.executions.resume(execution_id)
    assert (resumed.state, resumed.due_at, resumed.finished_at) == (ExecutionState.PENDING, clock.now(), None)
    assert (resumed.reason, resumed.deadline, resumed.expiries) == (None, None, 0)
    assert found(store, execution_id) == resumed
    assert list(store.executions.list(dead=True)) == []
    assert outcomes(store, execution_id) == [(1, "w1", end.state)]
    second = claimed_one(store) if queue else store.queue.take(execution_id, worker="w1", lease=LEASE)
    assert second is not None
    assert (second.hold.fence, second.variables, second.begun) == (2, {"v": 1}, True)
    assert list(store.executions.steps(execution_id)) == [step(execution_id, "a", output=1)]
    assert store.queue.conclude(second.hold, SUCCESS).state is ExecutionState.SUCCESS
    with pytest.raises(LeaseLost):
        store.queue.conclude(first.hold, SUCCESS)


@pytest.mark.parametrize("state", [state for state in FINAL if state not in RESUMABLE])
def test_what_has_ended_otherwise_is_not_resumed(store: Store, state: ExecutionState) -> None:
    ended = store.queue.conclude(held(store).hold, Ended(state))
    with pytest.raises(IllegalMove):
        store.executions.resume(ended.id)
    assert found(store, ended.id) == ended


def test_losses_before_a_resume_do_not_count_after_it(store: Store, clock: FrozenClock) -> None:
    held(store)
    clock.forward(LEASE)
    second = claimed_one(store)
    assert second.execution.expiries == 1
    store.queue.conclude(second.hold, FAILURE)
    store.executions.resume(second.execution.id)
    assert claimed_one(store).execution.expiries == 0


def test_a_final_state_is_left_by_nobody(store: Store, clock: FrozenClock) -> None:
    ends = [store.queue.conclude(held(store).hold, Ended(state)) for state in FINAL]
    clock.forward(timedelta(days=1))
    for ended in ends:
        with pytest.raises(IllegalMove) as raised:
            store.executions.cancel(ended.id)
        assert raised.value.current is ended.state
    assert claimed_ids(store) == []
    assert list(store.queue.bury()) == []
    assert [found(store, ended.id) for ended in ends] == ends


def test_a_long_error_and_characters_that_no_store_holds_do_not_keep_the_end_away(store: Store) -> None:
    error = {"code": "odd", "message": "é" * 64 * 1024 + "a\x00b\ud800c"}
    ended = store.queue.conclude(held(store).hold, Ended(FAILED, error=error))
    assert ended.error == {"code": "odd", "message": "é" * 64 * 1024 + "a\ufffdb\ufffdc"}
    assert found(store, ended.id) == ended
    again = store.queue.conclude(held(store).hold, Again(MINUTE, error))
    assert again.state is ExecutionState.RETRYING


def test_of_many_that_end_one_claim_one_does(store: Store) -> None:
    delivery = held(store)

    def end(number: int) -> bool:
        try:
            return store.queue.conclude(delivery.hold, Ended(ExecutionState.SUCCESS, number)).output == number
        except LeaseLost:
            return False

    ended = at_once(8, end)
    assert sorted(ended) == [False] * 7 + [True]
    assert found(store, delivery.execution.id).output == ended.index(True)


def test_a_dead_letter_is_replayed_once(store: Store) -> None:
    dead = held(store)
    store.queue.conclude(dead.hold, Ended(FAILED, error=ERROR, reason=DeadReason.POISON))
    became = at_once(6, lambda _: store.executions.replay_dead(dead.execution.id, request(replay_of=dead.execution.id)))
    assert sorted(one.created for one in became) == [False] * 5 + [True]
    (replayed,) = {one.execution_id for one in became}
    assert found(store, dead.execution.id).replayed_as == replayed
    assert claimed_ids(store) == [replayed]


def test_the_end_of_a_child_is_its_own(store: Store) -> None:
    parent = started(store)
    child = adopted(store, parent.hold)
    store.queue.conclude(child.hold, FAILURE)
    assert found(store, parent.execution.id) == parent.execution
    assert store.queue.conclude(parent.hold, SUCCESS).state is ExecutionState.SUCCESS
