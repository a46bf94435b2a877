"""An execution is tried again, resumed, given back, and taken over; what runs is what it started with."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.cancellation import Cancellation
from flo.engine.errors import InputInvalid, StepFailed, WorkflowInvalid
from flo.engine.executions import DeadReason, ExecutionState, StepState
from flo.engine.jobs import JOB_RETRY, LEASE
from flo.engine.registry import Registry
from flo.engine.step import StepCall
from flo.engine.values import JsonObject

from .delivering import House, Owner, act, fail, failing, loop, step

_S = ExecutionState
HOUR = timedelta(hours=1)


# tries of the whole


def test_a_workflow_is_tried_again_as_its_options_say_and_goes_on_from_the_failed_step(house: House) -> None:
    house.acts["b"] = failing(2, code="busy")
    asked = {"attempt": "<< $execution.attempt >>", "errors": "<< $errors.size >>"}
    name = house.enqueue(
        [act("a", asked), act("b"), act("c", asked)],
        options={"retry": {"maxAttempts": 3, "backoff": "linear", "delaySeconds": 10}},
    )
    first = house.ends()
    assert (first.state, first.attempt) == (_S.RETRYING, 2)
    assert first.run_at == house.clock.now() + timedelta(seconds=10)
    house.clock.forward(timedelta(seconds=10))
    second = house.ends()
    assert (second.state, second.run_at) == (_S.RETRYING, house.clock.now() + timedelta(seconds=20))
    house.clock.forward(timedelta(seconds=20))
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 3, "c": 1}
    outputs = house.outputs(name)
    assert (outputs["a"], outputs["c"]) == ({"attempt": 1, "errors": 0}, {"attempt": 3, "errors": 0})
    assert house.get(name).attempt == 3
    assert [attempt.outcome for attempt in house.store.executions.attempts(name)] == ["retrying", "retrying"]


def test_a_workflow_without_retry_is_dead_after_its_first_failure(house: House) -> None:
    house.acts["a"] = failing(1)
    name = house.enqueue([act("a")])
    assert house.ends().state is _S.FAILED
    assert house.get(name).reason is DeadReason.MAX_ATTEMPTS


def test_retries_belong_to_one_level(house: House) -> None:
    """A step that retried itself is not multiplied by the retries of the whole."""
    house.acts["a"] = failing(100)
    options = {"retry": {"maxAttempts": 5}}
    name = house.enqueue([loop("l", [1], act("a", retry={"maxAttempts": 3}))], options=options)
    assert house.ends().state is _S.FAILED
    assert house.ran == {"l[0].a": 3}
    assert house.get(name).reason is DeadReason.MAX_ATTEMPTS


def test_a_failed_loop_is_tried_again_where_it_failed(house: House) -> None:
    once = failing(1)
    house.acts["b"] = lambda call, input: once(call, input) if input["v"] == 1 else input
    body = [act("a"), act("b", {"v": "<< $item >>"})]
    name = house.enqueue([loop("l", [0, 1, 2], *body)], options={"retry": {"maxAttempts": 2}})
    assert house.ends().state is _S.RETRYING
    house.clock.forward(HOUR)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"l[0].a": 1, "l[0].b": 1, "l[1].a": 1, "l[1].b": 2, "l[2].a": 1, "l[2].b": 1}
    assert house.records(name)["l"].output == {"count": 3, "succeeded": 3, "failed": 0, "skipped": 0}


def holding(kind: str, *inside: Any, **fields: Any) -> dict[str, Any]:
    """A step around others."""
    more: Any = {"core.for-each": {"items": [0]}, "core.if": {"condition": True}}.get(kind, {})
    return step("holder", kind, {("then" if kind == "core.if" else "steps"): list(inside), **more}, **fields)


@pytest.mark.parametrize("kind", ["core.if", "core.try", "core.for-each", "core.parallel"])
def test_the_retry_of_a_step_with_children_goes_on_trying_in_the_next_delivery(house: House, kind: str) -> None:
    """The failure of a child that is known from before is the first try; the next one runs the child again."""
    dying = Owner(house)

    def run(call: StepCall, input: JsonObject) -> JsonObject:
        match house.ran[call.path]:
            case 1:
                raise StepFailed("not yet")
            case 2:
                dying.die()
        return {}

    house.acts["b"] = run
    name = house.enqueue([holding(kind, act("b"), retry={"maxAttempts": 2}), act("c")])
    assert dying.deliver() is None
    house.clock.forward(LEASE)
    execution = house.ends()
    assert (execution.id, execution.state) == (name, _S.SUCCESS)
    assert house.ran["c"] == 1


@pytest.mark.parametrize("kind", ["test.act", "test.act-inside"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_an_iteration_that_failed_goes_on_with_the_outputs_that_it_had(house: House, kind: str, size: int) -> None:
    house.acts["b"] = failing(1)
    inner = loop("inner", [0, 1], act("x", {"v": "<< $index >>"}, kind=kind))
    body = [act("a", {"v": "x" * size}, kind=kind), inner, act("b"), act("c", {"a": "<< a.v >>", "l": "<< inner >>"})]
    name = house.enqueue([loop("l", [0], *body)], options={"retry": {"maxAttempts": 2}})
    assert house.ends().state is _S.RETRYING
    house.clock.forward(HOUR)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"l[0].a": 1, "l[0].inner[0].x": 1, "l[0].inner[1].x": 1, "l[0].b": 2, "l[0].c": 1}
    [record] = house.store.executions.iterations(name, "l", start=0, limit=1)
    assert isinstance(record.output, dict)
    seen = record.output["c"]
    assert isinstance(seen, dict)
    assert seen["a"] == "x" * size
    assert isinstance(seen["l"], dict)
    assert seen["l"]["items"] == [{"index": n, "status": "success", "output": {"x": {"v": n}}} for n in (0, 1)]


def test_an_iteration_that_was_given_back_goes_on_with_the_outputs_that_it_had(house: House) -> None:
    cancellation = Cancellation()

    def stop(call: StepCall, input: JsonObject) -> JsonObject:
        cancellation.cancel("released")
        return {}

    house.acts["b"] = stop
    body = [act("a", {"v": "x" * 10_000}, kind="test.act-inside"), act("b"), act("c", {"a": "<< a.v >>"})]
    name = house.enqueue([loop("l", [0], *body)])
    released = Owner(house).deliver(cancellation=cancellation)
    assert released is not None
    assert released.state is _S.PENDING
    assert house.ends().state is _S.SUCCESS
    [record] = house.store.executions.iterations(name, "l", start=0, limit=1)
    assert isinstance(record.output, dict)
    assert record.output["c"] == {"a": "x" * 10_000}
    assert house.ran == {"l[0].a": 1, "l[0].b": 1, "l[0].c": 1}


def test_resume_goes_on_from_the_failed_step_with_the_next_attempt(house: House) -> None:
    house.acts["b"] = failing(1)
    asked = {"attempt": "<< $execution.attempt >>", "errors": "<< $errors >>", "a": "<< a.$meta.success >>"}
    name = house.enqueue([act("a", {"v": 1}), act("b"), act("c", {**asked, "v": "<< a.v >>"})])
    assert house.ends().state is _S.FAILED
    resumed = house.engine.resume(name)
    assert (resumed.state, resumed.attempt, resumed.reason) == (_S.PENDING, 2, None)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 2, "c": 1}
    assert house.outputs(name)["c"] == {"attempt": 2, "errors": [], "a": True, "v": 1}
    assert house.records(name)["b"].execution_attempt == 2


def test_failures_that_were_tolerated_stand_when_an_execution_is_resumed(house: House) -> None:
    house.acts["b"] = failing(1)
    name = house.enqueue([fail("a", continueOnError=True), act("b"), act("c", {"n": "<< $errors.size >>"})])
    assert house.ends().state is _S.FAILED
    house.engine.resume(name)
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert house.outputs(name)["c"] == {"n": 1}


def test_a_failure_cut_off_before_the_end_was_written_still_fails_the_run(house: House) -> None:
    house.acts["a"] = failing(1)
    house.enqueue([act("a"), act("never")])
    house.dies(at_write=2)
    assert house.ends().state is _S.FAILED
    assert house.ran == {"a": 1}


@pytest.mark.parametrize("retried", [False, True])
def test_a_failure_cut_off_before_the_next_try_was_planned_is_tried_again_all_the_same(
    house: House, retried: bool
) -> None:
    """Unless the step's own retry had tried: in its loop, or by itself."""
    house.acts["a"] = failing(100)
    retry: Any = {"retry": {"maxAttempts": 2}} if retried else {}
    house.enqueue([loop("l", [1], act("a", **retry))], options={"retry": {"maxAttempts": 2}})
    house.dies(after_step="l")
    execution = house.ends()
    assert execution.state is (_S.FAILED if retried else _S.RETRYING)
    assert house.ran == {"l[0].a": 2 if retried else 1}


