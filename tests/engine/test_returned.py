"""What ``core.return`` gives: plain JSON that outlives the run and its store, refused like any other output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flo.engine.app import open as open_engine
from flo.engine.executions import ExecutionState


def returned(**keys: Any) -> dict[str, Any]:
    return {"stepId": "end", "stepType": "core.return", "input": keys}


def loop(count: int) -> dict[str, Any]:
    said = {"stepId": "said", "stepType": "core.set-variable", "input": {"text": "x" * 200}}
    return {"stepId": "each", "stepType": "core.for-each", "input": {"items": list(range(count)), "steps": [said]}}


def test_results_of_a_loop_that_were_returned_are_there_when_the_store_is_closed(store_url: str) -> None:
    with open_engine(store_url) as engine:
        result = engine.run({"steps": [loop(2_000), returned(items="<< each.items >>")]})
        held = engine.executions.get(result.execution_id)
    output: Any = result.output
    assert output["items"][1999]["output"] == {"said": {"text": "x" * 200}}
    assert held is not None
    assert json.loads(json.dumps(output)) == held.output


def test_a_root_that_is_made_anew_at_each_reference_is_returned_as_an_object(bench: Any) -> None:
    output = bench.run([returned(util="<< $util >>")]).output
    assert set(json.loads(json.dumps(output))["util"]) >= {"uuid", "now", "today"}


def test_what_no_store_can_hold_fails_the_return_with_its_place_on_every_store(store_url: str) -> None:
    with open_engine(store_url) as engine:
        result = engine.run({"steps": [returned(text="<< 'AA==' | base64_decode >>")]})
    assert result.state is ExecutionState.FAILED
    assert result.error is not None
    assert (result.error["stepId"], result.error["code"]) == ("end", "invalid_value")
    assert str(result.error["message"]).startswith("output.text: the character U+0000")


def test_a_return_that_is_too_large_fails_its_step(bench: Any) -> None:
    copied = {f"copy{number}": "<< initial.text >>" for number in range(5)}
    result = bench.run([returned(**copied)], {"text": "x" * (14 << 20)})
    assert result.state is ExecutionState.FAILED
    assert (result.error["stepId"], result.error["code"]) == ("end", "too_large")


def test_a_return_inside_a_loop_inside_a_try_may_be_refused_and_handled(bench: Any) -> None:
    refused = returned(a="<< '%00' | url_decode >>")
    inner = {"stepId": "each", "stepType": "core.for-each", "input": {"items": [1], "steps": [refused]}}
    caught = {"stepId": "caught", "stepType": "core.return", "input": {"code": "<< $errors.last.code >>"}}
    guarded = {"stepId": "try", "stepType": "core.try", "input": {"steps": [inner], "catch": [caught]}}
    assert bench.run([guarded]).output == {"code": "invalid_value"}


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("exit", "step_error", "SystemExit: 3"),
        ("digits", "invalid_value", "output.a: a whole number with more than 4,300 digits cannot be stored as JSON"),
    ],
)
def test_a_step_type_that_ends_the_process_or_counts_too_far_fails_its_step_only(
    bench: Any, what: str, code: str, message: str
) -> None:
    odd = {"stepId": "odd", "stepType": "test.python", "input": {"what": what}, "continueOnError": True}
    result = bench.run([odd, returned(error="<< odd.$meta.error >>")])
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert (result.output["error"]["code"], result.output["error"]["message"]) == (code, message)
