"""Step types on lists among other steps: what their rules see, what loops make of their output, and what warns."""

from __future__ import annotations

from typing import Any, cast

from flo.engine.app import Flo

from .conftest import Run


def test_in_a_loop_the_rules_see_the_iteration_around(engine: Flo) -> None:
    rule = {"customer": "<< $parent.item.name >>", "order": "<< $item >>", "at": "<< $parent.index >>.<< $index >>"}
    inside = {"stepId": "m", "stepType": "data.map", "input": {"items": "<< $item.orders >>", "value": rule}}
    loop = {"stepId": "l", "stepType": "core.for-each", "input": {"items": "<< initial.c >>", "steps": [inside]}}
    after = {"stepId": "f", "stepType": "data.filter",
             "input": {"items": "<< l.items >>", "condition": "<< $item.output.m.count > 0 >>"}}  # fmt: skip
    result = engine.run({"steps": [loop, after]}, {"c": [{"name": "x", "orders": [7, 8]}, {"name": "y", "orders": []}]})
    (kept,) = cast(Any, result.steps["f"])["output"]["items"]
    assert kept["index"] == 0
    assert kept["output"]["m"]["items"] == [
        {"customer": "x", "order": 7, "at": "0.0"},
        {"customer": "x", "order": 8, "at": "0.1"},
    ]


def test_the_parts_of_a_list_feed_a_loop(engine: Flo) -> None:
    steps = [
        {"stepId": "c", "stepType": "data.chunk", "input": {"items": "<< (1..5) >>", "size": 2}},
        {"stepId": "l", "stepType": "core.for-each", "input": {"items": "<< c.items >>", "steps": [
            {"stepId": "s", "stepType": "core.set-variable", "input": {"sum": "<< $item | sum >>"}}]}},
        {"stepId": "m", "stepType": "data.map",
         "input": {"items": "<< l.items >>", "value": {"var": "$item.output.s.sum"}}},
    ]  # fmt: skip
    assert cast(Any, engine.run({"steps": steps}).steps["m"])["output"]["items"] == [3, 7, 5]


def test_what_is_missing_warns_once_or_fails_a_strict_run(run: Run, engine: Flo) -> None:
    given = {"items": [{"name": "x"}] * 1_000, "condition": {"==": [{"var": "$item.nme"}, "x"]}}
    result = engine.run({"steps": [{"stepId": "a", "stepType": "data.filter", "input": given}]})
    warnings = [line.message for line in engine.executions.lines(result.execution_id, limit=100)]
    place = "steps[0].input.condition"
    assert warnings == [f"{place}: '$item.nme' is missing, null is used; did you mean '$item.name'?"]
    error = run("data.filter", given, options={"strict": True})
    assert error["message"].startswith(f"{place} for items[0]: '$item.nme' is missing; did you mean '$item.name'?")
