"""Triggers of the memory store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from flo.engine.errors import NotFound
from flo.engine.stores.memory_copies import copied_firing, copied_trigger, copied_wanted
from flo.engine.stores.memory_enqueue import enqueue
from flo.engine.stores.memory_ledger import KeptFiring, Ledger
from flo.engine.stores.memory_standing import keep, of_workflow, remove
from flo.engine.stores.memory_wakeups import MemoryWakeups
from flo.engine.stores.memory_workflows import MemoryWorkflows
from flo.engine.stores.queueing import Wakeups
from flo.engine.stores.standing import SCHEDULERS, Standing, attempt_of, firing_of, new_standing, refuses, switched
from flo.engine.triggers import Due, EndSeen, Fire, Firing, Trigger, TriggerExists, WantedTrigger


class MemoryTriggers:
    """The ``TriggerStore`` of the memory store."""

    def __init__(self, ledger: Ledger, workflows: MemoryWorkflows) -> None:
        self._ledger, self._workflows = ledger, workflows

    def list(self, *, workflow: str | None = None) -> Sequence[Trigger]:
        with self._ledger.transaction():
            found = [self._given(standing) for standing in self._ledger.triggers.values()]
        found.sort(key=lambda trigger: (trigger.workflow, trigger.name))
        return [trigger for trigger in found if workflow is None or trigger.workflow == workflow]

    def get(self, trigger_id: str) -> Trigger | None:
        with self._ledger.transaction():
            standing = self._ledger.triggers.get(trigger_id)
            return None if standing is None else self._given(standing)

    def add(self, workflow_id: str, wanted: WantedTrigger) -> Trigger:
        ledger = self._ledger
        with ledger.transaction():
            workflow = self._workflows.name_of(workflow_id)
            if workflow is None:
                raise NotFound("workflow", workflow_id)
            standing = new_standing(workflow_id, workflow, copied_wanted(wanted), ledger.now())
            if wanted.name in of_workflow(ledger, workflow_id):
                raise TriggerExists(standing.trigger.full_name)
            keep(ledger, standing)
            return self._given(standing)

    def enable(self, trigger_id: str, enabled: bool) -> Trigger:
        ledger = self._ledger
        with ledger.transaction():
            standing = self._find(trigger_id)
            afterwards = switched(standing, enabled, ledger.now())
            if afterwards is not standing:
                keep(ledger, afterwards)
            return self._given(afterwards)

    def remove(self, trigger_id: str) -> None:
        with self._ledger.transaction():
            self._find(trigger_id)
            remove(self._ledger, trigger_id)

    def due(self, limit: int, *, apart: Collection[str] = ()) -> Due:
        ledger = self._ledger
        with ledger.transaction():
            now = ledger.now()
            looked_at = [
                (one.trigger.look_at, one.trigger.id, one)
                for one in ledger.triggers.values()
                if one.trigger.kind == "schedule" and one.trigger.enabled and one.trigger.look_at is not None
                if one.trigger.id not in apart
            ]
            come = sorted(entry for entry in looked_at if entry[0] <= now)
            ends = [self._end_seen(kept) for kept in _by_number(ledger, "due") if kept.firing.trigger_id not in apart]
            look_at = min((at for at, *_ in looked_at if at > now), default=None)
            if max(len(come), len(ends)) > limit:
                look_at = now
            return Due(now, [self._given(one) for *_, one in come[:limit]], ends[:limit], look_at)

    def look_at(self, trigger_id: str, revision: int, cursor: datetime, look_at: datetime | None) -> bool:
        ledger = self._ledger
        with ledger.transaction():
            standing = ledger.triggers.get(trigger_id)
            if standing is None or (standing.trigger.revision, standing.trigger.cursor) != (revision, cursor):
                return False
            self._move(standing, cursor, look_at)
            return True

    def fire(self, fire: Fire) -> Firing | None:
        ledger = self._ledger
        with ledger.transaction():
            standing, known = ledger.triggers.get(fire.trigger_id), (fire.trigger_id, fire.slot)
            seen = ledger.firings.get(known)
            if standing is None:
                return None
            trigger = standing.trigger
            if refuses(fire, enabled=trigger.enabled, revision=trigger.revision, cursor=trigger.cursor):
                return None
            if fire.of_end and (seen is None or seen.firing.outcome != "due"):
                return None
            if seen is not None and not fire.of_end:
                self._move_on(standing, fire)
                return None
            firing = copied_firing(firing_of(fire, ledger.now(), overlaps=self._is_unfinished(fire.trigger_id)))
            if fire.request is not None and firing.execution_id is not None:
                (enqueued,) = enqueue(ledger, [replace(fire.request, trigger_id=fire.trigger_id)])
                firing = replace(firing, execution_id=enqueued.execution_id)
            subject, state = (None, None) if seen is None else (seen.subject, seen.state)
            ledger.put(ledger.firings, known, KeptFiring(firing, next(ledger.numbers), subject, state))
            self._move_on(standing, fire)
            return copied_firing(firing)

    def firings(self, trigger_id: str, *, limit: int = 50) -> Sequence[Firing]:
        with self._ledger.transaction():
            found = [kept.firing for kept in _by_number(self._ledger) if kept.firing.trigger_id == trigger_id]
            return [copied_firing(firing) for firing in found[: -limit - 1 : -1]]

    def last_firings(self) -> Mapping[str, Firing]:
        with self._ledger.transaction():
            last = {kept.firing.trigger_id: kept.firing for kept in _by_number(self._ledger)}
            return {name: copied_firing(firing) for name, firing in last.items() if name in self._ledger.triggers}

    def prune(self, before: datetime, *, keep: int, limit: int = 1000) -> int:
        ledger = self._ledger
        with ledger.transaction():
            newer: dict[str, int] = {}
            past = []
            for kept in reversed(_by_number(ledger)):
                firing = kept.firing
                newer[firing.trigger_id] = newer.get(firing.trigger_id, 0) + 1
                is_beyond = newer[firing.trigger_id] > keep and firing.trigger_id in ledger.triggers
                if firing.outcome != "due" and (firing.at < before or is_beyond):
                    past.append((firing.trigger_id, firing.slot))
            oldest = past[::-1][:limit]
            for known in oldest:
                ledger.drop(ledger.firings, known)
            return len(oldest)

    def wakeups(self) -> Wakeups:
        return MemoryWakeups(self._ledger.bell, [SCHEDULERS])

    def _find(self, trigger_id: str) -> Standing:
        standing = self._ledger.triggers.get(trigger_id)
        if standing is None:
            raise NotFound("trigger", trigger_id)
        return standing

    def _given(self, standing: Standing) -> Trigger:
        """A copy, under the name that the workflow has now."""
        name = self._workflows.name_of(standing.trigger.workflow_id)
        return replace(copied_trigger(standing.trigger), workflow=name or standing.trigger.workflow)

    def _end_seen(self, kept: KeptFiring) -> EndSeen:
        firing = kept.firing
        assert kept.subject is not None
        assert kept.state is not None
        trigger, attempt = self._given(self._ledger.triggers[firing.trigger_id]), attempt_of(firing.slot)
        return EndSeen(trigger, firing.slot, kept.subject, attempt, kept.state, firing.at)

    def _move_on(self, standing: Standing, fire: Fire) -> None:
        if fire.cursor is not None:
            self._move(standing, fire.cursor, fire.look_at)

    def _move(self, standing: Standing, cursor: datetime, look_at: datetime | None) -> None:
        moved = replace(standing.trigger, cursor=cursor, look_at=look_at)
        self._ledger.put(self._ledger.triggers, moved.id, replace(standing, trigger=moved))

    def _is_unfinished(self, trigger_id: str) -> bool:
        queues = self._ledger.unfinished.values()
        return any(kept.row.trigger_id == trigger_id for of_queue in queues for kept in of_queue.values())


def _by_number(ledger: Ledger, outcome: str | None = None) -> Sequence[KeptFiring]:
    """What became of slots, in the order in which it was written."""
    found = [kept for kept in ledger.firings.values() if outcome is None or kept.firing.outcome == outcome]
    return sorted(found, key=lambda kept: kept.number)
