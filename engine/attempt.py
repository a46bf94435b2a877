"""One attempt at a step: its body run once, watched by its timeout, what it gives brought into shape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeVar, cast

from flo.engine.cancellation import Cancellation
from flo.engine.errors import RunCancelled, StepFailed, StoreError, worded
from flo.engine.executions import StepRecord, StepState
from flo.engine.frozen import frozen
from flo.engine.guarding import GuardedStore, refuse_secret
from flo.engine.jobs import LeaseLost
from flo.engine.language.workflow import Step
from flo.engine.lines import checked_line
from flo.engine.netting import Net
from flo.engine.once import OnceStore
from flo.engine.outputs import object_given, stored_output, whole_output
from flo.engine.run import Frame
from flo.engine.secrecy import HIDDEN, Lost, Secret
from flo.engine.step import Engine, Failure, Outcome, RunReturned, StepCall, StepType, Suspended
from flo.engine.stores.base import DataStore
from flo.engine.stores.database import DriverFailed
from flo.engine.stores.queueing import Owned
from flo.engine.threads import run_beside
from flo.engine.values import Json, JsonObject

Value = TypeVar("Value", bound=Json)

ISOLATED_SECONDS: Final = 5.0
"""A process that is ended is waited for so long at most, of the machine's own time."""

Catch = Callable[[Json], Json]
"""Marks the secrets in what a running step hands to the engine."""

MakeEngine = Callable[[Frame, Step, Catch], Engine]


@frozen
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
    secrets: frozenset[Secret | Lost] = frozenset()
    """Those in its input, once that is resolved."""

    @property
    def net(self) -> Net:
        """What finds the secrets of the run, and those that the step was given, in what it says."""
        return self.frame.run.vault.net_with(self.secrets)

    def caught(self, value: Value) -> Value:
        """What its body gave, or hands to the engine, the secrets in it marked."""
        return cast(Value, self.net.catch(value)) if self.frame.run.vault.active else value

    def log(self, level: str, message: str, data: Json = None) -> None:
        """Write a line to the log, secrets hidden."""
        level, message, data = checked_line(level, message, data)
        if self.frame.run.vault.active and (net := self.net):
            message, data = net.mask(message), net.shown(data)
        self.frame.log(level, message, data, self.path)

    def refuse(self, what: str, value: Json) -> None:
        """Fail where a value that it writes holds a secret."""
        vault = self.frame.run.vault
        if vault.active:
            refuse_secret(vault, self.net, what, value)

    def masked(self, failed: StepFailed) -> StepFailed:
        """The same failure, its message as it may be shown, and its code, if that is a secret."""
        if net := self.net:
            failed.message = net.mask(failed.message)
            failed.code = HIDDEN if net.finds(failed.code) or net.mask(failed.code) == HIDDEN else failed.code
            failed.args = (failed.message,)
        return failed

    def record(self, end: End, kept: JsonObject | None = None, text: str | None = None) -> StepRecord:
        """The record of how it ended, now. ``kept`` is what is stored of its output, ``text`` that as JSON."""
        outcome, run = self.outcome, self.frame.run
        notices = () if outcome is None else (*outcome.operational_errors, *outcome.warnings)
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
            notices=tuple(map(self.net.mask, notices)) if notices else (),
            execution_attempt=run.execution.attempt,
            output_text=text,
        )


def attempt(work: StepRun, resolved: JsonObject, make_engine: MakeEngine) -> Outcome:
    """Run the body once, in a thread that can be given up if the step has a timeout. Raises ``StepFailed``."""
    if work.step.timeout_ms is None:
        return _call(work, resolved, make_engine, work.frame.cancellation, None, None)
    settled = _Settled()
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

    run_beside(f"flo-step-{work.path}", body)
    try:
        if not done.wait(seconds) and settled.as_given_up():
            cancellation.cancel("timed_out")
            if work.type.isolated:  # its process is ended: nothing of this attempt is left when the next one begins
                done.wait(ISOLATED_SECONDS)
            raise _timed_out(work)
        done.wait()  # what it wrote is being committed
    finally:
        work.frame.cancellation.release(cancellation)
    ended = result[0]
    by_itself = isinstance(ended, RunCancelled) and not work.frame.cancellation.event.is_set()
    if by_itself and work.frame.run.clock.monotonic() >= deadline:  # a body may look at its deadline
        raise _timed_out(work) from None
    if isinstance(ended, BaseException):
        raise ended
    return ended


def _timed_out(work: StepRun) -> StepFailed:
    message = f"over its timeout of {work.step.timeout_ms} ms; what it may still give is thrown away"
    return StepFailed(message, code="timeout")


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
    settled: _Settled | None,
) -> Outcome:
    frame = work.frame.under(cancellation)
    if work.count > 1:  # children run again: what is known of them failed with the attempt before
        frame = replace(frame, history=None)
    try:
        if work.type.transactional and frame.bet is not None:
            return _body(work, frame, resolved, make_engine, deadline, frame.bet.owned.data)
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
    settled: _Settled | None,
) -> Outcome:
    """Run the body, and record that the step ended, in one transaction."""

    def transaction(owned: Owned) -> tuple[Outcome, StepRecord]:
        outcome = _body(work, frame, resolved, make_engine, deadline, owned.data)
        if outcome.operational_errors:
            raise _Undone(outcome)
        if settled is not None and not settled.as_committed():
            raise RunCancelled("timed out")
        kept, text = stored_output(frame, work.type, outcome.output)
        work.outcome = outcome
        record = work.record(End(StepState.SUCCESS, outcome.output), kept, text)
        frame.strand.record_in(owned, record, record.characters)
        return outcome, record

    def applied() -> tuple[Outcome, StepRecord] | None:
        """What an earlier try gave whose answer was lost, if it was committed."""
        stored = frame.run.past.checkpoints(frame.run.execution.id, frame.prefix)
        for record in stored:
            if record.path == work.path and record.started_at == work.started_at and isinstance(record.output, Mapping):
                output = frame.run.vault.open(record.output)
                assert isinstance(output, dict)
                return Outcome(output, warnings=record.notices), record
        return None

    try:
        outcome, work.recorded = frame.strand.own(transaction, applied=applied, alone=not work.type.joins)
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
    call = StepCall(
        step_id=step.id,
        path=path,
        execution_id=run.execution.id,
        attempt=work.count,
        idempotency_key=f"{run.execution.id}:{path}",
        store=GuardedStore(store, work.refuse),
        clock=run.clock,
        log=work.log,
        cancelled=frame.cancellation.event,
        deadline=deadline,
        secrets=run.vault,
        engine=make_engine(frame, step, work.caught),
    )
    try:
        given = run.isolation.run(work.type, call, resolved) if work.type.isolated else work.type.body(call, resolved)
    except RunReturned as returned:
        if step.branches:  # a child returned, and was asked there
            raise
        raise RunReturned(work.caught(whole_output(step, returned.output))) from None
    except (StepFailed, RunCancelled, LeaseLost, StoreError, Suspended, DriverFailed):
        raise
    except BaseException as error:  # whatever a body raises ends its step, and nothing else
        raise StepFailed(worded(error), code="step_error") from error
    if isinstance(given, Outcome):
        return replace(given, output=work.caught(object_given(step, given.output)))
    return Outcome(work.caught(object_given(step, given)))
