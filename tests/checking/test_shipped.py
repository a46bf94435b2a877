"""The step types that ship: their schemas, their examples, and the words in which their mistakes are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flo.engine.checking.load import load
from flo.engine.errors import WorkflowInvalid
from flo.engine.registry import Registry

REGISTRY = Registry.installed()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_the_schemas_are_schemas_and_the_example_is_a_step(name: str) -> None:
    step_type = REGISTRY[name]
    Draft202012Validator.check_schema(step_type.schema)
    Draft202012Validator.check_schema(step_type.output_schema)
    example = {"stepId": "example", "stepType": name, "input": step_type.example}
    around = {"stepId": "around", "stepType": "core.for-each", "input": {"items": [1], "steps": [example]}}
    assert load(json.dumps({"steps": [around]}), REGISTRY).warnings == ()


def problems(*steps: Any) -> list[str]:
    with pytest.raises(WorkflowInvalid) as caught:
        load({"steps": list(steps)}, REGISTRY)
    return [f"{problem.place}: {problem.message}" for problem in caught.value.problems]


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "5", None])
def test_a_loop_runs_a_whole_number_of_iterations_at_a_moment(concurrency: Any) -> None:
    step = {"stepId": "l", "stepType": "core.for-each", "input": {"items": [], "steps": [], "concurrency": concurrency}}
    (line,) = problems(step)
    assert line.startswith("steps[0].input.concurrency: ")


def test_a_slip_in_a_loop_is_told_with_the_nearest_field_and_the_missing_one() -> None:
    assert problems({"stepId": "l", "stepType": "core.for-each", "input": {"itmes": [1], "steps": []}}) == [
        "steps[0].input: 'items' is required",
        "steps[0].input.itmes: unknown field 'itmes'; did you mean 'items'?",
    ]
    (line,) = problems({"stepId": "l", "stepType": "core.foreach", "input": {}})
    assert line == "steps[0].stepType: no step type 'core.foreach'; did you mean 'core.for-each'?"


def test_what_was_tried_is_seen_in_catch_and_finally() -> None:
    def log(step_id: str, message: str = "x") -> dict[str, Any]:
        return {"stepId": step_id, "stepType": "core.log", "input": {"message": message}}

    lists = {
        "steps": [log("a")],
        "catch": [log("b", "<< a.message >>")],
        "finally": [log("c", "<< a.message >><< b.message >>")],
    }
    step = {"stepId": "t", "stepType": "core.try", "input": lists}
    assert load({"steps": [step, log("d", "<< a.level >><< c.level >>")]}, REGISTRY).warnings == ()


def test_a_field_of_a_claim_that_is_not_there_is_a_warning() -> None:
    claim = {"stepId": "drain", "stepType": "data-store.atomic-claim", "input": {"tableName": "t"}}
    loop = {"stepId": "l", "stepType": "core.for-each", "input": {"items": "<< drain.claimd >>", "steps": []}}
    (warning,) = load({"steps": [claim, loop]}, REGISTRY).warnings
    assert warning.message.startswith("data-store.atomic-claim gives no 'claimd'; did you mean 'claimed'?")
