"""Executions: one run of a workflow each, the states they pass through, and what is kept of their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from flo.engine.errors import FloError
from flo.engine.instants import write_instant
from flo.engine.values import Json, JsonObject


class ExecutionState(StrEnum):
    """Where an execution stands. The last six are final."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUSPENDED = "suspended"
    SUCCESS = "success"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"

    @property
    def final(self) -> bool:
        """Whether nothing can follow."""
        return not MOVES[self]


_S = ExecutionState
_ENDS: Final = frozenset({_S.SUCCESS, _S.COMPLETED_WITH_ERRORS, _S.FAILED, _S.CANCELLED, _S.TIMED_OUT})

MOVES: Final[Mapping[ExecutionState, frozenset[ExecutionState]]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.CANCELLED, _S.TIMED_OUT, _S.REJECTED, _S.FAILED}),
    _S.RUNNING: _ENDS | {_S.RETRYING, _S.SUSPENDED, _S.PENDING},
    _S.RETRYING: frozenset({_S.RUNNING, _S.CANCELLED, _S.TIMED_OUT, _S.FAILED}),
    _S.SUSPENDED: frozenset({_S.PENDING, _S.RUNNING, _S.CANCELLED, _S.TIMED_OUT, _S.FAILED}),
    _S.SUCCESS: frozenset(),
    _S.COMPLETED_WITH_ERRORS: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.TIMED_OUT: frozenset(),
    _S.REJECTED: frozenset(),
}
"""Every allowed move. Final is final."""


class IllegalMove(FloError):
    """An execution cannot go from where it stands to where it was sent."""

    def __init__(self, execution_id: str, current: ExecutionState, to: ExecutionState) -> None:
        self.execution_id, self.current, self.to = execution_id, current, to
        super().__init__(f"execution {execution_id} is {current} and cannot become {to}")


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a workflow. ``definition`` is the document it started with, as JSON text, ``digest`` its SHA-256 in
    hex."""

    id: str
    workflow: str | None
    version: int | None
    digest: str
    definition: str
    input: JsonObject
    state: ExecutionState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    output: Json = None
    error: JsonObject | None = None
    trigger: str = "manual"
    attempt: int = 1

    def as_json(self) -> JsonObject:
        """All but the definition: ``executionId workflow version digest status trigger attempt createdAt startedAt
        finishedAt input output error``."""
        return {
            "executionId": self.id,
            "workflow": self.workflow,
            "version": self.version,
            "digest": self.digest,
            "status": self.state.value,
            "trigger": self.trigger,
            "attempt": self.attempt,
            "createdAt": write_instant(self.created_at),
            "startedAt": None if self.started_at is None else write_instant(self.started_at),
            "finishedAt": None if self.finished_at is None else write_instant(self.finished_at),
            "input": self.input,
            "output": self.output,
            "error": self.error,
        }


class StepState(StrEnum):
    """How a step, or one iteration of a loop, ended."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """How one step of an execution ended, or one iteration of a loop.

    ``path`` is unique in the execution: ``mark-done``, inside a loop ``process-each[3].mark-done``; an iteration
    itself is ``process-each[3]`` with ``loop`` = ``process-each`` and ``index`` = 3. The output of a step that ran in
    an iteration lies in the iteration's record, by stepId.
    """

    execution_id: str
    path: str
    step_id: str
    step_type: str
    state: StepState
    started_at: datetime
    duration_ms: float
    attempts: int = 1
    output: Json = None
    error: JsonObject | None = None
    loop: str | None = None
    index: int | None = None

    def as_json(self) -> JsonObject:
        """``path stepId stepType status startedAt durationMilliseconds attempts output error``, of an iteration also
        ``loop index``."""
        iteration: JsonObject = {} if self.loop is None else {"loop": self.loop, "index": self.index}
        return {
            "path": self.path,
            "stepId": self.step_id,
            "stepType": self.step_type,
            "status": self.state.value,
            "startedAt": write_instant(self.started_at),
            "durationMilliseconds": round(self.duration_ms, 3),
            "attempts": self.attempts,
            "output": self.output,
            "error": self.error,
            **iteration,
        }


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an execution's log. ``number`` is given by the store and rises; ``level`` is one of debug info warn
    error."""

    execution_id: str
    at: datetime
    level: str
    message: str
    step: str | None = None
    data: Json = None
    number: int = 0

    def as_json(self) -> JsonObject:
        """``number at level step message data``."""
        return {
            "number": self.number,
            "at": write_instant(self.at),
            "level": self.level,
            "step": self.step,
            "message": self.message,
            "data": self.data,
        }
