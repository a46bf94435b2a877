"""Claims: what is due goes to one owner, in order, with a lease that anybody may take over once it ran out."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import timedelta

import pytest

from flo.engine.errors import NotFound
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, MAX_EXPIRIES, Delivery, Hold, Parked, Released
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    FAILURE,
    INSTANT,
    MINUTE,
    SECOND,
    START,
    SUCCESS,
    at_once,
    claimed,
    claimed_ids,
    claimed_one,
    enqueued,
    found,
    held,
    outcomes,
    request,
    started,
    state_of,
)


def test_a_claim_holds_the_execution_for_its_lease(store: Store, clock: FrozenClock) -> None:
    execution_id = enqueued(store)
    before = found(store, execution_id)
    clock.forward(MINUTE)
    (delivery,) = store.queue.claim(["default"], worker="w1", lease=LEASE, limit=5).deliveries
    now = START + MINUTE
    assert delivery.execution == dataclasses.replace(
        before,
        state=ExecutionState.RUNNING,
        started_at=now,
        due_at=now + LEASE,
        lease_until=now + LEASE,
        claimed_at=now,
        worker="w1",
        fence=1,
        deliveries=1,
    )
    assert found(store, execution_id) == delivery.execution
    assert dataclasses.replace(delivery.hold, token="") == Hold(execution_id, "", 1, "w1")
    assert delivery.hold.token
    assert (delivery.variables, delivery.tolerated, delivery.last_line, delivery.begun) == ({}, 0, 0, False)


def test_claims_go_by_priority_then_time_then_creation(store: Store, clock: FrozenClock) -> None:
    def put(priority: int, run_at_minute: int) -> str:
        clock.forward(SECOND)
        return enqueued(store, priority=priority, run_at=START + run_at_minute * MINUTE)

    last = put(-1, 1)
    third, fourth = put(0, 5), put(0, 5)
    second = put(0, 4)
    first = put(7, 9)
    clock.time = START + 10 * MINUTE
    assert claimed_ids(store, limit=3) == [first, second, third]
    assert claimed_ids(store, limit=3) == [fourth, last]


def test_one_claim_on_several_queues_has_one_order(store: Store, clock: FrozenClock) -> None:
    ids = []
    for queue, priority in [("a", 0), ("b", 0), ("a", 1), ("c", 9), ("b", 2)]:
        clock.forward(SECOND)
        ids.append(enqueued(store, queue=queue, priority=priority))
    assert claimed_ids(store, "b", "a") == [ids[4], ids[2], ids[0], ids[1]]
    assert claimed_ids(store, "c") == [ids[3]]


def test_a_claim_on_no_queue_gives_nothing(store: Store) -> None:
    enqueued(store)
    claim = store.queue.claim([], worker="w1", lease=LEASE, limit=5)
    assert (list(claim.deliveries), claim.next_due) == ([], None)


def test_what_no_queue_delivers_is_never_claimed(store: Store, clock: FrozenClock) -> None:
    started(store)
    clock.forward(LEASE + SECOND)
    assert claimed_ids(store, "default", "") == []


@pytest.mark.parametrize("asked", [{"run_at": START + MINUTE}, {"delay": MINUTE}])
def test_nothing_is_claimed_before_its_time_and_everything_at_it(
    store: Store, clock: FrozenClock, asked: dict[str, object]
) -> None:
    execution_id = enqueued(store, **asked)
    clock.time = START + MINUTE - INSTANT
    assert claimed_ids(store) == []
    clock.time = START + MINUTE
    assert claimed_ids(store) == [execution_id]


def test_what_is_held_is_given_to_nobody(store: Store, clock: FrozenClock) -> None:
    held(store)
    clock.forward(LEASE - INSTANT)
    assert claimed_ids(store, worker="w2") == []
    assert claimed_ids(store, worker="w1") == []


def test_what_has_ended_is_given_to_nobody(store: Store, clock: FrozenClock) -> None:
    for conclusion in (SUCCESS, FAILURE):
        store.queue.conclude(held(store).hold, conclusion)
    store.executions.cancel(enqueued(store))
    clock.forward(timedelta(days=1))
    claim = store.queue.claim(["default"], worker="w2", lease=LEASE, limit=5)
    assert (list(claim.deliveries), claim.next_due) == ([], None)


@pytest.mark.parametrize("worker", ["w2", "w1"])
def test_a_lease_that_ran_out_is_taken_over_by_anybody(store: Store, clock: FrozenClock, worker: str) -> None:
    """A worker that came back under its old name is another owner too."""
    first = held(store, worker="w1")
    clock.forward(LEASE)
    second = claimed_one(store, worker=worker, lease=MINUTE)
    assert second.execution == dataclasses.replace(
        first.execution,
        worker=worker,
        claimed_at=START + LEASE,
        due_at=START + LEASE + MINUTE,
        lease_until=START + LEASE + MINUTE,
        fence=2,
        deliveries=2,
        expiries=1,
    )
    assert found(store, first.execution.id) == second.execution
    assert second.hold.fence == 2
    assert second.hold.token != first.hold.token
    (attempt,) = store.executions.attempts(first.execution.id)
    assert (attempt.fence, attempt.worker, attempt.claimed_at) == (1, "w1", START)
    assert attempt.outcome == "expired"


def test_what_was_lost_comes_in_its_old_place(store: Store, clock: FrozenClock) -> None:
    lost = held(store).execution.id
    clock.forward(LEASE)
    later = enqueued(store)
    urgent = enqueued(store, priority=1)
    assert claimed_ids(store, worker="w2") == [urgent, lost, later]


def test_losses_are_counted_apart_from_attempts_and_stop_at_a_bound(store: Store, clock: FrozenClock) -> None:
    execution_id = enqueued(store)
    for losses in range(MAX_EXPIRIES + 1):
        execution = claimed_one(store, worker=f"w{losses}").execution
        assert (execution.expiries, execution.deliveries, execution.attempt) == (losses, losses + 1, 1)
        clock.forward(LEASE)
    claim = store.queue.claim(["default"], worker="w9", lease=LEASE, limit=5)
    assert list(claim.deliveries) == []
    assert state_of(store, execution_id) is ExecutionState.RUNNING
    assert outcomes(store, execution_id) == [(n + 1, f"w{n}", "expired") for n in range(MAX_EXPIRIES)]


def test_what_is_past_its_deadline_is_not_given(store: Store, clock: FrozenClock) -> None:
    late, lost = (
        enqueued(store, run_at=START + MINUTE, deadline=START + 2 * MINUTE),
        held(store, deadline=START + 2 * MINUTE),
    )
    clock.time = START + 2 * MINUTE + INSTANT
    assert claimed_ids(store) == []
    assert state_of(store, late) is ExecutionState.PENDING
    assert state_of(store, lost.execution.id) is ExecutionState.RUNNING


def test_until_its_deadline_it_is_given(store: Store, clock: FrozenClock) -> None:
    execution_id = enqueued(store, deadline=START + MINUTE)
    clock.time = START + MINUTE - INSTANT
    assert claimed_ids(store) == [execution_id]


def test_an_expired_deadline_does_not_hide_what_comes_after_it(store: Store, clock: FrozenClock) -> None:
    store.queue.enqueue([request(priority=9, deadline=START + SECOND) for _ in range(300)])
    clock.forward(MINUTE)
    execution_id = enqueued(store)
    assert claimed_ids(store, limit=1) == [execution_id]


def test_renewed_leases_last_from_now(store: Store, clock: FrozenClock) -> None:
    delivery = held(store)
    clock.forward(LEASE - SECOND)
    assert list(store.queue.renew([delivery.hold], lease=MINUTE)) == [delivery.hold]
    execution = found(store, delivery.execution.id)
    until = START + LEASE - SECOND + MINUTE
    assert (execution.lease_until, execution.due_at) == (until, until)
    assert (execution.fence, execution.claimed_at, execution.expiries) == (1, START, 0)
    clock.time = until - INSTANT
    assert claimed_ids(store, worker="w2") == []
    clock.time = until
    assert claimed_ids(store, worker="w2") == [delivery.execution.id]


def test_a_lease_that_ran_out_and_that_nobody_took_is_valid(store: Store, clock: FrozenClock) -> None:
    renewed, ended, owned = held(store), held(store), held(store)
    clock.forward(timedelta(hours=1))
    assert list(store.queue.valid([renewed.hold, ended.hold])) == [renewed.hold, ended.hold]
    assert store.queue.own(owned.hold, lambda owned: owned.now()) == clock.now()
    assert list(store.queue.renew([renewed.hold], lease=LEASE)) == [renewed.hold]
    assert store.queue.conclude(ended.hold, SUCCESS).state is ExecutionState.SUCCESS
    assert found(store, renewed.execution.id).expiries == 0
    assert claimed_ids(store) == [owned.execution.id]


def test_only_the_holds_that_stand_are_renewed(store: Store, clock: FrozenClock) -> None:
    lost = held(store)
    clock.forward(LEASE)
    taken = claimed_one(store, worker="w2")
    kept, ended, cancelled, released, parked = (held(store) for _ in range(5))
    store.queue.conclude(ended.hold, SUCCESS)
    store.executions.cancel(cancelled.execution.id)
    store.queue.conclude(released.hold, Released(MINUTE))
    store.queue.conclude(parked.hold, Parked())
    forged = dataclasses.replace(kept.hold, token="guessed")
    gone = Hold("nobody", "token", 1, "w1")
    holds = [d.hold for d in (lost, kept, ended, cancelled, taken, released, parked)] + [forged, gone]
    before = [found(store, d.execution.id) for d in (ended, cancelled, released, parked)]
    assert set(store.queue.valid(holds)) == {kept.hold, taken.hold}
    clock.forward(SECOND)
    assert set(store.queue.renew(holds, lease=MINUTE)) == {kept.hold, taken.hold}
    assert found(store, taken.execution.id).lease_until == clock.now() + MINUTE
    assert [found(store, d.execution.id) for d in (ended, cancelled, released, parked)] == before


def test_no_holds_are_renewed_for_nothing(store: Store) -> None:
    assert list(store.queue.renew([], lease=LEASE)) == []
    assert list(store.queue.valid([])) == []


def test_hundreds_of_holds_are_renewed_together(store: Store, clock: FrozenClock) -> None:
    store.queue.enqueue([request() for _ in range(300)])
    holds = [delivery.hold for delivery in claimed(store, limit=300)]
    clock.forward(SECOND)
    assert set(store.queue.renew(holds, lease=MINUTE)) == set(holds)
    assert found(store, holds[-1].execution_id).lease_until == START + SECOND + MINUTE


def test_asking_whether_a_hold_is_valid_changes_nothing(store: Store, clock: FrozenClock) -> None:
    delivery = held(store)
    clock.forward(SECOND)
    store.queue.valid([delivery.hold])
    assert found(store, delivery.execution.id) == delivery.execution


def next_due(store: Store, *queues: str, limit: int = 10) -> object:
    return store.queue.claim(queues or ("default",), worker="w9", lease=LEASE, limit=limit).next_due


def test_a_claim_says_when_the_next_one_is_due(store: Store, clock: FrozenClock) -> None:
    assert next_due(store) is None
    enqueued(store, run_at=START + 9 * MINUTE)
    enqueued(store, run_at=START + 5 * MINUTE, priority=-1)
    enqueued(store, run_at=START + MINUTE, queue="mail")
    assert next_due(store) == START + 5 * MINUTE
    assert next_due(store, "default", "mail") == START + MINUTE
    assert next_due(store, "nothing") is None
    leased = held(store)
    assert next_due(store) == START + LEASE
    store.queue.conclude(leased.hold, Parked(START + 3 * MINUTE))
    assert next_due(store) == START + 3 * MINUTE
    store.executions.cancel(leased.execution.id)
    assert next_due(store) == START + 5 * MINUTE


def test_what_waits_for_an_answer_alone_is_not_known_to_come_due(store: Store) -> None:
    store.queue.conclude(held(store).hold, Parked())
    assert next_due(store) is None


def test_a_claim_that_left_due_ones_behind_says_to_look_again_at_once(store: Store) -> None:
    store.queue.enqueue([request() for _ in range(3)])
    due = store.queue.claim(["default"], worker="w1", lease=LEASE, limit=2).next_due
    assert due is not None
    assert due <= START


def test_claims_at_once_take_disjoint_executions(store: Store) -> None:
    store.queue.enqueue([request() for _ in range(200)])

    def drain(number: int) -> list[str]:
        ids: list[str] = []
        while taken := claimed_ids(store, worker=f"w{number}", limit=7):
            ids += taken
        return ids

    counts = Counter(execution_id for ids in at_once(6, drain) for execution_id in ids)
    assert len(counts) == 200
    assert set(counts.values()) == {1}


def test_a_lost_execution_is_taken_over_by_one_of_many(store: Store, clock: FrozenClock) -> None:
    execution_id = held(store).execution.id
    clock.forward(LEASE)
    taken = [ids for ids in at_once(8, lambda number: claimed_ids(store, worker=f"w{number}")) if ids]
    assert taken == [[execution_id]]
    execution = found(store, execution_id)
    assert (execution.fence, execution.deliveries, execution.expiries) == (2, 2, 1)


def test_an_execution_that_no_queue_delivers_is_taken_by_its_id(store: Store, clock: FrozenClock) -> None:
    first = started(store)
    execution_id = first.execution.id
    assert store.queue.take(execution_id, worker="w2", lease=LEASE) is None
    clock.forward(LEASE)
    second = store.queue.take(execution_id, worker="w2", lease=MINUTE)
    assert isinstance(second, Delivery)
    assert second.execution == found(store, execution_id)
    assert (second.hold.fence, second.hold.worker, second.execution.expiries) == (2, "w2", 1)
    assert second.hold.token != first.hold.token
    store.queue.conclude(second.hold, Parked(clock.now() + MINUTE))
    assert store.queue.take(execution_id, worker="w3", lease=LEASE) is None
    clock.forward(MINUTE)
    third = store.queue.take(execution_id, worker="w3", lease=LEASE)
    assert isinstance(third, Delivery)
    assert (third.hold.fence, third.execution.expiries) == (3, 1)
    store.queue.conclude(third.hold, FAILURE)
    assert store.queue.take(execution_id, worker="w4", lease=LEASE) is None
    store.executions.resume(execution_id)
    fourth = store.queue.take(execution_id, worker="w4", lease=LEASE)
    assert isinstance(fourth, Delivery)
    assert fourth.hold.fence == 4


def test_what_a_queue_delivers_is_not_taken_past_it(store: Store) -> None:
    execution_id = enqueued(store)
    assert store.queue.take(execution_id, worker="w1", lease=LEASE) is None
    assert state_of(store, execution_id) is ExecutionState.PENDING


def test_taking_what_is_not_there_says_so(store: Store) -> None:
    with pytest.raises(NotFound, match="nobody"):
        store.queue.take("nobody", worker="w1", lease=LEASE)


def test_of_many_that_take_one_execution_one_has_it(store: Store, clock: FrozenClock) -> None:
    execution_id = started(store).execution.id
    clock.forward(LEASE)
    taken = at_once(6, lambda number: store.queue.take(execution_id, worker=f"w{number}", lease=LEASE))
    assert len([one for one in taken if one is not None]) == 1
    assert found(store, execution_id).fence == 2
