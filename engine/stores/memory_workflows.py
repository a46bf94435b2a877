"""Workflows of the memory store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace

from flo.engine.clock import Clock
from flo.engine.errors import InputInvalid
from flo.engine.stores.base import StoredWorkflow
from flo.engine.values import new_id


class MemoryWorkflows:
    """The ``WorkflowStore`` of the memory store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._versions: dict[str, list[StoredWorkflow]] = {}
        """By id, oldest version first. The name that counts is the newest one's."""

    def save(self, name: str, document: str, *, pinned_id: str | None = None) -> StoredWorkflow:
        digest = hashlib.sha256(document.encode()).hexdigest()
        with self._lock:
            if pinned_id is not None:
                self._rename(name, pinned_id)
            versions = self._find(name) or self._versions.setdefault(pinned_id or new_id(), [])
            if versions and versions[-1].digest == digest:
                return versions[-1]
            identity = next(held for held, found in self._versions.items() if found is versions)
            stored = StoredWorkflow(identity, name, len(versions) + 1, digest, document, self._clock.now())
            versions.append(stored)
            return stored

    def get(self, name: str, version: int | None = None) -> StoredWorkflow | None:
        with self._lock:
            versions = self._find(name) or self._versions.get(name, [])
            if version is None:
                return versions[-1] if versions else None
            return versions[version - 1] if 1 <= version <= len(versions) else None

    def list(self) -> Sequence[StoredWorkflow]:
        with self._lock:
            return sorted((versions[-1] for versions in self._versions.values()), key=lambda stored: stored.name)

    def _find(self, name: str) -> list[StoredWorkflow] | None:  # type: ignore[valid-type]  # the builtin, not the method
        return next((found for found in self._versions.values() if found and found[-1].name == name), None)

    def _rename(self, name: str, pinned_id: str) -> None:
        """Give the workflow of ``pinned_id`` its new name, or the workflow of that name this id, where it had none."""
        holder, pinned = self._find(name), self._versions.get(pinned_id)
        if holder is not None and holder is pinned:
            return
        if pinned is not None and holder is not None:
            raise InputInvalid(
                f"workflow {name!r}",
                f"its id {pinned_id!r} belongs to {pinned[-1].name!r}, and another workflow has this name;"
                " change the id or the name",
            )
        if pinned is not None:
            self._versions[pinned_id] = [replace(stored, name=name) for stored in pinned]
        elif holder is not None:
            del self._versions[holder[-1].id]
            self._versions[pinned_id] = [replace(stored, id=pinned_id) for stored in holder]
