"""How a claim on an execution ends, by how the work on it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from flo.engine.attempt import ChildFailed
from flo.engine.cancellation import Reason
from flo.engine.errors import RunCancelled, StepFailed, StoreError, StoreUnavailable, WorkflowInvalid
from flo.engine.executions import DeadReason, Execution, ExecutionState
from flo.engine.jobs import JOB_RETRY, Again, Conclusion, Ended, LeaseLost, Parked, Released
from flo.engine.pipeline import MAX_ERROR
from flo.engine.retry import Retry
from flo.engine.step import Suspended
from flo.engine.values import Json, JsonObject

AWAY_SECONDS: Final = 5.0
"""About so long an execution is left alone whose worker could not reach the store."""

_S: Final = ExecutionState

_STOPPED: Final[Mapping[Reason, Conclusion]] = {
    "cancelled": Ended(_S.CANCELLED, error={"code": "cancelled", "message": "the run was cancelled"}),
    "timed_out": Ended(_S.TIMED_OUT, error={"code": "timeout", "message": "the run is over its timeout"}),
    "released": Released(),
}


def verdict(
    execution: Execution,
    raised: BaseException | None,
    *,
    done: bool,
    output: Json,
    tolerated: int,
    reason: Reason | None,
    retry: Retry,
    chance: float,
) -> Conclusion | None:
    """How the claim ends; None where it was lost, and nothing is to be written.

    ``done`` says that the work came back, with what it ``raised`` or with its ``output``; ``reason`` why it was asked
    to stop. Work that came to its end before it could be stopped has ended.
    """
    match raised:
        case None if done:
            return Ended(_S.COMPLETED_WITH_ERRORS if tolerated else _S.SUCCESS, output)
        case LeaseLost():
            return None
        case Suspended(until=until):
            return Parked(until)
        case _ if reason == "lost":
            return None
        case None | RunCancelled():
            return _STOPPED[reason or "cancelled"]
        case _ if reason == "released":
            return Released()
        case StepFailed() as failed:
            return _failed(execution, failed, retry, chance)
        case StoreUnavailable() if execution.queue is not None:
            return Released(timedelta(seconds=AWAY_SECONDS * (0.5 + chance)))
        case error:
            code = "store_error" if isinstance(error, StoreError) else "internal_error"
            return _dead(execution, _error(code, error), DeadReason.NON_RETRYABLE)


def unknown_handler(execution: Execution, error: Exception, chance: float) -> Conclusion:
    """How a claim ends whose worker does not know a step type: another worker may know it, for as long as a job is
    tried again."""
    said = _error("invalid_workflow" if isinstance(error, WorkflowInvalid) else "no_handler", error)
    delay = JOB_RETRY.delay(execution.attempt, code="no_handler", retryable=True, chance=chance)
    if execution.queue is None or delay is None:
        return _dead(execution, said, DeadReason.NO_HANDLER)
    return Again(timedelta(seconds=delay), said)


def _failed(execution: Execution, failed: StepFailed, retry: Retry, chance: float) -> Conclusion:
    """A failure is tried again as a whole, unless the step's own retry has tried."""
    if isinstance(failed, ChildFailed):
        error, retried = failed.failure.as_json(), failed.retried
    else:
        error, retried = {"code": failed.code, "message": failed.message[:MAX_ERROR]}, False
    delay = None
    if not retried:
        delay = retry.delay(
            execution.attempt,
            code=failed.code,
            retryable=failed.retryable,
            chance=chance,
            retry_after=failed.retry_after,
        )
    if delay is not None:
        return Again(timedelta(seconds=delay), error)
    return _dead(execution, error, DeadReason.MAX_ATTEMPTS if failed.retryable else DeadReason.NON_RETRYABLE)


def _dead(execution: Execution, error: JsonObject, reason: DeadReason) -> Ended:
    """Failed: a dead letter, if it came from a queue."""
    return Ended(_S.FAILED, error=error, reason=None if execution.queue is None else reason)


def _error(code: str, error: BaseException) -> JsonObject:
    return {"code": code, "message": f"{type(error).__name__}: {error}"[:MAX_ERROR]}
