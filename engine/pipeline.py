"""One step, from start to end: skip, resolve, check, run, classify, record, announce."""

from __future__ import annotations

import contextvars
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from flo.engine.cancellation import Cancellation
from flo.engine.errors import RunCancelled, StepFailed, StoreError, TemplateFailed
from flo.engine.events import StepRetried, StepStarted
from flo.engine.executions import StepRecord, StepState
from flo.engine.language.scope import Missing
from flo.engine.language.workflow import Step
from flo.engine.run import Frame, refuse_missing
from flo.engine.step import Engine, Failure, Outcome, RunReturned, StepCall, StepType
from flo.engine.values import Json, JsonObject, LazyList, dump, kind_of, place_under, plain

MAX_OUTPUT = 64 * 1024 * 1024
"""A step's output may have so many characters as JSON."""

MAX_ERROR = 4_000
"""A failure's message is kept up to so many characters: recording it must always be possible."""


class ChildFailed(StepFailed):
    """A child of this step failed, and was noted already."""

    def __init__(self, failure: Failure, retryable: bool) -> None:
        self.failure = failure
        super().__init__(failure.message, code=failure.code, retryable=retryable)


@dataclass(frozen=True, slots=True)
class End:
    """How a step ended: its state, its output if it gave one, its failure if it failed."""

    state: StepState
    output: JsonObject | None = None
    failure: Failure | None = None
    retryable: bool = False


@dataclass(slots=True)
class _Attempts:
    """What the pipeline carries from stage to stage."""

    frame: Frame
    step: Step
    type: StepType
    path: str
    started_at: datetime
    started: float
    count: int = 1
    outcome: Outcome | None = None
    error: StepFailed | None = None


MakeEngine = Callable[[Frame, Step], Engine]


def run_step(frame: Frame, step: Step, step_type: StepType, make_engine: MakeEngine) -> End:
    """Run one step to its end. Raises ``RunCancelled`` and ``RunReturned`` as they come; a failure is an ``End``."""
    run = frame.run
    frame.cancellation.check()
    attempts = _begin(frame, step, step_type)
    try:
        if _skipped(attempts):
            return skip_step(frame, step, step_type)
        run.bus.announce(StepStarted(attempts.path, step.id, step.type))
        resolved = _resolve(attempts)
        step.recheck(resolved)
        _attempt_until_done(attempts, resolved, make_engine)
    except StepFailed as error:
        attempts.error = error
    except RunReturned:
        _end(attempts, End(StepState.SUCCESS))
        raise
    except RunCancelled:
        _end(attempts, End(StepState.CANCELLED))
        raise
    return _end(attempts, _classify(attempts))


def skip_step(frame: Frame, step: Step, step_type: StepType) -> End:
    """Record that a step is skipped: by its own condition, or because one that it depends on failed."""
    attempts = _begin(frame, step, step_type)
    attempts.count = 0
    return _end(attempts, End(StepState.SKIPPED))


def _begin(frame: Frame, step: Step, step_type: StepType) -> _Attempts:
    clock = frame.run.clock
    return _Attempts(frame, step, step_type, frame.path(step.id), clock.now(), clock.monotonic())


def _skipped(attempts: _Attempts) -> bool:
    step, frame = attempts.step, attempts.frame
    if step.skip is None:
        return False
    place = f"{step.place}.skipCondition"
    try:
        return step.skip.holds(frame.scope, frame.run.on_missing(place, step.id))
    except TemplateFailed as failed:
        raise _placed(failed, place) from failed


def _resolve(attempts: _Attempts) -> JsonObject:
    """Give the step's input, all or nothing."""
    step, frame = attempts.step, attempts.frame
    run, scope = frame.run, frame.scope
    resolved: dict[str, Json] = {}
    if attempts.type.stepwise:
        scope = scope.child({"$vars": scope.root("$vars")})  # type: ignore[dict-item]  # a root is never missing
    for key, resolver in step.input.items():
        if resolver.constant:
            resolved[key] = resolver.resolve(scope, _unreachable)
        else:
            place = f"{step.place}.input.{key}"
            told = refuse_missing(place) if key in step.exact else run.on_missing(place, step.id)
            try:
                resolved[key] = resolver.resolve(scope, told)
            except TemplateFailed as failed:
                raise _placed(failed, place) from failed
        if attempts.type.stepwise:
            scope.names["$vars"] = {**scope.names["$vars"], key: resolved[key]}  # type: ignore[dict-item]
    return resolved


