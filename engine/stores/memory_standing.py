"""How the triggers of the memory store are kept in step with documents, and leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flo.engine.stores.memory_copies import copied_wanted
from flo.engine.stores.memory_ledger import Ledger
from flo.engine.stores.standing import SCHEDULERS, Standing, declared_again, new_standing
from flo.engine.triggers import WantedTrigger


def bring_in_step(ledger: Ledger, workflow_id: str, workflow: str, wanted: Sequence[WantedTrigger]) -> None:
    """Let the triggers of a workflow be as its document declares them."""
    now = ledger.now()
    standing = of_workflow(ledger, workflow_id)
    names = {one.name for one in wanted}
    for name, found in standing.items():
        if found.said is not None and name not in names:
            remove(ledger, found.trigger.id)
    for one in map(copied_wanted, wanted):
        before = standing.get(one.name)
        if before is None:
            keep(ledger, new_standing(workflow_id, workflow, one, now, declared=True))
        elif (afterwards := declared_again(before, one, now)) != before:
            keep(ledger, afterwards)


def of_workflow(ledger: Ledger, workflow_id: str) -> dict[str, Standing]:
    """The triggers of a workflow, by their names."""
    return {one.trigger.name: one for one in ledger.triggers.values() if one.trigger.workflow_id == workflow_id}


def move(ledger: Ledger, workflow_id: str, to: str) -> None:
    """Let the triggers of a workflow that has a new name, or the new id ``to``, follow it: what was prepared for the
    workflow under its old name is refused."""
    now = ledger.now()
    for standing in of_workflow(ledger, workflow_id).values():
        trigger = standing.trigger
        moved = replace(trigger, workflow_id=to, revision=trigger.revision + 1, updated_at=now)
        ledger.put(ledger.triggers, moved.id, replace(standing, trigger=moved))


def keep(ledger: Ledger, standing: Standing) -> None:
    """Keep a trigger, a new one or what became of it, and tell schedulers."""
    ledger.put(ledger.triggers, standing.trigger.id, standing)
    ledger.tell(SCHEDULERS)


def remove(ledger: Ledger, trigger_id: str) -> None:
    """Remove a trigger; what it fired stays, and what became of its slots."""
    ledger.drop(ledger.triggers, trigger_id)
    for key, kept in list(ledger.firings.items()):
        if key[0] == trigger_id and kept.firing.outcome == "due":
            ledger.drop(ledger.firings, key)
    ledger.tell(SCHEDULERS)
