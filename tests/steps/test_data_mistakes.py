"""Step types on lists: what is refused, when, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.errors import WorkflowInvalid

from .conftest import Run
from .data_cases import RULES


@pytest.mark.parametrize("step_type", RULES)
def test_anything_but_a_list_is_refused_and_says_what_came(run: Run, step_type: str) -> None:
    for value, came in ((None, "null"), ("a,b", '"a,b" (text)'), ({"a": 1}, "an object"), (5, "5")):
        error = run(step_type, {**RULES[step_type], "items": "<< initial.x >>"}, {"x": value})
        assert error["code"] == "invalid_input"
        assert error["message"] == f"steps[0].input.items: {came} came, expected a list"
    assert run(step_type, {**RULES[step_type], "items": "<< initial.no >>"})["code"] == "invalid_input"
    with pytest.raises(WorkflowInvalid, match='"text" \\(text\\) came, expected a list'):
        run(step_type, {**RULES[step_type], "items": "text"})
    with pytest.raises(WorkflowInvalid, match="unknown field 'itms'; did you mean 'items'"):
        run(step_type, {**RULES[step_type], "itms": []})


@pytest.mark.parametrize("step_type", RULES)
def test_an_empty_list_is_fine(run: Run, step_type: str) -> None:
    assert "message" not in run(step_type, {**RULES[step_type], "items": []})


@pytest.mark.parametrize(
    ("step_type", "given", "message"),
    [
        ("data.sort", {"items": [1, {}]}, "items[1] is an object, and there is no 'by'; a key to sort by is text"),
        ("data.sort", {"items": [1, 2], "by": [["<< $item >>"]]}, "by[0] gives a list for items[0]; a key to sort by"),
        ("data.sort", {"items": [1], "by": {"value": {"a": "<< $item >>"}}}, "by.value gives an object for items[0]"),
        ("data.chunk", {"items": [], "size": "<< 0 >>"}, "steps[0].input.size: 0 came, expected at least 1"),
        ("data.chunk", {"items": [], "size": "<< 1.5 >>"}, "steps[0].input.size: 1.5 came, expected a whole number"),
        ("data.classify", {"items": [], "cases": [{"caseId": "a", "when": True}, {"caseId": "a", "when": True}]},
         "cases[1].caseId: another case is called 'a' already"),
        ("data.join", {"items": [], "with": "<< initial.no >>", "on": "<< $item >>"},
         "steps[0].input.with: null came, expected a list"),
        ("data.join", {"items": [1], "with": [1, "x"], "on": "<< $item + 1 >>"},
         "steps[0].input.on for with[1]: cannot add a number to text"),
        ("data.map", {"items": [1, "x"], "value": {"n": "<< $item + 1 >>"}},
         "steps[0].input.value.n for items[1]: cannot add a number to text"),
        ("data.reduce", {"items": ["x"], "initial": 1, "value": "<< $accumulator + $item >>"},
         "steps[0].input.value for items[0]: cannot add text to a number"),
        ("data.classify", {"items": [0], "cases": [{"caseId": "a", "when": "<< 1 / $item > 1 >>"}]},
         "steps[0].input.cases[0].when for items[0]: division by zero"),
    ],
)  # fmt: skip
def test_a_bad_value_fails_the_step_and_says_where(run: Run, step_type: str, given: Any, message: str) -> None:
    error = run(step_type, given)
    assert error["code"] in ("invalid_input", "template_error")
    assert error["message"].startswith(message)


@pytest.mark.parametrize(
    ("step_type", "given", "message"),
    [
        ("data.filter", {}, "'condition' is required"),
        ("data.map", {"valu": "x"}, "unknown field 'valu'; did you mean 'value'?"),
        ("data.reduce", {"value": "<< $item >>"}, "'initial' is required"),
        ("data.map", {"value": "<< $accumulator >>"}, "no step or name '$accumulator'"),
        ("data.reduce", {"initial": 0, "value": {"+": [{"var": "accumulator"}, 1]}}, "did you mean '$accumulator'?"),
        ("data.group", {"by": "status"}, "did you mean '<< $item.status >>'?"),
        ("data.sort", {"by": [{"value": "<< $item >>", "direction": "up"}]}, '"up" (text) came, expected "asc"'),
        (
            "data.sort",
            {"by": {"value": "<< $item >>", "dirction": "asc"}},
            "unknown field 'dirction'; did you mean 'direction'?",
        ),
        ("data.sort", {"direction": "downwards"}, '"downwards" (text) came, expected "asc"'),
        ("data.classify", {"cases": []}, "a list with 0 entries came, expected at least 1 entry"),
        ("data.classify", {"cases": [{"when": True}]}, "'caseId' is required"),
        ("data.classify", {"cases": "<< initial.cases >>"}, "a template cannot give it"),
        ("data.join", {"with": []}, "one of 'on', 'left' or 'right' is required"),
        ("data.join", {"with": [], "left": "<< $item >>"}, "'left' needs 'right' beside it"),
        ("data.join", {"with": [], "on": "<< $item >>", "left": "<< $item >>"}, "'left' needs 'right' beside it"),
        ("data.join", {"with": [], "on": "<< $item >>", "type": "outer"}, 'expected "inner" or "left"'),
        ("data.chunk", {"size": 0}, "0 came, expected at least 1"),
        ("data.chunk", {"size": "2"}, '"2" (text) came, expected a whole number'),
    ],
)
def test_a_slip_is_told_before_anything_runs(run: Run, step_type: str, given: Any, message: str) -> None:
    with pytest.raises(WorkflowInvalid) as invalid:
        run(step_type, {"items": [], **given})
    assert any(message in problem.message for problem in invalid.value.problems)


@pytest.mark.parametrize(
    ("step_type", "given"),
    [
        ("data.map", {"value": "<< initial.long >><< $index >>"}),
        ("data.map", {"value": {"of": "<< initial.wide >>"}}),
        ("data.join", {"with": "<< initial.l >>", "on": {"merge": [1]}}),
        ("data.reduce", {"initial": "x", "value": ["<< $accumulator >>", "<< $accumulator >>"]}),
    ],
)
def test_an_output_that_grows_without_bound_is_refused(run: Run, step_type: str, given: Any) -> None:
    held = {"l": [{"n": "n" * 500}] * 1_000, "long": "x" * 1_000_000, "wide": ["y" * 1_000] * 1_000}
    error = run(step_type, {"items": "<< initial.l >>", **given}, held)
    assert error["code"] == "too_large"
    assert "67,108,864 characters" in error["message"]