def _unreachable(missing: Missing) -> None:
    raise AssertionError(f"a constant refers to {missing.path}")


def _placed(failed: TemplateFailed, place: str) -> TemplateFailed:
    """Put the place in the document before a place inside the field."""
    return failed if failed.place.startswith(place) else failed.at(place_under(place, failed.place))


def _attempt_until_done(attempts: _Attempts, resolved: JsonObject, make_engine: MakeEngine) -> None:
    """Run the body, again after a failure while the step's retry says so."""
    step, run = attempts.step, attempts.frame.run
    while True:
        try:
            attempts.outcome = _attempt(attempts, resolved, make_engine)
            error = _operational(attempts.outcome)
        except StepFailed as failed:
            attempts.outcome, error = None, failed
        attempts.error = error
        if error is None:
            return
        delay = step.retry.delay(attempts.count, code=error.code, retryable=error.retryable, chance=random.random())
        if delay is None:
            return
        run.bus.announce(StepRetried(attempts.path, attempts.count, delay, error.message[:MAX_ERROR]))
        run.log(
            "warn", f"attempt {attempts.count} failed, next one in {delay:g} s: {error.message}", step=attempts.path
        )
        run.clock.wait(attempts.frame.cancellation.event, delay)
        attempts.frame.cancellation.check()
        attempts.count += 1


def _operational(outcome: Outcome) -> StepFailed | None:
    if not outcome.operational_errors:
        return None
    return StepFailed("; ".join(outcome.operational_errors), code="operational_error", retryable=outcome.retryable)


def _attempt(attempts: _Attempts, resolved: JsonObject, make_engine: MakeEngine) -> Outcome:
    """Run the body once, in a thread that can be given up if the step has a timeout."""
    if attempts.step.timeout_ms is None:
        return _call(attempts, resolved, make_engine, attempts.frame.cancellation, None)
    seconds = attempts.step.timeout_ms / 1000
    cancellation = attempts.frame.cancellation.inner()
    deadline = attempts.frame.run.clock.monotonic() + seconds
    result: list[Outcome | BaseException] = []
    done = threading.Event()

    def body() -> None:
        try:
            result.append(_call(attempts, resolved, make_engine, cancellation, deadline))
        except BaseException as error:  # carried into the waiting thread
            result.append(error)
        finally:
            done.set()

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(body,), name=f"flo-step-{attempts.path}", daemon=True).start()
    try:
        ended = done.wait(seconds)
        if not ended:
            cancellation.cancel("timed_out")
            message = f"over its timeout of {attempts.step.timeout_ms} ms; what it may still give is thrown away"
            raise StepFailed(message, code="timeout")
    finally:
        attempts.frame.cancellation.release(cancellation)
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _call(
    attempts: _Attempts,
    resolved: JsonObject,
    make_engine: MakeEngine,
    cancellation: Cancellation,
    deadline: float | None,
) -> Outcome:
    """Run the body and see that what it gives is a JSON object of bearable size."""
    frame, step, path = attempts.frame.under(cancellation), attempts.step, attempts.path
    run = frame.run

    def log(level: str, message: str, data: Json = None) -> None:
        run.log(level, message, data, path)

    call = StepCall(
        step_id=step.id,
        path=path,
        execution_id=run.execution.id,
        attempt=attempts.count,
        idempotency_key=f"{run.execution.id}:{path}",
        store=run.data,
        clock=run.clock,
        log=log,
        cancelled=cancellation.event,
        deadline=deadline,
        engine=make_engine(frame, step),
    )
    try:
        given = attempts.type.body(call, resolved)
    except RunReturned as returned:
        if step.branches:  # a child returned, and was asked there
            raise
        raise RunReturned(_whole(step, returned.output)) from None
    except (StepFailed, RunCancelled):
        raise
    except StoreError as error:
        raise StepFailed(str(error), code="store_error") from error
    except (Exception, SystemExit) as error:  # what a step type calls may mean to end the process; it ends the step
        raise StepFailed(f"{type(error).__name__}: {error}", code="step_error") from error
    outcome = given if isinstance(given, Outcome) else Outcome(given)
    output = _object(step, outcome.output)
    return Outcome(output, outcome.operational_errors, outcome.warnings, outcome.retryable)