# owners that come too late


def test_a_stalled_owner_changes_nothing_once_another_one_has_the_execution(house: House) -> None:
    stalled, go = threading.Event(), threading.Event()

    def stall(call: StepCall, input: JsonObject) -> JsonObject:
        if house.ran[call.path] == 1:
            stalled.set()
            go.wait(30)
            call.store.set("t", "late", 1)
        return {"by": house.ran[call.path]}

    house.acts["b"] = stall
    put = {"tableName": "t", "key": "late", "value": 2}
    name = house.enqueue([act("a"), act("b"), step("put", "data-store.set", put), act("c")])
    first, gave = Owner(house), []
    thread = threading.Thread(target=lambda: gave.append(first.deliver()))
    thread.start()
    assert stalled.wait(30)
    house.clock.forward(LEASE)

    def hold_up(call: StepCall, input: JsonObject) -> JsonObject:
        go.set()
        thread.join(30)
        return {}

    house.acts["c"] = hold_up
    execution = house.ends()
    assert gave == [None]
    assert (execution.state, execution.fence) == (_S.SUCCESS, 2)
    assert house.ran == {"a": 1, "b": 2, "c": 1}
    assert house.outputs(name)["b"] == {"by": 2}
    row = house.store.data.get("t", "late")
    assert row is not None
    assert row.value == 2


