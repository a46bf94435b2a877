"""Executions: one run of a workflow each, the states they pass through, and what is kept of their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from flo.engine.errors import FloError
from flo.engine.frozen import frozen
from flo.engine.hiding import hidden_places
from flo.engine.instants import write_instant
from flo.engine.secrecy import shown_forms
from flo.engine.values import Json, JsonObject, place_text


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

RESUMABLE: Final = frozenset({_S.FAILED, _S.TIMED_OUT})
"""What a person may open again, to go on from the failed step: the one way out of a final state, never taken by the
engine itself."""


class IllegalMove(FloError):
    """An execution cannot go from where it stands to where it was sent."""

    def __init__(self, execution_id: str, current: ExecutionState, to: ExecutionState) -> None:
        self.execution_id, self.current, self.to = execution_id, current, to
        super().__init__(f"execution {execution_id} is {current} and cannot become {to}")


class DeadReason(StrEnum):
    """Why an execution of a queue ended as a dead letter."""

    MAX_ATTEMPTS = "max_attempts"
    NON_RETRYABLE = "non_retryable"
    NO_HANDLER = "no_handler"
    POISON = "poison"


@frozen
class Execution:
    """One run of a workflow, or of a single step type (``handler``).

    ``definition`` is the document it started with, as JSON text, ``digest`` its SHA-256 in hex. ``queue`` is None where
    no queue delivers it: it runs in the process that made it, or as a part of its ``parent_id``. ``attempt`` counts
    from 1, ``deliveries`` how often a worker got it, ``expiries`` how often that worker was not heard of again, and
    ``fence`` rises with each claim. ``trigger`` says what started it (``manual``, ``schedule``, ``event``, …),
    ``trigger_id`` which trigger that was. ``worker`` and ``lease_until`` are of the claim that holds it now.
    ``reason`` is set where it is a dead letter, ``replayed_as`` once that was replayed. ``environment`` names what
    fills its ``$env``; None: the default one.
    """

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
    trigger_id: str | None = None
    attempt: int = 1
    handler: str | None = None
    queue: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    due_at: datetime | None = None
    deadline: datetime | None = None
    key: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    deliveries: int = 0
    expiries: int = 0
    fence: int = 0
    worker: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    parent_id: str | None = None
    parent_path: str | None = None
    root_id: str | None = None
    depth: int = 1
    reason: DeadReason | None = None
    replay_of: str | None = None
    replayed_as: str | None = None
    environment: str | None = None
    environment_chosen: bool = False

    def as_json(self) -> JsonObject:
        """All but the definition, in the words of the command (``executionId``, ``status``, …); instants as text."""
        return {
            "executionId": self.id,
            "workflow": self.workflow,
            "handler": self.handler,
            "version": self.version,
            "digest": self.digest,
            "status": self.state.value,
            "reason": None if self.reason is None else self.reason.value,
            "environment": self.environment,
            "trigger": self.trigger,
            "triggerId": self.trigger_id,
            "queue": self.queue,
            "priority": self.priority,
            "key": self.key,
            "concurrencyKey": self.concurrency_key,
            "attempt": self.attempt,
            "deliveryCount": self.deliveries,
            "expiryCount": self.expiries,
            "worker": self.worker,
            "createdAt": write_instant(self.created_at),
            "runAt": _instant_or_null(self.run_at),
            "dueAt": _instant_or_null(self.due_at),
            "deadline": _instant_or_null(self.deadline),
            "startedAt": _instant_or_null(self.started_at),
            "leaseUntil": _instant_or_null(self.lease_until),
            "finishedAt": _instant_or_null(self.finished_at),
            "parentId": self.parent_id,
            "parentStep": self.parent_path,
            "replayOf": self.replay_of,
            "replayedAs": self.replayed_as,
            "input": shown_forms(self.input),
            "output": shown_forms(self.output),
            "error": self.error,
            **_redacted(input=self.input, output=self.output),
        }


_FIELDS: Final = tuple(field.name for field in fields(Execution))
_PLACES: Final = {name: place for place, name in enumerate(_FIELDS)}
_values: Final = attrgetter(*_FIELDS)


def changed(execution: Execution, **changes: Any) -> Execution:
    """As ``dataclasses.replace``, in a part of its time: there are many fields."""
    values = list(_values(execution))
    for name, value in changes.items():
        values[_PLACES[name]] = value
    return Execution(*values)


def _redacted(**values: Json) -> JsonObject:
    """``redactedPaths``: where in these values ``***`` stands for a secret; nothing where it does not."""
    paths = [place_text((name, *place)) for name, held in values.items() for place in hidden_places(held)]
    return {"redactedPaths": paths} if paths else {}


def _instant_or_null(instant: datetime | None) -> str | None:
    return None if instant is None else write_instant(instant)


class StepState(StrEnum):
    """How a step, or one iteration of a loop, ended."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@frozen
class StepRecord:
    """How one step of an execution ended, or one iteration of a loop.

    ``path`` is unique in the execution: ``mark-done``, inside a loop ``process-each[3].mark-done``; an iteration
    itself is ``process-each[3]`` with ``loop`` = ``process-each`` and ``index`` = 3. The outputs of the steps of an
    iteration lie in the iteration's record, by stepId, once it has ended. ``notices`` are what ``$meta`` shows as
    ``operationalErrors``; ``execution_attempt`` is the attempt at the whole execution in which it ended.
    ``output_text`` is the whole output as JSON, where that was written already.
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
    notices: Sequence[str] = ()
    execution_attempt: int = 1
    output_text: str | None = field(default=None, compare=False, repr=False)

    @property
    def characters(self) -> int:
        """How many characters the output has as JSON, where that was written."""
        return 0 if self.output_text is None else len(self.output_text)

    @property
    def meta(self) -> JsonObject:
        """What ``<step-id>.$meta`` gives."""
        failed = self.state is StepState.FAILED
        return {
            "success": self.state is StepState.SUCCESS,
            "skipped": self.state is StepState.SKIPPED,
            "durationMilliseconds": round(self.duration_ms, 3),
            "stepType": self.step_type,
            "attempts": self.attempts,
            "operationalStatus": "error" if failed else "warning" if self.notices else "ok",
            "error": self.error,
            "operationalErrors": list(self.notices),
        }

    def without_output(self) -> StepRecord:
        """The same, its output removed."""
        return self.with_output(None, "null")

    def with_output(self, output: Json, text: str | None = None) -> StepRecord:
        """The same with another output, and that as JSON."""
        return StepRecord(
            self.execution_id, self.path, self.step_id, self.step_type, self.state, self.started_at, self.duration_ms,
            self.attempts, output, self.error, self.loop, self.index, self.notices, self.execution_attempt, text,
        )  # fmt: skip

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
            "output": shown_forms(self.output),
            "error": self.error,
            **iteration,
            **_redacted(output=self.output),
        }


@frozen
class LogLine:
    """One line of an execution's log. ``number`` rises from 1 in each execution; ``level`` is one of debug info warn
    error."""

    execution_id: str
    at: datetime
    level: str
    message: str
    step: str | None = None
    data: Json = None
    number: int = 0

    def numbered(self, number: int) -> LogLine:
        """The same, with its number."""
        return LogLine(self.execution_id, self.at, self.level, self.message, self.step, self.data, number)

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
