"""One run: what steps see, how failures travel, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.errors import FloError, NotFound, StoreFull, ValueRefused, WorkflowInvalid
from flo.engine.executions import ExecutionState, StepState

from .delivering import Over, echo, fail


def test_a_step_sees_the_outputs_before_it_with_their_types(bench: Any) -> None:
    result = bench.run(
        [
            echo("first", {"n": "<< initial.n >>", "text": "n is {{ initial.n }}"}),
            echo("second", {"again": "{{ first.n }}"}),
        ],
        {"n": 7},
    )
    assert result.state is ExecutionState.SUCCESS
    assert result.steps["first"]["output"] == {"n": 7, "text": "n is 7"}
    assert result.steps["second"]["output"] == {"again": 7}
    assert result.output is None


def test_the_callers_input_is_merged_over_the_documents_shallowly(bench: Any) -> None:
    result = bench.run([echo("a", {"all": "<< initial >>"})], {"b": {"y": 2}}, initial={"a": 1, "b": {"x": 1}})
    assert result.steps["a"]["output"] == {"all": {"a": 1, "b": {"y": 2}}}


def test_data_is_never_looked_at_for_marks_again(bench: Any) -> None:
    hostile = "{{ initial.secret }} << initial.secret >> {% raw %}"
    result = bench.run(
        [
            {"stepId": "keep", "stepType": "core.set-variable", "input": {"copy": "<< initial.text >>"}},
            echo("show", {"value": "<< $vars.copy >>", "text": "said: << keep.copy >>"}),
        ],
        {"text": hostile, "secret": "s3cr3t"},
    )
    assert result.steps["show"]["output"] == {"value": hostile, "text": f"said: {hostile}"}


def test_a_later_key_of_set_variable_reads_an_earlier_one(bench: Any) -> None:
    pairs = {"greeting": "Hello << initial.name >>", "shout": "<< $vars.greeting | upcase >>"}
    result = bench.run(
        [{"stepId": "vars", "stepType": "core.set-variable", "input": pairs}, echo("seen", {"v": "<< $vars >>"})],
        {"name": "Ada"},
    )
    assert result.steps["vars"]["output"] == {"greeting": "Hello Ada", "shout": "HELLO ADA"}
    assert result.steps["seen"]["output"]["v"] == {"greeting": "Hello Ada", "shout": "HELLO ADA"}


def test_a_missing_key_gives_null_and_one_warning_that_names_the_path(bench: Any) -> None:
    loop = {
        "stepId": "loop",
        "stepType": "core.for-each",
        "input": {
            "items": [1, 2, 3],
            "steps": [echo("hello", {"text": "Hello << initial.nmae >>", "alone": "<< initial.nmae >>"})],
        },
    }
    result = bench.run([loop], {"name": "Ada"})
    assert result.state is ExecutionState.SUCCESS
    assert result.steps["loop"]["output"]["items"][0]["output"]["hello"] == {"text": "Hello ", "alone": None}
    [warning] = bench.messages(result, "warn")
    assert "initial.nmae" in warning


def test_a_missing_key_fails_the_step_of_a_strict_workflow_and_names_the_nearest(bench: Any) -> None:
    result = bench.run([echo("hello", {"text": "Hello << initial.nmae >>"})], {"name": "Ada"}, options={"strict": True})
    assert result.state is ExecutionState.FAILED
    assert result.error["code"] == "template_error"
    assert "initial.name" in result.error["message"]
    assert "steps[0].input.text" in result.error["message"]
    assert bench.started["hello"] == 0


def test_default_silences_a_missing_key_in_both_modes(bench: Any) -> None:
    for strict in (False, True):
        result = bench.run([echo("a", {"v": "<< initial.x | default: 'n/a' >>"})], options={"strict": strict})
        assert result.steps["a"]["output"] == {"v": "n/a"}
        assert bench.messages(result, "warn") == []


def test_when_one_expression_fails_nothing_of_the_step_ran(bench: Any) -> None:
    result = bench.run([echo("a", {"good": "<< initial.n >>", "bad": "<< initial.n / 0 >>"})], {"n": 1})
    assert result.state is ExecutionState.FAILED
    assert "steps[0].input.bad" in result.error["message"]
    assert bench.started["a"] == 0


def test_a_skipped_step_does_not_run_and_says_so(bench: Any) -> None:
    result = bench.run(
        [
            echo("a", skipCondition="<< initial.skip >>"),
            echo("b", {"skipped": "<< a.$meta.skipped >>", "success": "<< a.$meta.success >>", "out": "<< a.x >>"}),
        ],
        {"skip": True},
    )
    assert bench.started["a"] == 0
    assert result.steps["a"]["status"] == "skipped"
    assert result.steps["b"]["output"] == {"skipped": True, "success": False, "out": None}


def test_a_failure_stops_the_run_and_later_steps_never_start(bench: Any) -> None:
    result = bench.run([echo("a"), fail("b"), echo("c")])
    assert result.state is ExecutionState.FAILED
    assert not result.success
    assert result.error == {"stepId": "b", "path": "b", "code": "failed", "message": "broken", "kind": "execution"}
    assert bench.started == {"a": 1}
    execution = bench.engine.executions.get(result.execution_id)
    assert execution.state is ExecutionState.FAILED
    assert execution.error == result.error


@pytest.mark.parametrize("tolerant", [{"continueOnError": True}, {"onFailure": "continue"}])
def test_a_tolerated_failure_goes_on_and_the_run_says_completed_with_errors(
    bench: Any, tolerant: dict[str, Any]
) -> None:
    result = bench.run(
        [fail("a", **tolerant), echo("b", {"count": "<< $errors.size >>", "m": "<< a.$meta.error.message >>"})]
    )
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert result.success
    assert result.steps["b"]["output"] == {"count": 1, "m": "broken"}


def test_stop_on_error_false_tolerates_every_failure(bench: Any) -> None:
    result = bench.run([fail("a"), fail("b"), echo("c")], options={"stopOnError": False})
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert bench.started == {"c": 1}


def test_on_failure_skip_skips_what_depends_on_the_step(bench: Any) -> None:
    result = bench.run([fail("a", onFailure="skip"), echo("b"), echo("c", dependsOn=[]), echo("d", dependsOn=["b"])])
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert bench.started == {"c": 1}
    assert [result.steps[name]["status"] for name in "abcd"] == ["failed", "skipped", "success", "skipped"]


def test_an_operational_error_fails_the_step_and_its_output_stays_readable(bench: Any) -> None:
    steps = [
        {"stepId": "call", "stepType": "test.operational", "continueOnError": True},
        echo("seen", {"status": "<< call.status >>", "meta": "<< call.$meta.operationalStatus >>"}),
    ]
    result = bench.run(steps)
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert result.steps["seen"]["output"] == {"status": 500, "meta": "error"}
    assert result.steps["call"]["error"]["kind"] == "operational"
    assert bench.run(steps[:1]).state is ExecutionState.COMPLETED_WITH_ERRORS
    assert bench.run([{"stepId": "call", "stepType": "test.operational"}]).state is ExecutionState.FAILED


@pytest.mark.parametrize(
    ("what", "code", "place"),
    [
        ("nan", "invalid_value", "output.a[0]"),
        ("bytes", "invalid_value", "output.b"),
        ("none", "invalid_output", "null"),
    ],
)
def test_a_step_that_gives_no_json_object_fails_with_the_place(bench: Any, what: str, code: str, place: str) -> None:
    result = bench.run([{"stepId": "p", "stepType": "test.python", "input": {"what": what}}])
    assert result.error["code"] == code
    assert place in result.error["message"]


def test_an_output_over_the_limit_fails_the_step_with_a_small_message(bench: Any) -> None:
    result = bench.run([{"stepId": "p", "stepType": "test.python", "input": {"what": "huge"}}])
    assert result.error["code"] == "too_large"
    assert "67,108,864" in result.error["message"]
    assert result.steps["p"]["output"] is None


def test_an_error_with_a_message_of_ten_megabytes_is_recorded_in_four_kilobytes(bench: Any) -> None:
    result = bench.run([{"stepId": "p", "stepType": "test.python", "input": {"what": "raise"}}])
    assert result.error["code"] == "step_error"
    assert len(result.error["message"]) <= 4_000
    assert result.state is ExecutionState.FAILED


def test_return_ends_the_run_from_any_depth_with_its_output(bench: Any) -> None:
    inner = [
        {
            "stepId": "leave",
            "stepType": "core.return",
            "input": {"found": "<< $item >>"},
            "skipCondition": "<< $item != 2 >>",
        },
        echo("after"),
    ]
    result = bench.run(
        [
            {
                "stepId": "when",
                "stepType": "core.if",
                "input": {
                    "condition": True,
                    "then": [
                        {"stepId": "loop", "stepType": "core.for-each", "input": {"items": [1, 2, 3], "steps": inner}}
                    ],
                },
            },
            echo("never"),
        ]
    )
    assert result.state is ExecutionState.SUCCESS
    assert result.output == {"found": 2}
    assert bench.started == {"after": 1}
    states = {record.path: record.state for record in bench.engine.executions.steps(result.execution_id)}
    assert states["loop[1].leave"] is states["loop[1]"] is states["when"] is StepState.SUCCESS
    assert "loop[2]" not in states


def test_input_that_does_not_fit_the_schema_is_rejected_and_nothing_runs(bench: Any) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    result = bench.run([echo("a")], {"n": "one"}, inputSchema=schema)
    assert result.state is ExecutionState.REJECTED
    assert "n" in result.error["message"]
    assert bench.started == {}
    assert bench.engine.executions.get(result.execution_id).state is ExecutionState.REJECTED


def test_input_that_is_no_json_is_refused_before_anything_is_stored(bench: Any) -> None:
    with pytest.raises(ValueRefused, match=r"initial\.a\[1\]"):
        bench.run([echo("a")], {"a": [1, float("nan")]})
    assert bench.engine.executions.list() == []


def test_an_invalid_document_leaves_nothing_behind(bench: Any) -> None:
    with pytest.raises(WorkflowInvalid):
        bench.run([{"stepId": "a", "stepType": "core.lgo", "input": {}}])
    assert bench.engine.executions.list() == []


def test_an_execution_keeps_its_definition_input_steps_and_lines(bench: Any) -> None:
    steps = [
        echo("a", {"x": 1}),
        {"stepId": "say", "stepType": "core.log", "input": {"message": "done", "tags": ["t"]}},
    ]
    result = bench.run(steps, {"n": 1}, name="kept")
    execution = bench.engine.executions.get(result.execution_id)
    assert execution.workflow == "kept"
    assert execution.input == {"n": 1}
    assert '"kept"' in execution.definition
    assert len(execution.digest) == 64
    assert [(record.path, record.state, record.output) for record in bench.engine.executions.steps(execution.id)] == [
        ("a", StepState.SUCCESS, {"x": 1}),
        ("say", StepState.SUCCESS, {"message": "done", "level": "info"}),
    ]
    [line] = bench.lines(result)
    assert (line.level, line.message, line.step, line.data) == ("info", "done", "say", {"tags": ["t"]})


def test_a_stored_workflow_runs_by_its_name_in_its_newest_version(bench: Any) -> None:
    bench.engine.add({"name": "w", "steps": [echo("a", {"v": 1})]})
    stored = bench.engine.add({"name": "w", "steps": [echo("a", {"v": 2})]})
    assert stored.version == 2
    assert bench.engine.add({"name": "w", "steps": [echo("a", {"v": 2})]}).version == 2
    result = bench.engine.run("w")
    assert result.steps["a"]["output"] == {"v": 2}
    assert bench.engine.executions.get(result.execution_id).version == 2
    with pytest.raises(NotFound, match=r"no stored workflow 'ww'; did you mean 'w'\?"):
        bench.engine.run("ww")
    with pytest.raises(FloError, match="has no name"):
        bench.engine.add({"steps": [echo("a")]})


def test_execution_and_utilities_are_roots(bench: Any) -> None:
    asked = {
        "id": "<< $execution.id >>",
        "one": "<< $util.uuid >>",
        "other": "<< $util.uuid >>",
        "now": "<< $util.now >>",
        "list": "<< $util.emptyArray >>",
        "ago": '<< $util.now | date_sub: "5m" >>',
    }
    result = bench.run([echo("a", asked)])
    output = result.steps["a"]["output"]
    assert output["id"] == result.execution_id
    assert output["one"] != output["other"]
    assert output["now"] == "2026-01-01T00:00:00.000000Z"
    assert output["ago"] == "2025-12-31T23:55:00.000000Z"
    assert output["list"] == []


def test_a_run_whose_records_find_no_space_is_failed_in_the_store_and_says_why(
    bench: Any, engine_over: Callable[..., Flo]
) -> None:
    store = bench.engine.store

    def own(*given: Any, **named: Any) -> None:
        raise StoreFull("the disk is full")

    with pytest.raises(StoreFull):
        engine_over(queue=Over(store.queue, own=own)).run({"steps": [echo("a")]})
    [execution] = store.executions.list()
    assert execution.state is ExecutionState.FAILED
    assert execution.error["code"] == "store_error"
    assert "the disk is full" in execution.error["message"]


def test_a_step_whose_commit_fails_has_failed_and_wrote_nothing(bench: Any, engine_over: Callable[..., Flo]) -> None:
    store, fails = bench.engine.store, [True]

    def own(hold: Any, work: Callable[..., Any], **named: Any) -> Any:
        def full(owned: Any) -> Any:
            done = work(owned)
            if fails and fails.pop():
                raise StoreFull("the disk is full")
            return done

        return store.queue.own(hold, full, **named)

    put = {"stepId": "put", "stepType": "data-store.set", "input": {"tableName": "t", "key": "k", "value": 1}}
    then = echo("then", {"succeeded": "<< put.$meta.success >>", "code": "<< put.$meta.error.code >>"})
    result = engine_over(queue=Over(store.queue, own=own)).run({"steps": [{**put, "continueOnError": True}, then]})
    assert (result.steps["put"]["status"], result.steps["put"]["error"]["code"]) == ("failed", "store_error")
    assert result.steps["then"]["output"] == {"succeeded": False, "code": "store_error"}
    assert [(step.path, step.state.value) for step in store.executions.steps(result.execution_id)] == [
        ("put", "failed"),
        ("then", "success"),
    ]
    assert store.data.get("t", "k") is None
