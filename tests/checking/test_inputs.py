"""A step's input against its type's schema: what is known at once, and what templates leave open until it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.checking.input_schema import input_violations
from flo.engine.checking.load import Checked
from flo.engine.errors import Problem, StepFailed
from flo.engine.language.workflow import Step
from flo.engine.values import place_text

Check = Callable[[Any], Checked]
Told = Callable[[Any], list[str]]

SAY = {"stepId": "s", "stepType": "t.say", "input": {"message": "x"}}


def step(kind: str, **given: Any) -> list[Any]:
    return [{"stepId": "a", "stepType": f"t.{kind}", "input": given}]


WRONG: list[tuple[list[Any], list[str]]] = [
    (step("say"), ["steps[0].input: 'message' is required"]),
    (step("say", mesage="x"), ["steps[0].input: 'message' is required",
                               "steps[0].input.mesage: unknown field 'mesage'; did you mean 'message'?"]),
    (step("say", message="x", loud=1), ["steps[0].input.loud: unknown field 'loud'; known are 'message', 'level'"]),
    (step("say", message="x", level="eror"),
     ['steps[0].input.level: "eror" (text) came, expected "info" or "error"; did you mean \'error\'?']),
    (step("read", table=5), ["steps[0].input.table: 5 came, expected text"]),
    (step("read", table="x"), ["steps[0].input.table: text with 1 character came, expected at least 2 characters"]),
    (step("read", table="xy", limit="5"), ['steps[0].input.limit: "5" (text) came, expected a whole number']),
    (step("read", table="xy", limit=0), ["steps[0].input.limit: 0 came, expected at least 1"]),
    (step("read", table="xy", limit=1.5), ["steps[0].input.limit: 1.5 came, expected a whole number"]),
    (step("read", table="xy", limit=True), ["steps[0].input.limit: true came, expected a whole number"]),
    (step("read", table="xy", limit=None), ["steps[0].input.limit: null came, expected a whole number"]),
    (step("read", table="xy", limit="up to << initial.n >>"),
     ['steps[0].input.limit: "up to << initial.n >>" (text around a template) came, expected a whole number']),
    (step("read", table="xy", where=[{"field": "a", "operator": "eqals"}]),
     ['steps[0].input.where[0].operator: "eqals" (text) came, expected "equals" or "lt"; did you mean \'equals\'?']),
    (step("read", table="xy", where=[{"feild": "a"}]),
     ["steps[0].input.where[0]: 'field' is required",
      "steps[0].input.where[0].feild: unknown field 'feild'; did you mean 'field'?"]),
    (step("read", table="xy", where=5), ["steps[0].input.where: 5 came, expected a list or an object"]),
    (step("one-of"), ["steps[0].input: one of 'a' or 'b' is required"]),
    (step("one-of", a="<< initial.x >>", b=2), ["steps[0].input: 'a' and 'b' exclude each other"]),
    (step("each", items="x, << initial.y >>", steps=[]),
     ['steps[0].input.items: "x, << initial.y >>" (text around a template) came, expected a list']),
    (step("each", items=[], steps="<< initial.steps >>"),
     ["steps[0].input.steps: steps are written out in the document; a template cannot give them"]),
    (step("switch", cases="<< initial.cases >>"),
     ["steps[0].input.cases: steps are written out in the document; a template cannot give them"]),
    (step("each", items=[], steps={"stepId": "x"}),
     ["steps[0].input.steps: an object came, expected a list of steps"]),
    (step("if", when=True, then=[], continueOnError=1),
     ["steps[0].input.continueOnError: 1 came, expected true or false"]),
    (step("if", when=5), ["steps[0].input.when: "]),
    (step("if", when="yes"), ["steps[0].input.when: "]),
    (step("broken", n=5), ["steps[0].input: its schema is broken: "]),
    (step("endless", n=5), ["steps[0].input: it nests too deep to be checked"]),
]  # fmt: skip

RIGHT: list[list[Any]] = [
    step("say", message={"any": ["thing"]}),
    step("say", message="x", level="<< initial.level >>"),
    step("say", message="x", level="in<< initial.level >>"),
    step("read", table="<< initial.t >>", limit="<< initial.n >>", where="<< initial.w >>"),
    step("read", table="t<< initial.t >>", where=[{"field": "a", "value": "<< initial.n >>"}]),
    step("read", table="xy", where={"field": "<< initial.f >>", "operator": "<< initial.o >>"}),
    step("one-of", a="<< initial.x >>"),
    step("each", items="<< initial.rows >>", steps=[SAY], concurrency="<< initial.n >>", continueOnError=True),
    step("if", when="<< initial.x >>", then=[SAY], continueOnError=True),
    step("switch", cases=[{"id": "<< initial.x >>", "when": True, "steps": [SAY]}], default=[]),
    step("any", anything="<< initial.x >>", more=[1, {"x": None}]),
    [{"stepId": "a", "stepType": "t.any"}],
]


@pytest.mark.parametrize(("steps", "expected"), WRONG, ids=[lines[-1] for _, lines in WRONG])
def test_what_is_wrong_is_told_before_the_run(steps: list[Any], expected: list[str], told: Told) -> None:
    lines = told(steps)
    assert len(lines) == len(expected)
    for line, beginning in zip(lines, expected, strict=True):
        assert line.startswith(beginning)


@pytest.mark.parametrize("steps", RIGHT, ids=[str(steps[0].get("input")) for steps in RIGHT])
def test_what_may_be_right_passes(steps: list[Any], check: Check) -> None:
    assert check(steps).warnings == ()


def test_the_line_of_a_wrong_field_is_told(problems: Callable[[Any], list[Problem]]) -> None:
    text = '{"steps": [\n {"stepId": "a", "stepType": "t.say",\n  "input": {\n   "message": 1, "levle": "info"}}]}'
    (problem,) = problems(text)
    assert (problem.place, problem.line, problem.column) == ("steps[0].input.levle", 4, 18)


def only(check: Check, steps: list[Any]) -> Step:
    return check(steps).workflow.block.steps[0]


def refused(step: Step, value: Any) -> str:
    with pytest.raises(StepFailed) as caught:
        step.recheck(value)
    assert (caught.value.code, caught.value.retryable) == ("invalid_input", False)
    return caught.value.message


@pytest.mark.parametrize(
    ("field", "good", "bad", "message"),
    [
        ("limit", [1, 100], [0], "steps[0].input.limit: 0 came, expected at least 1"),
        ("limit", [5], ["5"], 'steps[0].input.limit: "5" (text) came, expected a whole number'),
        ("limit", [5], [True, None, 2.0], "expected a whole number"),
        ("limit", [5], [101], "expected at most 100"),
        ("table", ["xy"], ["x"], "text with 1 character came, expected at least 2 characters"),
        ("where", [[], {"field": "a"}, [{"field": "a", "operator": "lt"}]], [5, None, "x"], "a list or an object"),
        ("where", [[]], [[{"field": "a", "operator": "x"}]], "steps[0].input.where[0].operator: "),
    ],
)
def test_a_resolved_value_is_checked_when_the_step_runs(
    field: str, good: list[Any], bad: list[Any], message: str, check: Check
) -> None:
    step_ = only(check, step("read", **{"table": "xy", field: "<< initial.x >>"}))
    for value in good:
        step_.recheck({"table": "xy", field: value})
    for value in bad:
        assert message in refused(step_, {"table": "xy", field: value})


def test_every_value_that_does_not_fit_is_named(check: Check) -> None:
    step_ = only(check, step("read", table="<< initial.t >>", limit="<< initial.n >>"))
    assert refused(step_, {"table": 5, "limit": 0}) == (
        "steps[0].input.table: 5 came, expected text; steps[0].input.limit: 0 came, expected at least 1"
    )


def test_a_value_in_a_text_is_checked_too(check: Check) -> None:
    step_ = only(check, step("say", message="", level="<< initial.a >>fo"))
    step_.recheck({"message": "", "level": "info"})
    assert '"xfo" (text) came, expected "info" or "error"' in refused(step_, {"message": "", "level": "xfo"})


def test_what_is_nested_is_checked_where_it_stands(check: Check) -> None:
    step_ = only(check, step("read", table="xy", where=[{"field": "a"}, {"field": "<< initial.f >>"}]))
    step_.recheck({"table": "xy", "where": [{"field": "a"}, {"field": "b"}]})
    message = refused(step_, {"table": "xy", "where": [{"field": "a"}, {"field": 5}]})
    assert message == "steps[0].input.where[1].field: 5 came, expected text"


def test_child_lists_and_conditions_are_no_part_of_the_input_that_is_checked_again(check: Check) -> None:
    step_ = only(check, step("each", items="<< initial.rows >>", steps=[SAY], until="<< $index > 3 >>"))
    assert set(step_.input) == {"items"}
    assert set(step_.branches) == {"steps"}
    assert set(step_.conditions) == {"until"}
    step_.recheck({"items": []})
    assert refused(step_, {"items": None}) == "steps[0].input.items: null came, expected a list"
    cases = only(check, step("switch", cases=[{"id": "<< initial.x >>", "when": True, "steps": [SAY]}]))
    assert set(cases.branches) == {"cases[0].steps"}
    assert set(cases.conditions) == {"cases[0].when"}
    cases.recheck({"cases": [{"id": 5}]})


def test_an_input_without_templates_is_not_checked_again(check: Check) -> None:
    first = only(check, step("read", table="xy", limit=5))
    second = only(check, step("say", message="<< initial.anything >>"))
    first.recheck({"limit": "never looked at"})
    second.recheck({"level": "never looked at"})


def test_continue_on_error_inside_the_input_of_a_container_is_about_the_step(check: Check) -> None:
    container = only(check, step("if", when=True, then=[], continueOnError=True))
    assert container.on_failure == "continue"
    assert "continueOnError" not in container.input
    loop = only(check, step("each", items=[], steps=[], continueOnError=True))
    assert loop.on_failure == "halt"
    assert "continueOnError" in loop.input


def test_fields_in_which_nothing_may_be_missing_are_known_to_the_step(check: Check) -> None:
    assert only(check, step("read", table="xy", where=[])).exact == {"where"}


def test_text_of_another_pattern_is_told_what_is_meant_where_the_schema_gives_examples() -> None:
    schema = {"properties": {"a": {"pattern": "^[A-Z]+$", "examples": ["GET", "PUT"]}, "b": {"pattern": "^x"}}}
    found = [(place_text(each.place), each.message) for each in input_violations(schema, {"a": "get", "b": "y"})]
    assert found == [
        ("a", '"get" (text) came, expected text such as "GET" or "PUT"'),
        ("b", '"y" (text) came, expected text that matches "^x"'),
    ]
