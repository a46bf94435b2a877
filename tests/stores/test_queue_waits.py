"""Waits: for a time, a signal, a decision, the end of another execution; and no answer is lost on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.errors import InputInvalid, NotFound
from flo.engine.executions import ExecutionState, IllegalMove
from flo.engine.jobs import LEASE, Again, Delivery, Ended, Parked, Released, Wait
from flo.engine.stores.store import Store
from flo.engine.values import JsonObject
from flo.testing import FrozenClock

from .jobs import (
    ERROR,
    FAILURE,
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
    started,
    state_of,
    waiting,
)

SIGNAL = Wait("ask", "signal", "go")
APPROVAL = Wait("ask", "approval", details={"approvers": ["ada"], "message": "é"})
YES: JsonObject = {"approved": True, "actor": "ada", "reason": None, "at": "2026-01-01T00:00:00.000000Z"}


def test_a_wait_is_registered_once_and_the_first_one_stands(store: Store, clock: FrozenClock) -> None:
    delivery = held(store)
    first = Wait("ask", "signal", "go", START + MINUTE, {"message": "é"})
    assert waiting(store, delivery.hold, first) == first
    clock.forward(MINUTE)
    assert waiting(store, delivery.hold, Wait("ask", "signal", "other", START + 9 * MINUTE)) == first
    other = Wait("later", "time", until=START + 2 * MINUTE)
    assert waiting(store, delivery.hold, other) == other
    assert list(store.executions.waits(delivery.execution.id)) == [first, other]


def test_a_wait_is_of_one_execution(store: Store) -> None:
    one, two = held(store), held(store)
    waiting(store, one.hold, SIGNAL)
    assert list(store.executions.waits(two.execution.id)) == []
    store.executions.signal(one.execution.id, "go", {"n": 1})
    assert waiting(store, two.hold, SIGNAL).answer is None


def test_a_registered_wait_outlives_the_claim(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    wait = Wait("ask", "signal", "go", START + MINUTE)
    waiting(store, first.hold, wait)
    clock.forward(LEASE)
    assert waiting(store, claimed_one(store).hold, dataclasses.replace(wait, until=clock.now() + MINUTE)) == wait


def test_a_signal_makes_who_waits_for_it_due_at_once(store: Store, clock: FrozenClock) -> None:
    first = held(store)
    waiting(store, first.hold, dataclasses.replace(SIGNAL, until=START + 9 * MINUTE))
    store.queue.conclude(first.hold, Parked(START + 9 * MINUTE))
    clock.forward(MINUTE)
    assert claimed_ids(store) == []
    store.executions.signal(first.execution.id, "go", {"n": 1})
    waits = found(store, first.execution.id)
    assert (waits.state, waits.due_at) == (ExecutionState.SUSPENDED, START + MINUTE)
    second = claimed_one(store, worker="w2")
    assert waiting(store, second.hold, SIGNAL).answer == {"n": 1}
    assert waiting(store, second.hold, SIGNAL).answer == {"n": 1}
    assert [wait.answer for wait in store.executions.waits(first.execution.id)] == [{"n": 1}]


def test_a_signal_of_another_name_wakes_nobody(store: Store) -> None:
    first = held(store)
    waiting(store, first.hold, SIGNAL)
    store.queue.conclude(first.hold, Parked())
    store.executions.signal(first.execution.id, "Go", {"n": 1})
    assert claimed_ids(store) == []
    store.executions.signal(first.execution.id, "go", {"n": 2})
    assert waiting(store, claimed_one(store).hold, SIGNAL).answer == {"n": 2}


@pytest.mark.parametrize("moment", ["before it is claimed", "while it runs", "while it waits for something else"])
def test_a_signal_that_nobody_waits_for_is_kept(store: Store, moment: str) -> None:
    execution_id = enqueued(store)
    if moment == "before it is claimed":
        store.executions.signal(execution_id, "go", {"n": 1})
    delivery = claimed_one(store)
    if moment == "while it runs":
        store.executions.signal(execution_id, "go", {"n": 1})
    if moment == "while it waits for something else":
        waiting(store, delivery.hold, APPROVAL)
        store.queue.conclude(delivery.hold, Parked())
        store.executions.signal(execution_id, "go", {"n": 1})
        store.executions.decide(execution_id, "ask", YES)
        delivery = claimed_one(store)
    assert waiting(store, delivery.hold, Wait("next", "signal", "go")).answer == {"n": 1}


def test_signals_are_taken_once_and_the_oldest_first(store: Store) -> None:
    delivery = held(store)
    for number in (1, 2):
        store.executions.signal(delivery.execution.id, "go", {"n": number})
    answers = [waiting(store, delivery.hold, Wait(path, "signal", "go")).answer for path in ("a", "b", "c")]
    assert answers == [{"n": 1}, {"n": 2}, None]
    assert waiting(store, delivery.hold, Wait("a", "signal", "go")).answer == {"n": 1}
    store.executions.signal(delivery.execution.id, "go", {"n": 3})
    assert waiting(store, delivery.hold, Wait("c", "signal", "go")).answer == {"n": 3}


def test_what_has_ended_takes_no_signal(store: Store) -> None:
    ended = store.queue.conclude(held(store).hold, FAILURE)
    with pytest.raises(IllegalMove):
        store.executions.signal(ended.id, "go", {})
    with pytest.raises(NotFound, match="nobody"):
        store.executions.signal("nobody", "go", {})


def test_a_decision_answers_an_approval_once(store: Store) -> None:
    first = held(store)
    waiting(store, first.hold, APPROVAL)
    store.queue.conclude(first.hold, Parked())
    assert list(store.executions.waits(first.execution.id)) == [APPROVAL]
    store.executions.decide(first.execution.id, "ask", YES)
    assert list(store.executions.waits(first.execution.id)) == [dataclasses.replace(APPROVAL, answer=YES)]
    with pytest.raises(InputInvalid):
        store.executions.decide(first.execution.id, "ask", {**YES, "approved": False})
    second = claimed_one(store)
    assert waiting(store, second.hold, APPROVAL).answer == YES
    with pytest.raises(InputInvalid):
        store.executions.decide(first.execution.id, "ask", {**YES, "approved": False})
    assert waiting(store, second.hold, APPROVAL).answer == YES


def test_of_many_decisions_at_once_one_stands(store: Store) -> None:
    first = held(store)
    waiting(store, first.hold, APPROVAL)
    store.queue.conclude(first.hold, Parked())

    def decide(number: int) -> bool:
        try:
            store.executions.decide(first.execution.id, "ask", {**YES, "actor": f"a{number}"})
        except InputInvalid:
            return False
        return True

    decided = at_once(6, decide)
    assert sorted(decided) == [False] * 5 + [True]
    answer = waiting(store, claimed_one(store).hold, APPROVAL).answer
    assert answer == {**YES, "actor": f"a{decided.index(True)}"}


def test_only_an_approval_can_be_decided(store: Store) -> None:
    delivery = held(store)
    waiting(store, delivery.hold, SIGNAL)
    for execution_id, path in [(delivery.execution.id, "ask"), (delivery.execution.id, "other"), ("nobody", "ask")]:
        with pytest.raises(NotFound):
            store.executions.decide(execution_id, path, YES)
    assert waiting(store, delivery.hold, SIGNAL).answer is None


def test_an_answer_to_one_that_is_not_suspended_leaves_its_time_alone(store: Store, clock: FrozenClock) -> None:
    running, retrying = held(store), held(store)
    for delivery in (running, retrying):
        waiting(store, delivery.hold, SIGNAL)
    store.queue.conclude(retrying.hold, Again(MINUTE, ERROR))
    before = [found(store, delivery.execution.id) for delivery in (running, retrying)]
    for delivery in (running, retrying):
        store.executions.signal(delivery.execution.id, "go", {})
    assert [found(store, delivery.execution.id) for delivery in (running, retrying)] == before
    assert claimed_ids(store) == []


Answer = Callable[[Store, Delivery], None]


def by_signal(store: Store, delivery: Delivery) -> None:
    store.executions.signal(delivery.execution.id, "go", {"n": 1})


def by_decision(store: Store, delivery: Delivery) -> None:
    store.executions.decide(delivery.execution.id, "ask", YES)


ANSWERS: list[tuple[Wait, Answer]] = [(SIGNAL, by_signal), (APPROVAL, by_decision)]


@pytest.mark.parametrize(("wait", "answer"), ANSWERS, ids=["signal", "approval"])
def test_an_answer_between_the_wait_and_its_parking_is_not_lost(store: Store, wait: Wait, answer: Answer) -> None:
    first = held(store)
    assert waiting(store, first.hold, wait).answer is None
    answer(store, first)
    parked = store.queue.conclude(first.hold, Parked(START + 9 * MINUTE))
    assert (parked.state, parked.due_at) == (ExecutionState.SUSPENDED, START)
    assert waiting(store, claimed_one(store).hold, wait).answer is not None


@pytest.mark.parametrize(("wait", "answer"), ANSWERS, ids=["signal", "approval"])
@pytest.mark.parametrize("queue", ["default", None])
def test_an_answer_at_the_moment_of_parking_is_not_lost(
    store: Store, wait: Wait, answer: Answer, queue: str | None
) -> None:
    for _ in range(15):
        first = held(store) if queue else started(store)
        waiting(store, first.hold, wait)
        race(
            lambda first=first: answer(store, first),  # type: ignore[misc]
            lambda first=first: store.queue.conclude(first.hold, Parked()),  # type: ignore[misc]
        )
        again = claimed_one(store) if queue else store.queue.take(first.execution.id, worker="w", lease=LEASE)
        assert again is not None
        assert waiting(store, again.hold, wait).answer is not None
        store.queue.conclude(again.hold, SUCCESS)


def race(*works: Callable[[], Any]) -> None:
    at_once(len(works), lambda number: works[number]())


def test_an_answer_that_was_read_does_not_wake_it_again(store: Store) -> None:
    first = held(store)
    store.executions.signal(first.execution.id, "go", {"n": 1})
    assert waiting(store, first.hold, SIGNAL).answer == {"n": 1}
    waiting(store, first.hold, Wait("next", "approval"))
    parked = store.queue.conclude(first.hold, Parked(START + MINUTE))
    assert parked.due_at == START + MINUTE
    assert claimed_ids(store) == []


@pytest.mark.parametrize("end", [SUCCESS, Ended(ExecutionState.FAILED, error=ERROR), Ended(ExecutionState.TIMED_OUT)])
def test_the_end_of_an_execution_wakes_who_waits_for_it(store: Store, clock: FrozenClock, end: Ended) -> None:
    job = enqueued(store, queue="mail")
    wait = Wait("wait", "execution", job)
    first = held(store)
    assert waiting(store, first.hold, wait).answer is None
    store.queue.conclude(first.hold, Parked())
    worker = claimed_one(store, "mail")
    assert claimed_ids(store) == []
    clock.forward(MINUTE)
    store.queue.conclude(worker.hold, end)
    answer = {"executionId": job, "status": end.state.value, "output": end.output, "error": end.error}
    second = claimed_one(store)
    assert waiting(store, second.hold, wait).answer == answer
    late = held(store)
    assert waiting(store, late.hold, wait).answer == answer


@pytest.mark.parametrize("moment", ["before the wait", "before parking", "after parking"])
def test_a_cancel_is_an_end_too(store: Store, moment: str) -> None:
    job = enqueued(store, queue="mail")
    first, wait = held(store), Wait("wait", "execution", job)
    if moment == "before the wait":
        store.executions.cancel(job)
    answer = waiting(store, first.hold, wait).answer
    if moment == "before parking":
        store.executions.cancel(job)
    if moment != "before the wait":
        store.queue.conclude(first.hold, Parked())
        if moment == "after parking":
            store.executions.cancel(job)
        answer = waiting(store, claimed_one(store).hold, wait).answer
    assert answer == {"executionId": job, "status": "cancelled", "output": None, "error": found(store, job).error}


def test_a_burial_is_an_end_too(store: Store, clock: FrozenClock) -> None:
    job = enqueued(store, queue="mail", deadline=START + MINUTE)
    first, wait = held(store), Wait("wait", "execution", job)
    waiting(store, first.hold, wait)
    store.queue.conclude(first.hold, Parked())
    clock.forward(2 * MINUTE)
    assert [one.id for one in store.queue.bury()] == [job]
    answer = waiting(store, claimed_one(store).hold, wait).answer
    assert answer is not None
    assert (answer["executionId"], answer["status"]) == (job, "timed_out")


def test_an_end_wakes_all_who_wait_for_it(store: Store) -> None:
    job = held(store, queue="mail")
    ids = set()
    for _ in range(3):
        first = held(store)
        waiting(store, first.hold, Wait("wait", "execution", job.execution.id))
        store.queue.conclude(first.hold, Parked())
        ids.add(first.execution.id)
    store.queue.conclude(job.hold, SUCCESS)
    assert set(claimed_ids(store)) == ids


def test_an_end_at_the_moment_of_parking_is_not_lost(store: Store) -> None:
    for _ in range(15):
        job, first = held(store, queue="mail"), held(store)
        wait = Wait("wait", "execution", job.execution.id)

        def park(first: Delivery = first, wait: Wait = wait) -> None:
            """As owners do: who has the answer already goes on."""
            answered = waiting(store, first.hold, wait).answer is not None
            store.queue.conclude(first.hold, Released() if answered else Parked())

        race(lambda job=job: store.queue.conclude(job.hold, SUCCESS), park)  # type: ignore[misc]
        again = claimed_one(store)
        assert waiting(store, again.hold, wait).answer is not None
        store.queue.conclude(again.hold, SUCCESS)


def test_what_only_waits_for_another_try_is_not_an_end(store: Store) -> None:
    job, first = held(store, queue="mail"), held(store)
    waiting(store, first.hold, Wait("wait", "execution", job.execution.id))
    store.queue.conclude(first.hold, Parked())
    store.queue.conclude(job.hold, Again(MINUTE, ERROR))
    assert claimed_ids(store) == []


def test_there_is_no_waiting_for_what_is_not_there(store: Store) -> None:
    delivery = held(store)
    with pytest.raises(NotFound, match="nobody"):
        waiting(store, delivery.hold, Wait("wait", "execution", "nobody"))
    assert list(store.executions.waits(delivery.execution.id)) == []


def test_an_answer_to_a_part_of_an_execution_wakes_the_whole(store: Store) -> None:
    """Only the topmost execution is delivered: its owner adopts the others again."""
    root = held(store)
    child = adopted(store, root.hold)
    below = adopted(store, child.hold)
    waiting(store, below.hold, SIGNAL)
    for delivery in (below, child, root):
        store.queue.conclude(delivery.hold, Parked())
    store.executions.signal(root.execution.id, "go", {"for": "root"})
    assert claimed_ids(store) == []
    store.executions.signal(below.execution.id, "go", {"for": "below"})
    second = claimed_one(store, worker="w2")
    assert second.execution.id == root.execution.id
    assert state_of(store, below.execution.id) is ExecutionState.SUSPENDED
    under = adopted(store, adopted(store, second.hold).hold)
    assert under.execution.id == below.execution.id
    assert waiting(store, under.hold, SIGNAL).answer == {"for": "below"}


@pytest.mark.parametrize("parked_first", ["nothing", "the child"])
@pytest.mark.parametrize("queue", ["default", None])
def test_an_answer_to_a_part_before_the_whole_is_parked_is_not_lost(
    store: Store, parked_first: str, queue: str | None
) -> None:
    root = held(store) if queue else started(store)
    child = adopted(store, root.hold)
    waiting(store, child.hold, SIGNAL)
    if parked_first == "the child":
        store.queue.conclude(child.hold, Parked())
    store.executions.signal(child.execution.id, "go", {"n": 1})
    if parked_first == "nothing":
        store.queue.conclude(child.hold, Parked())
    store.queue.conclude(root.hold, Parked())
    again = claimed_one(store) if queue else store.queue.take(root.execution.id, worker="w2", lease=LEASE)
    assert again is not None
    assert waiting(store, adopted(store, again.hold).hold, SIGNAL).answer == {"n": 1}


def test_a_job_that_waits_is_delivered_by_its_own_queue(store: Store) -> None:
    parent = held(store)
    job = held(store, queue="mail", parent_id=parent.execution.id, parent_path="send")
    waiting(store, job.hold, SIGNAL)
    store.queue.conclude(job.hold, Parked())
    store.queue.conclude(parent.hold, Parked())
    store.executions.signal(job.execution.id, "go", {"n": 1})
    assert claimed_ids(store) == []
    assert claimed_ids(store, "mail") == [job.execution.id]
