"""Limits: of a queue, of a concurrency key, of a rate; every way to start something goes through the same gate."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import LEASE, Again, Delivery, Limits, Parked, Released, Wait
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
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
    request,
    started,
    state_of,
    stored,
    waiting,
)

ONE: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 1}
TWO: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 2}
WAYS_TO_END = [SUCCESS, FAILURE, Again(60 * MINUTE, ERROR), Released(60 * MINUTE), Parked()]


def put(store: Store, count: int, **changes: Any) -> list[str]:
    return [one.execution_id for one in store.queue.enqueue([request(**changes) for _ in range(count)])]


def test_a_queue_runs_as_many_as_its_limit_allows(store: Store) -> None:
    store.queue.limit("default", Limits(running=3))
    put(store, 9)
    put(store, 2, queue="mail")
    first = claimed(store, limit=2)
    second = claimed(store, limit=9, worker="w2")
    assert (len(first), len(second), claimed_ids(store, worker="w3")) == (2, 1, [])
    assert len(claimed_ids(store, "default", "mail", worker="w3")) == 2


@pytest.mark.parametrize("conclusion", WAYS_TO_END)
def test_a_claim_that_has_ended_gives_its_place_to_the_next(store: Store, conclusion: Any) -> None:
    store.queue.limit("default", Limits(running=1))
    put(store, 2)
    (first,) = claimed(store)
    assert claimed_ids(store) == []
    store.queue.conclude(first.hold, conclusion)
    assert claimed_one(store).execution.id != first.execution.id


def test_a_cancelled_execution_gives_its_place_to_the_next(store: Store) -> None:
    store.queue.limit("default", Limits(running=1))
    put(store, 2, **ONE)
    store.executions.cancel(claimed_one(store).execution.id)
    claimed_one(store)


def test_limits_hold_from_the_next_claim_on(store: Store) -> None:
    put(store, 9)
    assert len(claimed(store, limit=3)) == 3
    store.queue.limit("default", Limits(running=2))
    assert claimed_ids(store) == []
    store.queue.limit("default", Limits(running=4))
    assert len(claimed(store)) == 1
    store.queue.limit("default", Limits())
    assert len(claimed(store)) == 5


def test_a_limit_of_none_at_all_gives_nothing(store: Store) -> None:
    store.queue.limit("default", Limits(running=0))
    enqueued(store)
    assert claimed_ids(store) == []


@pytest.mark.parametrize("limits", [Limits(running=1), Limits(running_per_key=1), Limits()])
def test_what_was_lost_does_not_count_against_its_own_recovery(
    store: Store, clock: FrozenClock, limits: Limits
) -> None:
    store.queue.limit("default", limits)
    first = held(store, **ONE)
    clock.forward(LEASE - INSTANT)
    enqueued(store, priority=-1, **ONE)
    assert claimed_ids(store) == []
    clock.forward(INSTANT)
    second = claimed_one(store, worker="w2")
    assert second.execution.id == first.execution.id
    assert claimed_ids(store) == []


def test_what_was_lost_leaves_its_place_to_others(store: Store, clock: FrozenClock) -> None:
    lost = held(store, **ONE)
    clock.forward(LEASE)
    urgent = enqueued(store, priority=1, **ONE)
    assert claimed_ids(store, worker="w2") == [urgent]
    assert claimed_ids(store, worker="w2") == []
    assert state_of(store, lost.execution.id) is ExecutionState.RUNNING


def test_a_renewed_lease_goes_on_counting(store: Store, clock: FrozenClock) -> None:
    first = held(store, **ONE)
    put(store, 1, **ONE)
    clock.forward(LEASE)
    store.queue.renew([first.hold], lease=LEASE)
    assert claimed_ids(store) == []


def test_a_concurrency_key_runs_as_many_as_its_limit_allows(store: Store) -> None:
    put(store, 5, **TWO)
    others = put(store, 2, concurrency_key="other", concurrency_limit=1)
    free = put(store, 2)
    ids = claimed_ids(store, limit=9)
    assert len(ids) == 5
    assert set(free) < set(ids)
    assert len(set(ids) & set(others)) == 1
    assert claimed_ids(store, worker="w2") == []


def test_the_most_urgent_of_a_key_go_first(store: Store) -> None:
    low, high, middle = (enqueued(store, priority=priority, **TWO) for priority in (0, 9, 5))
    assert claimed_ids(store) == [high, middle]
    assert state_of(store, low) is ExecutionState.PENDING


def test_a_key_without_a_limit_runs_one_at_a_time(store: Store) -> None:
    put(store, 3, concurrency_key="c")
    first = claimed_one(store)
    assert claimed_ids(store) == []
    store.queue.conclude(first.hold, SUCCESS)
    claimed_one(store)


def test_a_key_counts_over_all_queues(store: Store) -> None:
    put(store, 1, queue="a", **ONE)
    put(store, 1, queue="b", **ONE)
    (first,) = claimed(store, "a")
    assert claimed_ids(store, "b") == []
    store.queue.conclude(first.hold, SUCCESS)
    assert len(claimed(store, "b")) == 1


def test_one_claim_on_two_queues_does_not_exceed_a_key(store: Store) -> None:
    put(store, 3, queue="a", **TWO)
    put(store, 3, queue="b", **TWO)
    assert len(claimed(store, "a", "b")) == 2


def test_each_execution_goes_by_its_own_limit(store: Store) -> None:
    held(store, **TWO)
    put(store, 1, **ONE)
    assert claimed_ids(store) == []
    wide = put(store, 3, concurrency_key="c", concurrency_limit=3)
    assert len(set(claimed_ids(store)) & set(wide)) == 2


def test_nothing_starves_behind_a_full_key(store: Store) -> None:
    put(store, 600, priority=5, **ONE)
    claimed_one(store)
    other = enqueued(store, concurrency_key="other", concurrency_limit=1)
    free = enqueued(store, priority=-5)
    assert claimed_ids(store, worker="w2", limit=1) == [other]
    assert claimed_ids(store, worker="w2", limit=1) == [free]
    assert claimed_ids(store, worker="w2", limit=1) == []


def test_a_full_queue_does_not_hide_another(store: Store) -> None:
    store.queue.limit("full", Limits(running=1))
    put(store, 300, queue="full", priority=9)
    claimed(store, "full", limit=1)
    free = enqueued(store)
    assert claimed_ids(store, "full", "default", limit=1) == [free]


def test_a_queue_bounds_each_key(store: Store) -> None:
    store.queue.limit("default", Limits(running_per_key=2))
    put(store, 4, concurrency_key="a", concurrency_limit=9)
    put(store, 4, concurrency_key="b", concurrency_limit=9)
    put(store, 4, concurrency_key="c", concurrency_limit=1)
    put(store, 3)
    keys = sorted(str(delivery.execution.concurrency_key) for delivery in claimed(store, limit=99))
    assert keys == ["None"] * 3 + ["a"] * 2 + ["b"] * 2 + ["c"]
    assert claimed_ids(store) == []


def test_a_key_starts_so_many_within_its_time(store: Store, clock: FrozenClock) -> None:
    store.queue.limit("default", Limits(starts_per_key=2, per_key_seconds=60))
    put(store, 5, concurrency_key="a", concurrency_limit=9)
    put(store, 1, concurrency_key="b")
    free = put(store, 3)
    first = claimed(store, limit=99)
    assert len(first) == 6
    assert set(free) < {delivery.execution.id for delivery in first}
    for delivery in first:
        store.queue.conclude(delivery.hold, SUCCESS)
    claim = store.queue.claim(["default"], worker="w1", lease=LEASE, limit=9)
    assert list(claim.deliveries) == []
    assert claim.next_due is not None
    assert START < claim.next_due <= START + MINUTE
    clock.time = START + MINUTE - INSTANT
    assert claimed_ids(store) == []
    clock.time = START + MINUTE + INSTANT
    assert len(claimed(store, limit=99)) == 2


def test_starts_are_counted_in_a_window_that_moves(store: Store, clock: FrozenClock) -> None:
    store.queue.limit("default", Limits(starts_per_key=2, per_key_seconds=60))
    for second in (0, 40):
        clock.time = START + second * SECOND
        store.queue.conclude(held(store, concurrency_key="a").hold, SUCCESS)
    put(store, 3, concurrency_key="a", concurrency_limit=9)
    assert claimed_ids(store) == []
    clock.time = START + 61 * SECOND
    assert len(claimed(store)) == 1
    clock.time = START + 101 * SECOND - 2 * SECOND
    assert claimed_ids(store) == []
    clock.time = START + 101 * SECOND
    assert len(claimed(store)) == 1


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (Limits(running=1), {}),
        (Limits(running_per_key=1), {"concurrency_key": "c"}),
        (Limits(), ONE),
    ],
)
def test_a_full_queue_says_to_look_again_when_a_lease_ends(
    store: Store, clock: FrozenClock, limits: Limits, asked: dict[str, Any]
) -> None:
    """Not at once: a worker would turn in circles."""
    store.queue.limit("default", limits)
    put(store, 3, **asked)
    claimed_one(store)
    clock.forward(SECOND)
    claim = store.queue.claim(["default"], worker="w2", lease=LEASE, limit=9)
    assert list(claim.deliveries) == []
    assert claim.next_due == START + LEASE


def test_who_comes_back_from_a_wait_goes_through_the_gate(store: Store) -> None:
    first = held(store, **ONE)
    waiting(store, first.hold, Wait("ask", "signal", "go"))
    store.queue.conclude(first.hold, Parked())
    second = held(store, **ONE)
    store.executions.signal(first.execution.id, "go", {})
    assert claimed_ids(store) == []
    store.queue.conclude(second.hold, SUCCESS)
    assert claimed_ids(store) == [first.execution.id]


def test_what_was_resumed_goes_through_the_gate(store: Store) -> None:
    first = held(store, **ONE)
    store.queue.conclude(first.hold, FAILURE)
    second = held(store, **ONE)
    store.executions.resume(first.execution.id)
    assert claimed_ids(store) == []
    store.queue.conclude(second.hold, FAILURE)
    assert claimed_ids(store) == [first.execution.id]


def start(store: Store, **changes: Any) -> Delivery | Execution | None:
    return store.queue.start(request(queue=None, **changes), worker="w1", lease=LEASE)


def test_what_is_started_runs_and_is_held(store: Store, clock: FrozenClock) -> None:
    clock.forward(SECOND)
    delivery = started(store, worker="w7", lease=MINUTE, trigger="schedule", **TWO)
    execution, now = delivery.execution, START + SECOND
    assert found(store, execution.id) == execution
    assert (execution.state, execution.queue, execution.trigger) == (ExecutionState.RUNNING, None, "schedule")
    assert (execution.created_at, execution.started_at, execution.claimed_at) == (now, now, now)
    assert (execution.lease_until, execution.due_at, execution.run_at) == (now + MINUTE, now + MINUTE, now)
    assert (execution.worker, execution.fence, execution.deliveries, execution.expiries) == ("w7", 1, 1, 0)
    assert (execution.root_id, execution.depth, execution.attempt) == (execution.id, 1, 1)
    assert (delivery.hold.execution_id, delivery.hold.fence, delivery.hold.worker) == (execution.id, 1, "w7")
    assert store.queue.conclude(delivery.hold, SUCCESS).state is ExecutionState.SUCCESS


def test_a_start_waits_outside_while_its_key_is_full(store: Store, clock: FrozenClock) -> None:
    first = started(store, **TWO)
    started(store, **TWO)
    before = stored(store)
    assert start(store, **TWO) is None
    assert stored(store) == before
    store.queue.conclude(first.hold, FAILURE)
    assert isinstance(start(store, **TWO), Delivery)
    assert start(store, **TWO) is None
    clock.forward(LEASE)
    assert isinstance(start(store, **TWO), Delivery)


def test_a_start_that_may_not_wait_is_rejected_and_stored(store: Store) -> None:
    started(store, **ONE)
    asked = request(queue=None, when_full="reject", **ONE)
    rejected = store.queue.start(asked, worker="w1", lease=LEASE)
    assert isinstance(rejected, Execution)
    assert (rejected.id, rejected.state, rejected.finished_at) == (asked.id, ExecutionState.REJECTED, START)
    assert (rejected.due_at, rejected.worker, rejected.started_at) == (None, None, None)
    assert found(store, asked.id) == rejected
    assert store.queue.take(asked.id, worker="w1", lease=LEASE) is None


def test_claims_and_starts_share_the_places_of_a_key(store: Store) -> None:
    put(store, 2, **ONE)
    first = claimed_one(store)
    assert start(store, **ONE) is None
    store.queue.conclude(first.hold, SUCCESS)
    second = started(store, **ONE)
    assert claimed_ids(store) == []
    store.queue.conclude(second.hold, SUCCESS)
    assert len(claimed(store)) == 1


def test_what_is_taken_goes_through_the_same_gate(store: Store) -> None:
    first = started(store, **ONE)
    store.queue.conclude(first.hold, FAILURE)
    second = started(store, **ONE)
    store.executions.resume(first.execution.id)
    assert store.queue.take(first.execution.id, worker="w1", lease=LEASE) is None
    store.queue.conclude(second.hold, SUCCESS)
    assert isinstance(store.queue.take(first.execution.id, worker="w1", lease=LEASE), Delivery)


def test_a_child_of_a_full_key_still_runs(store: Store) -> None:
    """It is a part of what runs already: to wait for its own place would be for ever."""
    parent = started(store, **ONE)
    assert adopted(store, parent.hold, **ONE).execution.state is ExecutionState.RUNNING


def test_starts_at_once_never_exceed_a_limit(store: Store) -> None:
    for number in range(5):
        how: dict[str, Any] = {"concurrency_key": f"c{number}", "concurrency_limit": 3}
        became = at_once(8, lambda _, how=how: start(store, **how))  # type: ignore[misc]
        assert len([one for one in became if isinstance(one, Delivery)]) == 3
        assert [one for one in became if not isinstance(one, Delivery)] == [None] * 5
    assert stored(store) == 15


def test_starts_at_once_that_may_not_wait_are_rejected_beyond_the_limit(store: Store) -> None:
    became = at_once(8, lambda _: start(store, when_full="reject", **TWO))
    states = sorted(one.state if isinstance(one, Execution) else "held" for one in became if one)
    assert states == ["held"] * 2 + ["rejected"] * 6


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (Limits(running=3), {}),
        (Limits(running_per_key=3), {"concurrency_key": "c", "concurrency_limit": 9}),
        (Limits(starts_per_key=3, per_key_seconds=60), {"concurrency_key": "c", "concurrency_limit": 9}),
        (Limits(), {"concurrency_key": "c", "concurrency_limit": 3}),
    ],
)
def test_claims_at_once_never_exceed_a_limit(store: Store, limits: Limits, asked: dict[str, Any]) -> None:
    store.queue.limit("default", limits)
    put(store, 40, **asked)
    taken = at_once(8, lambda number: len(claimed(store, worker=f"w{number}", limit=2)))
    assert sum(taken) == 3


def test_claims_and_starts_at_once_never_exceed_a_key(store: Store) -> None:
    for number in range(5):
        how: dict[str, Any] = {"concurrency_key": f"c{number}", "concurrency_limit": 2}
        put(store, 4, queue="a", **how)
        put(store, 4, queue="b", **how)

        def act(worker: int, how: dict[str, Any] = how) -> int:
            if worker % 3 == 2:
                return int(start(store, **how) is not None)
            return len(claimed(store, "ab"[worker % 3], worker=f"w{worker}", limit=2))

        assert sum(at_once(6, act)) == 2


def test_a_rate_counts_the_starts_of_retries_too(store: Store, clock: FrozenClock) -> None:
    store.queue.limit("default", Limits(starts_per_key=1, per_key_seconds=60))
    first = held(store, concurrency_key="a")
    store.queue.conclude(first.hold, Again(timedelta(), ERROR))
    assert claimed_ids(store) == []
    clock.time = START + MINUTE + INSTANT
    assert claimed_ids(store) == [first.execution.id]
