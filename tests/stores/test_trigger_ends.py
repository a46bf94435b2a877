"""The ends that event triggers wait for: seen once each, in the transaction in which the execution ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from flo.engine.executions import RESUMABLE, DeadReason, ExecutionState, IllegalMove
from flo.engine.jobs import LEASE, MAX_EXPIRIES, Again, Ended, LeaseLost, Parked, Released
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store
from flo.engine.triggers import EndSeen
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
    claimed_ids,
    claimed_one,
    enqueued,
    found,
    held,
    request,
    started,
    state_of,
)
from .wanted import AFTER, added, declared, of_end, slot, slots, wanted

ENDS = frozenset(state for state in ExecutionState if state.final)


def ends(store: Store) -> list[tuple[str, str]]:
    """The executions whose ends are due, and how they ended."""
    return [(seen.execution_id, seen.state) for seen in store.triggers.due(99).ends]


def end(state: ExecutionState) -> Callable[[Store], str]:
    return lambda store: store.queue.conclude(held(store).hold, Ended(state, error=ERROR)).id


def cancel(store: Store) -> str:
    return store.executions.cancel(enqueued(store))[0]


def cancel_running(store: Store) -> str:
    return store.executions.cancel(started(store).execution.id)[0]


def end_at_once(store: Store) -> str:
    return store.queue.conclude(started(store).hold, SUCCESS).id


def late(store: Store, clock: FrozenClock) -> str:
    execution_id = enqueued(store, deadline=START + SECOND)
    clock.forward(SECOND)
    return execution_id


def poisonous(store: Store, clock: FrozenClock) -> str:
    execution_id = enqueued(store)
    for _ in range(MAX_EXPIRIES + 1):
        assert claimed_ids(store) == [execution_id]
        clock.forward(LEASE)
    return execution_id


def crashed(store: Store, clock: FrozenClock) -> str:
    execution_id = started(store).execution.id
    clock.forward(LEASE)
    return execution_id


ACTS: dict[str, tuple[Callable[[Store], str], str]] = {
    **{state.value: (end(state), state.value) for state in sorted(ENDS - {ExecutionState.REJECTED})},
    "without a queue": (end_at_once, "success"),
    "cancelled by a person": (cancel, "cancelled"),
    "cancelled while it runs": (cancel_running, "cancelled"),
}


@pytest.mark.parametrize("how", ACTS)
def test_an_end_is_a_slot_that_is_due(store: Store, clock: FrozenClock, how: str) -> None:
    act, state = ACTS[how]
    trigger = added(store, AFTER, states=ENDS)
    execution_id = act(store)
    (seen,) = store.triggers.due(9).ends
    assert seen == EndSeen(trigger, f"{execution_id}:1", execution_id, 1, ExecutionState(state), clock.now())
    assert isinstance(seen.state, ExecutionState)
    (firing,) = store.triggers.firings(trigger.id)
    assert (firing.outcome, firing.at, firing.execution_id) == ("due", clock.now(), None)
    assert store.triggers.last_firings() == {trigger.id: firing}


@pytest.mark.parametrize("doomed", [late, poisonous, crashed])
def test_the_end_of_what_is_buried_is_seen(
    store: Store, clock: FrozenClock, doomed: Callable[[Store, FrozenClock], str]
) -> None:
    added(store, AFTER)
    execution_id = doomed(store, clock)
    (buried,) = store.queue.bury()
    assert ends(store) == [(execution_id, buried.state)]
    assert buried.state in RESUMABLE


def test_only_what_is_awaited_is_seen(store: Store) -> None:
    failures = added(store, AFTER, states=frozenset({ExecutionState.FAILED}))
    added(store, AFTER, name="off", states=ENDS, enabled=False)
    added(store, AFTER, name="none", states=frozenset())
    added(store, AFTER, name="other", states=ENDS, awaits="other")
    added(store, name="schedule", awaits="greet", states=ENDS)
    every = added(store, AFTER, name="every", states=ENDS)
    one, two, three = (
        store.queue.conclude(held(store, **changes).hold, conclusion).id
        for changes, conclusion in (({}, SUCCESS), ({}, FAILURE), ({"workflow": "other"}, FAILURE))
    )
    store.queue.conclude(held(store, workflow=None, handler="core.log").hold, FAILURE)
    seen = {(seen.trigger.name, seen.execution_id) for seen in store.triggers.due(9).ends}
    assert seen == {("every", one), ("every", two), ("after", two), ("other", three)}
    assert slots(store, failures) == [(f"{two}:1", "due")]
    assert slots(store, every) == [(f"{two}:1", "due"), (f"{one}:1", "due")]


def test_what_has_not_ended_is_not_seen_nor_what_never_began(store: Store) -> None:
    added(store, AFTER, states=ENDS)
    for conclusion in (Again(MINUTE, ERROR), Released(MINUTE), Parked()):
        store.queue.conclude(held(store).hold, conclusion)
    full: dict[str, Any] = {"concurrency_key": "c", "when_full": "reject"}
    enqueued(store, **full)
    (turned_away,) = store.queue.enqueue([request(**full)])
    assert turned_away.state is ExecutionState.REJECTED
    assert ends(store) == []


def test_a_part_is_seen_when_it_ends_itself_and_not_when_it_ends_with_the_whole(store: Store) -> None:
    added(store, AFTER, states=ENDS)
    for conclude in (True, False):
        parent = held(store, workflow="whole")
        done, left = adopted(store, parent.hold, "done"), adopted(store, parent.hold, "left")
        part_of_part = adopted(store, left.hold, "deep")
        job = enqueued(store, parent_id=parent.execution.id, queue="mail")
        expected = [(store.queue.conclude(done.hold, SUCCESS).id, "success")]
        if conclude:
            store.queue.conclude(parent.hold, FAILURE)
        else:
            assert len(store.executions.cancel(parent.execution.id)) == 4
            expected.append((job, "cancelled"))
        assert state_of(store, part_of_part.execution.id) is ExecutionState.CANCELLED
        assert ends(store)[-len(expected) :] == expected
    assert len(ends(store)) == 3
    parent = held(store, workflow="whole")
    part = adopted(store, parent.hold)
    store.executions.cancel(part.execution.id)
    assert ends(store)[3:] == [(part.execution.id, "cancelled")]


def test_each_end_of_an_execution_that_was_resumed_is_a_slot(store: Store, clock: FrozenClock) -> None:
    trigger = added(store, AFTER)
    execution_id = store.queue.conclude(held(store).hold, FAILURE).id
    clock.forward(SECOND)
    store.executions.resume(execution_id)
    assert found(store, execution_id).attempt == 2
    store.queue.conclude(claimed_one(store).hold, Ended(ExecutionState.TIMED_OUT, reason=DeadReason.POISON))
    assert [(seen.slot, seen.attempt, seen.state, seen.at) for seen in store.triggers.due(9).ends] == [
        (f"{execution_id}:1", 1, "failed", START),
        (f"{execution_id}:2", 2, "timed_out", START + SECOND),
    ]
    assert len(slots(store, trigger)) == 2


def test_an_end_that_was_seen_is_fired_once(store: Store, clock: FrozenClock) -> None:
    added(store, AFTER, name="other", states=frozenset({ExecutionState.SUCCESS}))
    trigger = added(store, AFTER)
    first, second = (store.queue.conclude(held(store).hold, FAILURE).id for _ in range(2))
    clock.forward(SECOND)
    seen = store.triggers.due(9).ends[0]
    fire = of_end(seen, request=request(workflow="report", queue="mail", led_by=1))
    assert store.triggers.fire(of_end(seen, of_end=False)) is None
    firing = store.triggers.fire(fire)
    assert firing is not None
    assert (firing.slot, firing.outcome, firing.at) == (f"{first}:1", "fired", clock.now())
    assert firing.execution_id is not None
    assert found(store, firing.execution_id).depth == 2
    assert store.triggers.fire(fire) is None
    assert ends(store) == [(second, "failed")]
    assert slots(store, trigger) == [(f"{first}:1", "fired"), (f"{second}:1", "due")], "what was written last is first"
    assert claimed_ids(store, "mail") == [firing.execution_id]


def test_an_end_that_cannot_be_fired_any_more_is_due_until_it_is_dealt_with(store: Store) -> None:
    trigger = added(store, AFTER)
    execution_id = store.queue.conclude(held(store).hold, FAILURE).id
    off = store.triggers.enable(trigger.id, False)
    (seen,) = store.triggers.due(9).ends
    assert seen.trigger == off
    for revision in (trigger.revision, off.revision):
        assert store.triggers.fire(of_end(seen, revision=revision)) is None
    assert ends(store) == [(execution_id, "failed")]
    skip = of_end(seen, revision=None, request=None, outcome="skipped", reason="disabled")
    firing = store.triggers.fire(skip)
    assert firing is not None
    assert (firing.outcome, firing.reason) == ("skipped", "disabled")
    assert ends(store) == []
    assert store.triggers.fire(skip) is None


@pytest.mark.parametrize("changes", [{}, {"revision": None}])
def test_an_end_whose_firing_is_forgotten_is_not_fired_again(
    store: Store, clock: FrozenClock, changes: dict[str, Any]
) -> None:
    trigger = added(store, AFTER)
    store.queue.conclude(held(store).hold, FAILURE)
    (seen,) = store.triggers.due(9).ends
    assert store.triggers.fire(of_end(seen)) is not None
    clock.forward(MINUTE)
    assert store.triggers.prune(clock.now(), keep=9) == 1
    before, executions = store.triggers.list(), store.executions.list()
    for late in (of_end(seen, **changes), of_end(seen, cursor=clock.now(), **changes)):
        assert store.triggers.fire(late) is None
    assert (store.triggers.list(), store.executions.list()) == (before, executions)
    assert slots(store, trigger) == []


def test_a_slot_that_is_no_end_is_not_fired_as_one(store: Store) -> None:
    trigger = added(store)
    assert store.triggers.fire(slot(trigger, of_end=True)) is None
    assert store.triggers.fire(slot(trigger)) is not None
    assert store.triggers.fire(slot(trigger, revision=None, of_end=True)) is None
    assert slots(store, trigger) == [("s1", "fired")]


def test_ends_of_triggers_that_are_apart_are_in_nobodys_way(store: Store) -> None:
    declared(store, *[wanted(AFTER, name=f"t{number}") for number in range(101)])
    apart = [trigger.id for trigger in store.triggers.list()]
    other = added(store, AFTER, workflow="other", awaits="last")
    for workflow in ("greet", "last"):
        store.queue.conclude(held(store, workflow=workflow).hold, FAILURE)
    due = store.triggers.due(100, apart=apart)
    assert ([seen.trigger for seen in due.ends], due.look_at) == ([other], None)
    assert list(store.triggers.due(100, apart=[*apart, other.id]).ends) == []
    assert len(store.triggers.due(102).ends) == 102


def test_ends_are_due_the_oldest_first_up_to_a_limit(store: Store, clock: FrozenClock) -> None:
    added(store, AFTER)
    ids = []
    for _ in range(3):
        ids.append(store.queue.conclude(held(store).hold, FAILURE).id)
        clock.forward(SECOND)
    due = store.triggers.due(2)
    assert [seen.execution_id for seen in due.ends] == ids[:2]
    assert (due.look_at, store.triggers.due(3).look_at) == (clock.now(), None)
    (schedule,) = [added(store)]
    assert store.triggers.due(3).look_at is None, "what is given is not told again"
    store.triggers.look_at(schedule.id, 1, schedule.cursor, clock.now() + MINUTE)
    assert store.triggers.due(3).look_at == clock.now() + MINUTE


def test_a_document_that_stops_waiting_takes_along_what_was_due(store: Store) -> None:
    declared(store, AFTER)
    store.queue.conclude(held(store).hold, FAILURE)
    assert len(ends(store)) == 1
    declared(store)
    assert store.triggers.due(9) == store.triggers.due(1)
    assert ends(store) == []


def test_an_end_that_came_while_its_trigger_was_removed_is_forgotten(store: Store, clock: FrozenClock) -> None:
    if isinstance(store, MemoryStore):
        return  # there, one thing is done after the other
    assert isinstance(store, SqliteStore | PostgresStore)
    trigger = added(store, AFTER)
    store.queue.conclude(held(store).hold, FAILURE)
    store._database.write(lambda execute: execute("DELETE FROM triggers"))
    assert ends(store) == []
    assert store.triggers.last_firings() == {}
    assert store.triggers.prune(clock.now(), keep=9) == 1
    assert slots(store, trigger) == []


def test_an_end_is_seen_once_whoever_else_ends_the_execution(store: Store) -> None:
    trigger = added(store, AFTER, states=ENDS)
    deliveries = [held(store) for _ in range(8)]

    def act(number: int) -> None:
        for delivery in deliveries:
            with suppress(LeaseLost, IllegalMove):
                if number % 2:
                    store.queue.conclude(delivery.hold, SUCCESS)
                else:
                    store.executions.cancel(delivery.execution.id)

    at_once(4, act)
    states = {delivery.execution.id: state_of(store, delivery.execution.id) for delivery in deliveries}
    assert dict(ends(store)) == states
    assert len(slots(store, trigger)) == 8
