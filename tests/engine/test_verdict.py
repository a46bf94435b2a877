"""How a claim on an execution ends, by how the work on it ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.attempt import ChildFailed, End
from flo.engine.cancellation import Reason
from flo.engine.errors import (
    FloError,
    RunCancelled,
    StepFailed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    WorkflowInvalid,
)
from flo.engine.executions import DeadReason, Execution, ExecutionState, StepState
from flo.engine.jobs import JOB_RETRY, Again, Conclusion, Ended, LeaseLost, Parked, Released
from flo.engine.retry import ONCE, Retry
from flo.engine.step import Failure, Suspended
from flo.engine.verdict import AWAY_SECONDS, unknown_handler, verdict
from flo.testing import FrozenClock

_S = ExecutionState
THRICE = Retry(3, "exponential", 10.0, 600.0)
NOW = FrozenClock().now()


def execution(attempt: int = 1, queue: str | None = "default") -> Execution:
    return Execution("e", "w", 1, "d" * 64, "{}", {}, _S.RUNNING, NOW, attempt=attempt, queue=queue)


def judged(raised: BaseException | None = None, **changes: Any) -> Conclusion | None:
    """The verdict on work that came back, of a queue's first attempt that is tried up to three times."""
    given: dict[str, Any] = {
        "done": True,
        "output": None,
        "tolerated": 0,
        "reason": None,
        "retry": THRICE,
        "chance": 0.5,
        **changes,
    }
    return verdict(given.pop("execution", execution()), raised, **given)


def ended(conclusion: Conclusion | None) -> Ended:
    assert isinstance(conclusion, Ended)
    return conclusion


def child(*, retryable: bool = True, retried: bool = False, retry_after: float | None = None) -> ChildFailed:
    """The failure of a step of the workflow, which is an end of it."""
    failure = Failure("a", "l[0].a", "busy", "not now")
    return ChildFailed(End(StepState.FAILED, None, failure, retryable, retried, retry_after))


# work that came to its end


def test_work_that_came_to_its_end_is_a_success_with_its_output() -> None:
    assert judged(output={"n": 1}) == Ended(_S.SUCCESS, {"n": 1})


def test_a_tolerated_failure_is_told_by_the_state() -> None:
    assert judged(output={"n": 1}, tolerated=2) == Ended(_S.COMPLETED_WITH_ERRORS, {"n": 1})


@pytest.mark.parametrize("reason", ["cancelled", "timed_out", "released", "lost"])
def test_what_ended_before_it_could_be_stopped_has_ended(reason: Reason) -> None:
    assert judged(output={}, reason=reason) == Ended(_S.SUCCESS, {})


# work that was stopped


@pytest.mark.parametrize(
    ("reason", "state", "code"), [("cancelled", _S.CANCELLED, "cancelled"), ("timed_out", _S.TIMED_OUT, "timeout")]
)
@pytest.mark.parametrize("hangs", [False, True])
def test_work_that_was_stopped_ends_as_it_was_asked_to_whether_it_came_back_or_not(
    reason: Reason, state: ExecutionState, code: str, hangs: bool
) -> None:
    conclusion = ended(judged(None if hangs else RunCancelled("stopped"), done=not hangs, reason=reason))
    assert conclusion.state is state
    assert conclusion.reason is None
    assert conclusion.error is not None
    assert conclusion.error["code"] == code


@pytest.mark.parametrize("raised", [None, RunCancelled("stopped"), child(), RuntimeError("torn")])
def test_work_that_its_worker_gives_back_is_released_however_it_came_back(raised: BaseException | None) -> None:
    assert judged(raised, done=raised is not None, reason="released") == Released()


@pytest.mark.parametrize("raised", [None, RunCancelled("stopped"), child(), StoreUnavailable("gone")])
def test_nothing_is_written_for_a_claim_that_is_known_to_be_lost(raised: BaseException | None) -> None:
    assert judged(raised, done=raised is not None, reason="lost") is None


@pytest.mark.parametrize("reason", [None, "cancelled", "timed_out", "released", "lost"])
def test_nothing_is_written_for_a_claim_that_a_write_found_lost(reason: Reason | None) -> None:
    assert judged(LeaseLost("e", _S.RUNNING, "other", 2), reason=reason) is None


def test_a_step_that_gave_way_unasked_cancels_the_run() -> None:
    assert ended(judged(RunCancelled("gave way"))).state is _S.CANCELLED


@pytest.mark.parametrize("until", [None, NOW])
@pytest.mark.parametrize("reason", [None, "released", "lost"])
def test_an_execution_that_waits_is_parked(until: Any, reason: Reason | None) -> None:
    assert judged(Suspended(until), reason=reason) == Parked(until)


# failures


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 10), (2, 20)])
def test_a_failure_is_tried_again_as_the_retry_says(attempt: int, seconds: float) -> None:
    conclusion = judged(child(), execution=execution(attempt))
    error = {"stepId": "a", "path": "l[0].a", "code": "busy", "message": "not now", "kind": "execution"}
    assert conclusion == Again(timedelta(seconds=seconds), error)


def test_the_last_attempt_is_a_dead_letter_for_its_number() -> None:
    conclusion = ended(judged(child(), execution=execution(3)))
    assert (conclusion.state, conclusion.reason) == (_S.FAILED, DeadReason.MAX_ATTEMPTS)


