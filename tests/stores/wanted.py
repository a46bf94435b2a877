"""Triggers and their slots, as the tests of triggers need them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from flo.engine.executions import ExecutionState
from flo.engine.stores.store import Store
from flo.engine.triggers import EndSeen, Fire, Trigger, WantedTrigger

from .jobs import DOCUMENT, MINUTE, START, request

HOURLY = WantedTrigger("hourly", "schedule", {"cron": "0 * * * *", "whole": 1.0, "big": 2**70}, timing="hourly")
AFTER = WantedTrigger(
    "after",
    "event",
    {"event": "workflow.finished", "workflow": "greet"},
    awaits="greet",
    states=frozenset({ExecutionState.FAILED, ExecutionState.TIMED_OUT, ExecutionState.CANCELLED}),
)
HOOK = WantedTrigger("hook", "webhook", {"path": "/greet"})


def wanted(kind: WantedTrigger = HOURLY, /, **changes: Any) -> WantedTrigger:
    return dataclasses.replace(kind, **changes)


def added(store: Store, kind: WantedTrigger = HOURLY, workflow: str = "report", **changes: Any) -> Trigger:
    """A trigger that no document declares, of a workflow that is stored for it."""
    return store.triggers.add(store.workflows.save(workflow, DOCUMENT).id, wanted(kind, **changes))


def declared(store: Store, *triggers: WantedTrigger, workflow: str = "report", document: str = DOCUMENT) -> None:
    """Save a workflow whose document declares ``triggers``."""
    store.workflows.save(workflow, document, triggers=triggers)


def found(store: Store, name: str = "hourly", workflow: str = "report") -> Trigger:
    """The trigger of that name."""
    (trigger,) = [trigger for trigger in store.triggers.list(workflow=workflow) if trigger.name == name]
    return trigger


def names(triggers: Sequence[Trigger]) -> list[str]:
    return [trigger.full_name for trigger in triggers]


def slot(trigger: Trigger, minutes: int = 1, **changes: Any) -> Fire:
    """The slot so many minutes after the start, of a trigger as it is, with a request; the next is a minute later."""
    at: datetime = START + minutes * MINUTE
    made = Fire(
        trigger.id,
        trigger.revision,
        f"s{minutes}",
        request(workflow="report", trigger="schedule"),
        scheduled_at=at,
        cursor=at,
        look_at=at + MINUTE,
    )
    return dataclasses.replace(made, **changes)


def of_end(seen: EndSeen, **changes: Any) -> Fire:
    """The slot that an end is, of its trigger as it is, with a request."""
    made = Fire(seen.trigger.id, seen.trigger.revision, seen.slot, request(workflow="report"), of_end=True)
    return dataclasses.replace(made, **changes)


def slots(store: Store, trigger: Trigger) -> list[tuple[str, str]]:
    """Slot and outcome, what was written last first."""
    return [(firing.slot, firing.outcome) for firing in store.triggers.firings(trigger.id, limit=1000)]
