"""What people do with triggers: look at them, add, switch, fire and remove them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from flo.engine.checking.load import load
from flo.engine.checking.triggers import usual_name
from flo.engine.errors import FloError, InputInvalid, NotFound
from flo.engine.events import Bus, TriggerFired
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.reading import parse_json
from flo.engine.requests import Requests
from flo.engine.schedule.firing import Firer
from flo.engine.schedule.schedules import read_schedule
from flo.engine.stores.store import Store
from flo.engine.triggers import Fire, Firing, Trigger
from flo.engine.values import JsonObject, new_id, plain


@frozen
class Triggers:
    """The triggers of one store. A trigger is named by its id, by ``workflow/name``, by its name or by its workflow's,
    where only one is meant."""

    store: Store
    requests: Requests
    firer: Firer
    bus: Bus

    def list(self, workflow: str | None = None) -> Sequence[Trigger]:
        """Every trigger, or those of one workflow."""
        return self.store.triggers.list(workflow=workflow)

    def find(self, name: str) -> Trigger:
        """One trigger. Raises ``NotFound`` that names the nearest, ``InputInvalid`` where several are meant."""
        triggers = self.store.triggers.list()
        exact = [one for one in triggers if name in (one.id, one.full_name)]
        found = exact or [one for one in triggers if name in (one.name, one.workflow)]
        if len(found) > 1:
            names = ", ".join(repr(one.full_name) for one in found)
            raise InputInvalid(f"trigger {name!r}", f"several are meant, name one of {names}")
        if not found:
            known = [known for one in triggers for known in (one.full_name, one.name, one.workflow)]
            raise NotFound("trigger", name, known)
        return found[0]

    def add(self, workflow: str, trigger: Mapping[str, object]) -> Trigger:
        """Add a trigger to a stored workflow, written as in ``triggers`` of a document. It stays when the workflow is
        stored anew. Raises ``NotFound``, ``WorkflowInvalid`` where it means nothing, ``TriggerExists``."""
        stored = self.requests.stored(workflow)
        document = parse_json(stored.document, f"workflow {stored.name!r}")
        assert isinstance(document, Mapping), "what is stored was checked"
        alone = plain({**document, "triggers": [trigger]})
        assert isinstance(alone, dict)
        (wanted,) = load(alone, self.requests.registry, f"the trigger for {stored.name!r}").workflow.triggers
        if not trigger.get("name"):
            taken = {one.name for one in self.list(stored.name)}
            wanted = replace(wanted, name=usual_name(wanted.kind, taken))
        return self.store.triggers.add(stored.id, wanted)

    def enable(self, name: str) -> Trigger:
        """Switch a trigger on: it counts from now."""
        return self.store.triggers.enable(self.find(name).id, True)

    def disable(self, name: str) -> Trigger:
        """Switch a trigger off, for every scheduler from this moment on."""
        return self.store.triggers.enable(self.find(name).id, False)

    def remove(self, name: str) -> Trigger:
        """Remove a trigger that a person added; gives it as it was. Raises ``InputInvalid`` for one that the workflow's
        document declares: it would come back with the next ``add``."""
        found = self.find(name)
        if found.declared:
            raise InputInvalid(
                f"trigger {found.full_name!r}",
                "the workflow's document declares it; take it out there and store the workflow again, or disable it",
            )
        self.store.triggers.remove(found.id)
        return found

    def fire(self, name: str, initial: JsonObject | None = None) -> Firing:
        """Fire a trigger now, whatever its schedule, its overlap and its switch say. ``initial`` is merged over its
        ``initialData``. Raises ``FloError`` where its workflow, its data or ``initial`` do not fit."""
        trigger = self.find(name)
        slot = new_id()
        added = {"scheduledAt": write_instant(self.store.data.now())} if trigger.kind == "schedule" else {}
        request = replace(self.firer.request(trigger, added, given=initial), trigger="manual")
        firing = self.store.triggers.fire(Fire(trigger.id, None, f"manual {slot}", request))
        if firing is None:
            raise NotFound("trigger", name)
        self.bus.announce(TriggerFired(trigger, firing))
        return firing

    def coming(self, trigger: Trigger, *, start: datetime | None = None, count: int = 1) -> Sequence[datetime]:
        """The next slots of a schedule after ``start`` (now), without jitter, whether it is on or off. Raises
        ``FloError`` for a trigger of another type."""
        if trigger.kind != "schedule":
            raise FloError(f"trigger {trigger.full_name!r} is of type {trigger.kind!r}: it has no times to come")
        after = max(self.store.data.now(), trigger.cursor) if start is None else start
        return list(islice(read_schedule(trigger.config).slots(after, trigger.anchor), count))

    def firings(self, name: str, *, limit: int = 50) -> Sequence[Firing]:
        """What became of a trigger's slots, the newest first: fired, skipped with the reason, failed."""
        return self.store.triggers.firings(self.find(name).id, limit=limit)

    def last_firings(self) -> Mapping[str, Firing]:
        """The newest of each trigger, by its id."""
        return self.store.triggers.last_firings()
