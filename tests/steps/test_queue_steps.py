"""Steps over the queue: a job put into it, and its end waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flo.engine.checking.load import load
from flo.engine.errors import NotFound, StepFailed, WorkflowInvalid
from flo.engine.jobs import JobOptions
from flo.engine.registry import Registry
from flo.engine.step import Outcome, Suspended

REGISTRY = Registry.installed()


def step(step_id: str, step_type: str, **given: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": step_type, "input": given}


def counting(key: str) -> dict[str, Any]:
    """Add one to what ``Workplace.count`` gives."""
    change = {"field": "n", "operation": "increment", "value": 1}
    return step(f"count-{key}", "data-store.atomic-update", tableName="counts", key=key, upsert=True, set=change)


def answering_with(value: Any) -> dict[str, Any]:
    return step("answer", "core.return", got=value)


def test_a_job_is_enqueued_with_what_was_asked_for(body: Any, answering: Any) -> None:
    given = {
        "queue": "mail", "priority": 3, "delay": "10m", "deadline": "2026-01-02T00:00:00Z", "key": "k",
        "concurrencyKey": "c",
    }  # fmt: skip
    assert body("queue.enqueue", workflow="send", input={"n": 1}, **given) == {
        "executionId": "job-1",
        "created": True,
        "status": "pending",
    }
    deadline = datetime(2026, 1, 2, tzinfo=UTC)
    options = JobOptions("mail", 3, None, timedelta(minutes=10), deadline, "k", "c", kind="workflow")
    assert answering.jobs == [("send", {"n": 1}, options)]


def test_what_is_not_asked_for_has_its_default(body: Any, answering: Any) -> None:
    body("queue.enqueue", handler="core.log", runAt="2026-01-01T00:00:00Z")
    options = JobOptions(run_at=datetime(2026, 1, 1, tzinfo=UTC), kind="handler")
    assert answering.jobs == [("core.log", {}, options)]


LATER = [{}, {"delay": "5m"}, {"runAt": "2026-01-01T00:00:00Z"}, {"delay": "<< initial.delay >>"}]


@pytest.mark.parametrize("given", LATER, ids=str)
@pytest.mark.parametrize("text", ["x", "<< initial.text >>"])
def test_a_job_runs_at_once_or_at_an_instant_or_after_a_delay(given: Any, text: str) -> None:
    enqueue = step("put", "queue.enqueue", handler="core.log", input={"message": text}, **given)
    assert load({"steps": [enqueue]}, REGISTRY).warnings == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workflow": "w", "delay": "<< initial.delay >>", "runAt": "<< initial.at >>"},
         "'runAt' and 'delay' exclude each other"),
        ({"workflow": "w", "delay": "5m", "runAt": "2026-01-01T00:00:00Z"}, "'runAt' and 'delay' exclude each other"),
        ({"workflow": "w", "handler": "<< initial.h >>"}, "'workflow' and 'handler' exclude each other"),
        ({"input": {}}, "one of 'workflow' or 'handler' is required"),
    ],
)  # fmt: skip
def test_what_excludes_each_other_is_told_when_the_document_is_loaded(given: Any, message: str) -> None:
    with pytest.raises(WorkflowInvalid) as invalid:
        load({"steps": [step("put", "queue.enqueue", **given)]}, REGISTRY)
    assert [problem.message for problem in invalid.value.problems] == [message]


@pytest.mark.parametrize("status", ["success", "completed_with_errors"])
def test_the_end_of_a_job_is_given(body: Any, answering: Any, status: str) -> None:
    ended = {"executionId": "job-1", "status": status, "output": {"n": 1}, "error": None}
    answering.answers = [ended]
    outcome = body("queue.wait", executionId="job-1", timeout="1h")
    assert outcome == Outcome(ended)
    assert answering.waits == [("execution", "job-1", datetime(2026, 1, 1, 1, tzinfo=UTC), None)]


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        ("failed", {"code": "c", "message": "no luck"}, "execution job-1 ended as failed: no luck"),
        ("cancelled", None, "execution job-1 ended as cancelled"),
        ("timed_out", {"code": "timeout"}, "execution job-1 ended as timed_out"),
        ("rejected", None, "execution job-1 ended as rejected"),
    ],
)
def test_a_job_that_ended_badly_fails_the_step_and_its_end_stays_readable(
    body: Any, answering: Any, status: str, error: Any, said: str
) -> None:
    ended = {"executionId": "job-1", "status": status, "output": None, "error": error}
    answering.answers = [ended]
    assert body("queue.wait", executionId="job-1") == Outcome(ended, [said], retryable=False)


def test_a_job_that_has_not_ended_is_waited_for(body: Any) -> None:
    with pytest.raises(Suspended):
        body("queue.wait", executionId="job-1")


def test_a_job_that_is_not_there_is_a_failure_that_no_other_attempt_helps(body: Any, answering: Any) -> None:
    answering.answers = [NotFound("execution", "job-2")]
    with pytest.raises(StepFailed) as failed:
        body("queue.wait", executionId="job-2")
    assert (failed.value.code, failed.value.retryable) == ("not_found", False)
    assert failed.value.message == "executionId: no execution 'job-2'"


PUT = step("put", "queue.enqueue", workflow="job", input={"n": 5})
END = step("end", "queue.wait", executionId="<< put.executionId >>")


def test_a_workflow_waits_for_the_job_that_it_enqueued(workplace: Any) -> None:
    workplace.add("job", [counting("job"), step("back", "core.return", doubled="<< initial.n * 2 >>")])
    run = workplace.enqueue([PUT, END, answering_with("<< [put.created, put.status, end.status, end.output] >>")])
    workplace.drain(concurrency=1)
    assert workplace.get(run).output == {"got": [True, "pending", "success", {"doubled": 10}]}
    (job,) = workplace.children(run)
    assert (job.parent_id, job.parent_path, job.queue, job.trigger) == (run, "put", "default", "workflow")
    assert workplace.count("job") == 1


def test_a_step_type_is_a_job_too_and_nothing_in_its_input_is_a_template(workplace: Any) -> None:
    put = step("put", "queue.enqueue", handler="core.log", input={"message": "<< initial.text >>"}, priority=7)
    run = workplace.enqueue([put, END, answering_with("<< end.status >>")], {"text": "{{ initial.text }}"})
    workplace.drain(concurrency=1)
    assert workplace.get(run).output == {"got": "success"}
    (job,) = workplace.children(run)
    assert (job.handler, job.priority) == ("core.log", 7)
    assert [line.message for line in workplace.engine.executions.lines(job.id)] == ["{{ initial.text }}"]


def test_a_job_is_enqueued_once_though_its_worker_died_before_that_was_recorded(
    shared_workplace: Any, killed_after: Any
) -> None:
    shared_workplace.add("job", [counting("job"), step("back", "core.return", doubled=1)])
    run = shared_workplace.enqueue([PUT, END, answering_with("<< end.executionId >>")])
    killed_after(shared_workplace, "put")
    assert shared_workplace.engine.executions.steps(run) == []
    (job,) = shared_workplace.children(run)
    shared_workplace.clock.forward(timedelta(minutes=1))
    shared_workplace.drain()
    assert shared_workplace.get(run).output == {"got": job.id}
    assert shared_workplace.get(run).expiries == 1
    assert len(shared_workplace.children(run)) == 1
    assert shared_workplace.count("job") == 1


def test_a_resumed_run_waits_for_the_same_job(workplace: Any) -> None:
    workplace.add("job", [counting("job")])
    broken = step("break", "core.fail", message="no luck")
    run = workplace.enqueue([PUT, END, counting("after"), broken])
    workplace.drain(concurrency=1)
    assert workplace.state(run) == "failed"
    workplace.engine.resume(run)
    workplace.drain(concurrency=1)
    assert workplace.get(run).attempt == 2
    assert len(workplace.children(run)) == 1
    assert [workplace.count(key) for key in ("job", "after")] == [1, 1]


def test_cancelling_a_run_cancels_the_jobs_that_it_waits_for_or_not(workplace: Any) -> None:
    workplace.add("job", [counting("job")])
    later = {**PUT, "input": {**PUT["input"], "delay": "1h"}}
    run = workplace.enqueue([later, {**later, "stepId": "also"}, END])
    workplace.drain()
    jobs = workplace.children(run)
    assert [job.state.value for job in jobs] == ["pending", "pending"]
    assert set(workplace.engine.cancel(run)) == {run, *(job.id for job in jobs)}
    workplace.clock.forward(timedelta(hours=2))
    workplace.drain()
    assert [workplace.state(each) for each in (run, *(job.id for job in jobs))] == ["cancelled"] * 3
    assert workplace.count("job") == 0


def test_the_end_of_a_job_that_failed_can_be_read(workplace: Any) -> None:
    workplace.add("job", [step("break", "core.fail", message="no luck", code="bad_luck")])
    end = {**END, "continueOnError": True}
    got = "<< [end.status, end.error.code, end.$meta.operationalErrors.size, end.$meta.success] >>"
    run = workplace.enqueue([PUT, end, answering_with(got)])
    workplace.drain(concurrency=1)
    assert workplace.state(run) == "completed_with_errors"
    assert workplace.get(run).output == {"got": ["failed", "bad_luck", 1, False]}


def test_a_job_that_takes_too_long_goes_on_by_itself(workplace: Any) -> None:
    workplace.add("job", [counting("job")])
    later = {**PUT, "input": {**PUT["input"], "delay": "1h"}}
    run = workplace.enqueue([later, {**END, "input": {**END["input"], "timeout": "5m"}}])
    workplace.drain()
    workplace.clock.forward(timedelta(minutes=5))
    workplace.drain()
    assert workplace.state(run) == "failed"
    assert workplace.get(run).error["code"] == "timeout"
    workplace.clock.forward(timedelta(hours=1))
    workplace.drain()
    assert [job.state.value for job in workplace.children(run)] == ["success"]


def test_one_key_is_one_job(workplace: Any) -> None:
    workplace.add("job", [counting("job")])
    put = {**PUT, "input": {**PUT["input"], "key": "invoice-1"}}
    runs = [workplace.enqueue([put, END, answering_with("<< [put.created, put.executionId] >>")]) for _ in range(2)]
    workplace.drain(concurrency=1)
    (first, job), (second, same) = (workplace.get(run).output["got"] for run in runs)
    assert (first, second) == (True, False)
    assert job == same
    assert workplace.count("job") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workflow": "jbo"}, "no stored workflow 'jbo'; did you mean 'job'?"),
        ({"workflow": "core.log"}, "no stored workflow 'core.log'"),
        ({"handler": "core.if"}, "core.if"),
        ({"handler": "core.log", "input": {}}, "'message' is required"),
    ],
)
def test_what_cannot_run_is_refused_and_not_enqueued(workplace: Any, given: Any, said: str) -> None:
    workplace.add("job", [counting("job")])
    run = workplace.enqueue([step("put", "queue.enqueue", **given)])
    workplace.drain()
    assert workplace.state(run) == "failed"
    assert said in workplace.get(run).error["message"]
    assert workplace.children(run) == []


def test_a_stored_workflow_does_not_stand_in_for_a_step_type_of_its_name(workplace: Any) -> None:
    workplace.add("core.log", [counting("wrong")])
    put = step("put", "queue.enqueue", handler="core.log", input={"message": "right"})
    run = workplace.enqueue([put])
    workplace.drain()
    assert [job.handler for job in workplace.children(run)] == ["core.log"]
    assert workplace.count("wrong") == 0


def test_to_wait_for_what_is_not_there_is_a_failure(workplace: Any) -> None:
    run = workplace.enqueue([step("end", "queue.wait", executionId="gone")])
    workplace.drain()
    assert workplace.get(run).error["code"] == "not_found"


def test_the_recipe_hands_work_out_and_gathers_what_became_of_it(workplace: Any) -> None:
    recipe = Path(__file__).resolve().parents[2] / "recipes" / "enqueue-and-wait.json"
    run = workplace.engine.enqueue(recipe, {"items": list(range(20))}).execution_id
    workplace.drain(concurrency=4)
    assert workplace.get(run).output == {"jobs": 20, "succeeded": 20, "failed": 0}
    assert {job.handler for job in workplace.children(run)} == {"core.log"}
    assert len(workplace.children(run)) == 20
