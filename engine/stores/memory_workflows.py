"""Workflows of the memory store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from flo.engine.errors import InputInvalid
from flo.engine.stores.base import StoredWorkflow
from flo.engine.stores.memory_ledger import Ledger
from flo.engine.stores.memory_standing import bring_in_step, move
from flo.engine.triggers import WantedTrigger
from flo.engine.values import new_id


class MemoryWorkflows:
    """The ``WorkflowStore`` of the memory store."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._versions: dict[str, Sequence[StoredWorkflow]] = {}
        """By id, oldest version first. The name that counts is the newest one's."""

    def save(
        self,
        name: str,
        document: str,
        *,
        pinned_id: str | None = None,
        triggers: Sequence[WantedTrigger] | None = None,
    ) -> StoredWorkflow:
        digest = hashlib.sha256(document.encode()).hexdigest()
        ledger = self._ledger
        with ledger.transaction():
            if pinned_id is not None:
                self._rename(name, pinned_id)
            versions = self._find(name) or ()
            identity = versions[-1].id if versions else pinned_id or new_id()
            if triggers is not None:
                bring_in_step(ledger, identity, name, triggers)
            if versions and versions[-1].digest == digest:
                return versions[-1]
            stored = StoredWorkflow(identity, name, len(versions) + 1, digest, document, ledger.now())
            ledger.put(self._versions, identity, (*versions, stored))
            return stored

    def get(self, name: str, version: int | None = None) -> StoredWorkflow | None:
        with self._ledger.transaction():
            versions = self._find(name) or self._versions.get(name, ())
            if version is None:
                return versions[-1] if versions else None
            return versions[version - 1] if 1 <= version <= len(versions) else None

    def list(self) -> Sequence[StoredWorkflow]:
        with self._ledger.transaction():
            return sorted((versions[-1] for versions in self._versions.values()), key=lambda stored: stored.name)

    def name_of(self, workflow_id: str) -> str | None:
        """The name of the workflow that has this id."""
        versions = self._versions.get(workflow_id)
        return versions[-1].name if versions else None

    def _find(self, name: str) -> Sequence[StoredWorkflow] | None:
        return next((found for found in self._versions.values() if found[-1].name == name), None)

    def _rename(self, name: str, pinned_id: str) -> None:
        """Give the workflow of ``pinned_id`` its new name, or the workflow of that name this id, where it had none."""
        ledger, holder, pinned = self._ledger, self._find(name), self._versions.get(pinned_id)
        if holder is not None and holder is pinned:
            return
        if pinned is not None and holder is not None:
            raise InputInvalid(
                f"workflow {name!r}",
                f"its id {pinned_id!r} belongs to {pinned[-1].name!r}, and another workflow has this name;"
                " change the id or the name",
            )
        if pinned is not None:
            ledger.put(self._versions, pinned_id, [replace(stored, name=name) for stored in pinned])
            move(ledger, pinned_id, pinned_id)
        elif holder is not None:
            before = holder[-1].id
            ledger.drop(self._versions, before)
            ledger.put(self._versions, pinned_id, [replace(stored, id=pinned_id) for stored in holder])
            move(ledger, before, pinned_id)
