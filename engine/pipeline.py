"""One step, from start to end: restore, skip, resolve, check, run, classify, record, announce."""

from __future__ import annotations

import random

from flo.engine.attempt import ChildFailed, End, MakeEngine, StepRun, attempt
from flo.engine.errors import RunCancelled, StepFailed, TemplateFailed
from flo.engine.events import StepRetried, StepStarted
from flo.engine.executions import StepState
from flo.engine.hiding import secrets_in
from flo.engine.language.scope import Missing
from flo.engine.language.workflow import Condition, Step
from flo.engine.outputs import stored_output
from flo.engine.restoring import Types, restore
from flo.engine.run import Frame, refuse_missing
from flo.engine.step import Failure, Outcome, RunReturned, StepType
from flo.engine.values import Json, JsonObject, place_under, whole_object

MAX_ERROR = 4_000
"""A failure's message is kept up to so many characters: recording it must always be possible."""


def run_step(frame: Frame, step: Step, types: Types, make_engine: MakeEngine) -> End:
    """Run one step to its end, or take over the end to which an earlier delivery brought it.

    Raises ``RunCancelled``, ``RunReturned``, ``Suspended`` and ``LeaseLost`` as they come; a failure is an ``End``.
    """
    frame.cancellation.check()
    if frame.bet is not None:
        frame.bet.check()
    if frame.history is not None and (restored := restore(frame, frame.history, step, types)) is not None:
        return restored
    step_type = types[step.type]
    work = _begin(frame, step, step_type)
    try:
        if step.skip is not None and _skipped(work, step.skip):
            return skip_step(frame, step, step_type)
        if frame.run.bus.heard:
            frame.run.bus.announce(StepStarted(work.path, step.id, step.type))
        resolved = _kept_input(work) if step.volatile else _input(work)
        if frame.run.vault.active:
            work.secrets = frozenset(secrets_in(resolved))
        step.recheck(resolved)
        _attempt_until_done(work, resolved, make_engine)
    except StepFailed as error:
        work.error = work.masked(error)
    except RunReturned:
        frame.ended_step(work.record(End(StepState.SUCCESS)), returned=True)
        raise
    except RunCancelled:
        _end(work, End(StepState.CANCELLED))
        raise
    return _end(work, _classify(work))


def skip_step(frame: Frame, step: Step, step_type: StepType) -> End:
    """Record that a step is skipped: by its own condition, or because one that it depends on failed."""
    work = _begin(frame, step, step_type)
    work.count = 0
    return _end(work, End(StepState.SKIPPED))


def _begin(frame: Frame, step: Step, step_type: StepType) -> StepRun:
    clock = frame.run.clock
    return StepRun(frame, step, step_type, frame.path(step.id), clock.now(), clock.monotonic())


def _skipped(work: StepRun, skip: Condition) -> bool:
    step, frame = work.step, work.frame
    place = f"{step.place}.skipCondition"

    def holds() -> bool:
        frame.refuse_lost(skip.paths, place)
        try:
            return skip.holds(frame.scope, frame.on_missing(place, step.id))
        except TemplateFailed as failed:
            raise _placed(failed, place) from failed

    return frame.decide(work.path, "skipCondition", holds) if step.branches else holds()


def _kept_input(work: StepRun) -> JsonObject:
    """Give the input of a step with children. Other steps, or time, may have changed it when it is asked for again: it
    is kept while they run, so that a loop goes through the list that it began with."""
    return work.frame.decide(work.path, "input", lambda: whole_object(_input(work)))


def _input(work: StepRun) -> JsonObject:
    """Give the step's input, all or nothing."""
    step, frame = work.step, work.frame
    scope = frame.scope
    resolved: dict[str, Json] = {}
    if work.type.stepwise:
        scope = scope.child({"$vars": scope.root("$vars")})  # type: ignore[dict-item]  # a root is never missing
    for key, resolver in step.input.items():
        if resolver.constant:
            resolved[key] = resolver.resolve(scope, _unreachable)
        else:
            place = f"{step.place}.input.{key}"
            frame.refuse_lost(resolver.paths, place)
            told = refuse_missing(place) if key in step.exact else frame.on_missing(place, step.id)
            try:
                resolved[key] = resolver.resolve(scope, told)
            except TemplateFailed as failed:
                raise _placed(failed, place) from failed
        if work.type.stepwise:
            scope.names["$vars"] = {**scope.names["$vars"], key: resolved[key]}  # type: ignore[dict-item]
    return resolved


