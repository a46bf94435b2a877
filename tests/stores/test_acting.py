"""What people do to executions: cancel, resume, answer and replay them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.errors import InputInvalid, NotFound
from flo.engine.executions import RESUMABLE, DeadReason, ExecutionState, IllegalMove
from flo.engine.jobs import Delivery, Ended, Entries, Hold, LeaseLost, Parked, Request, Wait
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    ERROR,
    FAILURE,
    MINUTE,
    SECOND,
    SUCCESS,
    adopted,
    at_once,
    claimed_ids,
    claimed_one,
    enqueued,
    found,
    held,
    outcomes,
    recorded,
    request,
    state_of,
    step,
    stored,
    waiting,
)

DEAD = Ended(ExecutionState.FAILED, error=ERROR, reason=DeadReason.MAX_ATTEMPTS)
YES = {"approved": True, "actor": "ada", "reason": "fine", "at": "2026-01-01T00:00:00.000000Z"}
FINAL = [state for state in ExecutionState if state.final]


def suspended(store: Store, *waits: Wait, **changes: Any) -> Delivery:
    """An execution of a queue that waits, without an end, for ``waits``."""
    delivery = held(store, **changes)
    for wait in waits:
        waiting(store, delivery.hold, wait)
    store.queue.conclude(delivery.hold, Parked())
    return delivery


def dead(store: Store, **changes: Any) -> str:
    """A dead letter."""
    return store.queue.conclude(held(store, **changes).hold, DEAD).id


def is_due(store: Store, execution_id: str) -> bool:
    due_at = found(store, execution_id).due_at
    return due_at is not None and due_at <= store.data.now()


@pytest.mark.parametrize("state", ["pending", "running", "suspended"])
def test_what_has_not_ended_is_cancelled_at_once(store: Store, clock: FrozenClock, state: str) -> None:
    make: dict[str, Callable[[], str]] = {
        "pending": lambda: enqueued(store),
        "running": lambda: held(store).execution.id,
        "suspended": lambda: suspended(store).execution.id,
    }
    execution_id = make[state]()
    clock.forward(SECOND)
    assert list(store.executions.cancel(execution_id)) == [execution_id]
    execution = found(store, execution_id)
    assert (execution.state, execution.finished_at, execution.due_at) == ("cancelled", store.data.now(), None)
    assert execution.error == {"code": "cancelled", "message": "cancelled on request"}
    clock.forward(MINUTE)
    assert claimed_ids(store) == []


def test_nothing_that_the_owner_of_a_cancelled_execution_does_is_stored(store: Store) -> None:
    hold = held(store).hold
    store.executions.cancel(hold.execution_id)
    assert store.queue.valid([hold]) == []
    with pytest.raises(LeaseLost, match="it is cancelled"):
        recorded(store, hold, Entries([step(hold.execution_id, "late")]))
    with pytest.raises(LeaseLost):
        store.queue.conclude(hold, SUCCESS)
    assert list(store.executions.steps(hold.execution_id)) == []


def test_cancelling_reaches_all_that_an_execution_started_and_nothing_else(store: Store) -> None:
    root = held(store)
    part = adopted(store, root.hold)
    deep = adopted(store, part.hold)
    done = adopted(store, root.hold, "done")
    job = enqueued(store, queue="other", parent_id=deep.execution.id, parent_path="job")
    store.queue.conclude(done.hold, SUCCESS)
    below_done = enqueued(store, queue="other", parent_id=done.execution.id, parent_path="job")
    stranger = enqueued(store, queue="other")
    moved = {root.execution.id, part.execution.id, deep.execution.id, job, below_done}
    assert set(store.executions.cancel(root.execution.id)) == moved
    assert {state_of(store, one) for one in moved} == {ExecutionState.CANCELLED}
    assert state_of(store, done.execution.id) is ExecutionState.SUCCESS
    assert claimed_ids(store, "other") == [stranger]


@pytest.mark.parametrize("state", FINAL)
def test_what_has_ended_is_not_cancelled(store: Store, state: ExecutionState) -> None:
    if state is ExecutionState.REJECTED:
        for _ in range(2):
            enqueued(store, concurrency_key="c", concurrency_limit=1, when_full="reject")
        ended = store.executions.list(state=state)[0].id
    else:
        ended = store.queue.conclude(held(store).hold, Ended(state)).id
    before = found(store, ended)
    with pytest.raises(IllegalMove, match=f"is {state} and cannot become cancelled"):
        store.executions.cancel(ended)
    assert found(store, ended) == before


def test_acting_on_what_is_not_there_says_so(store: Store) -> None:
    acts: list[Callable[[], object]] = [
        lambda: store.executions.cancel("nobody"),
        lambda: store.executions.resume("nobody"),
        lambda: store.executions.signal("nobody", "go", {}),
        lambda: store.executions.decide("nobody", "ask", {}),
        lambda: store.executions.replay_dead("nobody", request()),
    ]
    for act in acts:
        with pytest.raises(NotFound, match="'nobody'"):
            act()


def test_who_waits_for_a_cancelled_execution_is_due(store: Store) -> None:
    job = enqueued(store, queue="other")
    waiter = suspended(store, Wait("job", "execution", job))
    assert claimed_ids(store) == []
    store.executions.cancel(job)
    again = claimed_one(store)
    assert again.execution.id == waiter.execution.id
    answer = waiting(store, again.hold, Wait("job", "execution", job)).answer
    assert answer is not None
    assert answer["status"] == "cancelled"


def test_what_a_cancelled_part_belongs_to_is_due(store: Store) -> None:
    root = held(store)
    part = adopted(store, root.hold)
    waiting(store, part.hold, Wait("go", "signal", "go"))
    for hold in (part.hold, root.hold):
        store.queue.conclude(hold, Parked())
    assert claimed_ids(store) == []
    store.executions.cancel(part.execution.id)
    assert claimed_ids(store) == [root.execution.id]


def test_of_a_cancellation_and_an_end_at_once_one_wins(store: Store) -> None:
    for _ in range(10):
        hold = held(store).hold

        def act(number: int, hold: Hold = hold) -> bool:
            try:
                if number:
                    store.executions.cancel(hold.execution_id)
                else:
                    store.queue.conclude(hold, SUCCESS)
            except (IllegalMove, LeaseLost):
                return False
            return True

        ended, cancelled = at_once(2, act)
        expected = ExecutionState.SUCCESS if ended else ExecutionState.CANCELLED
        assert ended is not cancelled
        assert state_of(store, hold.execution_id) is expected


def test_a_part_that_is_adopted_while_its_root_is_cancelled_does_not_outlive_it(store: Store) -> None:
    for _ in range(10):
        root = held(store)

        def act(number: int, root: Delivery = root) -> object:
            if number == 0:
                return store.executions.cancel(root.execution.id)
            try:
                return adopted(store, root.hold, f"part-{number}")
            except LeaseLost:
                return None

        at_once(4, act)
        parts = store.executions.list(parent=root.execution.id)
        assert {part.state for part in parts} <= {ExecutionState.CANCELLED}


def test_a_resumed_execution_is_a_new_attempt_that_is_due_now(store: Store, clock: FrozenClock) -> None:
    first = held(store, deadline=store.data.now() + MINUTE)
    recorded(store, first.hold, Entries([step(first.execution.id, "a")], variables={"n": 1}))
    ended = store.queue.conclude(first.hold, DEAD)
    clock.forward(SECOND)
    resumed = store.executions.resume(first.execution.id)
    now = store.data.now()
    assert resumed == found(store, first.execution.id)
    assert (resumed.state, resumed.attempt, resumed.run_at, resumed.due_at) == ("pending", 2, now, now)
    assert (resumed.finished_at, resumed.output, resumed.error, resumed.reason) == (None, None, None, None)
    assert (resumed.deadline, resumed.expiries, resumed.worker) == (None, 0, None)
    (attempt,) = store.executions.attempts(first.execution.id)
    assert (attempt.outcome, attempt.error, attempt.ended_at) == ("failed", ERROR, ended.finished_at)
    assert (attempt.fence, attempt.worker, attempt.claimed_at) == (1, "w1", first.execution.claimed_at)
    assert store.executions.list(dead=True) == []
    again = claimed_one(store)
    assert (again.begun, again.variables, again.hold.fence) == (True, {"n": 1}, 2)


@pytest.mark.parametrize("state", list(ExecutionState))
def test_only_what_failed_or_timed_out_is_resumed(store: Store, state: ExecutionState) -> None:
    execution = dataclasses.replace(
        found(store, enqueued(store)), id="one", root_id="one", state=state, finished_at=store.data.now()
    )
    store.executions.create(execution)
    before = found(store, "one")
    if state in RESUMABLE:
        assert store.executions.resume("one").state is ExecutionState.PENDING
        assert outcomes(store, "one") == [(0, None, state.value)]
        return
    with pytest.raises(IllegalMove, match=f"is {state} and cannot become pending"):
        store.executions.resume("one")
    assert found(store, "one") == before


def test_a_part_is_resumed_by_what_it_belongs_to(store: Store) -> None:
    root = held(store)
    part = store.queue.conclude(adopted(store, root.hold).hold, FAILURE)
    with pytest.raises(InputInvalid, match=f"is a part of execution '{root.execution.id}', which resumes it"):
        store.executions.resume(part.id)
    assert found(store, part.id) == part


def test_a_job_that_an_execution_enqueued_is_resumed_by_itself(store: Store) -> None:
    root = held(store)
    job = held(store, queue="other", parent_id=root.execution.id, parent_path="job")
    store.queue.conclude(job.hold, FAILURE)
    store.executions.resume(job.execution.id)
    assert claimed_ids(store, "other") == [job.execution.id]


def test_what_ended_between_two_claims_keeps_what_is_known_of_the_last_one(store: Store, clock: FrozenClock) -> None:
    delivery = held(store, deadline=store.data.now() + MINUTE)
    store.queue.conclude(delivery.hold, Parked())
    clock.forward(MINUTE)
    store.queue.bury()
    assert state_of(store, delivery.execution.id) is ExecutionState.TIMED_OUT
    store.executions.resume(delivery.execution.id)
    assert outcomes(store, delivery.execution.id) == [(1, "w1", "suspended")]
    assert claimed_one(store).hold.fence == 2


def test_a_signal_wakes_who_waits_for_it(store: Store) -> None:
    waiter = suspended(store, Wait("go", "signal", "go"))
    store.executions.signal(waiter.execution.id, "stop", {})
    assert claimed_ids(store) == []
    store.executions.signal(waiter.execution.id, "go", {"n": 2**70})
    again = claimed_one(store)
    assert waiting(store, again.hold, Wait("go", "signal", "go")).answer == {"n": 2**70}


def test_a_signal_that_nobody_waits_for_is_kept(store: Store) -> None:
    hold = held(store).hold
    for number in (1, 2):
        store.executions.signal(hold.execution_id, "go", {"n": number})
    answers = [waiting(store, hold, Wait(path, "signal", "go")).answer for path in ("a", "b", "c")]
    assert answers == [{"n": 1}, {"n": 2}, None]


def test_a_signal_for_a_part_wakes_its_root(store: Store) -> None:
    root = held(store)
    part = adopted(store, root.hold)
    waiting(store, part.hold, Wait("go", "signal", "go"))
    for hold in (part.hold, root.hold):
        store.queue.conclude(hold, Parked())
    store.executions.signal(part.execution.id, "go", {})
    assert claimed_ids(store) == [root.execution.id]


def test_a_signal_for_what_has_ended_is_refused(store: Store) -> None:
    hold = held(store).hold
    store.queue.conclude(hold, FAILURE)
    with pytest.raises(IllegalMove, match="is failed"):
        store.executions.signal(hold.execution_id, "go", {})


@pytest.mark.parametrize("kind", ["signal", "approval", "execution"])
def test_no_answer_is_lost_that_comes_while_its_execution_parks(store: Store, kind: str) -> None:
    for _ in range(10):
        job = enqueued(store, queue="other")
        waits = {"signal": "go", "approval": "", "execution": job}
        hold = held(store).hold
        waiting(store, hold, Wait("here", kind, waits[kind]))  # type: ignore[arg-type]

        def act(number: int, hold: Hold = hold, job: str = job) -> object:
            if number == 0:
                return store.queue.conclude(hold, Parked())
            match kind:
                case "signal":
                    return store.executions.signal(hold.execution_id, "go", {})
                case "approval":
                    return store.executions.decide(hold.execution_id, "here", YES)
                case _:
                    return store.executions.cancel(job)

        at_once(2, act)
        assert is_due(store, hold.execution_id)
        store.executions.cancel(hold.execution_id)


def test_a_decision_answers_its_approval_once(store: Store) -> None:
    waiter = suspended(store, Wait("ask", "approval", details={"approvers": ["ada"]}))
    store.executions.decide(waiter.execution.id, "ask", YES)
    with pytest.raises(InputInvalid, match=r"'ask'.* was decided already"):
        store.executions.decide(waiter.execution.id, "ask", {**YES, "approved": False})
    again = claimed_one(store)
    assert waiting(store, again.hold, Wait("ask", "approval")).answer == YES
    assert [wait.answer for wait in store.executions.waits(waiter.execution.id)] == [YES]


def test_of_many_that_decide_at_once_one_wins(store: Store) -> None:
    waiter = suspended(store, Wait("ask", "approval"))

    def decide(number: int) -> bool:
        try:
            store.executions.decide(waiter.execution.id, "ask", {"approved": True, "actor": str(number)})
        except InputInvalid:
            return False
        return True

    won = at_once(8, decide)
    (wait,) = store.executions.waits(waiter.execution.id)
    assert sum(won) == 1
    assert wait.answer == {"approved": True, "actor": str(won.index(True))}


def test_there_is_nothing_to_decide_where_no_approval_waits(store: Store) -> None:
    waiter = suspended(store, Wait("ask", "approval"), Wait("go", "signal", "go"))
    for path in ("go", "nowhere"):
        with pytest.raises(NotFound, match=f"no approval '{path}'"):
            store.executions.decide(waiter.execution.id, path, YES)
    store.executions.cancel(waiter.execution.id)
    with pytest.raises(NotFound, match="no approval 'ask'"):
        store.executions.decide(waiter.execution.id, "ask", YES)


def test_a_dead_letter_is_replayed_once(store: Store) -> None:
    letter = dead(store)

    def replay(number: int) -> tuple[str, bool]:
        again: Request = request(replay_of=letter, id=f"replay-{number}")
        became = store.executions.replay_dead(letter, again)
        return became.execution_id, became.created

    became = at_once(8, replay)
    assert sum(created for _, created in became) == 1
    (replayed,) = {execution_id for execution_id, _ in became}
    assert found(store, letter).replayed_as == replayed
    assert found(store, replayed).replay_of == letter
    assert claimed_ids(store) == [replayed]
    assert store.executions.list(dead=True) == []


def test_a_replay_that_is_refused_leaves_the_dead_letter_as_it_was(store: Store) -> None:
    letter = dead(store)
    enqueued(store, queue="other", key="k", identity="one")
    before, count = found(store, letter), stored(store)
    with pytest.raises(Exception, match="the key 'k' belongs to"):
        store.executions.replay_dead(letter, request(key="k", identity="two"))
    assert (found(store, letter), stored(store)) == (before, count)


def test_only_dead_letters_are_replayed(store: Store) -> None:
    failed = store.queue.conclude(held(store).hold, FAILURE)
    with pytest.raises(NotFound, match="no dead letter"):
        store.executions.replay_dead(failed.id, request())
    letter = dead(store)
    store.executions.resume(letter)
    with pytest.raises(NotFound, match="no dead letter"):
        store.executions.replay_dead(letter, request())