def test_a_failure_that_no_other_try_can_help_is_a_dead_letter_at_once() -> None:
    conclusion = ended(judged(child(retryable=False)))
    assert (conclusion.state, conclusion.reason) == (_S.FAILED, DeadReason.NON_RETRYABLE)
    assert conclusion.error is not None
    assert conclusion.error["path"] == "l[0].a"


def test_a_failure_that_the_steps_own_retry_dealt_with_is_not_tried_again_as_a_whole() -> None:
    conclusion = ended(judged(child(retried=True)))
    assert (conclusion.state, conclusion.reason) == (_S.FAILED, DeadReason.MAX_ATTEMPTS)


def test_a_code_that_the_retry_does_not_name_is_not_tried_again() -> None:
    named = Retry(3, retry_on=frozenset({"busy"}))
    assert isinstance(judged(child(), retry=named), Again)
    other = StepFailed("no", code="other")
    assert ended(judged(other, retry=named)).state is _S.FAILED


@pytest.mark.parametrize(("asked", "seconds"), [(5.0, 10), (45.0, 45), (99_999.0, 600)])
def test_retry_after_is_heard_up_to_the_cap(asked: float, seconds: float) -> None:
    conclusion = judged(child(retry_after=asked))
    assert isinstance(conclusion, Again)
    assert conclusion.delay == timedelta(seconds=seconds)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_a_job_of_a_queue_is_tried_again_in_a_minute_doubled_each_time_with_a_tenth_of_jitter(
    attempt: int, chance: float
) -> None:
    conclusion = judged(child(), execution=execution(attempt), retry=JOB_RETRY, chance=chance)
    assert isinstance(conclusion, Again)
    usual = 60 * 2 ** (attempt - 1)
    assert conclusion.delay == timedelta(seconds=usual * (0.9 + 0.2 * chance))


def test_a_job_of_a_queue_is_tried_three_times_more() -> None:
    assert isinstance(judged(child(), execution=execution(3), retry=JOB_RETRY), Again)
    assert ended(judged(child(), execution=execution(4), retry=JOB_RETRY)).reason is DeadReason.MAX_ATTEMPTS


def test_what_no_queue_delivers_fails_and_is_no_dead_letter() -> None:
    conclusion = ended(judged(child(), execution=execution(queue=None), retry=ONCE))
    assert (conclusion.state, conclusion.reason) == (_S.FAILED, None)


def test_a_failure_without_a_step_says_what_it_knows() -> None:
    conclusion = ended(judged(StepFailed("x" * 10_000, code="bad"), retry=ONCE))
    assert conclusion.error is not None
    assert conclusion.error["code"] == "bad"
    assert len(str(conclusion.error["message"])) == 4_000


# a store that is away, mistakes


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_a_job_whose_worker_cannot_reach_the_store_is_given_back_for_a_while(chance: float) -> None:
    conclusion = judged(StoreUnavailable("gone"), chance=chance)
    assert conclusion == Released(timedelta(seconds=AWAY_SECONDS * (0.5 + chance)))


@pytest.mark.parametrize(
    ("raised", "queue", "code"),
    [
        (StoreUnavailable("gone"), None, "store_error"),
        (StoreFull("no space"), "default", "store_error"),
        (StoreError("odd"), None, "store_error"),
        (RuntimeError("torn"), "default", "internal_error"),
        (KeyboardInterrupt(), None, "internal_error"),
        (FloError("x" * 10_000_000), "default", "internal_error"),
    ],
)
def test_a_mistake_of_the_engine_or_its_store_fails_the_run_in_few_words(
    raised: BaseException, queue: str | None, code: str
) -> None:
    conclusion = ended(judged(raised, execution=execution(queue=queue)))
    assert conclusion.state is _S.FAILED
    assert conclusion.reason is (None if queue is None else DeadReason.NON_RETRYABLE)
    assert conclusion.error is not None
    assert conclusion.error["code"] == code
    message = str(conclusion.error["message"])
    assert message.startswith(type(raised).__name__)
    assert len(message) <= 4_000


# handlers that nobody knows


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_an_unknown_handler_goes_back_for_another_worker(attempt: int) -> None:
    conclusion = unknown_handler(execution(attempt), FloError("no step type 'x.y'"), 0.5)
    assert isinstance(conclusion, Again)
    assert conclusion.delay == timedelta(seconds=60 * 2 ** (attempt - 1))
    assert conclusion.error == {"code": "no_handler", "message": "FloError: no step type 'x.y'"}


def test_an_unknown_handler_is_dead_after_the_budget_of_a_job() -> None:
    conclusion = ended(unknown_handler(execution(4), FloError("no step type 'x.y'"), 0.5))
    assert (conclusion.state, conclusion.reason) == (_S.FAILED, DeadReason.NO_HANDLER)


def test_a_definition_that_is_not_valid_here_says_so() -> None:
    conclusion = unknown_handler(execution(), WorkflowInvalid("w", []), 0.5)
    assert isinstance(conclusion, Again)
    assert conclusion.error["code"] == "invalid_workflow"


def test_what_no_queue_delivers_is_not_left_to_another_worker() -> None:
    conclusion = ended(unknown_handler(execution(queue=None), FloError("no"), 0.5))
    assert (conclusion.state, conclusion.reason) == (_S.FAILED, None)
