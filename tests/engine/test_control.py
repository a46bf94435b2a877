"""Containers: branches, loops, parallel lists, graphs, and ``core.try``."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.events import LoopAdvanced, StepEnded
from flo.engine.executions import ExecutionState

from .delivering import echo, fail


def for_each(step_id: str, items: Any, steps: list[Any], **more: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "core.for-each", "input": {"items": items, "steps": steps, **more}}


def increment(table: str = "t", key: str = "n") -> dict[str, Any]:
    return {
        "stepId": "count",
        "stepType": "data-store.atomic-update",
        "input": {
            "tableName": table, "key": key, "upsert": True,
            "set": [{"field": "n", "operation": "increment", "value": 1}],
        },
    }  # fmt: skip


@pytest.mark.parametrize(("value", "branch", "ran"), [(5, "then", "big"), (1, "else", "small")])
def test_if_runs_one_branch_which_is_seen_afterwards(bench: Any, value: int, branch: str, ran: str) -> None:
    result = bench.run(
        [
            {
                "stepId": "check",
                "stepType": "core.if",
                "input": {
                    "condition": {">": [{"var": "initial.n"}, 3]},
                    "then": [echo("big", {"n": "<< initial.n >>"})],
                    "else": [echo("small", {"n": "<< initial.n >>"})],
                },
            },
            echo("seen", {"big": "<< big.n | default: 'no' >>", "small": "<< small.n | default: 'no' >>"}),
        ],
        {"n": value},
    )
    assert result.steps["check"]["output"] == {"conditionResult": branch == "then", "branch": branch}
    assert result.steps["seen"]["output"][ran] == value
    assert bench.started[ran] == 1


def test_if_without_the_branch_that_is_wanted_runs_none(bench: Any) -> None:
    result = bench.run([{"stepId": "c", "stepType": "core.if", "input": {"condition": False, "then": [echo("a")]}}])
    assert result.steps["c"]["output"] == {"conditionResult": False, "branch": "none"}


@pytest.mark.parametrize(
    ("kind", "case_id", "ran"), [("a", "A", "ran-a"), ("b", "B", "ran-b"), ("z", None, "ran-default")]
)
def test_switch_runs_the_first_case_that_holds(bench: Any, kind: str, case_id: str | None, ran: str) -> None:
    cases = [
        {"caseId": "A", "when": "<< initial.kind == 'a' >>", "steps": [echo("ran-a")]},
        {"caseId": "B", "when": {"in": [{"var": "initial.kind"}, ["a", "b"]]}, "steps": [echo("ran-b")]},
    ]
    result = bench.run(
        [{"stepId": "s", "stepType": "core.switch", "input": {"cases": cases, "default": [echo("ran-default")]}}],
        {"kind": kind},
    )
    assert result.steps["s"]["output"] == {"caseId": case_id, "matched": case_id is not None}
    assert bench.started == {ran: 1}


def test_results_stand_in_input_order_and_add_up(bench: Any) -> None:
    result = bench.run(
        [for_each("loop", list(range(50)), [echo("e", {"v": "<< $item >>", "i": "<< $index >>"})], concurrency=7)]
    )
    output = result.steps["loop"]["output"]
    assert (output["count"], output["succeeded"], output["failed"], output["skipped"]) == (50, 50, 0, 0)
    assert [item["output"]["e"]["v"] for item in output["items"]] == list(range(50))
    assert [item["index"] for item in output["items"]] == list(range(50))


def test_every_iteration_knows_where_it_stands_and_what_is_around_it(bench: Any) -> None:
    names = {"f": "<< $isFirst >>", "l": "<< $isLast >>", "p": "<< $parent.index >>", "pi": "<< $parent.item.n >>"}
    result = bench.run([for_each("outer", [{"n": 10}, {"n": 20}], [for_each("inner", ["x", "y"], [echo("e", names)])])])
    outer = result.steps["outer"]["output"]["items"]
    assert [item["output"]["e"] for item in outer[1]["output"]["inner"]["items"]] == [
        {"f": True, "l": False, "p": 1, "pi": 20},
        {"f": False, "l": True, "p": 1, "pi": 20},
    ]


def test_nested_loops_are_fresh_for_each_outer_item(bench: Any) -> None:
    outer = [{"inner": [1, 2]}, {"inner": []}, {"inner": [1, 2, 3, 4]}]
    result = bench.run([for_each("outer", outer, [for_each("inner", "<< $item.inner >>", [increment()])])])
    assert bench.engine.data.get("t", "n").value == {"n": 6}
    assert [item["output"]["inner"]["count"] for item in result.steps["outer"]["output"]["items"]] == [2, 0, 4]


def test_a_failing_iteration_stops_at_its_step_and_the_others_go_on_when_tolerated(bench: Any) -> None:
    body = [fail("f", skipCondition="<< $item != 3 >>"), echo("after")]
    result = bench.run(
        [for_each("loop", [1, 2, 3, 4], body, continueOnError=True), echo("next", {"failed": "<< loop.failed >>"})]
    )
    output = result.steps["loop"]["output"]
    assert (output["succeeded"], output["failed"]) == (3, 1)
    assert [item["status"] for item in output["items"]] == ["success", "success", "failed", "success"]
    assert output["items"][2]["error"]["message"] == "broken"
    assert bench.started == {"after": 3, "next": 1}
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert result.steps["next"]["output"] == {"failed": 1}


def test_without_tolerance_nothing_new_starts_after_the_first_failure(bench: Any) -> None:
    body = [echo("e"), fail("f", skipCondition="<< $item != 3 >>")]
    result = bench.run([for_each("loop", list(range(1, 11)), body), echo("next")])
    assert result.state is ExecutionState.FAILED
    assert result.error["path"] == "loop[2].f"
    assert bench.started == {"e": 3}


def test_the_bound_covers_an_iteration_from_start_to_end(bench: Any) -> None:
    busy = {"stepId": "b", "stepType": "test.busy", "input": {"together": 4}}
    bench.run([for_each("loop", list(range(40)), [busy], concurrency=4)])
    assert bench.most_running == 4


def test_the_next_step_starts_after_the_last_iteration_has_ended(bench: Any) -> None:
    bench.run([for_each("loop", list(range(200)), [echo("e")], concurrency=10), echo("after")])
    ends = [event.record.path for event in bench.events if isinstance(event, StepEnded)]
    assert ends.index("after") > max(at for at, path in enumerate(ends) if path.startswith("loop["))


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "5", None])
def test_a_concurrency_that_is_no_positive_integer_is_refused(bench: Any, concurrency: Any) -> None:
    result = bench.run([for_each("loop", [1], [echo("e")], concurrency="<< initial.c >>")], {"c": concurrency})
    assert result.state is ExecutionState.FAILED
    assert "concurrency" in result.error["message"]
    assert bench.started == {}


def test_more_concurrency_than_items_and_no_items_are_fine(bench: Any) -> None:
    assert bench.run([for_each("loop", [1, 2, 3], [echo("e")], concurrency=99)]).steps["loop"]["output"]["count"] == 3
    empty = bench.run([for_each("loop", [], [echo("e")])])
    assert empty.state is ExecutionState.SUCCESS
    assert empty.steps["loop"]["output"]["count"] == 0


@pytest.mark.parametrize(("items", "kind"), [(None, "null"), ("abc", "text"), ({"a": 1}, "an object"), (3, "3 came")])
def test_items_that_are_no_list_are_an_error_that_says_what_came(bench: Any, items: Any, kind: str) -> None:
    result = bench.run([for_each("loop", "<< initial.items >>", [echo("e")])], {"items": items})
    assert result.state is ExecutionState.FAILED
    assert "items" in result.error["message"]
    assert kind in result.error["message"]


def test_a_skip_condition_of_a_loop_is_evaluated_once(bench: Any) -> None:
    loop = for_each("loop", [1, 2, 3, 4, 5], [echo("e")])
    result = bench.run([echo("before", {"go": True}), {**loop, "skipCondition": "<< not before.go >>"}])
    assert result.steps["loop"]["output"]["count"] == 5


def test_iterations_in_which_every_step_was_skipped_count_as_skipped(bench: Any) -> None:
    result = bench.run([for_each("loop", [1, 2, 3], [echo("e", skipCondition="<< $item == 2 >>")])])
    output = result.steps["loop"]["output"]
    assert (output["count"], output["succeeded"], output["skipped"]) == (3, 2, 1)


def test_results_too_large_for_memory_are_read_from_the_store_in_order(bench: Any) -> None:
    text = "x" * 2_000
    result = bench.run(
        [
            for_each("loop", list(range(500)), [echo("e", {"v": "<< $item >>", "text": text})], concurrency=3),
            echo("seen", {"last": "<< loop.items[-1].output.e.v >>", "middle": "<< loop.items[251].output.e.v >>",
                          "size": "<< loop.items.size >>"}),
        ]
    )  # fmt: skip
    assert result.steps["seen"]["output"] == {"last": 499, "middle": 251, "size": 500}
    assert [item["output"]["e"]["v"] for item in result.steps["loop"]["output"]["items"]] == list(range(500))


def test_a_loop_tells_how_far_it_is(bench: Any) -> None:
    bench.run([for_each("loop", [1, 2, 3], [echo("e")])])
    assert [(event.done, event.total) for event in bench.events if isinstance(event, LoopAdvanced)] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]


def test_repeat_runs_a_number_of_times(bench: Any) -> None:
    result = bench.run(
        [{"stepId": "r", "stepType": "core.repeat", "input": {"times": 3, "steps": [echo("e", {"i": "<< $index >>"})]}}]
    )
    assert [item["output"]["e"]["i"] for item in result.steps["r"]["output"]["items"]] == [0, 1, 2]


def test_repeat_runs_while_its_condition_holds(bench: Any) -> None:
    steps = [{"stepId": "v", "stepType": "core.set-variable", "input": {"n": "<< ($vars.n | default: 0) + 1 >>"}}]
    result = bench.run(
        [
            {
                "stepId": "r",
                "stepType": "core.repeat",
                "input": {"while": "<< ($vars.n | default: 0) < 4 >>", "steps": steps},
            }
        ]
    )
    assert result.steps["r"]["output"]["count"] == 4


def test_repeat_fails_past_its_bound(bench: Any) -> None:
    result = bench.run(
        [
            {
                "stepId": "r",
                "stepType": "core.repeat",
                "input": {"while": True, "maxIterations": 10, "steps": [echo("e")]},
            }
        ]
    )
    assert result.error["code"] == "too_many_iterations"
    assert bench.started["e"] == 10


def test_parallel_runs_its_steps_together_and_gives_their_outputs(bench: Any) -> None:
    busy = [{"stepId": f"b{n}", "stepType": "test.busy", "input": {"together": 3}} for n in range(3)]
    result = bench.run(
        [{"stepId": "p", "stepType": "core.parallel", "input": {"steps": busy}}, echo("after", {"o": "<< p.b1 >>"})]
    )
    assert bench.most_running == 3
    assert result.steps["p"]["output"] == {"b0": {}, "b1": {}, "b2": {}}
    assert result.steps["after"]["output"] == {"o": {}}


def test_a_graph_runs_each_step_once_after_what_it_depends_on(bench: Any) -> None:
    result = bench.run(
        [
            echo("a", {"v": 1}),
            echo("left", {"v": "<< a.v + 1 >>"}, dependsOn=["a"]),
            echo("right", {"v": "<< a.v + 2 >>"}, dependsOn=["a"]),
            echo("join", {"sum": "<< left.v + right.v >>"}, dependsOn=["left", "right"]),
        ]
    )
    assert result.steps["join"]["output"] == {"sum": 5}
    assert bench.started == {"a": 1, "left": 1, "right": 1, "join": 1}


def test_steps_of_a_graph_that_wait_for_nothing_run_together(bench: Any) -> None:
    busy = [{"stepId": f"b{n}", "stepType": "test.busy", "input": {"together": 3}, "dependsOn": []} for n in range(3)]
    bench.run(busy)
    assert bench.most_running == 3


def test_a_halting_failure_in_a_graph_starts_nothing_more(bench: Any) -> None:
    result = bench.run([fail("a", dependsOn=[]), echo("b", dependsOn=["a"]), echo("c", dependsOn=["b"])])
    assert result.state is ExecutionState.FAILED
    assert bench.started == {}


def test_try_handles_a_failure_and_the_run_is_a_success(bench: Any) -> None:
    inputs = {
        "steps": [fail("f"), echo("no")],
        "catch": [echo("c", {"m": "<< $errors.last.message >>"})],
        "finally": [echo("fin")],
    }
    result = bench.run([{"stepId": "t", "stepType": "core.try", "input": inputs}, echo("after", {"m": "<< c.m >>"})])
    assert result.state is ExecutionState.SUCCESS
    assert result.steps["t"]["output"] == {"succeeded": False, "error": {"code": "failed", "message": "broken"}}
    assert result.steps["after"]["output"] == {"m": "broken"}
    assert bench.started == {"c": 1, "fin": 1, "after": 1}


def test_try_without_catch_cleans_up_and_fails(bench: Any) -> None:
    result = bench.run(
        [{"stepId": "t", "stepType": "core.try", "input": {"steps": [fail("f")], "finally": [echo("fin")]}}, echo("n")]
    )
    assert result.state is ExecutionState.FAILED
    assert bench.started == {"fin": 1}


def test_finally_runs_when_the_run_returns_or_is_timed_out(bench: Any) -> None:
    back = {"stepId": "back", "stepType": "core.return", "input": {"x": 1}}
    result = bench.run(
        [{"stepId": "t", "stepType": "core.try", "input": {"steps": [back], "finally": [echo("fin")]}}, echo("n")]
    )
    assert result.output == {"x": 1}
    assert bench.started == {"fin": 1}
    hang = {"stepId": "h", "stepType": "test.hang"}
    result = bench.run(
        [
            {
                "stepId": "t",
                "stepType": "core.try",
                "input": {"steps": [hang], "catch": [echo("c")], "finally": [echo("fin")]},
            }
        ],
        options={"timeoutMilliseconds": 30},
    )
    assert result.state is ExecutionState.TIMED_OUT
    assert bench.started == {"fin": 2}


def test_a_step_that_is_skipped_in_a_later_attempt_of_its_container_shows_no_output_of_an_earlier_one(
    bench: Any,
) -> None:
    body = [
        echo("first", {"v": 1}, skipCondition="<< $errors.size > 0 >>"),
        echo("seen", {"v": "<< first.v >>"}),
        fail("broken", skipCondition="<< $errors.size > 0 >>"),
    ]
    container = {"stepId": "c", "stepType": "core.if", "input": {"condition": True, "then": body}}
    result = bench.run([{**container, "retry": {"maxAttempts": 2, "retryOn": ["failed"]}}])
    assert result.state is ExecutionState.SUCCESS
    assert bench.started == {"first": 1, "seen": 2}
    assert result.steps["first"]["output"] is None
    assert result.steps["seen"]["output"] == {"v": None}


@pytest.mark.parametrize("before", [{"skipCondition": True}, {}])
def test_a_skipped_step_says_the_same_however_it_came_to_be_skipped(bench: Any, before: dict[str, Any]) -> None:
    steps = [fail("f", onFailure="skip"), echo("s", dependsOn=[] if before else ["f"], **before)]
    result = bench.run(steps)
    assert result.steps["s"]["status"] == "skipped"
    assert result.steps["s"]["attempts"] == 0
