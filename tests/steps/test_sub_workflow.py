"""A workflow as a step of another one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.checking.load import Checked, load
from flo.engine.errors import WorkflowInvalid
from flo.engine.events import ExecutionEnded, ExecutionStarted
from flo.engine.registry import Registry
from flo.engine.values import JsonObject

REGISTRY = Registry.installed()


@pytest.mark.parametrize(
    "given", [{"workflowTemplateName": "child"}, {"workflowTemplateId": "child"}, {"workflow": {"steps": []}}]
)
def test_the_workflow_that_is_named_or_written_out_is_called(body: Any, answering: Any, given: Any) -> None:
    assert body("core.sub-workflow", **given, inputs={"n": 1}) == {"returned": True}
    (target,) = given.values()
    assert answering.called == [(target, {"n": 1})]


def test_without_inputs_it_gets_none(body: Any, answering: Any) -> None:
    body("core.sub-workflow", workflowTemplateName="child")
    assert answering.called == [("child", {})]


def calling(name: str | None = None, **given: Any) -> JsonObject:
    document: JsonObject = {"steps": [{"stepId": "call", "stepType": "core.sub-workflow", "input": given}]}
    return document if name is None else {**document, "name": name}


def checked(**given: Any) -> Checked:
    return load(calling(**given), REGISTRY)


def problems(**given: Any) -> list[tuple[str, str | None, str]]:
    with pytest.raises(WorkflowInvalid) as invalid:
        load(calling(**given), REGISTRY)
    return [(each.place, each.step_id, each.message.splitlines()[0]) for each in invalid.value.problems]


def log(step_id: str, message: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "core.log", "input": {"message": message}}


def test_templates_of_a_workflow_that_is_written_out_are_its_own() -> None:
    inner = {"initial": {"n": 1}, "steps": [log("call", "<< initial.n >>"), log("say", "{{ call.message }}")]}
    step = checked(workflow=inner, inputs={"n": "<< initial.m >>"}).workflow.block.steps[0]
    assert step.input["workflow"].constant
    assert not step.input["inputs"].constant

    def unseen(missing: Any) -> None:
        raise AssertionError(missing)

    assert step.input["workflow"].resolve(None, unseen) == inner  # type: ignore[arg-type]


def test_a_workflow_that_is_written_out_is_checked_with_the_one_around_it() -> None:
    inner = {"steps": [log("a", "<< outer.x >>"), {"stepId": "a", "stepType": "core.lgo"}], "opitons": {}}
    assert problems(workflow=inner) == [
        ("steps[0].input.workflow.steps[0].input.message", "a", "no step or name 'outer'"),
        ("steps[0].input.workflow.steps[1].stepId", "a",
         "another step has the stepId 'a' already; it is unique in the whole workflow"),
        ("steps[0].input.workflow.steps[1].stepType", "a", "no step type 'core.lgo'; did you mean 'core.log'?"),
        ("steps[0].input.workflow.opitons", "call", "unknown field 'opitons'; did you mean 'options'?"),
    ]  # fmt: skip


def test_problems_stand_where_the_inner_document_has_them_whatever_its_shape() -> None:
    nested = calling(workflow={"definition": {"steps": [{"stepId": "x", "stepType": "core.log", "input": {}}]}})
    assert problems(workflow=nested) == [
        (
            "steps[0].input.workflow.steps[0].input.workflow.definition.steps[0].input",
            "x",
            "'message' is required",
        )
    ]
    assert problems(workflow={"stepId": "x", "stepType": "core.log", "input": {}}) == [
        ("steps[0].input.workflow.input", "x", "'message' is required")
    ]


def test_problems_of_an_inner_document_have_their_line() -> None:
    text = """{
      "steps": [{"stepId": "call", "stepType": "core.sub-workflow", "input": {
        "workflow": {"steps": [
          {"stepId": "x", "stepType": "core.log", "input": {"mesage": 1}}]}}}]}"""
    with pytest.raises(WorkflowInvalid) as invalid:
        load(text, REGISTRY)
    assert {problem.line for problem in invalid.value.problems} == {4}


@pytest.mark.parametrize("given", ["<< initial.document >>", "a << initial.document >>"])
def test_a_template_cannot_give_the_workflow(given: str) -> None:
    ((place, _, message),) = problems(workflow=given)
    assert place == "steps[0].input.workflow"
    assert message == "a workflow is written out here, or called by its name; a template cannot give it"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of 'workflowTemplateName', 'workflowTemplateId' or 'workflow' is required"),
        ({"workflowTemplateName": "a", "workflow": {"steps": []}},
         "'workflowTemplateName' and 'workflow' exclude each other"),
        ({"workflowTemplateName": "<< initial.n >>", "workflowTemplateId": "b"},
         "'workflowTemplateName' and 'workflowTemplateId' exclude each other"),
    ],
)  # fmt: skip
def test_exactly_one_workflow_is_called(given: Any, message: str) -> None:
    assert problems(**given) == [("steps[0].input", "call", message)]


def test_a_workflow_that_calls_itself_is_a_warning() -> None:
    (warning,) = checked(name="me", workflowTemplateName="me").warnings
    assert (warning.place, warning.step_id) == ("steps[0].input.workflowTemplateName", "call")
    assert "10 deep" in warning.message
    assert checked(name="me", workflowTemplateName="other").warnings == ()
    assert checked(workflowTemplateName="me").warnings == ()


def step(step_id: str, step_type: str, **given: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": step_type, "input": given}


def call(name: str, step_id: str = "call", **inputs: Any) -> dict[str, Any]:
    return step(step_id, "core.sub-workflow", workflowTemplateName=name, inputs=inputs)


def back(value: Any, step_id: str = "back") -> dict[str, Any]:
    return step(step_id, "core.return", got=value)


def counting(key: str) -> dict[str, Any]:
    """Add one to what ``Workplace.count`` gives."""
    change = {"field": "n", "operation": "increment", "value": 1}
    return step(f"count-{key}", "data-store.atomic-update", tableName="counts", key=key, upsert=True, set=change)


LISTEN = step("listen", "core.wait-for-signal", name="go")


def test_the_child_gets_its_inputs_over_its_own_initial_and_its_return_is_the_output(workplace: Any) -> None:
    workplace.add("child", [back("<< [initial.a, initial.b, $execution.trigger] >>")], initial={"a": 1, "b": 2})
    result = workplace.engine.run({"steps": [call("child", b="<< initial.n >>"), back("<< call.got >>")]}, {"n": 3})
    assert result.output == {"got": [1, 3, "sub-workflow"]}
    (child,) = workplace.children(result.execution_id)
    assert (child.workflow, child.version, child.parent_path, child.queue, child.depth) == ("child", 1, "call", None, 2)


def test_a_child_that_returns_nothing_gives_nothing(workplace: Any) -> None:
    workplace.add("child", [log("say", "x")])
    result = workplace.engine.run({"steps": [call("child")]})
    assert result.steps["call"]["output"] == {}


def test_a_workflow_that_is_written_out_runs_with_its_own_templates(workplace: Any) -> None:
    inner = {"initial": {"n": 1}, "steps": [log("call", "<< initial.n >>"), back("{{ call.message }} << initial.n >>")]}
    sub = step("call", "core.sub-workflow", workflow=inner, inputs={"n": "<< initial.n + 1 >>"})
    result = workplace.engine.run({"steps": [sub, back("<< call.got >>")]}, {"n": 10})
    assert result.output == {"got": "11 11"}


def test_the_failure_of_a_child_is_that_of_the_step(workplace: Any) -> None:
    workplace.add("child", [step("break", "core.fail", message="no luck", code="bad_luck")])
    result = workplace.engine.run({"steps": [call("child")]})
    assert (result.state.value, result.error["code"]) == ("failed", "bad_luck")
    (child,) = workplace.children(result.execution_id)
    assert child.state.value == "failed"
    assert child.id in result.error["message"]
    assert "no luck" in result.error["message"]


def test_inputs_that_do_not_fit_the_child_are_refused_before_it_runs(workplace: Any) -> None:
    schema = {"required": ["n"], "properties": {"n": {"type": "integer"}}}
    workplace.add("child", [counting("child")], inputSchema=schema)
    result = workplace.engine.run({"steps": [call("child", n="5")]})
    assert result.error["code"] == "invalid_input"
    assert "initial.n" in result.error["message"]
    assert (workplace.children(result.execution_id), workplace.count("child")) == ([], 0)


def test_a_workflow_that_is_not_stored_is_named_with_the_nearest(workplace: Any) -> None:
    workplace.add("child", [log("say", "x")])
    result = workplace.engine.run({"steps": [call("chlid")]})
    assert "no stored workflow 'chlid'; did you mean 'child'?" in result.error["message"]


def test_workflows_that_call_each_other_without_end_fail_at_the_tenth_with_the_chain(workplace: Any) -> None:
    workplace.add("a", [call("b")])
    workplace.add("b", [call("a")])
    result = workplace.engine.run("a")
    assert result.state.value == "failed"
    assert result.error["code"] == "too_deep"
    chain = " > ".join(["a version 1", "b version 1"] * 5)
    assert f"10 deep, which is the limit: {chain} > a" in result.error["message"]
    ran, newest = 1, result.execution_id
    while children := workplace.children(newest):
        (child,) = children
        ran, newest = ran + 1, child.id
    assert ran == 10


def test_jobs_that_enqueue_themselves_count_as_calls(workplace: Any) -> None:
    workplace.add("a", [counting("a"), step("next", "queue.enqueue", workflow="a")])
    run = workplace.engine.enqueue("a").execution_id
    workplace.drain()
    assert workplace.count("a") == 10
    assert workplace.state(run) == "success"


def test_a_child_runs_in_the_version_that_is_the_newest_when_it_is_called(workplace: Any) -> None:
    workplace.add("child", [back("old")])
    steps = [call("child", "first"), LISTEN, call("child", "second"), back("<< [first.got, second.got] >>")]
    run = workplace.enqueue(steps)
    workplace.drain()
    workplace.add("child", [back("new")])
    workplace.engine.signal(run, "go")
    workplace.drain()
    assert workplace.get(run).output == {"got": ["old", "new"]}
    first, second = workplace.children(run)
    assert [first.version, second.version] == [1, 2]
    digests = [workplace.engine.stored("child", version).digest for version in (1, 2)]
    assert [first.digest, second.digest] == digests
    assert workplace.engine.run({"steps": [call("child")]}).steps["call"]["output"] == {"got": "new"}


def test_a_child_that_waits_goes_on_in_the_version_that_it_began_with(workplace: Any) -> None:
    workplace.add("child", [counting("begun"), LISTEN, back("old")])
    run = workplace.enqueue([call("child"), back("<< call.got >>")])
    workplace.drain()
    (child,) = workplace.children(run)
    assert (workplace.state(run), workplace.state(child.id)) == ("suspended", "suspended")
    workplace.add("child", [back("new")])
    workplace.engine.signal(child.id, "go")
    workplace.drain()
    assert workplace.get(run).output == {"got": "old"}
    assert [held.id for held in workplace.children(run)] == [child.id]
    assert workplace.count("begun") == 1


def test_a_child_goes_on_after_its_last_step_though_the_worker_died(shared_workplace: Any, killed_after: Any) -> None:
    shared_workplace.add("child", [counting("first"), counting("second"), back("done")])
    run = shared_workplace.enqueue([call("child"), back("<< call.got >>")])
    killed_after(shared_workplace, "count-first")
    shared_workplace.clock.forward(timedelta(minutes=1))
    shared_workplace.drain()
    assert shared_workplace.get(run).output == {"got": "done"}
    assert len(shared_workplace.children(run)) == 1
    assert [shared_workplace.count(key) for key in ("first", "second")] == [1, 1]


def test_cancelling_a_run_cancels_the_workflow_that_it_called(workplace: Any) -> None:
    workplace.add("grandchild", [LISTEN])
    workplace.add("child", [call("grandchild")])
    run = workplace.enqueue([call("child")])
    workplace.drain()
    (child,) = workplace.children(run)
    (grandchild,) = workplace.children(child.id)
    assert set(workplace.engine.cancel(run)) == {run, child.id, grandchild.id}
    assert {workplace.state(each) for each in (run, child.id, grandchild.id)} == {"cancelled"}


def test_a_loop_of_calls_starts_them_as_there_is_room_and_shows_as_one_execution(workplace: Any) -> None:
    workplace.add("child", [back("<< initial.n >>")])
    count = 1_000 if workplace.url == "memory:" else 200
    calls = [call("child", n="<< $item >>")]
    each = step("each", "core.for-each", items=list(range(count)), concurrency=5, steps=calls)
    run = workplace.enqueue([each, back("<< each.succeeded >>")])
    workplace.drain()
    assert workplace.get(run).output == {"got": count}

    running = most = 0
    for event in workplace.events:
        if isinstance(event, ExecutionStarted | ExecutionEnded) and event.execution.id != run:
            running += 1 if isinstance(event, ExecutionStarted) else -1
            most = max(most, running)
    assert 1 <= most <= 5
    assert [held.id for held in workplace.engine.executions.list()] == [run]
    children = workplace.children(run)
    assert len(children) == count
    assert {child.state.value for child in children} == {"success"}
