"""One attempt at a step: its body run once, watched by its timeout, what it gives brought into shape."""

from __future__ import annotations

import contextvars
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from flo.engine.cancellation import Cancellation
from flo.engine.errors import RunCancelled, StepFailed, StoreError
from flo.engine.executions import StepRecord, StepState
from flo.engine.jobs import LeaseLost
from flo.engine.language.workflow import Step
from flo.engine.once import OnceStore
from flo.engine.run import Frame
from flo.engine.step import Engine, Failure, Outcome, RunReturned, StepCall, StepType
from flo.engine.stores.base import DataStore
from flo.engine.stores.queueing import Owned
from flo.engine.values import Json, JsonObject, LazyList, dump, kind_of, plain, whole

MAX_OUTPUT: Final = 64 * 1024 * 1024
"""A step's output may have so many characters as JSON."""

LOOP_ITEMS: Final = "items"
"""The field of a loop's output that is read from the records of its iterations, and not stored again."""

MakeEngine = Callable[[Frame, Step], Engine]


@dataclass(frozen=True, slots=True)
class End:
    """How a step ended: its state, its output if it gave one, its failure if it failed. ``retryable`` says whether
    another attempt may help, and not before ``retry_after`` seconds; ``retried`` that the step's own retry has tried.
    """

    state: StepState
    output: JsonObject | None = None
    failure: Failure | None = None
    retryable: bool = False
    retried: bool = False
    retry_after: float | None = None


class ChildFailed(StepFailed):
    """A child of this step failed, and was noted already."""

    def __init__(self, end: End) -> None:
        assert end.failure is not None
        self.failure, self.retried = end.failure, end.retried
        super().__init__(
            end.failure.message, code=end.failure.code, retryable=end.retryable, retry_after=end.retry_after
        )


@dataclass(slots=True)
class StepRun:
    """One step while it runs. ``recorded`` says that its record was committed with what it wrote."""

    frame: Frame
    step: Step
    type: StepType
    path: str
    started_at: datetime
    started: float
    count: int = 1
    outcome: Outcome | None = None
    error: StepFailed | None = None
    recorded: StepRecord | None = None

    def record(self, end: End, kept: JsonObject | None) -> StepRecord:
        """The record of how it ended, now."""
        outcome, run = self.outcome, self.frame.run
        return StepRecord(
            execution_id=run.execution.id,
            path=self.path,
            step_id=self.step.id,
            step_type=self.step.type,
            state=end.state,
            started_at=self.started_at,
            duration_ms=(run.clock.monotonic() - self.started) * 1000,
            attempts=self.count,
            output=kept,
            error=None if end.failure is None else end.failure.as_json(),
            notices=() if outcome is None else (*outcome.operational_errors, *outcome.warnings),
            execution_attempt=run.execution.attempt,
        )


def attempt(work: StepRun, resolved: JsonObject, make_engine: MakeEngine) -> Outcome:
    """Run the body once, in a thread that can be given up if the step has a timeout. Raises ``StepFailed``."""
    settled = _Settled()
    if work.step.timeout_ms is None:
        return _call(work, resolved, make_engine, work.frame.cancellation, None, settled)
    seconds = work.step.timeout_ms / 1000
    cancellation = work.frame.cancellation.inner()
    deadline = work.frame.run.clock.monotonic() + seconds
    result: list[Outcome | BaseException] = []
    done = threading.Event()

    def body() -> None:
        try:
            result.append(_call(work, resolved, make_engine, cancellation, deadline, settled))
        except BaseException as error:  # carried into the waiting thread
            result.append(error)
        finally:
            done.set()

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(body,), name=f"flo-step-{work.path}", daemon=True).start()
    try:
        if not done.wait(seconds) and settled.as_given_up():
            cancellation.cancel("timed_out")
            message = f"over its timeout of {work.step.timeout_ms} ms; what it may still give is thrown away"
            raise StepFailed(message, code="timeout")
        done.wait()  # what it wrote is being committed
    finally:
        work.frame.cancellation.release(cancellation)
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


class _Settled:
    """Whether an attempt is settled: by its commit, or by being given up. The first one stands."""

    def __init__(self) -> None:
        self._how: str | None = None
        self._lock = threading.Lock()

    def as_committed(self) -> bool:
        return self._settle("committed")

    def as_given_up(self) -> bool:
        return self._settle("given up")

    def _settle(self, how: str) -> bool:
        with self._lock:
            self._how = self._how or how
            return self._how == how


