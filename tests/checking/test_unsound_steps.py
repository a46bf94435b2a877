"""One step that is wrong makes no other step wrong: it keeps its place, and every problem is told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Told = Callable[[Any], list[str]]


def say(step_id: str, message: Any = "", **fields: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "t.say", "input": {"message": message}, **fields}


UNSOUND: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown type": ({"stepId": "x", "stepType": "t.gone", "input": {"a": "<< $item >>", "steps": [say("inner")]}},
                        ["steps[1].stepType: no step type 't.gone'"]),
    "no type": ({"stepId": "x"}, ["steps[1]: 'stepType' is required"]),
    "a type that is no text": ({"stepId": "x", "stepType": 5}, ["steps[1].stepType: 5 came, expected text"]),
    "an empty type": ({"stepId": "x", "stepType": ""}, ["steps[1].stepType: text with 0 characters came"]),
    "an input that is a list": (say("x", input=[say("inner")]), ["steps[1].input: a list came, expected an object"]),
    "an input that is a template": (say("x", input="<< $x >>"),
                                    ["steps[1].input: \"<< $x >>\" (text) came, expected an object; a template"]),
    "an unknown field": (say("x", retyr={}), ["steps[1].retyr: unknown field 'retyr'; did you mean 'retry'?"]),
    "an unknown field of its input": ({"stepId": "x", "stepType": "t.say", "input": {"message": 1, "a": 1}},
                                      ["steps[1].input.a: unknown field 'a'"]),
    "a bad stepId": (say("x y"), ["steps[1].stepId: \"x y\" (text) came"]),
}  # fmt: skip


@pytest.mark.parametrize(("step", "expected"), UNSOUND.values(), ids=UNSOUND)
def test_the_steps_around_an_unsound_one_are_not_blamed(step: dict[str, Any], expected: list[str], told: Told) -> None:
    reads_it = f"<< {step['stepId']}.y >>" if " " not in step["stepId"] else ""
    lines = told([say("a"), step, say("b", reads_it), say("c", "<< a.x >> << b.x >>")])
    assert len(lines) == len(expected), lines
    for line, beginning in zip(lines, expected, strict=True):
        assert line.startswith(beginning)


@pytest.mark.parametrize(("step", "expected"), UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_step_keeps_its_place_in_a_graph(step: dict[str, Any], expected: list[str], told: Told) -> None:
    lines = told([
        say("a"),
        {**step, "dependsOn": ["a"]},
        say("b", "<< a.x >>", dependsOn=[step["stepId"]]),
        say("c", "<< a.x >> << b.x >>", dependsOn=["b"]),
    ])  # fmt: skip
    assert len(lines) == len(expected), lines


def test_steps_inside_one_of_an_unknown_type_may_be_named_elsewhere(told: Told) -> None:
    unknown = {"stepId": "x", "stepType": "t.gone", "input": {"steps": [say("inner", "<< $item.x >>")]}}
    (line,) = told([unknown, say("b", "<< inner.x >> << x.y >>")])
    assert line.startswith("steps[0].stepType: ")


def test_an_order_that_can_be_read_is_used_although_it_is_not_sound(told: Told) -> None:
    steps = [say("a"), say("b"), say("c", "<< a.x >>", dependsOn=["a", "a"]), say("d", "<< a.x >>", dependsOn="a")]
    assert told(steps) == [
        "steps[2].dependsOn: an entry stands twice in the list",
        'steps[3].dependsOn: "a" (text) came, expected a list',
    ]
    assert told([say("a"), say("b", "<< a.x >>", dependsOn=None)]) == ["steps[1].dependsOn: null came, expected a list"]
    assert told([say("a"), say("b", dependsOn=[5, "gone"])]) == [
        "steps[1].dependsOn[0]: 5 came, expected text",
        "steps[1].dependsOn[1]: no step 'gone'",
    ]


def test_a_step_without_an_id_is_checked_like_any_other(told: Told) -> None:
    nameless = {"stepType": "t.each", "input": {"items": [], "steps": [say("i", "<< $item.x >> << gone.x >>")]}}
    assert told([nameless, say("a", "<< i.x >>")]) == [
        "steps[0]: 'stepId' is required",
        "steps[0].input.steps[0].input.message: no step or name 'gone'",
        "steps[1].input.message: 'i' ran inside loop 'steps[0]'; read its results from 'steps[0].items'",
    ]


def test_every_field_of_an_unsound_step_is_checked(told: Told) -> None:
    step = say("a", "<< gone.x >>", skipCondition="<< nobody.y >>", retyr={}, onFailure="stop", dependsOn=["gone"])
    assert [line.partition(": ")[0] for line in told([step])] == [
        "steps[0].input.message", "steps[0].skipCondition", "steps[0].retyr", "steps[0].onFailure",
        "steps[0].dependsOn[0]",
    ]  # fmt: skip


def test_a_step_that_is_no_object_is_one_problem(told: Told) -> None:
    assert told([say("a"), "say", say("b", "<< a.x >>")]) == ['steps[1]: "say" (text) came, expected an object']
