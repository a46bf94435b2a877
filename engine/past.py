"""What is stored of executions, as one that runs reads it: a store that is away for a moment is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TypeVar

from flo.engine.clock import Clock
from flo.engine.executions import Execution, StepRecord, StepState
from flo.engine.patience import patiently
from flo.engine.stores.base import ExecutionStore

T = TypeVar("T")


class Past:
    """The reading part of an ``ExecutionStore`` that an engine needs, with patience."""

    def __init__(self, store: ExecutionStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def get(self, execution_id: str) -> Execution | None:
        return self._read(lambda: self._store.get(execution_id))

    def checkpoints(self, execution_id: str, prefix: str) -> Sequence[StepRecord]:
        return self._read(lambda: self._store.checkpoints(execution_id, prefix))

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        return self._read(lambda: self._store.iterations(execution_id, loop, start=start, limit=limit))

    def iteration_states(self, execution_id: str, loop: str) -> Mapping[int, StepState]:
        return self._read(lambda: self._store.iteration_states(execution_id, loop))

    def begun(self, execution_id: str, loop: str) -> Set[int]:
        return self._read(lambda: self._store.begun(execution_id, loop))

    def failures(self, execution_id: str, *, limit: int) -> Sequence[StepRecord]:
        return self._read(lambda: self._store.failures(execution_id, limit=limit))

    def _read(self, work: Callable[[], T]) -> T:
        return patiently(self._clock, "read what was done", lambda doubt: work())