def _call(
    work: StepRun,
    resolved: JsonObject,
    make_engine: MakeEngine,
    cancellation: Cancellation,
    deadline: float | None,
    settled: _Settled,
) -> Outcome:
    frame = work.frame.under(cancellation)
    if work.count > 1:  # children run again: what is known of them failed with the attempt before
        frame = replace(frame, history=None)
    try:
        if work.type.transactional:
            return _call_in_transaction(work, frame, resolved, make_engine, deadline, settled)
        store = OnceStore(frame, work.path, again=work.count > 1 or frame.run.again)
        return _body(work, frame, resolved, make_engine, deadline, store)
    except StoreError as error:
        raise StepFailed(str(error), code="store_error") from error


class _Undone(Exception):
    """The outcome of a transactional step is bad: nothing that it wrote stays."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def _call_in_transaction(
    work: StepRun,
    frame: Frame,
    resolved: JsonObject,
    make_engine: MakeEngine,
    deadline: float | None,
    settled: _Settled,
) -> Outcome:
    """Run the body, and record that the step ended, in one transaction."""

    def transaction(owned: Owned) -> tuple[Outcome, StepRecord]:
        outcome = _body(work, frame, resolved, make_engine, deadline, owned.data)
        if outcome.operational_errors:
            raise _Undone(outcome)
        if not settled.as_committed():
            raise RunCancelled("timed out")
        kept, characters = stored_output(work.type, outcome.output)
        work.outcome = outcome
        record = work.record(End(StepState.SUCCESS, outcome.output), kept)
        frame.strand.record_in(owned, record, characters)
        return outcome, record

    def applied() -> tuple[Outcome, StepRecord] | None:
        """What an earlier try gave whose answer was lost, if it was committed."""
        stored = frame.run.past.checkpoints(frame.run.execution.id, frame.prefix)
        for record in stored:
            if record.path == work.path and record.started_at == work.started_at and isinstance(record.output, Mapping):
                return Outcome(record.output, warnings=record.notices), record
        return None

    try:
        outcome, work.recorded = frame.strand.own(transaction, applied=applied)
    except _Undone as undone:
        return undone.outcome
    frame.run.renewer.settle()
    return outcome


def _body(
    work: StepRun,
    frame: Frame,
    resolved: JsonObject,
    make_engine: MakeEngine,
    deadline: float | None,
    store: DataStore,
) -> Outcome:
    """Run the body and see that what it gives is a JSON object."""
    run, step, path = frame.run, work.step, work.path

    def log(level: str, message: str, data: Json = None) -> None:
        frame.log(level, message, data, path)

    call = StepCall(
        step_id=step.id,
        path=path,
        execution_id=run.execution.id,
        attempt=work.count,
        idempotency_key=f"{run.execution.id}:{path}",
        store=store,
        clock=run.clock,
        log=log,
        cancelled=frame.cancellation.event,
        deadline=deadline,
        engine=make_engine(frame, step),
    )
    try:
        given = work.type.body(call, resolved)
    except RunReturned as returned:
        if step.branches:  # a child returned, and was asked there
            raise
        raise RunReturned(whole_output(step, returned.output)) from None
    except (StepFailed, RunCancelled, LeaseLost, StoreError):
        raise
    except (Exception, SystemExit) as error:  # what a step type calls may mean to end the process; it ends the step
        raise StepFailed(f"{type(error).__name__}: {error}", code="step_error") from error
    outcome = given if isinstance(given, Outcome) else Outcome(given)
    output = _object(step, outcome.output)
    return Outcome(output, outcome.operational_errors, outcome.warnings, outcome.retryable)


def stored_output(step_type: StepType, output: JsonObject) -> tuple[JsonObject, int]:
    """What is stored of an output, and how many characters that has as JSON. The results of a loop are stored already.
    Raises ``StepFailed`` for one that is too large."""
    kept = {
        key: whole(value)
        for key, value in output.items()
        if not (step_type.loops and key == LOOP_ITEMS and isinstance(value, LazyList))
    }
    characters = len(dump(kept))
    if characters > MAX_OUTPUT:
        raise _too_large(characters)
    return kept, characters


def whole_output(step: Step, output: JsonObject) -> JsonObject:
    """The run's output, which outlives the run: results of loops in it are read once and for all."""
    text = dump(_object(step, output))
    if len(text) > MAX_OUTPUT:
        raise _too_large(len(text))
    whole: JsonObject = json.loads(text)
    return whole


def _object(step: Step, given: object) -> JsonObject:
    output = plain(given, ("output",))
    if not isinstance(output, dict):
        what = f"{step.type} gave {kind_of(given)}, a step gives an object"
        raise StepFailed(what, code="invalid_output", retryable=False)
    return output


def _too_large(characters: int) -> StepFailed:
    message = f"the output has {characters:,} characters as JSON, the limit is {MAX_OUTPUT:,}"
    return StepFailed(message, code="too_large", retryable=False)
