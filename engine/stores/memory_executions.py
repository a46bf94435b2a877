"""Executions of the memory store, as people look at them and act on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Final

from flo.engine.errors import InputInvalid, NotFound
from flo.engine.executions import RESUMABLE, Execution, ExecutionState, IllegalMove, LogLine, StepRecord, StepState
from flo.engine.jobs import Attempt, Enqueued, Request, Retention, Wait
from flo.engine.stores.memory_copies import (
    copied_attempt,
    copied_execution,
    copied_line,
    copied_object,
    copied_wait,
    given_step,
)
from flo.engine.stores.memory_endings import below, check_move, end, find, reopen, see_end, wake_root
from flo.engine.stores.memory_enqueue import enqueue, insert
from flo.engine.stores.memory_ledger import KeptSignal, Ledger
from flo.engine.stores.memory_retention import prune, purge_dead
from flo.engine.values import JsonObject

_CANCELLED: Final[JsonObject] = {"code": "cancelled", "message": "cancelled on request"}


class MemoryExecutions:
    """The ``ExecutionStore`` of the memory store."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def create(self, execution: Execution) -> None:
        running = execution.state is ExecutionState.RUNNING
        row = replace(
            execution,
            queue=execution.queue or None,
            run_at=execution.run_at or execution.created_at,
            root_id=execution.root_id or execution.id,
            lease_until=execution.due_at if running else None,
        )
        with self._ledger.transaction():
            insert(self._ledger, row)

    def get(self, execution_id: str) -> Execution | None:
        with self._ledger.transaction():
            found = self._ledger.kept.get(execution_id)
            if found is None and execution_id:
                near = [kept for name, kept in self._ledger.kept.items() if name.startswith(execution_id)]
                found = near[0] if len(near) == 1 else None
            return None if found is None else copied_execution(found.row)

    def list(
        self,
        *,
        state: ExecutionState | None = None,
        workflow: str | None = None,
        queue: str | None = None,
        parent: str | None = None,
        dead: bool = False,
        limit: int = 50,
    ) -> Sequence[Execution]:
        with_children = parent is None and (queue is not None or dead)

        def is_wanted(row: Execution) -> bool:
            return (
                (with_children or row.parent_id == parent)
                and (state is None or row.state is state)
                and (workflow is None or row.workflow == workflow)
                and (queue is None or row.queue == queue)
                and (not dead or (row.reason is not None and row.replayed_as is None))
            )

        with self._ledger.transaction():
            found = [kept.row for kept in self._ledger.kept.values() if is_wanted(kept.row)]
            found.sort(key=lambda row: (row.created_at, row.id), reverse=True)
            return [copied_execution(row) for row in found[:limit]]

    def steps(self, execution_id: str) -> Sequence[StepRecord]:
        return self._steps(execution_id, lambda step: True)

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            if kept is None:
                return []
            paths = kept.iterations.get(loop, {})
            wanted = range(start, start + limit) if limit < len(paths) else sorted(paths)
            found = [paths[index] for index in wanted if index in paths and start <= index < start + limit]
            return [given_step(kept.steps[path]) for path in found]

    def lines(self, execution_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            numbers = [] if kept is None else sorted(number for number in kept.lines if number > after)[:limit]
            return [copied_line(kept.lines[number]) for number in numbers if kept is not None]

    def attempts(self, execution_id: str) -> Sequence[Attempt]:
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            return [] if kept is None else [copied_attempt(attempt) for _, attempt in sorted(kept.attempts.items())]

    def waits(self, execution_id: str) -> Sequence[Wait]:
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            return [] if kept is None else [copied_wait(waiting.wait) for waiting in kept.waits.values()]

    def checkpoints(self, execution_id: str, prefix: str) -> Sequence[StepRecord]:
        inside = len(prefix)

        def is_wanted(step: StepRecord) -> bool:
            # a loop's iterations, and what is in them, have an index in brackets behind the loop's name
            return step.path.startswith(prefix) and step.index is None and "[" not in step.path[inside:]

        return self._steps(execution_id, is_wanted)

    def iteration_states(self, execution_id: str, loop: str) -> Mapping[int, StepState]:
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            if kept is None:
                return {}
            return {index: kept.steps[path].state for index, path in sorted(kept.iterations.get(loop, {}).items())}

    def begun(self, execution_id: str, loop: str) -> Set[int]:
        inside = f"{loop}["
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            paths = [] if kept is None else [path[len(inside) :] for path in kept.steps if path.startswith(inside)]
        return {int(index) for index, dot, _ in (path.partition("].") for path in paths) if dot and index.isdecimal()}

    def failures(self, execution_id: str, *, limit: int = 1000) -> Sequence[StepRecord]:
        return self._steps(execution_id, lambda step: step.state is StepState.FAILED and step.index is None)[:limit]

    def cancel(self, execution_id: str) -> Sequence[str]:
        ledger = self._ledger
        with ledger.transaction():
            kept, now = find(ledger, execution_id), ledger.now()
            check_move(kept.row, ExecutionState.CANCELLED)
            moved = [one for one in (kept, *below(ledger, kept)) if not one.row.state.final]
            for one in reversed(moved):  # parts before what they are a part of, whose end would end them
                end(ledger, one, ExecutionState.CANCELLED, now, error=_CANCELLED)
                if one is kept or not one.is_part:
                    see_end(ledger, one, now)
            return [one.row.id for one in moved]

    def resume(self, execution_id: str) -> Execution:
        ledger = self._ledger
        with ledger.transaction():
            kept = find(ledger, execution_id)
            row = kept.row
            if row.state not in RESUMABLE:
                raise IllegalMove(row.id, row.state, ExecutionState.PENDING)
            if kept.is_part:
                raise InputInvalid(
                    f"execution {row.id!r}",
                    f"is a part of execution {row.parent_id!r}, which resumes it; resume that one",
                )
            reopen(ledger, kept, ledger.now())
            return copied_execution(kept.row)

    def signal(self, execution_id: str, name: str, payload: JsonObject) -> None:
        ledger = self._ledger
        with ledger.transaction():
            kept = find(ledger, execution_id)
            if kept.row.state.final:
                raise IllegalMove(kept.row.id, kept.row.state, ExecutionState.RUNNING)
            ledger.put(kept.signals, len(kept.signals) + 1, KeptSignal(name, copied_object(payload)))
            waits = kept.waits.values()
            if any(one.wait.kind == "signal" and one.wait.name == name and not one.taken for one in waits):
                wake_root(ledger, kept, ledger.now())

    def decide(self, execution_id: str, path: str, decision: JsonObject) -> None:
        ledger = self._ledger
        with ledger.transaction():
            kept = find(ledger, execution_id)
            waiting = kept.waits.get(path)
            if waiting is None or waiting.wait.kind != "approval":
                raise NotFound("approval", path)
            if waiting.wait.answer is not None:
                raise InputInvalid(f"approval {path!r}", f"of execution {execution_id!r} was decided already")
            if waiting.taken or kept.row.state.final:
                raise NotFound("approval", path)
            answered = replace(waiting, wait=replace(waiting.wait, answer=copied_object(decision)))
            ledger.put(kept.waits, path, answered)
            wake_root(ledger, kept, ledger.now())

    def replay_dead(self, execution_id: str, request: Request) -> Enqueued:
        ledger = self._ledger
        with ledger.transaction():
            kept = ledger.kept.get(execution_id)
            if kept is None or kept.row.reason is None:
                raise NotFound("dead letter", execution_id)
            if kept.row.replayed_as is not None:
                replay = find(ledger, kept.row.replayed_as).row
                return Enqueued(replay.id, False, replay.state)
            (enqueued,) = enqueue(ledger, [request])
            ledger.assign(kept, row=replace(kept.row, replayed_as=enqueued.execution_id))
            return enqueued

    def purge_dead(self, *, queue: str | None = None, before: datetime | None = None, limit: int = 1000) -> int:
        with self._ledger.transaction():
            return purge_dead(self._ledger, queue, before, limit)

    def prune(
        self, retention: Retention, *, workflow: str | None = None, apart: Sequence[str] = (), limit: int = 100
    ) -> int:
        with self._ledger.transaction():
            return prune(self._ledger, retention, workflow, apart, limit)

    def _steps(self, execution_id: str, is_wanted: Callable[[StepRecord], bool]) -> Sequence[StepRecord]:
        with self._ledger.transaction():
            kept = self._ledger.kept.get(execution_id)
            steps = [] if kept is None else [step for step in kept.steps.values() if is_wanted(step)]
            return [given_step(step) for step in steps]
