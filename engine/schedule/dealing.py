"""What a scheduler does with one trigger that is due: slots of a schedule, ends that an event trigger waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from flo.engine.errors import FloError, NotFound, StoreError, WorkflowInvalid
from flo.engine.events import Bus, TriggerFired
from flo.engine.instants import write_instant
from flo.engine.jobs import Request
from flo.engine.schedule.firing import Firer, as_error
from flo.engine.schedule.judging import Passed, judge
from flo.engine.schedule.leaving import HANDOVER, Leaving
from flo.engine.schedule.schedules import Schedule, read_schedule
from flo.engine.stores.store import Store
from flo.engine.triggers import EVENT, EndSeen, Fire, Trigger
from flo.engine.values import JsonObject

log = logging.getLogger("flo.scheduler")

AT_ONCE: Final = 10
"""So many slots of one trigger are fired before it is the turn of the others."""

_BUG: Final[JsonObject] = {"code": "bug", "message": "this scheduler cannot deal with it; its log says why"}


class LeftToOthers(Exception):
    """This process cannot load the workflow; another scheduler may be able to."""


class Dealer:
    """Deals with triggers of one store for one scheduler. ``stop``: nothing more is fired. Each method says whether it
    did anything, and raises ``StoreError`` where the store is away."""

    def __init__(self, store: Store, firer: Firer, bus: Bus, leaving: Leaving) -> None:
        self.stop = threading.Event()
        self._store, self._firer, self._bus, self._leaving = store, firer, bus, leaving

    def schedule(self, trigger: Trigger, now: datetime) -> bool:
        """Fire the first slots of a schedule that have come due, and say when to look at it next. Raises
        ``LeftToOthers``."""
        schedule = read_schedule(trigger.config)
        judgement = judge(schedule, trigger, now)
        passed, cursor, patient = judgement.passed, trigger.cursor, self._leaving.is_patient(trigger, now)
        if passed is not None:
            if not self._pass_over(trigger, passed, now if judgement.fire else judgement.look_at):
                return False
            cursor = passed.last
        for slot in judgement.fire[:AT_ONCE]:
            if self.stop.is_set():
                return True
            look_at = judgement.look_at if slot is judgement.fire[-1] else now
            try:
                ours = self._fire_slot(trigger, schedule, slot, look_at, patient=patient)
            except LeftToOthers:
                self._leaving.leave(trigger, now, cursor)
                raise
            if not ours:
                return False  # another scheduler was first, or it was changed: it is looked at again as it is now
            cursor = slot
        if passed is not None or judgement.fire:
            return True
        return self._store.triggers.look_at(trigger.id, trigger.revision, cursor, judgement.look_at)

    def end(self, end: EndSeen, now: datetime) -> bool:
        """Fire an event trigger for an execution that has ended. Raises ``LeftToOthers``."""
        trigger = end.trigger
        fire = Fire(trigger.id, trigger.revision, end.slot, of_end=True)
        if not trigger.enabled or trigger.kind != "event":
            return self._fire(trigger, replace(fire, revision=None, outcome="skipped", reason="disabled"))
        execution = self._store.executions.get(end.execution_id)
        if execution is None:
            gone = as_error(NotFound("execution", end.execution_id))
            return self._fire(trigger, replace(fire, outcome="failed", error=gone))
        is_over = execution.attempt == end.attempt  # else it was resumed, and what it gives is of another end
        event: JsonObject = {
            "on": EVENT,
            "executionId": execution.id,
            "workflow": execution.workflow,
            "status": end.state.value,
            "output": self._firer.opened(execution) if is_over else None,
            "error": execution.error if is_over else None,
        }
        try:
            request, error = self._request(
                lambda: self._firer.request(trigger, {"event": event}, depth=execution.depth),
                trigger,
                patient=now - end.at < HANDOVER,
            )
        except LeftToOthers:
            self._leaving.leave(trigger, now, trigger.cursor)
            raise
        return self._fire(trigger, replace(fire, request=request, outcome="failed" if error else "fired", error=error))

    def put_off(self, trigger: Trigger, now: datetime) -> bool:
        """Let nobody look at a schedule for a while that cannot be made sense of: it is in the way of others."""
        return self._store.triggers.look_at(trigger.id, trigger.revision, trigger.cursor, now + HANDOVER)

    def give_up(self, end: EndSeen) -> bool:
        """Record that an end could not be dealt with."""
        fire = Fire(end.trigger.id, None, end.slot, outcome="failed", error=_BUG, of_end=True)
        return self._fire(end.trigger, fire)

    def _pass_over(self, trigger: Trigger, passed: Passed, look_at: datetime | None) -> bool:
        return self._fire(
            trigger,
            Fire(
                trigger.id,
                trigger.revision,
                write_instant(passed.last),
                outcome="skipped",
                reason="misfire",
                scheduled_at=passed.last,
                passed=passed.count,
                since=passed.first,
                cursor=passed.last,
                look_at=look_at,
            ),
        )

    def _fire_slot(
        self, trigger: Trigger, schedule: Schedule, slot: datetime, look_at: datetime | None, *, patient: bool
    ) -> bool:
        request, error = self._request(
            lambda: self._firer.request(trigger, {"scheduledAt": write_instant(slot)}, overlap=schedule.overlap),
            trigger,
            patient=patient,
        )
        return self._fire(
            trigger,
            Fire(
                trigger.id,
                trigger.revision,
                write_instant(slot),
                request,
                alone=schedule.overlap == "skip",
                outcome="failed" if error else "fired",
                scheduled_at=slot,
                error=error,
                cursor=slot,
                look_at=look_at,
            ),
        )

    def _request(
        self, make: Callable[[], Request], trigger: Trigger, *, patient: bool
    ) -> tuple[Request | None, JsonObject | None]:
        """A request, or why there is none. While it is ``patient``, what only this process may lack is left to
        others."""
        try:
            return make(), None
        except StoreError:
            raise
        except WorkflowInvalid as invalid:
            if patient:
                raise LeftToOthers(str(invalid)) from invalid
            return None, as_error(invalid)
        except FloError as failed:
            return None, as_error(failed)
        except Exception:
            log.exception("the request of trigger %r cannot be made", trigger.full_name)
            return None, _BUG

    def _fire(self, trigger: Trigger, fire: Fire) -> bool:
        """Let the store deal with a slot, and announce what became of it; whether it was this scheduler's."""
        try:
            firing = self._store.triggers.fire(fire)
        except StoreError:
            raise
        except FloError as refused:  # the store does not take the request: another try would end likewise
            failed = replace(fire, request=None, alone=False, outcome="failed", error=as_error(refused))
            firing = self._store.triggers.fire(failed)
        if firing is None:
            return False
        if firing.outcome == "fired":
            self._leaving.fired(trigger)
        elif fire.cursor is not None:
            self._leaving.moved(trigger, fire.cursor)
        self._bus.announce(TriggerFired(trigger, firing))
        return True
