"""Workflows and executions of the memory store."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from flo.engine.clock import Clock
from flo.engine.errors import InputInvalid, NotFound, StoreError
from flo.engine.executions import MOVES, Execution, ExecutionState, IllegalMove, LogLine, StepRecord
from flo.engine.stores.base import StoredWorkflow
from flo.engine.values import Json, JsonObject, dump, new_id, storable


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


class MemoryExecutions:
    """The ``ExecutionStore`` of the memory store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._executions: dict[str, Execution] = {}
        self._steps: dict[str, dict[str, StepRecord]] = {}
        self._iterations: dict[tuple[str, str], dict[int, str]] = {}
        """By execution and the loop's path: the path of each iteration."""
        self._lines: dict[str, list[LogLine]] = {}

    def create(self, execution: Execution) -> None:
        with self._lock:
            if execution.id in self._executions:
                raise StoreError(f"execution {execution.id} is stored already")
            self._executions[execution.id] = _copied(execution)

    def move(
        self, execution_id: str, to: ExecutionState, *, output: Json = None, error: JsonObject | None = None
    ) -> None:
        with self._lock:
            held = self._executions.get(execution_id)
            if held is None:
                raise NotFound("execution", execution_id)
            if to not in MOVES[held.state]:
                raise IllegalMove(execution_id, held.state, to)
            now = self._clock.now()
            started_at = held.started_at or (now if to is ExecutionState.RUNNING else None)
            finished_at = now if to.final else held.finished_at
            self._executions[execution_id] = replace(
                held,
                state=to,
                output=_copy(output),
                error=cast(JsonObject | None, _copy(error)),
                started_at=started_at,
                finished_at=finished_at,
            )

    def record(self, steps: Sequence[StepRecord], lines: Sequence[LogLine]) -> None:
        records = [_copied_step(step) for step in steps]
        copies = [replace(line, message=storable(line.message), data=_copy(line.data)) for line in lines]
        with self._lock:
            for line in copies:
                if line.execution_id not in self._executions:
                    raise NotFound("execution", line.execution_id)
            for step in records:
                self._steps.setdefault(step.execution_id, {})[step.path] = step
                if step.loop is not None and step.index is not None:
                    self._iterations.setdefault((step.execution_id, step.loop), {})[step.index] = step.path
            for line in copies:
                written = self._lines.setdefault(line.execution_id, [])
                written.append(replace(line, number=len(written) + 1))

    def get(self, execution_id: str) -> Execution | None:
        with self._lock:
            found = self._executions.get(execution_id)
            if found is None and execution_id:
                near = [held for held in self._executions.values() if held.id.startswith(execution_id)]
                found = near[0] if len(near) == 1 else None
            return None if found is None else _copied(found)

    def list(
        self, *, state: ExecutionState | None = None, workflow: str | None = None, limit: int = 50
    ) -> Sequence[Execution]:
        with self._lock:
            found = [
                held
                for held in self._executions.values()
                if (state is None or held.state is state) and (workflow is None or held.workflow == workflow)
            ]
        found.sort(key=lambda held: (held.created_at, held.id), reverse=True)
        return [_copied(held) for held in found[:limit]]

    def steps(self, execution_id: str) -> Sequence[StepRecord]:
        with self._lock:
            found = [*self._steps.get(execution_id, {}).values()]
        return [_copied_step(step) for step in found]

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        with self._lock:
            paths = self._iterations.get((execution_id, loop), {})
            records = self._steps.get(execution_id, {})
            wanted = range(start, start + limit) if limit < len(paths) else sorted(paths)
            found = [records[paths[index]] for index in wanted if index in paths and start <= index < start + limit]
        return [_copied_step(step) for step in found]

    def lines(self, execution_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        with self._lock:
            found = self._lines.get(execution_id, [])[max(after, 0) :][:limit]
        return [replace(line, data=_copy(line.data)) for line in found]


def _copied(execution: Execution) -> Execution:
    """A copy that shares nothing which could be changed."""
    return replace(
        execution,
        input=cast(JsonObject, _copy(execution.input)),
        output=_copy(execution.output),
        error=cast(JsonObject | None, _copy(execution.error)),
    )


def _copied_step(step: StepRecord) -> StepRecord:
    return replace(
        step,
        path=storable(step.path),
        output=_copy(step.output),
        error=cast(JsonObject | None, _copy(step.error)),
    )


def _copy(value: Json) -> Json:
    return None if value is None else cast(Json, json.loads(storable(dump(value))))