def _object(step: Step, given: object) -> JsonObject:
    output = plain(given, ("output",))
    if not isinstance(output, dict):
        what = f"{step.type} gave {kind_of(given)}, a step gives an object"
        raise StepFailed(what, code="invalid_output", retryable=False)
    return output


def _whole(step: Step, output: JsonObject) -> JsonObject:
    """The run's output, which outlives the run: results of loops in it are read once and for all."""
    text = dump(_object(step, output))
    if len(text) > MAX_OUTPUT:
        raise _too_large(len(text))
    whole: JsonObject = json.loads(text)
    return whole


def _too_large(characters: int) -> StepFailed:
    message = f"the output has {characters:,} characters as JSON, the limit is {MAX_OUTPUT:,}"
    return StepFailed(message, code="too_large", retryable=False)


def _classify(attempts: _Attempts) -> End:
    """Say how the step ended, and note a failure that no child noted before."""
    output = None if attempts.outcome is None else attempts.outcome.output
    error = attempts.error
    if error is None:
        return End(StepState.SUCCESS, output)
    if isinstance(error, ChildFailed):
        return End(StepState.FAILED, output, error.failure, error.retryable)
    kind = "operational" if output is not None else "execution"
    message = error.message if len(error.message) <= MAX_ERROR else f"{error.message[: MAX_ERROR - 1]}…"
    failure = Failure(attempts.step.id, attempts.path, error.code, message, kind)
    attempts.frame.run.failed(failure)
    attempts.frame.run.log("error", message, step=attempts.path)
    return End(StepState.FAILED, output, failure, error.retryable)


def _end(attempts: _Attempts, end: End) -> End:
    """Make the step's output and ``$meta`` visible, and record how it ended."""
    frame, step = attempts.frame, attempts.step
    run = frame.run
    kept: JsonObject | None = None
    characters = 0
    frame.scope.names.pop(step.id, None)  # of an earlier attempt at what is around the step
    if end.output is not None:
        kept = {key: value for key, value in end.output.items() if not isinstance(value, LazyList)}
        characters = len(dump(kept))
        if characters > MAX_OUTPUT:
            attempts.outcome, attempts.error = None, _too_large(characters)
            return _end(attempts, _classify(attempts))
        frame.scope.names[step.id] = end.output
    duration = (run.clock.monotonic() - attempts.started) * 1000
    frame.scope.metas[step.id] = _meta(attempts, end, duration)
    record = StepRecord(
        execution_id=run.execution.id,
        path=attempts.path,
        step_id=step.id,
        step_type=step.type,
        state=end.state,
        started_at=attempts.started_at,
        duration_ms=duration,
        attempts=attempts.count,
        output=None if frame.prefix else kept,
        error=None if end.failure is None else end.failure.as_json(),
    )
    run.ended_step(record, 0 if frame.prefix else characters)
    return end


def _meta(attempts: _Attempts, end: End, duration: float) -> JsonObject:
    outcome = attempts.outcome
    errors = [] if outcome is None else list(outcome.operational_errors)
    warnings = [] if outcome is None else list(outcome.warnings)
    status = "error" if errors or end.state is StepState.FAILED else "warning" if warnings else "ok"
    return {
        "success": end.state is StepState.SUCCESS,
        "skipped": end.state is StepState.SKIPPED,
        "durationMilliseconds": round(duration, 3),
        "stepType": attempts.step.type,
        "attempts": attempts.count,
        "operationalStatus": status,
        "error": None if end.failure is None else end.failure.as_json(),
        "operationalErrors": errors + warnings,
    }
