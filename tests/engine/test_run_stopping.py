"""What is tried again, what is over its time, and runs that are asked to stop."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import IllegalState
from flo.engine.executions import ExecutionState, IllegalMove, StepState

from .delivering import echo


def test_a_failed_attempt_is_tried_again_by_the_steps_retry(bench: Any) -> None:
    started = bench.clock.now()
    result = bench.run(
        [
            {
                "stepId": "f",
                "stepType": "test.flaky",
                "input": {"times": 2},
                "retry": {"maxAttempts": 3, "backoff": "exponential", "delaySeconds": 10},
            }
        ]
    )
    assert result.steps["f"]["output"] == {"attempt": 3}
    assert result.steps["f"]["attempts"] == 3
    assert bench.clock.now() - started == timedelta(seconds=30)
    assert len(set(bench.keys)) == 1
    assert len(bench.keys) == 3


def test_retry_on_names_the_only_codes_that_are_tried_again(bench: Any) -> None:
    retry = {"maxAttempts": 5, "retryOn": ["busy"]}
    result = bench.run(
        [{"stepId": "f", "stepType": "test.flaky", "input": {"times": 9, "code": "other"}, "retry": retry}]
    )
    assert result.steps["f"]["attempts"] == 1
    result = bench.run(
        [{"stepId": "f", "stepType": "test.flaky", "input": {"times": 9, "code": "busy"}, "retry": retry}]
    )
    assert result.steps["f"]["attempts"] == 5


def test_attempts_are_not_multiplied_by_a_loop(bench: Any) -> None:
    body = {"stepId": "f", "stepType": "test.flaky", "input": {"times": 99}, "retry": {"maxAttempts": 3}}
    result = bench.run(
        [
            {
                "stepId": "loop",
                "stepType": "core.for-each",
                "input": {"items": [1, 2, 3], "continueOnError": True, "steps": [body]},
            }
        ]
    )
    assert bench.started["f"] == 9
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS


@pytest.mark.parametrize("polite", [True, False])
def test_a_step_over_its_timeout_fails_and_its_late_result_is_thrown_away(bench: Any, polite: bool) -> None:
    hang = {"stepId": "h", "stepType": "test.hang", "input": {"polite": polite}, "timeoutMilliseconds": 20}
    result = bench.run([hang])
    assert result.state is ExecutionState.FAILED
    assert result.error["code"] == "timeout"
    assert result.steps["h"]["output"] is None


def test_a_run_over_its_timeout_is_timed_out_also_inside_a_loop(bench: Any) -> None:
    hang = {"stepId": "h", "stepType": "test.hang"}
    for steps in ([hang], [{"stepId": "l", "stepType": "core.for-each", "input": {"items": [1], "steps": [hang]}}]):
        result = bench.run(steps, options={"timeoutMilliseconds": 30})
        assert result.state is ExecutionState.TIMED_OUT
        assert bench.engine.executions.get(result.execution_id).state is ExecutionState.TIMED_OUT


def test_a_cancelled_run_stops_and_stays_cancelled(bench: Any) -> None:
    cancelled = threading.Event()
    results: list[Any] = []
    steps = [{"stepId": "h", "stepType": "test.hang"}, echo("after")]
    thread = threading.Thread(target=lambda: results.append(bench.engine.run({"steps": steps}, cancelled=cancelled)))
    thread.start()
    assert bench.entered.wait(10)
    cancelled.set()
    thread.join(10)
    [result] = results
    assert result.state is ExecutionState.CANCELLED
    assert result.steps["h"]["status"] == "cancelled"
    assert bench.started["after"] == 0
    with pytest.raises(IllegalMove):
        bench.engine.cancel(result.execution_id)
    with pytest.raises(IllegalMove):
        bench.engine.resume(result.execution_id)
    assert bench.engine.executions.get(result.execution_id).state is ExecutionState.CANCELLED


def test_a_hanging_step_of_a_graph_is_given_up_after_the_timeout(bench: Any) -> None:
    hang = {"stepId": "h", "stepType": "test.hang", "input": {"polite": False, "stubborn": True}, "dependsOn": []}
    result = bench.run([hang, echo("b", dependsOn=[])], options={"timeoutMilliseconds": 30})
    assert result.state is ExecutionState.TIMED_OUT
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("flo-"))
    bench.released.set()


def test_what_ran_beside_a_step_that_hangs_is_recorded_when_the_run_is_given_up(bench: Any) -> None:
    hang = {"stepId": "h", "stepType": "test.hang", "input": {"polite": False, "stubborn": True}}
    body = [
        {"stepId": "say", "stepType": "core.log", "input": {"message": "item << $item >>"}},
        {**hang, "skipCondition": "<< $item != 0 >>"},
    ]
    loop = {"items": [0, 1, 2, 3], "concurrency": 2, "steps": body}
    result = bench.run(
        [{"stepId": "l", "stepType": "core.for-each", "input": loop}], options={"timeoutMilliseconds": 300}
    )
    assert result.state is ExecutionState.TIMED_OUT
    assert sorted(bench.messages(result)) == ["item 0", "item 1", "item 2", "item 3"]
    records = {record.path: record.state for record in bench.engine.executions.steps(result.execution_id)}
    assert records["l[3]"] is records["l[3].say"] is StepState.SUCCESS
    bench.released.set()


def test_a_failed_run_that_is_resumed_goes_on_here_and_shows_the_steps_of_before(bench: Any) -> None:
    flaky = {"stepId": "f", "stepType": "test.once-broken"}
    result = bench.run([echo("a", {"v": 1}), flaky, echo("b", {"v": "<< a.v >>", "n": "<< $execution.attempt >>"})])
    assert result.state is ExecutionState.FAILED
    assert bench.engine.resume(result.execution_id).state is ExecutionState.PENDING
    again = bench.engine.run_pending(result.execution_id)
    assert (again.execution_id, again.state) == (result.execution_id, ExecutionState.SUCCESS)
    assert bench.started == {"a": 1, "f": 2, "b": 1}
    assert [(name, step["status"]) for name, step in again.steps.items()] == [
        ("a", "success"),
        ("f", "success"),
        ("b", "success"),
    ]
    assert again.steps["a"]["output"] == {"v": 1}
    assert again.steps["b"]["output"] == {"v": 1, "n": 2}
    with pytest.raises(IllegalState, match="success"):
        bench.engine.run_pending(result.execution_id)


def test_an_interrupt_of_the_waiting_program_stops_the_run_and_records_it(bench: Any) -> None:
    class Interrupted(threading.Event):
        """Raises in the waiting thread, as Ctrl-C does, once the step has begun."""

        def is_set(self) -> bool:
            if bench.entered.is_set():
                raise KeyboardInterrupt
            return False

    with pytest.raises(KeyboardInterrupt):
        bench.engine.run({"steps": [{"stepId": "h", "stepType": "test.hang"}, echo("after")]}, cancelled=Interrupted())
    [execution] = bench.engine.executions.list()
    assert execution.state is ExecutionState.CANCELLED
    assert bench.started["after"] == 0
