"""Slots of triggers: each is fired once, together with the execution that it is for, or not at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from flo.engine.executions import ExecutionState
from flo.engine.jobs import Ended, KeyConflict
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.store import Store
from flo.engine.triggers import Fire, Firing, WantedTrigger
from flo.testing import FrozenClock

from .jobs import (
    DOCUMENT,
    ERROR,
    INSTANT,
    MINUTE,
    SECOND,
    START,
    SUCCESS,
    at_once,
    claimed_one,
    enqueued,
    held,
    request,
    started,
    state_of,
    stored,
)
from .jobs import found as execution_of
from .wanted import AFTER, HOOK, HOURLY, added, declared, found, slot, slots, wanted


def fired(store: Store, fire: Fire) -> Firing:
    """What became of a slot that nobody had dealt with."""
    firing = store.triggers.fire(fire)
    assert firing is not None
    assert store.triggers.firings(fire.trigger_id)[0] == firing
    return firing


def test_a_slot_is_recorded_with_its_execution_and_moves_the_trigger(store: Store, clock: FrozenClock) -> None:
    trigger = added(store)
    clock.forward(2 * MINUTE)
    fire = slot(trigger, passed=3, since=START + SECOND, request=request(trigger="schedule", led_by=4))
    firing = fired(store, fire)
    assert firing == Firing(
        trigger.id,
        "s1",
        "fired",
        clock.now(),
        scheduled_at=START + MINUTE,
        execution_id=firing.execution_id,
        passed=3,
        since=START + SECOND,
    )
    moved = found(store)
    assert (moved.cursor, moved.look_at, moved.revision) == (START + MINUTE, START + 2 * MINUTE, 1)
    assert (moved.anchor, moved.updated_at) == (trigger.anchor, trigger.updated_at)
    assert firing.execution_id is not None
    execution = execution_of(store, firing.execution_id)
    assert (execution.trigger, execution.trigger_id, execution.depth) == ("schedule", trigger.id, 5)
    assert execution.as_json()["triggerId"] == trigger.id
    assert claimed_one(store).execution == execution_of(store, firing.execution_id)


def test_a_slot_without_a_request_is_only_recorded(store: Store) -> None:
    trigger = added(store)
    many = {"passed": None, "since": START + SECOND}
    fired(store, slot(trigger, 1, request=None, outcome="skipped", reason="misfire", **many))
    failed = fired(store, slot(trigger, 2, request=None, outcome="failed", error=ERROR, cursor=None, look_at=START))
    skipped = store.triggers.firings(trigger.id)[1]
    assert (skipped.outcome, skipped.reason, skipped.since) == ("skipped", "misfire", START + SECOND)
    assert (failed.outcome, failed.error, failed.execution_id) == ("failed", ERROR, None)
    assert (found(store).cursor, found(store).look_at) == (START + MINUTE, START + 2 * MINUTE)
    assert stored(store) == 0


def test_a_slot_is_fired_once(store: Store) -> None:
    trigger = added(store)
    fired(store, slot(trigger))
    before = found(store)
    for again in (slot(trigger), slot(trigger, cursor=None), slot(trigger, revision=None, cursor=None)):
        assert store.triggers.fire(again) is None
    assert found(store) == before
    assert (stored(store), slots(store, trigger)) == (1, [("s1", "fired")])
    assert store.triggers.fire(slot(added(store, name="other"), 1)) is not None


def test_a_trigger_comes_past_slots_that_are_recorded_already(store: Store, clock: FrozenClock) -> None:
    """The clock was put back, and the trigger switched off and on."""
    trigger = added(store)
    for number in (1, 2):
        clock.forward(MINUTE)
        fired(store, slot(trigger, number))
    clock.time = START + SECOND
    store.triggers.enable(trigger.id, False)
    trigger = store.triggers.enable(trigger.id, True)
    assert trigger.cursor == START + SECOND
    for number in (1, 2):
        assert store.triggers.fire(slot(trigger, number, alone=True)) is None
        moved = found(store)
        assert (moved.cursor, moved.look_at) == (START + number * MINUTE, START + (number + 1) * MINUTE)
        assert moved.revision == trigger.revision
    assert stored(store) == 2
    fired(store, slot(trigger, 3))
    assert (stored(store), slots(store, trigger)) == (3, [("s3", "fired"), ("s2", "fired"), ("s1", "fired")])


REFUSED: dict[str, dict[str, Any]] = {
    "of another revision": {"revision": 1},
    "whose cursor is reached": {"cursor": START + MINUTE},
    "whose cursor is passed": {"cursor": START + MINUTE - INSTANT},
    "of no trigger": {"trigger_id": "nothing"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_nothing_comes_of_a_fire(store: Store, what: str) -> None:
    declared(store, HOURLY)
    store.triggers.enable(found(store).id, False)
    trigger = store.triggers.enable(found(store).id, True)
    fired(store, slot(trigger, 1))
    before = found(store)
    assert store.triggers.fire(slot(trigger, 5, **REFUSED[what])) is None
    assert (found(store), stored(store), slots(store, trigger)) == (before, 1, [("s1", "fired")])
    assert store.triggers.fire(slot(trigger, 5)) is not None


def test_what_was_prepared_before_a_change_is_refused_after_it(store: Store) -> None:
    declared(store, HOURLY)
    prepared = slot(found(store))
    store.triggers.enable(prepared.trigger_id, False)
    off = slot(found(store))
    assert store.triggers.fire(prepared) is None
    assert store.triggers.fire(off) is None
    store.triggers.enable(prepared.trigger_id, True)
    assert store.triggers.fire(prepared) is None
    assert store.triggers.fire(off) is None
    changed = slot(found(store))
    declared(store, HOOK, document='{"n": 2}')
    assert store.triggers.fire(changed) is None
    assert stored(store) == 0


@pytest.mark.parametrize("name", ["summary", "report"])
def test_what_was_prepared_before_a_rename_is_refused_after_it(store: Store, clock: FrozenClock, name: str) -> None:
    """A new name of an id, or a new id of a name."""
    identity = "flow-1" if name == "summary" else None
    store.workflows.save("report", DOCUMENT, pinned_id=identity, triggers=[HOURLY])
    other = added(store, workflow="other")
    prepared = found(store)
    clock.forward(SECOND)
    store.workflows.save(name, DOCUMENT, pinned_id="flow-1")
    assert store.triggers.fire(slot(prepared)) is None
    renamed = found(store, workflow=name)
    assert (renamed.id, renamed.workflow_id, renamed.revision) == (prepared.id, "flow-1", 2)
    assert (renamed.cursor, renamed.look_at, renamed.updated_at) == (START, START, START + SECOND)
    assert store.triggers.fire(slot(renamed)) is not None
    assert store.triggers.get(other.id) == other


def test_a_person_fires_whatever_the_trigger_is_by_now(store: Store) -> None:
    trigger = added(store)
    store.triggers.enable(trigger.id, False)
    by_hand = Fire(trigger.id, None, "by-hand", request(trigger="manual"))
    assert fired(store, by_hand).outcome == "fired"
    assert (found(store).cursor, found(store).look_at) == (START, START)
    assert stored(store) == 1


@pytest.mark.parametrize("how", ["pending", "running", "suspended", "running below no queue"])
def test_a_trigger_that_fires_alone_skips_slots_while_an_execution_of_it_is_unfinished(store: Store, how: str) -> None:
    trigger, other = added(store), added(store, name="other")
    started(store, trigger_id=other.id)
    assert fired(store, slot(trigger, 1, alone=True)).outcome == "fired"
    delivery = claimed_one(store)
    match how:
        case "pending":
            enqueued(store, trigger_id=trigger.id, run_at=START + 99 * MINUTE)
            store.queue.conclude(delivery.hold, SUCCESS)
        case "suspended":
            held(store, trigger_id=trigger.id)
            store.queue.conclude(delivery.hold, SUCCESS)
        case "running below no queue":
            started(store, trigger_id=trigger.id)
            store.queue.conclude(delivery.hold, SUCCESS)
    before = stored(store)
    skipped = fired(store, slot(trigger, 2, alone=True))
    assert (skipped.outcome, skipped.reason, skipped.execution_id) == ("skipped", "overlap", None)
    assert (found(store).cursor, stored(store)) == (START + 2 * MINUTE, before)
    for execution in store.executions.list():
        if execution.trigger_id == trigger.id and not execution.state.final:
            store.executions.cancel(execution.id)
    assert fired(store, slot(trigger, 3, alone=True)).outcome == "fired"
    assert fired(store, slot(trigger, 4)).outcome == "fired", "others do not ask"


def test_a_request_that_cannot_be_enqueued_leaves_nothing(store: Store) -> None:
    trigger = added(store)
    enqueued(store, key="k", identity="one")
    with pytest.raises(KeyConflict):
        store.triggers.fire(slot(trigger, request=request(key="k", identity="two")))
    assert (found(store), slots(store, trigger), stored(store)) == (trigger, [], 1)
    firing = fired(store, slot(trigger, request=request(key="k", identity="one")))
    assert [firing.execution_id] == [execution.id for execution in store.executions.list()]


def test_a_slot_whose_concurrency_key_is_full_has_the_execution_that_was_rejected(store: Store) -> None:
    trigger = added(store)
    full = {"concurrency_key": "c", "when_full": "reject"}
    one, two = (fired(store, slot(trigger, at, request=request(**full))) for at in (1, 2))
    assert one.execution_id is not None
    assert two.execution_id is not None
    assert state_of(store, one.execution_id) is ExecutionState.PENDING
    assert state_of(store, two.execution_id) is ExecutionState.REJECTED
    assert fired(store, slot(trigger, 3, alone=True, request=request())).outcome == "skipped"
    store.executions.cancel(one.execution_id)
    assert fired(store, slot(trigger, 4, alone=True, request=request())).outcome == "fired", "a rejected one has ended"


def test_of_many_who_fire_one_slot_one_does(store: Store) -> None:
    trigger = added(store)
    gave = at_once(6, lambda number: store.triggers.fire(slot(trigger)))
    (firing,) = [one for one in gave if one is not None]
    assert [execution.id for execution in store.executions.list()] == [firing.execution_id]


def test_a_fire_does_not_wait_for_one_that_hangs_and_a_person_does(postgres_url: str, clock: FrozenClock) -> None:
    store = PostgresStore.open(_with_options(postgres_url, "-c lock_timeout=15s"), clock)
    trigger, other = added(store), added(store, name="other")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    came: list[Firing | None] = []
    person = threading.Thread(target=lambda: came.append(store.triggers.fire(slot(trigger, 9, revision=None))))
    with psycopg.connect(postgres_url) as hanging, psycopg.connect(postgres_url, autocommit=True) as watching:
        hanging.execute("SELECT id FROM flo.triggers WHERE id = %s FOR NO KEY UPDATE", [trigger.id])
        assert store.triggers.fire(slot(trigger)) is None
        assert store.triggers.look_at(trigger.id, trigger.revision, trigger.cursor, None) is False
        assert (found(store), stored(store), slots(store, trigger)) == (trigger, 0, [])
        fired(store, slot(other))
        person.start()
        while watching.execute(waiting).fetchone() == (0,):
            assert person.is_alive(), "it does not wait"
        hanging.rollback()
        person.join()
    assert slots(store, trigger) == [("s9", "fired")]
    fired(store, slot(trigger, 10))
    store.close()


def test_firings_are_given_last_written_first(store: Store, clock: FrozenClock) -> None:
    trigger, other = added(store), added(store, name="other")
    assert list(store.triggers.firings(trigger.id)) == []
    assert store.triggers.last_firings() == {}
    for number in (1, 2, 3):
        fired(store, slot(trigger, number))
        clock.forward(SECOND)
    last = fired(store, slot(other))
    assert [firing.slot for firing in store.triggers.firings(trigger.id)] == ["s3", "s2", "s1"]
    assert [firing.slot for firing in store.triggers.firings(trigger.id, limit=2)] == ["s3", "s2"]
    assert store.triggers.last_firings() == {
        trigger.id: store.triggers.firings(trigger.id)[0],
        other.id: last,
    }


def test_old_firings_are_pruned_and_those_beyond_a_number(store: Store, clock: FrozenClock) -> None:
    trigger, other = added(store), added(store, name="other")
    for number in range(1, 7):
        for one in (trigger, other)[: 2 if number < 3 else 1]:
            fired(store, slot(one, number))
        clock.forward(SECOND)
    assert store.triggers.prune(START, keep=6) == 0
    assert store.triggers.prune(START + SECOND, keep=6, limit=1) == 1
    assert store.triggers.prune(START + SECOND, keep=6) == 1
    assert slots(store, other) == [("s2", "fired")]
    assert store.triggers.prune(START + SECOND, keep=3, limit=1) == 1
    assert store.triggers.prune(START + SECOND, keep=3) == 1
    assert [name for name, _ in slots(store, trigger)] == ["s6", "s5", "s4"]
    assert slots(store, other) == [("s2", "fired")]
    store.triggers.remove(trigger.id)
    assert store.triggers.prune(START, keep=1) == 0
    assert store.triggers.prune(START + 5 * SECOND, keep=9) == 3
    assert [name for name, _ in slots(store, trigger)] == ["s6"], "what a removed one fired goes with time"


def test_each_trigger_keeps_its_newest_firings(store: Store) -> None:
    triggers = [added(store, name=f"t{number:02}") for number in range(21)]
    few, many = triggers[:19], triggers[19:]
    for trigger in few:
        fired(store, slot(trigger, 1))
    for number in range(1, 5):
        for trigger in many:
            fired(store, slot(trigger, number))
    assert [store.triggers.prune(START, keep=2, limit=3) for _ in range(3)] == [3, 1, 0]
    assert [[name for name, _ in slots(store, trigger)] for trigger in many] == [["s4", "s3"]] * 2
    assert {len(slots(store, trigger)) for trigger in few} == {1}
    assert store.triggers.prune(START, keep=0) == 19 + 4


def test_what_is_due_is_not_pruned_and_goes_with_its_trigger(store: Store, clock: FrozenClock) -> None:
    trigger = added(store, AFTER)
    for _ in range(2):
        store.queue.conclude(held(store).hold, Ended(ExecutionState.FAILED))
    clock.forward(MINUTE)
    assert store.triggers.prune(clock.now(), keep=0) == 0
    assert len(store.triggers.due(9).ends) == 2
    store.triggers.remove(trigger.id)
    assert list(store.triggers.due(9).ends) == []
    assert slots(store, trigger) == []


def document(number: int) -> dict[str, str]:
    """A document that nobody has stored yet, as a request has it."""
    text = f'{{"n": {number}}}'
    return {"definition": text, "digest": hashlib.sha256(text.encode()).hexdigest()}


def test_who_fires_enqueues_saves_and_ends_at_once_locks_in_one_order(postgres_url: str) -> None:
    """All work on the same documents, triggers, keys. Here nobody resolves a deadlock: who is in one gives up, late."""
    store, times = PostgresStore.open(_with_options(postgres_url, "-c deadlock_timeout=1h -c lock_timeout=15s")), 15
    declared(store, HOURLY, AFTER)
    trigger, after = found(store), found(store, "after")
    keyed = {"identity": "i", "concurrency_key": "c", "when_full": "reject"}

    def fire(number: int, name: str) -> None:
        made = request(key=f"k{number}", **keyed, **document(number))
        assert store.triggers.fire(Fire(trigger.id, None, f"{name}{number}", made, alone=name == "a"))

    def enqueue(number: int) -> None:
        batch = [request(key=f"k{at}", **keyed, **document(at)) for at in (number, number - 1)]
        assert len(store.queue.enqueue(batch)) == 2

    def save(number: int, *triggers: WantedTrigger) -> None:
        changed = [wanted(one, config={"n": number}) for one in triggers]
        store.workflows.save("report", document(number)["definition"], triggers=changed)

    def end(number: int) -> None:
        delivery = held(store, queue="mail", worker="w2", **document(number))
        store.queue.conclude(delivery.hold, Ended(ExecutionState.FAILED))
        store.executions.cancel(enqueued(store, queue="later"))

    acts: Sequence[Callable[[int], object]] = (
        lambda number: fire(number, "a"),
        lambda number: fire(number, "b"),
        enqueue,
        lambda number: save(number, HOURLY, AFTER),
        lambda number: save(number, AFTER, HOURLY),
        lambda number: store.triggers.enable(trigger.id, number % 2 == 0),
        end,
        lambda number: store.triggers.prune(START, keep=5),
    )
    for number in range(times):
        at_once(len(acts), lambda at, number=number: acts[at](number))  # type: ignore[misc]
    assert {firing.outcome for firing in store.triggers.firings(trigger.id, limit=99)} <= {"fired", "skipped"}
    assert [trigger.id for trigger in store.triggers.list()] == [after.id, trigger.id]
    assert len(store.triggers.due(99).ends) == 2 * times
    store.close()


def _with_options(url: str, options: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options={quote(options)}"