def test_nothing_that_a_cancelled_execution_does_is_stored(house: House) -> None:
    def cancel(call: StepCall, input: JsonObject) -> JsonObject:
        house.engine.cancel(call.execution_id)
        return {}

    house.acts["a"] = cancel
    name = house.enqueue([act("a"), act("b")])
    assert Owner(house).deliver() is None
    assert house.get(name).state is _S.CANCELLED
    assert house.records(name) == {}
    assert house.ran == {"a": 1}


# what runs


def test_an_execution_keeps_the_definition_that_it_started_with(house: House) -> None:
    def named(value: str) -> dict[str, Any]:
        return {"name": "w", "steps": [act("a"), act("b", {"v": value})]}

    house.engine.add(named("old"))
    name = house.engine.enqueue("w").execution_id
    house.dies(in_step="a")
    assert house.engine.add(named("new")).version == 2
    assert house.ends().state is _S.SUCCESS
    assert house.outputs(name)["b"] == {"v": "old"}
    assert house.get(name).version == 1
    replayed = house.engine.replay(name).execution_id
    house.ends()
    assert house.outputs(replayed)["b"] == {"v": "new"}


def test_a_job_is_one_step_type_and_nothing_in_its_input_is_a_template(house: House) -> None:
    given: JsonObject = {"text": "<< $execution.id >> {{ initial.x }}", "deep": [{"t": "{% if x %}"}]}
    name = house.enqueue_job("test.act", given)
    house.dies(in_step="job")
    execution = house.ends()
    assert (execution.state, execution.output) == (_S.SUCCESS, given)
    assert (execution.handler, execution.workflow) == ("test.act", None)
    assert house.ran == {"job": 2}
    assert house.outputs(name) == {"job": given}


def test_a_job_is_tried_again_by_the_queue_within_its_band(house: House) -> None:
    house.acts["job"] = failing(3)
    name = house.enqueue_job("test.act")
    for number in (1, 2, 3):
        execution = house.ends()
        assert (execution.state, execution.attempt) == (_S.RETRYING, number + 1)
        assert execution.run_at is not None
        delay = (execution.run_at - house.clock.now()).total_seconds()
        usual = JOB_RETRY.delay_seconds * 2 ** (number - 1)
        assert usual * 0.9 <= delay <= usual * 1.1
        house.clock.time = execution.run_at
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"job": 4}
    assert house.get(name).attempt == 4