def _unreachable(missing: Missing) -> None:
    raise AssertionError(f"a constant refers to {missing.path}")


def _placed(failed: TemplateFailed, place: str) -> TemplateFailed:
    """Put the place in the document before a place inside the field."""
    return failed if failed.place.startswith(place) else failed.at(place_under(place, failed.place))


def _attempt_until_done(work: StepRun, resolved: JsonObject, make_engine: MakeEngine) -> None:
    """Run the body, again after a failure while the step's retry says so."""
    step, run = work.step, work.frame.run
    while True:
        try:
            work.outcome = attempt(work, resolved, make_engine)
            error = _operational(work.outcome)
            error = error and work.masked(error)
        except StepFailed as failed:
            work.outcome, error = None, work.masked(failed)
        work.error = error
        if error is None or work.frame.bet is not None:
            return
        delay = step.retry.delay(
            work.count,
            code=error.code,
            retryable=error.retryable,
            chance=random.random(),
            retry_after=error.retry_after,
        )
        if delay is None:
            return
        run.bus.announce(StepRetried(work.path, work.count, delay, error.message[:MAX_ERROR]))
        message = f"attempt {work.count} failed, next one in {delay:g} s: {error.message}"
        work.frame.log("warn", message, step=work.path)
        run.clock.wait(work.frame.cancellation.event, delay)
        work.frame.cancellation.check()
        work.count += 1


def _operational(outcome: Outcome) -> StepFailed | None:
    if not outcome.operational_errors:
        return None
    return StepFailed(
        "; ".join(outcome.operational_errors),
        code="operational_error",
        retryable=outcome.retryable,
        retry_after=outcome.retry_after,
    )


def _classify(work: StepRun) -> End:
    """Say how the step ended, and note a failure that no child noted before. Raises ``Apart`` for one in a transaction
    that others share: it is undone, and what happened in it is not noted."""
    output = None if work.outcome is None else work.outcome.output
    error, retried = work.error, work.count > 1
    if error is None:
        return End(StepState.SUCCESS, output)
    if work.frame.bet is not None:
        raise work.frame.bet.lose() from error
    if isinstance(error, ChildFailed):
        retried = retried or error.retried
        return End(StepState.FAILED, output, error.failure, error.retryable, retried, error.retry_after)
    kind = "operational" if output is not None else "execution"
    message = error.message if len(error.message) <= MAX_ERROR else f"{error.message[: MAX_ERROR - 1]}…"
    failure = Failure(work.step.id, work.path, error.code, message, kind)
    work.frame.run.failed(failure)
    work.frame.log("error", message, step=work.path)
    return End(StepState.FAILED, output, failure, error.retryable, retried, error.retry_after)


def _end(work: StepRun, end: End) -> End:
    """Make the step's output and ``$meta`` visible, and record how it ended. One that acted outside is stored now."""
    frame, step = work.frame, work.step
    frame.scope.names.pop(step.id, None)  # of an earlier attempt at what is around the step
    record = work.recorded
    if record is None:
        try:
            kept, text = (None, None) if end.output is None else stored_output(frame, work.type, end.output)
        except StepFailed as too_large:
            work.outcome, work.error = None, too_large
            return _end(work, _classify(work))
        record = work.record(end, kept, text)
        frame.ended_step(record)
        if work.type.touches and frame.bet is None:
            frame.strand.flush()
    else:
        frame.committed_step(record)
    if end.output is not None:
        frame.scope.names[step.id] = end.output
    frame.scope.metas[step.id] = record
    return end
