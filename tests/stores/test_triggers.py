"""Triggers as they are stored: what people add and switch, what documents declare, and what schedulers look at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from flo.engine.errors import InputInvalid, NotFound
from flo.engine.stores.store import Store
from flo.engine.triggers import TriggerExists, WantedTrigger
from flo.testing import FrozenClock

from .jobs import DOCUMENT, FAILURE, INSTANT, MINUTE, SECOND, START, at_once, enqueued, held
from .wanted import AFTER, HOOK, HOURLY, added, declared, found, names, slot, slots, wanted

ENOUGH = 30.0
"""Seconds within which a wake-up has come, or was lost. Nothing waits so long while all is well."""


def test_a_trigger_comes_back_as_it_was_added(store: Store, clock: FrozenClock) -> None:
    clock.forward(SECOND)
    trigger = added(store)
    assert store.triggers.get(trigger.id) == trigger
    assert (trigger.full_name, trigger.kind, trigger.enabled) == ("report/hourly", "schedule", True)
    assert (trigger.declared, trigger.revision, trigger.awaits) == (False, 1, None)
    assert trigger.config == HOURLY.config
    assert type(trigger.config["whole"]) is float
    assert {trigger.anchor, trigger.cursor, trigger.look_at, trigger.created_at} == {START + SECOND, trigger.updated_at}
    assert added(store, AFTER).awaits == "greet"
    assert added(store, HOOK, enabled=False).enabled is False


def test_only_a_schedule_is_ever_looked_at(store: Store) -> None:
    hook = added(store, HOOK, enabled=False)
    assert hook.look_at is None
    assert store.triggers.enable(hook.id, True).look_at is None
    declared(store, wanted(AFTER))
    assert found(store, "after").look_at is None
    assert list(store.triggers.due(9).schedules) == []


def test_what_is_given_is_not_what_is_kept(store: Store) -> None:
    config: dict[str, Any] = {"deep": {"n": 1}}
    trigger = added(store, config=config)
    declared(store, HOOK, wanted(AFTER, config=config), workflow="other")
    config["deep"]["n"] = 2
    trigger.config["deep"]["n"] = 3  # type: ignore[index,call-overload]
    found(store).config["deep"]["n"] = 4  # type: ignore[index,call-overload]
    for one in (found(store), found(store, "after", "other"), *store.triggers.due(1).schedules):
        assert one.config == {"deep": {"n": 1}}
    assert found(store, "hook", "other").config == HOOK.config


def test_triggers_are_listed_by_workflow_and_name(store: Store) -> None:
    for workflow, name in (("b", "y"), ("a", "z"), ("b", "x"), ("a", "Z")):
        added(store, workflow=workflow, name=name)
    assert names(store.triggers.list()) == ["a/Z", "a/z", "b/x", "b/y"]
    assert names(store.triggers.list(workflow="b")) == ["b/x", "b/y"]
    assert list(store.triggers.list(workflow="c")) == []


def test_a_name_is_taken_once_in_a_workflow(store: Store) -> None:
    added(store)
    added(store, workflow="other")
    declared(store, HOOK, workflow="third")
    with pytest.raises(TriggerExists, match="there is a trigger 'report/hourly' already"):
        added(store, HOOK, name="hourly")
    with pytest.raises(TriggerExists):
        added(store, name="hook", workflow="third")
    assert names(store.triggers.list()) == ["other/hourly", "report/hourly", "third/hook"]
    assert found(store).kind == "schedule"


def test_of_several_who_add_one_name_one_does(store: Store) -> None:
    workflow_id = store.workflows.save("report", DOCUMENT).id

    def add(number: int) -> bool:
        try:
            store.triggers.add(workflow_id, wanted(config={"by": number}))
        except TriggerExists:
            return False
        return True

    assert sorted(at_once(5, add)) == [False] * 4 + [True]
    assert len(store.triggers.list()) == 1


def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="workflow 'nothing'"):
        store.triggers.add("nothing", HOURLY)
    trigger = added(store)
    store.triggers.remove(trigger.id)
    for act in (store.triggers.remove, lambda trigger_id: store.triggers.enable(trigger_id, True)):
        with pytest.raises(NotFound, match="trigger"):
            act(trigger.id)
    assert store.triggers.get(trigger.id) is None
    assert store.triggers.get(trigger.id[:8]) is None
    assert store.triggers.look_at(trigger.id, 1, START, None) is False


def test_one_that_is_switched_on_counts_from_then_on(store: Store, clock: FrozenClock) -> None:
    trigger = added(store)
    clock.forward(MINUTE)
    off = store.triggers.enable(trigger.id, False)
    assert (off.enabled, off.revision, off.cursor, off.updated_at) == (False, 2, START, START + MINUTE)
    assert found(store) == off
    clock.forward(MINUTE)
    assert store.triggers.enable(trigger.id, False) == off
    assert list(store.triggers.due(9).schedules) == []
    on = store.triggers.enable(trigger.id, True)
    assert (on.enabled, on.revision, on.anchor) == (True, 3, START)
    assert {on.cursor, on.look_at, on.updated_at} == {START + 2 * MINUTE}
    clock.forward(MINUTE)
    assert store.triggers.enable(trigger.id, True) == on == found(store)


def test_what_a_removed_trigger_fired_stays(store: Store) -> None:
    trigger = added(store)
    firing = store.triggers.fire(slot(trigger))
    assert firing is not None
    assert firing.execution_id is not None
    store.triggers.remove(trigger.id)
    execution = store.executions.get(firing.execution_id)
    assert execution is not None
    assert execution.trigger_id == trigger.id
    assert slots(store, trigger) == [("s1", "fired")]
    assert store.triggers.last_firings() == {}
    assert store.triggers.fire(slot(trigger, 2, revision=None)) is None


def test_schedules_are_due_when_they_are_to_be_looked_at(store: Store, clock: FrozenClock) -> None:
    late, later, soon, off, _ = (added(store, name=name) for name in ("late", "later", "soon", "off", "hook"))
    store.triggers.enable(off.id, False)
    store.triggers.remove(found(store, "hook").id)
    added(store, HOOK)
    assert (store.triggers.due(9).now, store.triggers.due(9).look_at) == (START, None)
    for trigger, at in ((late, START + 2 * SECOND), (later, START + MINUTE), (soon, START + SECOND)):
        assert store.triggers.look_at(trigger.id, 1, START, at)
    nothing = store.triggers.due(9)
    assert (list(nothing.schedules), nothing.look_at) == ([], START + SECOND)
    clock.forward(SECOND - INSTANT)
    assert list(store.triggers.due(9).schedules) == []
    clock.forward(2 * SECOND)
    due = store.triggers.due(9)
    assert names(due.schedules) == ["report/soon", "report/late"]
    assert (due.now, due.look_at) == (clock.now(), START + MINUTE)
    first = store.triggers.due(1)
    assert (names(first.schedules), first.look_at) == (["report/soon"], clock.now())
    assert store.triggers.due(2).look_at == START + MINUTE
    assert store.triggers.look_at(late.id, 1, START, None)
    assert found(store, "late").look_at is None
    assert names(store.triggers.due(9).schedules) == ["report/soon"]


def test_schedules_that_are_apart_are_in_nobodys_way(store: Store) -> None:
    declared(store, *[wanted(name=f"t{number}") for number in range(101)])
    many = store.triggers.list()
    apart = [trigger.id for trigger in many]
    assert store.triggers.look_at(many[0].id, 1, START, START + SECOND)
    other, later = added(store, workflow="other"), added(store, workflow="other", name="later")
    assert store.triggers.look_at(later.id, 1, START, START + MINUTE)
    due = store.triggers.due(100, apart=apart)
    assert (names(due.schedules), due.look_at) == (["other/hourly"], START + MINUTE)
    assert store.triggers.look_at(other.id, 1, START, START + 2 * MINUTE)
    due = store.triggers.due(100, apart=apart)
    assert (list(due.schedules), due.look_at) == ([], START + MINUTE), "also where nothing else is due"
    due = store.triggers.due(99, apart=apart[-1:])
    assert (len(due.schedules), due.look_at) == (99, START + SECOND)
    assert store.triggers.due(1, apart=[one.id for one in (*many, other, later)]).look_at is None


def test_a_look_is_put_off_only_as_long_as_nothing_has_changed(store: Store) -> None:
    trigger = added(store)
    later = START + MINUTE
    assert store.triggers.look_at(trigger.id, 2, START, later) is False
    assert store.triggers.look_at(trigger.id, 1, START + INSTANT, later) is False
    assert found(store) == trigger
    assert store.triggers.look_at(trigger.id, 1, START, later) is True
    assert (found(store).look_at, found(store).revision, found(store).cursor) == (later, 1, START)
    store.triggers.fire(slot(trigger))
    assert store.triggers.look_at(trigger.id, 1, START, START) is False
    assert store.triggers.look_at(trigger.id, 1, START + MINUTE, None) is True


def test_a_document_adds_changes_and_removes_its_triggers(store: Store, clock: FrozenClock) -> None:
    by_hand = added(store, name="by-hand")
    declared(store, HOURLY, AFTER)
    hourly, after = found(store), found(store, "after")
    assert (hourly.declared, hourly.revision, hourly.look_at, hourly.config) == (True, 1, START, HOURLY.config)
    assert after.declared
    clock.forward(SECOND)
    declared(store, wanted(config={"cron": "0 * * * *", "misfire": "all"}), HOOK)
    assert names(store.triggers.list()) == ["report/by-hand", "report/hook", "report/hourly"]
    changed = found(store)
    assert (changed.id, changed.revision, changed.updated_at) == (hourly.id, 2, START + SECOND)
    assert (changed.anchor, changed.cursor, changed.created_at) == (START, START, START)
    assert changed.config == {"cron": "0 * * * *", "misfire": "all"}
    declared(store)
    assert [trigger.id for trigger in store.triggers.list()] == [by_hand.id]
    declared(store, HOURLY)
    assert (found(store).id == hourly.id, found(store).revision) == (False, 1)


def test_a_document_whose_triggers_are_not_known_changes_none(store: Store) -> None:
    declared(store, HOURLY)
    before = store.triggers.list()
    assert store.workflows.save("report", '{"steps": []}').version == 2
    assert list(store.triggers.list()) == list(before)


@pytest.mark.parametrize("document", [DOCUMENT, '{"steps": [], "n": 2}'])
def test_a_trigger_that_stays_as_it_is_keeps_its_revision(store: Store, clock: FrozenClock, document: str) -> None:
    declared(store, HOURLY, AFTER, HOOK)
    before = store.triggers.list()
    clock.forward(SECOND)
    declared(store, HOOK, HOURLY, AFTER, document=document)
    assert list(store.triggers.list()) == list(before)


CHANGES: dict[str, tuple[WantedTrigger, dict[str, Any]]] = {
    "a value of another type": (HOURLY, {"config": {**HOURLY.config, "whole": 1}}),
    "a flag for a number": (HOURLY, {"config": {**HOURLY.config, "whole": True}}),
    "the timing": (HOURLY, {"timing": "daily"}),
    "the kind": (HOURLY, {"kind": "manual"}),
    "the awaited workflow": (AFTER, {"awaits": "other"}),
    "the awaited states": (AFTER, {"states": frozenset()}),
    "off": (HOURLY, {"enabled": False}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_a_document_changes_is_a_new_revision(store: Store, clock: FrozenClock, what: str) -> None:
    before, changes = CHANGES[what]
    declared(store, before)
    clock.forward(SECOND)
    for _ in range(2):
        declared(store, wanted(before, **changes))
        trigger = found(store, before.name)
        assert (trigger.revision, trigger.updated_at) == (2, START + SECOND)
        clock.forward(SECOND)
    assert trigger.enabled is changes.get("enabled", True)
    assert trigger.awaits == changes.get("awaits", before.awaits)
    if what.startswith("a "):
        assert type(trigger.config["whole"]) is type(changes["config"]["whole"])


def test_only_a_schedule_that_changes_its_times_counts_anew(store: Store, clock: FrozenClock) -> None:
    declared(store, HOURLY)
    clock.forward(MINUTE)
    store.triggers.fire(slot(found(store)))
    declared(store, wanted(config={"cron": "0 * * * *", "grace": 5}))
    trigger = found(store)
    assert (trigger.revision, trigger.anchor, trigger.cursor) == (2, START, START + MINUTE)
    assert trigger.look_at == START + MINUTE, "what stands in its config may change when it is to be looked at"
    clock.forward(MINUTE)
    declared(store, wanted(timing="daily"))
    trigger = found(store)
    assert (trigger.revision, trigger.look_at) == (3, START + 2 * MINUTE)
    assert (trigger.anchor, trigger.cursor) == (START + 2 * MINUTE, START + 2 * MINUTE)


def test_what_a_person_switched_stays_until_the_document_says_otherwise(store: Store, clock: FrozenClock) -> None:
    declared(store, HOURLY)
    store.triggers.enable(found(store).id, False)
    clock.forward(SECOND)
    declared(store, HOURLY)
    declared(store, wanted(config={"n": 1}))
    assert (found(store).enabled, found(store).revision) == (False, 3)
    declared(store, wanted(config={"n": 1}, enabled=False))
    assert (found(store).enabled, found(store).revision) == (False, 3), "it is off already"
    declared(store, wanted(config={"n": 1}, enabled=True))
    trigger = found(store)
    assert (trigger.enabled, trigger.revision, trigger.anchor) == (True, 4, START)
    assert {trigger.cursor, trigger.look_at} == {START + SECOND}, "one that was off counts from now on"


def test_one_that_a_person_added_is_declared_once_a_document_has_its_name(store: Store, clock: FrozenClock) -> None:
    trigger = added(store, enabled=False)
    clock.forward(SECOND)
    declared(store, wanted(enabled=False))
    same = found(store)
    assert (same.id, same.declared, same.revision, same.enabled) == (trigger.id, True, 1, False)
    declared(store)
    assert list(store.triggers.list()) == []
    trigger = added(store, enabled=False)
    declared(store, HOURLY)
    assert (found(store).id, found(store).enabled, found(store).revision) == (trigger.id, True, 2)


def test_triggers_follow_their_workflow_through_a_rename_and_a_new_id(store: Store) -> None:
    declared(store, HOURLY)
    by_hand = added(store, HOOK)
    before = found(store)
    store.workflows.save("report", DOCUMENT, pinned_id="flow-1", triggers=[HOURLY])
    pinned = found(store)
    assert (pinned.id, pinned.workflow_id, pinned.revision) == (before.id, "flow-1", 2)
    store.workflows.save("summary", DOCUMENT, pinned_id="flow-1", triggers=[HOURLY])
    assert names(store.triggers.list()) == ["summary/hook", "summary/hourly"]
    renamed = store.triggers.get(before.id)
    assert renamed is not None
    assert (renamed.full_name, renamed.revision) == ("summary/hourly", 3)
    (due,) = store.triggers.due(9).schedules
    assert due == renamed
    assert store.triggers.enable(by_hand.id, False).full_name == "summary/hook"


def test_a_save_that_fails_leaves_triggers_as_they_were(store: Store) -> None:
    store.workflows.save("one", DOCUMENT, pinned_id="flow-1", triggers=[HOURLY])
    store.workflows.save("two", DOCUMENT, pinned_id="flow-2", triggers=[HOOK])
    with pytest.raises(InputInvalid):
        store.workflows.save("two", DOCUMENT, pinned_id="flow-1", triggers=[AFTER])
    assert names(store.triggers.list()) == ["one/hourly", "two/hook"]


def test_documents_that_are_saved_at_once_leave_the_triggers_of_one_of_them(store: Store) -> None:
    def save(number: int) -> None:
        triggers = [wanted(name=f"t{number}-{at}", config={"by": number}) for at in range(3)]
        store.workflows.save("report", f'{{"n": {number}}}', triggers=[*triggers, wanted(config={"by": number})])

    at_once(5, save)
    triggers = store.triggers.list()
    assert len(triggers) == 4
    (newest,) = {trigger.config["by"] for trigger in triggers}
    workflow = store.workflows.get("report")
    assert workflow is not None
    assert (workflow.version, workflow.document) == (5, f'{{"n": {newest}}}')
    assert found(store).revision == 5


Act = Callable[[], object]


def _end(store: Store) -> Act:
    added(store, AFTER)
    delivery = held(store)
    return lambda: store.queue.conclude(delivery.hold, FAILURE)


def _cancel(store: Store) -> Act:
    added(store, AFTER)
    execution_id = enqueued(store)
    return lambda: store.executions.cancel(execution_id)


def _switch(store: Store, enabled: bool) -> Act:
    trigger = added(store, enabled=not enabled)
    return lambda: store.triggers.enable(trigger.id, enabled)


def _remove(store: Store) -> Act:
    trigger = added(store)
    return lambda: store.triggers.remove(trigger.id)


def _undeclare(store: Store) -> Act:
    declared(store, HOURLY)
    return lambda: declared(store)


ACTS: dict[str, Callable[[Store], Act]] = {
    "added": lambda store: lambda: added(store),
    "declared": lambda store: lambda: declared(store, HOURLY),
    "declared no more": _undeclare,
    "switched on": lambda store: _switch(store, True),
    "switched off": lambda store: _switch(store, False),
    "removed": _remove,
    "an end seen": _end,
    "a cancelled end seen": _cancel,
}


@pytest.mark.parametrize("what", ACTS)
def test_schedulers_are_told_of_what_somebody_did(store: Store, what: str) -> None:
    act = ACTS[what](store)
    with closing(store.triggers.wakeups()) as wakeups:
        came: list[bool] = []
        waiter = threading.Thread(target=lambda: came.append(wakeups.wait(ENOUGH)))
        waiter.start()
        act()
        waiter.join()
        assert came == [True]


def test_a_scheduler_that_waits_can_be_woken_and_hears_of_nothing_else(store: Store) -> None:
    trigger = added(store)
    with closing(store.triggers.wakeups()) as wakeups:
        assert wakeups.wait(0) is False
        store.triggers.enable(trigger.id, True)
        store.triggers.get(trigger.id)
        if not store.url.startswith("sqlite:"):  # there, any change of the file counts
            store.queue.conclude(held(store).hold, FAILURE)
            assert store.triggers.fire(slot(trigger))
            declared(store)
            assert wakeups.wait(0) is False
        wakeups.wake()
        assert wakeups.wait(ENOUGH) is True
