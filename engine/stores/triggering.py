"""What every store promises about triggers. ``tests/stores`` holds each adapter to it.

A trigger is changed under a lock on its row, so what is done to it in one process holds in all of them from then on: a
fire that was prepared before a change is refused. Every instant here is of the store's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from flo.engine.stores.queueing import Wakeups
from flo.engine.triggers import Due, Fire, Firing, Trigger, WantedTrigger


class TriggerStore(Protocol):
    """Triggers, and what became of their slots.

    The triggers that a document declares are kept in step by ``WorkflowStore.save``.
    """

    def list(self, *, workflow: str | None = None) -> Sequence[Trigger]:
        """Every trigger, or those of the workflow of that name, by the workflow's name and their own."""

    def get(self, trigger_id: str) -> Trigger | None:
        """Read one trigger, by its whole id."""

    def add(self, workflow_id: str, wanted: WantedTrigger) -> Trigger:
        """Add a trigger that no document declares; it counts from now, which is its ``anchor`` and ``cursor``, and a
        schedule's ``look_at``. Raises ``TriggerExists``, ``NotFound`` for the workflow."""

    def enable(self, trigger_id: str, enabled: bool) -> Trigger:
        """Switch a trigger on or off. One that was off counts from now on: ``cursor`` and a schedule's ``look_at`` are
        now. Nothing changes where it stands like that already. Raises ``NotFound``."""

    def remove(self, trigger_id: str) -> None:
        """Remove a trigger, and the ends that are due for it; what it fired stays, and what became of its slots. Raises
        ``NotFound``."""

    def due(self, limit: int, *, apart: Collection[str] = ()) -> Due:
        """Up to ``limit`` schedules that are on and whose ``look_at`` has come, the earliest first, and up to ``limit``
        ends that are due, the oldest first. What is of the triggers ``apart``, by their ids, is left out of all of it,
        so that it is in nobody's way. Only reads."""

    def look_at(self, trigger_id: str, revision: int, cursor: datetime, look_at: datetime | None) -> bool:
        """Set when a schedule has to be looked at next. False, and nothing done, where its revision or its cursor are
        not these any more, or somebody else is at it at this moment."""

    def fire(self, fire: Fire) -> Firing | None:
        """Deal with one slot, in one transaction: record it, enqueue its request, move the trigger's cursor.

        None, and nothing is written, where the trigger is gone, where ``fire.of_end`` and the end is not ``due`` any
        more, and, unless ``fire.revision`` is None: where the trigger is off, its revision is another one, its cursor
        is at ``fire.cursor`` or past it, or somebody else is at it at this moment (a fire does not wait for one that
        hangs). None also where the slot is recorded already; then the cursor alone is moved. So of any number of
        concurrent calls for one slot exactly one enqueues. Raises what ``enqueue`` does.
        """

    def firings(self, trigger_id: str, *, limit: int = 50) -> Sequence[Firing]:
        """What became of the slots of a trigger, what was written last first."""

    def last_firings(self) -> Mapping[str, Firing]:
        """The newest of each trigger that has one, by the trigger's id."""

    def prune(self, before: datetime, *, keep: int, limit: int = 1000) -> int:
        """Remove up to ``limit`` firings that were written before ``before``, or are not among the newest ``keep`` of
        their trigger; gives how many. What is ``due`` stays."""

    def wakeups(self) -> Wakeups:
        """Listen for what a scheduler has to look at by the act of somebody: a trigger that was added, changed or
        switched, an end that was seen. What comes due by time alone is told by ``Due.look_at``."""
