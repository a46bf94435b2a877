"""Triggers as stores keep them, and how documents and people change them, the same in every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from flo.engine.executions import ExecutionState
from flo.engine.frozen import frozen
from flo.engine.triggers import Fire, Firing, Trigger, WantedTrigger
from flo.engine.values import dump, new_id

SCHEDULERS: Final = "flo:schedulers"
"""Schedulers are told under this name, as workers are under that of a queue."""


@frozen
class Standing:
    """A trigger with what only its store asks for. ``said`` is what ``enabled`` of the document said last, None where
    no document has the trigger."""

    trigger: Trigger
    timing: str
    states: frozenset[ExecutionState]
    said: bool | None


def new_standing(
    workflow_id: str, workflow: str, wanted: WantedTrigger, now: datetime, *, declared: bool = False
) -> Standing:
    """A trigger that counts from now on."""
    trigger = Trigger(
        id=new_id(),
        workflow_id=workflow_id,
        workflow=workflow,
        name=wanted.name,
        kind=wanted.kind,
        config=wanted.config,
        enabled=wanted.enabled,
        declared=declared,
        revision=1,
        anchor=now,
        cursor=now,
        look_at=now if wanted.kind == "schedule" else None,
        created_at=now,
        updated_at=now,
        awaits=wanted.awaits,
    )
    return Standing(trigger, wanted.timing, wanted.states, wanted.enabled if declared else None)


def declared_again(standing: Standing, wanted: WantedTrigger, now: datetime) -> Standing:
    """The same trigger as a document wants it; an equal one where nothing changes."""
    trigger = standing.trigger
    enabled = trigger.enabled if standing.said is wanted.enabled else wanted.enabled
    retimed = (trigger.kind, standing.timing) != (wanted.kind, wanted.timing)
    changed = (
        retimed
        or enabled is not trigger.enabled
        or (trigger.awaits, standing.states) != (wanted.awaits, wanted.states)
        or dump(trigger.config) != dump(wanted.config)  # as values, true is 1
    )
    if changed:
        trigger = replace(
            trigger,
            kind=wanted.kind,
            config=wanted.config,
            enabled=enabled,
            awaits=wanted.awaits,
            revision=trigger.revision + 1,
            anchor=now if retimed else trigger.anchor,
            cursor=now if retimed or enabled > trigger.enabled else trigger.cursor,
            look_at=now if wanted.kind == "schedule" else None,
            updated_at=now,
        )
    return Standing(replace(trigger, declared=True), wanted.timing, wanted.states, wanted.enabled)


def switched(standing: Standing, enabled: bool, now: datetime) -> Standing:
    """The same trigger on or off, as a person wants it; the very same one where it stands like that."""
    trigger = standing.trigger
    if trigger.enabled is enabled:
        return standing
    trigger = replace(trigger, enabled=enabled, revision=trigger.revision + 1, updated_at=now)
    if enabled:
        trigger = replace(trigger, cursor=now, look_at=now if trigger.kind == "schedule" else None)
    return replace(standing, trigger=trigger)


def attempt_of(slot: str) -> int:
    """The attempt whose end this slot is: ``execution:attempt``."""
    return int(slot.rpartition(":")[2])


def refuses(fire: Fire, *, enabled: bool, revision: int, cursor: datetime) -> bool:
    """Whether a trigger that stands like this is not any more what ``fire`` was prepared for."""
    if fire.revision is None:
        return False
    return not enabled or revision != fire.revision or (fire.cursor is not None and cursor >= fire.cursor)


def firing_of(fire: Fire, at: datetime, *, overlaps: bool) -> Firing:
    """How a slot is dealt with. ``overlaps``: an execution of the trigger is unfinished."""
    firing = Firing(
        fire.trigger_id,
        fire.slot,
        fire.outcome,
        at,
        scheduled_at=fire.scheduled_at,
        reason=fire.reason,
        error=fire.error,
        passed=fire.passed,
        since=fire.since,
    )
    if fire.request is None:
        return firing
    if fire.alone and overlaps:
        return replace(firing, outcome="skipped", reason="overlap")
    return replace(firing, outcome="fired", execution_id=fire.request.id)
