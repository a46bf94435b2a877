"""An owner whose claim is lost, ended or cancelled writes nothing more, whatever it tries."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from flo.engine.executions import Execution, ExecutionState, IllegalMove
from flo.engine.jobs import (
    LEASE,
    Again,
    Conclusion,
    Ended,
    Entries,
    Hold,
    LeaseLost,
    Parked,
    Released,
    Wait,
)
from flo.engine.stores.filters import EVERY
from flo.engine.stores.queueing import Owned
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    CONCLUSIONS,
    ERROR,
    FAILURE,
    MINUTE,
    SECOND,
    SUCCESS,
    adopted,
    at_once,
    claimed_one,
    found,
    held,
    line,
    outcomes,
    recorded,
    request,
    state_of,
    step,
    stored,
)

RUNNING = ExecutionState.RUNNING
Write = Callable[[Store, Hold], object]


def own_row(store: Store, hold: Hold) -> object:
    return store.queue.own(hold, lambda owned: owned.data.set("t", "of-the-loser", 1))


def own_record(store: Store, hold: Hold) -> object:
    entries = Entries([step(hold.execution_id, "a", output="loser")], [line(hold.execution_id, 1)], variables={"v": 1})
    return recorded(store, hold, entries)


def own_effect(store: Store, hold: Hold) -> object:
    return store.queue.own(hold, lambda owned: owned.keep_effect("a", "set", 1, {"loser": True}))


def own_wait(store: Store, hold: Hold) -> object:
    return store.queue.own(hold, lambda owned: owned.wait(Wait("a", "signal", "go")), exclusive=True)


def own_enqueue(store: Store, hold: Hold) -> object:
    return store.queue.own(hold, lambda owned: owned.enqueue([request(queue="of-the-loser")]), exclusive=True)


def own_nothing(store: Store, hold: Hold) -> object:
    return store.queue.own(hold, lambda owned: owned.now())


def adopt(store: Store, hold: Hold) -> object:
    return store.queue.adopt(hold, request(queue=None, parent_path="sub"), lease=LEASE)


def concluding(conclusion: Conclusion) -> Write:
    def conclude(store: Store, hold: Hold) -> object:
        return store.queue.conclude(hold, conclusion, Entries([step(hold.execution_id, "a", output="loser")]))

    conclude.__name__ = f"conclude {conclusion}"
    return conclude


WRITES: list[Write] = [
    own_row,
    own_record,
    own_effect,
    own_wait,
    own_enqueue,
    own_nothing,
    adopt,
    *map(concluding, CONCLUSIONS),
]


def refused(store: Store, hold: Hold) -> dict[str, LeaseLost | None]:
    """How each write of an owner was refused; None: it was not."""
    refusals: dict[str, LeaseLost | None] = {}
    for write in WRITES:
        try:
            write(store, hold)
            refusals[write.__name__] = None
        except LeaseLost as lost:
            refusals[write.__name__] = lost
    assert len(refusals) == len(WRITES)
    return refusals


def assert_every_write_is_refused(
    store: Store, hold: Hold, state: ExecutionState | None, worker: str | None = None, fence: int | None = None
) -> None:
    said = {name: lost and (lost.execution_id, lost.state) for name, lost in refused(store, hold).items()}
    assert said == dict.fromkeys(said, (hold.execution_id, state))
    if worker is not None:
        held_by = {name: lost and (lost.worker, lost.fence) for name, lost in refused(store, hold).items()}
        assert held_by == dict.fromkeys(said, (worker, fence))


def assert_nothing_was_left(store: Store, execution_id: str) -> None:
    """Of what the writes above do."""
    assert store.data.count("t", EVERY) == 0
    assert list(store.executions.steps(execution_id)) == []
    assert list(store.executions.lines(execution_id)) == []
    assert list(store.executions.waits(execution_id)) == []
    assert list(store.executions.list(queue="of-the-loser")) == []
    assert "sub" not in [child.parent_path for child in store.executions.list(parent=execution_id)]


def test_the_stalled_owner_is_told_who_has_it_and_changes_nothing(store: Store, clock: FrozenClock) -> None:
    stalled = held(store, worker="w1")
    clock.forward(LEASE)
    second = claimed_one(store, worker="w2")
    before = found(store, second.execution.id)
    clock.forward(SECOND)
    assert_every_write_is_refused(store, stalled.hold, RUNNING, "w2", 2)
    with pytest.raises(LeaseLost, match="worker 'w2' holds it, by claim 2; nothing was written"):
        store.queue.conclude(stalled.hold, SUCCESS)
    assert found(store, before.id) == before
    assert_nothing_was_left(store, before.id)
    assert outcomes(store, before.id) == [(1, "w1", "expired")]
    assert store.queue.own(second.hold, lambda owned: owned.effect("a", "set", 1)) is None
    assert store.queue.conclude(second.hold, Ended(ExecutionState.SUCCESS, "of the second")).output == "of the second"
    assert_every_write_is_refused(store, stalled.hold, ExecutionState.SUCCESS)
    assert found(store, before.id).output == "of the second"


def test_an_owner_that_came_back_under_its_old_name_is_another_one(store: Store, clock: FrozenClock) -> None:
    stalled = held(store, worker="w1")
    clock.forward(LEASE)
    again = claimed_one(store, worker="w1")
    assert_every_write_is_refused(store, stalled.hold, RUNNING, "w1", 2)
    assert found(store, again.execution.id) == again.execution


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (SUCCESS, "success"),
        (Ended(ExecutionState.COMPLETED_WITH_ERRORS), "completed_with_errors"),
        (FAILURE, "failed"),
        (Ended(ExecutionState.CANCELLED), "cancelled"),
        (Ended(ExecutionState.TIMED_OUT), "timed_out"),
        (Again(MINUTE, ERROR), "retrying"),
        (Released(), "pending"),
        (Parked(), "suspended"),
    ],
)
def test_after_a_claim_has_ended_its_owner_writes_no_more(store: Store, end: Conclusion, state: str) -> None:
    delivery = held(store)
    ended = store.queue.conclude(delivery.hold, end)
    assert_every_write_is_refused(store, delivery.hold, ExecutionState(state))
    with pytest.raises(LeaseLost, match=f"it is {state}; nothing was written"):
        store.queue.conclude(delivery.hold, SUCCESS)
    assert found(store, ended.id) == ended
    assert_nothing_was_left(store, ended.id)


def test_a_cancelled_execution_stays_cancelled_whatever_its_owner_does(store: Store) -> None:
    delivery = held(store)
    child = adopted(store, delivery.hold, "below")
    job = held(store, queue="mail", parent_id=delivery.execution.id, parent_path="send")
    deliveries = (delivery, child, job)
    moved = store.executions.cancel(delivery.execution.id)
    assert set(moved) == {one.execution.id for one in deliveries}
    before = [found(store, one.execution.id) for one in deliveries]
    assert [(one.state, one.due_at) for one in before] == [(ExecutionState.CANCELLED, None)] * 3
    for one in deliveries:
        assert_every_write_is_refused(store, one.hold, ExecutionState.CANCELLED)
    assert list(store.queue.renew([one.hold for one in deliveries], lease=LEASE)) == []
    assert [found(store, one.execution.id) for one in deliveries] == before
    for one in deliveries:
        assert_nothing_was_left(store, one.execution.id)


def test_an_execution_that_is_not_there_has_no_owner(store: Store) -> None:
    hold = Hold("nobody", "token", 1, "w1")
    assert_every_write_is_refused(store, hold, None)
    with pytest.raises(LeaseLost, match="execution nobody is lost: it is gone"):
        store.queue.conclude(hold, SUCCESS)
    assert stored(store) == 0
    assert_nothing_was_left(store, "nobody")


def test_the_number_of_a_claim_is_no_token(store: Store) -> None:
    delivery = held(store)
    assert_every_write_is_refused(store, dataclasses.replace(delivery.hold, token="guessed"), RUNNING, "w1", 1)
    assert_every_write_is_refused(store, dataclasses.replace(delivery.hold, token=""), RUNNING, "w1", 1)
    assert found(store, delivery.execution.id) == delivery.execution
    assert_nothing_was_left(store, delivery.execution.id)


def test_a_cancel_in_the_middle_of_a_write_leaves_all_of_it_or_nothing(store: Store) -> None:
    for number in range(10):
        delivery = held(store)
        key = f"k{number}"
        cancellers: list[threading.Thread] = []

        def work(
            owned: Owned, key: str = key, execution_id: str = delivery.execution.id, begun: Any = cancellers
        ) -> None:
            owned.data.set("t", key, 1)
            if not begun:
                begun.append(threading.Thread(target=store.executions.cancel, args=(execution_id,)))
                begun[0].start()
            owned.record(Entries([step(execution_id, "a")]))

        try:
            store.queue.own(delivery.hold, work)
            written = True
        except LeaseLost:
            written = False
        for canceller in cancellers:
            canceller.join()
        assert state_of(store, delivery.execution.id) is ExecutionState.CANCELLED
        assert (store.data.get("t", key) is not None) is written
        assert bool(store.executions.steps(delivery.execution.id)) is written


def test_of_an_end_and_a_cancel_at_once_one_stands(store: Store) -> None:
    for _ in range(10):
        delivery = held(store)

        def end(number: int, delivery: Any = delivery) -> Execution | None:
            with suppress(LeaseLost, IllegalMove):
                if number:
                    return store.queue.conclude(delivery.hold, SUCCESS)
                store.executions.cancel(delivery.execution.id)
            return None

        _, ended = at_once(2, end)
        now = found(store, delivery.execution.id)
        assert now == ended if ended else now.state is ExecutionState.CANCELLED
        assert now.finished_at is not None