def test_a_job_is_dead_after_its_last_try_or_when_no_other_can_help(house: House) -> None:
    house.acts["job"] = failing(100)
    name = house.enqueue_job("test.act")
    for _ in range(4):
        house.ends()
        house.clock.forward(HOUR)
    assert (house.get(name).state, house.get(name).reason) == (_S.FAILED, DeadReason.MAX_ATTEMPTS)
    house.acts["job"] = failing(100, retryable=False)
    name = house.enqueue_job("test.act")
    house.ends()
    assert (house.get(name).state, house.get(name).reason) == (_S.FAILED, DeadReason.NON_RETRYABLE)


def test_a_job_whose_handler_nobody_knows_goes_back_until_its_tries_are_over(house: House) -> None:
    name = house.enqueue_job("alien.handler", {"x": 1})
    for attempt in (2, 3, 4):
        execution = house.ends()
        assert (execution.state, execution.attempt) == (_S.RETRYING, attempt)
        assert execution.error is not None
        assert execution.error["code"] == "no_handler"
        house.clock.forward(HOUR)
    execution = house.ends()
    assert (execution.state, execution.reason) == (_S.FAILED, DeadReason.NO_HANDLER)
    assert "alien.handler" in str(execution.error)
    assert house.records(name) == {}


def test_a_worker_that_knows_the_handler_takes_what_another_one_put_back(house: House) -> None:
    house.enqueue_job("test.act", {"x": 1})
    name = house.enqueue([act("a", kind="test.act-whole")])
    for _ in range(2):
        execution = Owner(house).without("test.act", "test.act-whole").deliver()
        assert execution is not None
        assert execution.state is _S.RETRYING
    house.clock.forward(HOUR)
    assert house.ends().state is house.ends().state is _S.SUCCESS
    assert house.records(name)["a"].state is StepState.SUCCESS


def test_a_change_that_does_not_fit_fails_its_step_in_the_same_words_on_every_store(house: House) -> None:
    house.engine.data.set("t", "k", {"n": "text"})
    wanted = {"tableName": "t", "key": "k", "set": [{"field": "n", "operation": "increment", "value": 1}]}
    house.enqueue([step("add", "data-store.atomic-update", wanted)])
    ended = house.ends()
    assert ended.state is _S.FAILED
    assert ended.error is not None
    assert ended.error["code"] == "invalid_filter"
    assert "set[0]" in str(ended.error["message"])
    assert house.engine.data.get("t", "k").value == {"n": "text"}


def test_a_run_that_waits_longer_than_its_timeout_is_timed_out_in_the_store_too(house: House) -> None:
    wait = step("ask", "core.approval", {"message": "May I?"})
    result = house.engine.run({"steps": [wait]}, timeout_ms=100)
    assert result.state is _S.TIMED_OUT
    stored = house.engine.executions.get(result.execution_id)
    assert stored is not None
    assert stored.state is _S.TIMED_OUT


def test_what_cannot_run_here_is_not_taken_from_where_it_can(house: House) -> None:
    house.acts["a"] = failing(1)
    run = house.engine.run({"steps": [act("a")]})
    assert run.state is _S.FAILED
    house.engine.resume(run.execution_id)
    stranger = Flo(house.engine.store, Registry(), house.engine.clock)
    with pytest.raises(WorkflowInvalid):
        stranger.run_pending(run.execution_id)
    held = house.engine.executions.get(run.execution_id)
    assert held is not None
    assert held.state is _S.PENDING
    assert house.engine.run_pending(run.execution_id).state is _S.SUCCESS


def test_an_input_that_is_too_large_is_refused_with_its_size_and_nothing_is_stored(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.requests.MAX_INPUT", 100)
    given = {"text": "x" * 100}
    for refused in (house.engine.run, house.engine.enqueue):
        with pytest.raises(InputInvalid, match=r"111 characters as JSON, the limit is 100"):
            refused({"steps": [act("a")]}, given)
    assert house.engine.executions.list() == []
    house.enqueue([step("put", "queue.enqueue", {"handler": "core.log", "input": {"message": "x" * 100}})])
    ended = house.ends()
    assert ended.state is _S.FAILED
    assert "the limit is 100" in str((ended.error or {})["message"])
