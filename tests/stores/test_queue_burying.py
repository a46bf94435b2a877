"""Burying: what nobody will end is ended, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.executions import DeadReason, Execution, ExecutionState
from flo.engine.jobs import LEASE, MAX_EXPIRIES, Again, LeaseLost, Parked, Released
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    CONCLUSIONS,
    ERROR,
    FAILURE,
    INSTANT,
    MINUTE,
    START,
    SUCCESS,
    adopted,
    at_once,
    claimed_ids,
    claimed_one,
    enqueued,
    found,
    held,
    request,
    started,
    state_of,
)

LATER = START + MINUTE


def buried(store: Store, **how: Any) -> dict[str, Execution]:
    executions = store.queue.bury(**how)
    assert [found(store, one.id) for one in executions] == list(executions)
    return {one.id: one for one in executions}


def lose(store: Store, clock: FrozenClock, times: int) -> str:
    """An execution whose worker was lost so often."""
    execution_id = enqueued(store)
    for _ in range(times):
        assert claimed_ids(store) == [execution_id]
        clock.forward(LEASE)
    return execution_id


def test_a_deadline_ends_whatever_is_unfinished(store: Store, clock: FrozenClock) -> None:
    how = {"deadline": LATER}
    pending = enqueued(store, run_at=START + timedelta(days=1), **how)
    retrying, parked, running = (held(store, **how) for _ in range(3))
    attached = started(store, **how)
    store.queue.conclude(retrying.hold, Again(MINUTE, ERROR))
    store.queue.conclude(parked.hold, Parked())
    ids = {pending} | {one.execution.id for one in (retrying, parked, running, attached)}
    clock.time = LATER - INSTANT
    store.queue.renew([running.hold, attached.hold], lease=MINUTE)
    assert buried(store) == {}
    clock.time = LATER + INSTANT
    ended = buried(store)
    assert set(ended) == ids
    for execution in ended.values():
        assert (execution.state, execution.finished_at) == (ExecutionState.TIMED_OUT, clock.now())
        assert (execution.due_at, execution.lease_until, execution.reason) == (None, None, None)
    for delivery in (running, attached):
        with pytest.raises(LeaseLost, match="it is timed_out"):
            store.queue.conclude(delivery.hold, SUCCESS)
    assert buried(store) == {}
    assert claimed_ids(store) == []


def test_what_has_ended_has_no_deadline(store: Store, clock: FrozenClock) -> None:
    ended = [store.queue.conclude(held(store, deadline=LATER).hold, end) for end in (SUCCESS, FAILURE)]
    store.executions.cancel(enqueued(store, deadline=LATER))
    clock.forward(timedelta(days=1))
    assert buried(store) == {}
    assert [found(store, one.id) for one in ended] == ended


def test_what_was_lost_too_often_is_poison(store: Store, clock: FrozenClock) -> None:
    execution_id = lose(store, clock, MAX_EXPIRIES + 1)
    assert claimed_ids(store) == []
    ended = buried(store)[execution_id]
    assert (ended.state, ended.reason) == (ExecutionState.FAILED, DeadReason.POISON)
    assert (ended.finished_at, ended.due_at, ended.deliveries) == (clock.now(), None, MAX_EXPIRIES + 1)
    assert ended.error
    assert [one.id for one in store.executions.list(dead=True)] == [execution_id]


def test_until_then_it_is_left_to_the_next_worker(store: Store, clock: FrozenClock) -> None:
    execution_id = lose(store, clock, MAX_EXPIRIES)
    assert buried(store) == {}
    last = claimed_one(store, worker="w9")
    clock.forward(LEASE - INSTANT)
    assert buried(store) == {}
    clock.forward(INSTANT)
    assert set(buried(store)) == {execution_id}
    for conclusion in CONCLUSIONS:
        with pytest.raises(LeaseLost, match="it is failed"):
            store.queue.conclude(last.hold, conclusion)


def test_the_last_worker_may_still_end_it(store: Store, clock: FrozenClock) -> None:
    lose(store, clock, MAX_EXPIRIES)
    last = claimed_one(store)
    clock.forward(LEASE)
    store.queue.renew([last.hold], lease=LEASE)
    assert buried(store) == {}
    assert store.queue.conclude(last.hold, SUCCESS).state is ExecutionState.SUCCESS


@pytest.mark.parametrize("conclusion", [Again(MINUTE, ERROR), Released(MINUTE), Parked(LATER)])
def test_losses_lie_behind_what_was_put_down_in_order(store: Store, clock: FrozenClock, conclusion: Any) -> None:
    """It is no poison while nobody holds it."""
    execution_id = lose(store, clock, MAX_EXPIRIES)
    store.queue.conclude(claimed_one(store).hold, conclusion)
    clock.forward(timedelta(hours=1))
    assert buried(store) == {}
    assert claimed_ids(store) == [execution_id]


def test_an_execution_whose_program_is_gone_has_crashed(store: Store, clock: FrozenClock) -> None:
    gone, alive = started(store), started(store, lease=60 * MINUTE)
    clock.forward(LEASE - INSTANT)
    assert buried(store) == {}
    clock.forward(INSTANT)
    ended = buried(store)
    assert set(ended) == {gone.execution.id}
    execution = ended[gone.execution.id]
    assert (execution.state, execution.reason) == (ExecutionState.FAILED, None)
    assert execution.error is not None
    assert execution.error["code"] == "crashed"
    assert (execution.finished_at, execution.due_at) == (clock.now(), None)
    with pytest.raises(LeaseLost, match="it is failed"):
        store.queue.conclude(gone.hold, SUCCESS)
    assert found(store, alive.execution.id) == alive.execution
    assert store.executions.resume(gone.execution.id).state is ExecutionState.PENDING


def test_what_waits_without_a_queue_is_not_gone(store: Store, clock: FrozenClock) -> None:
    parked, due, resumed = (started(store) for _ in range(3))
    store.queue.conclude(parked.hold, Parked())
    store.queue.conclude(due.hold, Parked(LATER))
    store.queue.conclude(resumed.hold, FAILURE)
    store.executions.resume(resumed.execution.id)
    clock.forward(timedelta(hours=1))
    assert buried(store) == {}
    assert store.queue.take(due.execution.id, worker="w2", lease=LEASE) is not None


def test_a_lost_job_is_left_to_its_queue(store: Store, clock: FrozenClock) -> None:
    job, parent = held(store), started(store, lease=timedelta(days=1))
    below = held(store, queue="mail", parent_id=parent.execution.id, parent_path="send")
    clock.forward(timedelta(hours=1))
    assert buried(store) == {}
    assert claimed_ids(store) == [job.execution.id]
    assert claimed_ids(store, "mail") == [below.execution.id]


def test_a_child_is_left_to_its_parent(store: Store, clock: FrozenClock) -> None:
    parent = held(store)
    child = adopted(store, parent.hold)
    clock.forward(timedelta(hours=1))
    assert buried(store) == {}
    assert adopted(store, claimed_one(store, worker="w2").hold).execution.id == child.execution.id


def test_a_burial_ends_so_many_at_most(store: Store, clock: FrozenClock) -> None:
    store.queue.enqueue([request(deadline=LATER) for _ in range(5)])
    clock.forward(2 * MINUTE)
    assert [len(buried(store, limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_burial_reaches_every_queue_paused_ones_too(store: Store, clock: FrozenClock) -> None:
    ids = {enqueued(store, queue=queue, deadline=LATER) for queue in ("a", "b")}
    store.queue.pause("a")
    clock.forward(2 * MINUTE)
    assert set(buried(store)) == ids


def test_burials_at_once_end_each_once(store: Store, clock: FrozenClock) -> None:
    asked = [request(deadline=LATER) for _ in range(40)]
    store.queue.enqueue(asked)
    clock.forward(2 * MINUTE)
    ended = [one.id for executions in at_once(4, lambda _: store.queue.bury(limit=15)) for one in executions]
    ended += [one.id for one in store.queue.bury()]
    assert sorted(ended) == sorted(one.id for one in asked)


def test_of_a_burial_and_an_end_at_once_one_stands(store: Store, clock: FrozenClock) -> None:
    for _ in range(10):
        gone = started(store)
        clock.forward(LEASE)

        def act(number: int, gone: Any = gone) -> list[Execution]:
            if number:
                return list(store.queue.bury())
            try:
                return [store.queue.conclude(gone.hold, SUCCESS)]
            except LeaseLost:
                return []

        own, burial = at_once(2, act)
        (ended,) = own + burial
        assert found(store, gone.execution.id) == ended


def test_what_was_buried_can_be_resumed(store: Store, clock: FrozenClock) -> None:
    execution_id = lose(store, clock, MAX_EXPIRIES + 1)
    late = enqueued(store, deadline=clock.now() + MINUTE)
    clock.forward(2 * MINUTE)
    assert set(buried(store)) == {execution_id, late}
    for one in (execution_id, late):
        store.executions.resume(one)
    assert buried(store) == {}
    assert set(claimed_ids(store)) == {execution_id, late}
    assert state_of(store, late) is ExecutionState.RUNNING
