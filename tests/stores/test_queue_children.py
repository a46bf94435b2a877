"""Children: parts of an execution that no queue delivers, held by the owner of the whole and adopted by the next."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import pytest

from flo.engine.errors import InputInvalid
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import LEASE, Again, Conclusion, Ended, Entries, LeaseLost, Parked, Released
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    CONCLUSIONS,
    DIGEST,
    DOCUMENT,
    ERROR,
    FAILURE,
    MINUTE,
    SECOND,
    START,
    SUCCESS,
    adopted,
    at_once,
    claimed_ids,
    claimed_one,
    found,
    held,
    outcomes,
    recorded,
    request,
    started,
    state_of,
    step,
)

RUNNING = ExecutionState.RUNNING


@pytest.mark.parametrize("given", [True, False])
def test_a_child_is_held_by_the_worker_of_its_parent(store: Store, clock: FrozenClock, given: bool) -> None:
    parent = held(store, worker="w7")
    clock.forward(SECOND)
    asked = request(queue=None, parent_path="sub", parent_id=parent.execution.id if given else None)
    child = store.queue.adopt(parent.hold, asked, lease=MINUTE)
    assert not isinstance(child, Execution)
    assert child.execution == Execution(
        id=asked.id,
        workflow="greet",
        version=3,
        digest=DIGEST,
        definition=DOCUMENT,
        input=asked.input,
        state=RUNNING,
        created_at=START + SECOND,
        started_at=START + SECOND,
        run_at=START + SECOND,
        due_at=START + SECOND + MINUTE,
        lease_until=START + SECOND + MINUTE,
        claimed_at=START + SECOND,
        worker="w7",
        fence=1,
        deliveries=1,
        parent_id=parent.execution.id,
        parent_path="sub",
        root_id=parent.execution.id,
        depth=2,
    )
    assert found(store, asked.id) == child.execution
    assert (child.hold.execution_id, child.hold.worker, child.hold.fence) == (asked.id, "w7", 1)
    assert child.hold.token != parent.hold.token
    assert child.begun is False
    assert found(store, parent.execution.id) == parent.execution


def test_children_of_children_have_one_root(store: Store) -> None:
    top = started(store)
    child = adopted(store, top.hold)
    below = adopted(store, child.hold)
    other = adopted(store, top.hold, "other")
    assert [one.execution.depth for one in (top, child, below, other)] == [1, 2, 3, 2]
    assert {one.execution.root_id for one in (top, child, below, other)} == {top.execution.id}
    assert below.execution.parent_id == child.execution.id
    children = {execution.id for execution in store.executions.list(parent=top.execution.id)}
    assert children == {child.execution.id, other.execution.id}


def test_a_job_is_the_root_of_its_own_children(store: Store) -> None:
    parent = held(store)
    job = held(store, queue="mail", parent_id=parent.execution.id, parent_path="send")
    child = adopted(store, job.hold)
    assert (child.execution.root_id, child.execution.depth) == (job.execution.id, 3)


def test_a_job_at_a_path_is_not_the_child_at_that_path(store: Store) -> None:
    """A child is what no queue delivers."""
    parent = held(store)
    job = held(store, queue="mail", parent_id=parent.execution.id, parent_path="sub")
    child = adopted(store, parent.hold, "sub")
    assert child.execution.id != job.execution.id
    assert child.execution.queue is None


def test_the_next_owner_adopts_what_was_left_unfinished_as_it_was_stored(store: Store, clock: FrozenClock) -> None:
    first = held(store, worker="w1")
    left = adopted(store, first.hold)
    entries = Entries([step(left.execution.id, "a")], variables={"v": 1}, tolerated=1)
    recorded(store, left.hold, entries)
    clock.forward(LEASE)
    second = claimed_one(store, worker="w2")
    asked = request(
        queue=None, parent_path="sub", input={"another": 1}, definition="{}", digest="0" * 64, workflow="x", version=9
    )
    child = store.queue.adopt(second.hold, asked, lease=MINUTE)
    assert not isinstance(child, Execution)
    execution = child.execution
    assert (execution.id, execution.input, execution.definition) == (left.execution.id, left.execution.input, DOCUMENT)
    assert (execution.digest, execution.workflow, execution.version) == (DIGEST, "greet", 3)
    assert (execution.state, execution.worker, execution.fence, execution.deliveries) == (RUNNING, "w2", 2, 2)
    assert execution.lease_until == clock.now() + MINUTE
    assert (child.variables, child.tolerated, child.begun) == ({"v": 1}, 1, True)
    assert child.hold.token != left.hold.token
    assert store.executions.get(asked.id) is None
    assert [attempt[:2] for attempt in outcomes(store, execution.id)] == [(1, "w1")]


def test_a_child_that_its_next_owner_has_adopted_is_lost_to_the_one_before(store: Store, clock: FrozenClock) -> None:
    first = held(store, worker="w1")
    left = adopted(store, first.hold)
    clock.forward(LEASE)
    child = adopted(store, claimed_one(store, worker="w2").hold)
    for conclusion in CONCLUSIONS:
        with pytest.raises(LeaseLost, match="worker 'w2' holds it, by claim 2"):
            store.queue.conclude(left.hold, conclusion)
    assert list(store.queue.renew([left.hold], lease=LEASE)) == []
    assert found(store, left.execution.id) == child.execution


def test_a_child_whose_lease_still_lasts_is_adopted_too(store: Store, clock: FrozenClock) -> None:
    """Who holds the parent decides."""
    first = held(store)
    left = adopted(store, first.hold, lease=60 * MINUTE)
    clock.forward(LEASE)
    second = adopted(store, claimed_one(store, worker="w2").hold)
    assert second.execution.id == left.execution.id
    assert list(store.queue.valid([left.hold, second.hold])) == [second.hold]


def test_a_child_that_waits_is_adopted_when_its_parent_comes_back(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    child = adopted(store, first.hold)
    store.queue.conclude(child.hold, Parked(START + MINUTE))
    store.queue.conclude(first.hold, Parked(START + MINUTE))
    clock.forward(MINUTE)
    second = adopted(store, claimed_one(store, worker="w2").hold)
    assert (second.execution.id, second.execution.state) == (child.execution.id, RUNNING)
    assert (second.hold.fence, second.execution.expiries) == (2, 0)
    assert outcomes(store, child.execution.id) == [(1, "w1", "suspended")]


@pytest.mark.parametrize("end", [SUCCESS, FAILURE])
@pytest.mark.parametrize("conclusion", [None, Released(), Parked(START + MINUTE)])
def test_a_child_that_has_ended_is_given_as_it_ended(
    store: Store, clock: FrozenClock, end: Ended, conclusion: Conclusion | None
) -> None:
    """To the owner that ended it, and to the next one: after a loss (None), and after what is no failure of the
    parent."""
    first = held(store)
    child = adopted(store, first.hold)
    ended = store.queue.conclude(child.hold, end)
    asked = request(queue=None, parent_path="sub", input={"another": 1})
    clock.forward(SECOND)
    assert store.queue.adopt(first.hold, asked, lease=LEASE) == ended
    if conclusion is not None:
        store.queue.conclude(first.hold, conclusion)
    clock.forward(MINUTE)
    assert store.queue.adopt(claimed_one(store, worker="w2").hold, asked, lease=LEASE) == ended
    assert store.executions.get(asked.id) is None


def test_a_child_that_failed_is_tried_again_with_its_parent(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    child = adopted(store, first.hold)
    done = store.queue.conclude(adopted(store, first.hold, "done").hold, SUCCESS)
    store.queue.conclude(child.hold, FAILURE)
    clock.forward(SECOND)
    store.queue.conclude(first.hold, Again(SECOND, ERROR))
    clock.forward(SECOND)
    second = claimed_one(store, worker="w2")
    again = adopted(store, second.hold)
    assert (again.execution.id, again.hold.fence, again.execution.state) == (child.execution.id, 2, RUNNING)
    assert store.queue.adopt(second.hold, request(queue=None, parent_path="done"), lease=LEASE) == done


def test_who_has_lost_the_parent_adopts_nothing(store: Store, clock: FrozenClock) -> None:
    first = held(store, worker="w1")
    left = adopted(store, first.hold)
    clock.forward(LEASE)
    second = claimed_one(store, worker="w2")
    for path in ("sub", "new"):
        with pytest.raises(LeaseLost, match="worker 'w2' holds it, by claim 2") as raised:
            store.queue.adopt(first.hold, request(queue=None, parent_path=path), lease=LEASE)
        assert raised.value.execution_id == first.execution.id
    assert found(store, left.execution.id) == left.execution
    assert len(store.executions.list(parent=second.execution.id)) == 1


def test_of_many_that_adopt_at_one_path_all_get_one_child(store: Store) -> None:
    parent = held(store)
    adoptions = at_once(6, lambda _: adopted(store, parent.hold))
    assert len({one.execution.id for one in adoptions}) == 1
    assert sorted(one.hold.fence for one in adoptions) == [1, 2, 3, 4, 5, 6]
    newest = max(adoptions, key=lambda one: one.hold.fence)
    assert list(store.queue.valid([one.hold for one in adoptions])) == [newest.hold]


def test_a_child_is_neither_claimed_nor_buried_beside_its_parent(store: Store, clock: FrozenClock) -> None:
    parent = held(store, lease=60 * MINUTE)
    child = adopted(store, parent.hold)
    clock.forward(2 * LEASE)
    assert claimed_ids(store, "default", "") == []
    assert list(store.queue.bury()) == []
    assert list(store.queue.renew([child.hold], lease=LEASE)) == [child.hold]
    assert state_of(store, child.execution.id) is RUNNING


def test_a_cancel_goes_down_to_any_depth_and_leaves_alone_what_has_ended(store: Store) -> None:
    top = held(store)
    child = adopted(store, top.hold)
    below = adopted(store, child.hold)
    ended = store.queue.conclude(adopted(store, child.hold, "done").hold, SUCCESS)
    job = held(store, queue="mail", parent_id=below.execution.id, parent_path="send")
    under_job = adopted(store, job.hold)
    under_ended = held(store, queue="mail", parent_id=ended.id, parent_path="send")
    beside = held(store)
    tree = [one.execution.id for one in (top, child, below, job, under_job, under_ended)]
    assert set(store.executions.cancel(top.execution.id)) == set(tree)
    assert {state_of(store, execution_id) for execution_id in tree} == {ExecutionState.CANCELLED}
    assert found(store, ended.id) == ended
    assert found(store, beside.execution.id) == beside.execution
    holds = [one.hold for one in (top, child, below, job, under_job, under_ended, beside)]
    assert list(store.queue.valid(holds)) == [beside.hold]


def test_a_part_is_cancelled_without_the_whole(store: Store) -> None:
    parent = held(store)
    child = adopted(store, parent.hold)
    assert list(store.executions.cancel(child.execution.id)) == [child.execution.id]
    given = store.queue.adopt(parent.hold, request(queue=None, parent_path="sub"), lease=LEASE)
    assert isinstance(given, Execution)
    assert given.state is ExecutionState.CANCELLED
    assert list(store.queue.valid([parent.hold])) == [parent.hold]


def test_no_child_is_adopted_of_what_was_cancelled(store: Store) -> None:
    parent = held(store)
    store.executions.cancel(parent.execution.id)
    with pytest.raises(LeaseLost, match="it is cancelled"):
        store.queue.adopt(parent.hold, request(queue=None, parent_path="sub"), lease=LEASE)
    assert list(store.executions.list(parent=parent.execution.id)) == []


def test_a_child_adopted_at_the_moment_of_a_cancel_is_cancelled_or_not_there(store: Store) -> None:
    for _ in range(10):
        parent = held(store)

        def act(number: int, parent: object = parent) -> None:
            if number:
                store.executions.cancel(parent.execution.id)  # type: ignore[attr-defined]
                return
            with suppress(LeaseLost):
                adopted(store, parent.hold)  # type: ignore[attr-defined]

        at_once(2, act)
        states = [execution.state for execution in store.executions.list(parent=parent.execution.id)]
        assert states in ([], [ExecutionState.CANCELLED])


def test_a_part_is_not_resumed_without_the_whole(store: Store) -> None:
    parent = held(store)
    ended = store.queue.conclude(adopted(store, parent.hold).hold, FAILURE)
    with pytest.raises(InputInvalid):
        store.executions.resume(ended.id)
    assert found(store, ended.id) == ended


def test_what_failed_below_is_opened_again_by_the_resumed_whole(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    child = adopted(store, first.hold)
    done = store.queue.conclude(adopted(store, first.hold, "done").hold, SUCCESS)
    entries = Entries([step(child.execution.id, "a")], variables={"v": 1})
    store.queue.conclude(child.hold, FAILURE, entries)
    store.queue.conclude(first.hold, FAILURE)
    clock.forward(MINUTE)
    store.executions.resume(first.execution.id)
    second = claimed_one(store, worker="w2")
    again = adopted(store, second.hold)
    assert (again.execution.id, again.execution.state) == (child.execution.id, RUNNING)
    assert (again.variables, again.begun, again.hold.fence) == ({"v": 1}, True, 2)
    assert outcomes(store, child.execution.id) == [(1, "w1", "failed")]
    assert store.queue.adopt(second.hold, request(queue=None, parent_path="done"), lease=LEASE) == done
    clock.forward(SECOND)
    failed = store.queue.conclude(again.hold, FAILURE)
    assert store.queue.adopt(second.hold, request(queue=None, parent_path="sub"), lease=LEASE) == failed


def test_holds_of_a_tree_are_renewed_together(store: Store, clock: FrozenClock) -> None:
    parent = held(store)
    child = adopted(store, parent.hold)
    forged = dataclasses.replace(parent.hold, execution_id=child.execution.id)
    clock.forward(SECOND)
    assert set(store.queue.renew([parent.hold, child.hold, forged], lease=MINUTE)) == {parent.hold, child.hold}
    assert found(store, child.execution.id).lease_until == START + SECOND + MINUTE


@pytest.mark.parametrize("deep", [False, True])
def test_a_part_that_is_cancelled_before_the_whole_is_parked_makes_the_whole_due(
    store: Store, clock: FrozenClock, deep: bool
) -> None:
    whole = held(store)
    part = adopted(store, whole.hold, "sub")
    cancelled = adopted(store, part.hold, "deeper") if deep else part
    store.queue.conclude(cancelled.hold, Parked())
    clock.forward(SECOND)
    store.executions.cancel(cancelled.execution.id)
    if deep:
        store.queue.conclude(part.hold, Parked())
    parked = store.queue.conclude(whole.hold, Parked())
    assert parked.due_at == clock.now()
    clock.forward(SECOND)
    again = claimed_one(store)
    assert store.queue.conclude(again.hold, Parked()).due_at is None, "once was enough"
