"""What is told about rules when a document is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flo.engine.checking.load import Checked, load
from flo.engine.commands.editor_schema import editor_schema
from flo.engine.errors import Problem, WorkflowInvalid
from flo.engine.registry import Registry

from .conftest import STEPS, closed, step_type

SEEN = ("$item", "$index", "$parent")
KEY = {"value": {}, "down": {"type": "boolean"}}
REGISTRY = Registry(
    [
        step_type(
            "t.list",
            closed(
                ["items"],
                items={"type": "array"},
                value={},
                other={},
                keep={},
                by={
                    "type": ["string", "object", "array"],
                    "properties": KEY,
                    "if": {"type": "object", "required": ["value"]},
                    "then": {"additionalProperties": False, "properties": KEY},
                    "items": {
                        "if": {"type": "object", "required": ["value"]},
                        "then": {"additionalProperties": False, "properties": KEY},
                    },
                },
                cases={"type": "array", "items": closed(["when"], when={}, give={})},
            ),
            output=closed([], items={"type": "array"}, count={"type": "integer"}),
            conditions=("keep", "cases[].when"),
            rules=("value", "other", "by", "by.value", "by[]", "by[].value", "cases[].give"),
            sees={
                **dict.fromkeys(("value", "keep", "by", "by.value", "by[]", "by[].value", "cases[].when"), SEEN),
                "other": (*SEEN, "$total"),
            },
        ),
        step_type("t.each", closed(["items", "steps"], items={}, steps=STEPS), branches=("steps",), loops=("steps",)),
        step_type("t.say", closed([], message={})),
    ]
)


def checked(given: Mapping[str, Any], *more: Any) -> Checked:
    step = {"stepId": "a", "stepType": "t.list", "input": {"items": "<< initial.items >>", **given}}
    return load({"steps": [{"stepId": "before", "stepType": "t.say"}, step, *more]}, REGISTRY, "flow.json")


def problems(given: Mapping[str, Any], *more: Any) -> list[Problem]:
    with pytest.raises(WorkflowInvalid) as caught:
        checked(given, *more)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    "given",
    [
        {"value": "<< $item.x >>"},
        {"value": {"a": "<< $index >>", "b": {"var": "$item.x"}, "c": ["<< $parent.item.y >>", 5]}},
        {"value": {"+": [{"var": "before.n"}, "<< initial.n >>", {"var": "$vars.n"}]}},
        {"value": "<< before.$meta.success >>"},
        {"other": {"+": [{"var": "$total"}, "<< $total + $item >>"]}},
        {"keep": {"field": "$item.x", "operator": "equals", "value": "<< $index >>"}},
        {"by": {"var": "$item.x"}},
        {"by": {"value": "<< $item.x >>", "down": True}},
        {"by": {"value": {"var": "$item.x"}, "down": "<< initial.down >>"}},
        {"by": [{"value": "<< $item.x >>"}, "<< $item.y >>", {"var": "$item.z"}]},
        {"cases": [{"when": "<< $item.x >>", "give": "<< initial.x >>"}]},
    ],
    ids=str,
)
def test_a_rule_sees_what_the_step_sees_and_the_item(given: dict[str, Any]) -> None:
    assert checked(given).warnings == ()


@pytest.mark.parametrize(
    ("given", "place", "message"),
    [
        ({"value": "<< itme.x >>"}, "value", "no step or name 'itme'; did you mean '$item'?"),
        ({"value": {"a": ["<< $itm.x >>"]}}, "value.a[0]", "no step or name '$itm'; did you mean '$item'?"),
        ({"value": {"var": "status"}}, "value.var", "no step or name 'status'; of an item it is '$item.status'"),
        ({"keep": "<< price.net > 5 >>"}, "keep", "no step or name 'price'; of an item it is '$item.price.net'"),
        (
            {"keep": {"field": "status", "operator": "equals", "value": 1}},
            "keep.field",
            "of an item it is '$item.status'",
        ),
        ({"value": "<< befor.x >>"}, "value", "no step or name 'befor'; did you mean 'before'?"),
        ({"value": "<< a.x >>"}, "value", "'a' is this step itself"),
        ({"value": "<< $total >>"}, "value", "no step or name '$total'"),
        ({"other": "<< $totl >>"}, "other", "no step or name '$totl'; did you mean '$total'?"),
        ({"value": "<< $parent.itm >>"}, "value", "'$parent' has no 'itm'; did you mean 'item'?"),
        ({"value": "<< $isFirst >>"}, "value", "'$isFirst' is only there inside a loop"),
        ({"cases": [{"when": True, "give": "<< $item >>"}]}, "cases[0].give", "'$item' is only there inside a loop"),
        ({"value": {"vra": "$item.x"}}, "value", "no JSONLogic operator 'vra'; did you mean 'var'?"),
        ({"value": {"+": [{"vra": "$item.x"}]}}, 'value["+"][0]', "did you mean 'var'?"),
        ({"value": "name"}, "value", "text without marks came; did you mean '<< $item.name >>'?"),
        ({"by": "name"}, "by", "text without marks came; did you mean '<< $item.name >>'?"),
        ({"by": ["<< $item.x >>", "name"]}, "by[1]", "text without marks came"),
        ({"by": {"value": "<< $itm >>"}}, "by.value", "did you mean '$item'?"),
        ({"by": {"value": "<< $item >>", "dwon": True}}, "by.dwon", "unknown field 'dwon'; did you mean 'down'?"),
        ({"by": [{"value": "<< $item >>", "dwon": True}]}, "by[0].dwon", "unknown field 'dwon'; did you mean 'down'?"),
        ({"by": [{"value": "<< $item >>", "down": 5}]}, "by[0].down", "5 came, expected true or false"),
        ({"value": "<< $item. >>"}, "value", ""),
        ({"keep": "text"}, "keep", "a condition is a boolean"),
        ({"cases": "<< initial.cases >>"}, "cases", "'cases[].when' is written out in the document"),
        ({"cases": ["<< initial.case >>"]}, "cases[0]", "'cases[].when' is written out in the document"),
        ({"valu": 5}, "valu", "unknown field 'valu'; did you mean 'value'?"),
    ],
    ids=str,
)
def test_a_slip_in_a_rule_is_told_before_anything_runs(given: dict[str, Any], place: str, message: str) -> None:
    found = problems(given)
    assert [problem.place for problem in found] == [f"steps[1].input.{place}"]
    assert message in found[0].message


def test_the_expression_is_shown_with_a_caret() -> None:
    (problem,) = problems({"value": {"a": "<< $item.x + itme.y >>"}})
    assert problem.message.splitlines()[1:] == ["    $item.x + itme.y", "              ^"]
    assert problem.step_id == "a"


@pytest.mark.parametrize("constant", [5, {"kind": "order"}, {"field": "name", "direction": "desc"}, []])
def test_a_rule_without_a_template_is_probably_not_meant(constant: Any) -> None:
    (warning,) = checked({"value": constant}).warnings
    assert (warning.place, warning.severity) == ("steps[1].input.value", "warning")
    assert "the same for every item" in warning.message


def test_outside_the_rules_an_item_is_there_in_loops_only() -> None:
    (problem,) = problems({"items": "<< $item.rows >>", "value": "<< $item >>"})
    assert problem.place == "steps[1].input.items"
    inside = {
        "stepId": "b",
        "stepType": "t.list",
        "input": {"items": "<< $item.rows >>", "value": "<< $parent.item >>"},
    }
    loop = {"stepId": "l", "stepType": "t.each", "input": {"items": [1], "steps": [inside]}}
    assert load({"steps": [loop]}, REGISTRY).warnings == ()


def test_an_output_that_is_not_there_is_told_with_the_nearest() -> None:
    after = {"stepId": "b", "stepType": "t.list", "input": {"items": "<< a.itms >>", "value": "<< a.cuont >>"}}
    warnings = checked({"value": "<< $item >>"}, after).warnings
    assert [warning.message.splitlines()[0] for warning in warnings] == [
        "t.list gives no 'itms'; did you mean 'items'?",
        "t.list gives no 'cuont'; did you mean 'count'?",
    ]


def test_a_rule_that_is_held_by_another_field_is_found_by_its_spelling() -> None:
    given = {"value": "<< $item >>", "by": [{"value": "<< $item >>", "down": True}, {"var": "$item"}], "keep": True}
    step = checked(given).workflow.block.steps[1]
    assert step.rules.keys() == {"value", "by[0].value", "by[1]"}
    assert step.conditions.keys() == {"keep"}
    assert step.input.keys() == {"items", "by"}
    assert step.input["by"].resolve(None, None) == [{"down": True}, None]  # type: ignore[arg-type]


Accepts = Callable[[Any], bool]


@pytest.fixture(scope="module")
def accepts() -> Accepts:
    validator = Draft202012Validator(editor_schema(REGISTRY))  # type: ignore[arg-type]
    return lambda given: validator.is_valid({"steps": [{"stepId": "a", "stepType": "t.list", "input": given}]})


def test_the_schema_for_editors_takes_any_rule_and_nothing_else(accepts: Accepts) -> None:
    for rule in ("<< $item >>", {"var": "$item"}, {"a": ["<< $item >>"]}, ["<< $item.a >>"], 5, None):
        assert accepts({"items": [], "value": rule, "by": rule, "cases": [{"when": True, "give": rule}]})
    assert not accepts({"items": [], "vlaue": "<< $item >>"})
    assert not accepts({"items": [], "cases": [{"when": 5}]})
