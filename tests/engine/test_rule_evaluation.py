"""Rules while a workflow runs: what they see, how often they are asked, and how they fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.registry import Registry
from flo.engine.step import StepCall, StepType, step_type
from flo.engine.stores.memory import MemoryStore
from flo.engine.values import JsonObject
from flo.testing import FrozenClock

SEEN = ("$item", "$index", "$parent", "$extra")
OBJECT: JsonObject = {"type": "object"}


@step_type(
    "test.each",
    schema={"type": "object", "required": ["items"], "properties": {"items": {"type": "array"}}},
    output=OBJECT,
    example={"items": []},
    conditions=("keep",),
    rules=("value", "by", "by[].value"),
    sees=dict.fromkeys(("keep", "value", "by", "by[].value"), SEEN),
    touches=False,
)
def each(call: StepCall, input: JsonObject) -> JsonObject:
    """Evaluate every rule for every item."""
    fields = [name for name in ("keep", "value", "by", "by[0].value", "by[1].value") if call.engine.has_rule(name)]
    rules = [(name, call.engine.rule(name)) for name in fields]
    items: Any = input["items"]
    given = [
        {name: rule({"$item": item, "$index": index, "$extra": "extra"}) for name, rule in rules}
        for index, item in enumerate(items)
    ]
    return {"fields": fields, "given": given}


@step_type("test.other", schema=OBJECT, output=OBJECT, example={}, rules=("value",), sees={"value": ("$item",)})
def other(call: StepCall, input: JsonObject) -> JsonObject:
    """Evaluate a rule without an index, and one for an item of another list."""
    try:
        return {"value": call.engine.rule("value")({"$item": 1})}
    except Exception as failed:
        call.engine.rule("value", over="rows")({"$item": 1, "$index": 4})
        raise AssertionError from failed


class Engine:
    """An engine with these step types."""

    def __init__(self, step_types: Sequence[StepType]) -> None:
        installed = Registry.installed()
        clock = FrozenClock()
        self.flo = Flo(MemoryStore(clock), Registry([*(installed[name] for name in installed), *step_types]), clock)

    def run(self, steps: Sequence[Any], given: Any = None, **document: Any) -> Any:
        result = self.flo.run({"steps": steps, **document}, given)
        self.messages = [
            line.message for line in self.flo.executions.lines(result.execution_id, limit=100) if line.level == "warn"
        ]
        return result


@pytest.fixture(scope="module")
def engine() -> Any:
    made = Engine([each, other])
    yield made
    made.flo.close()


def step(given: Any, step_id: str = "a") -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "test.each", "input": {"items": [1, 2], **given}}


def given(result: Any) -> Any:
    return result.steps["a"]["output"]["given"]


def test_a_rule_sees_the_item_the_names_that_are_handed_over_and_what_the_step_sees(engine: Engine) -> None:
    rule = {"item": "<< $item >>", "index": {"var": "$index"}, "extra": "<< $extra >>", "n": {"var": "initial.n"},
            "v": "<< $vars.v >>", "before": "<< b.x >>", "parent": "<< $parent >>"}  # fmt: skip
    before = [
        {"stepId": "b", "stepType": "core.set-variable", "input": {"x": "seen", "v": 7}},
    ]
    result = engine.run([*before, step({"value": rule})], {"n": 5})
    assert [held["value"] for held in given(result)] == [
        {"item": 1, "index": 0, "extra": "extra", "n": 5, "v": 7, "before": "seen", "parent": None},
        {"item": 2, "index": 1, "extra": "extra", "n": 5, "v": 7, "before": "seen", "parent": None},
    ]


def test_a_condition_gives_true_or_false_however_it_is_written(engine: Engine) -> None:
    for condition in ("<< $item - 1 >>", {"-": [{"var": "$item"}, 1]}):
        assert given(engine.run([step({"keep": condition})])) == [{"keep": False}, {"keep": True}]
    row = {"field": "$item", "operator": "equals", "value": "<< $index + 1 >>"}
    assert given(engine.run([step({"keep": row})])) == [{"keep": True}, {"keep": True}]


def test_a_field_that_is_a_rule_or_holds_some_is_told_apart(engine: Engine) -> None:
    for by, fields in (
        ("<< $item >>", ["by"]),
        ({"var": "$item"}, ["by"]),
        ([{"value": "<< $item >>"}, {"value": {"-": [{"var": "$item"}]}}], ["by[0].value", "by[1].value"]),
        (None, ["by"]),
    ):
        assert engine.run([step({"by": by})]).steps["a"]["output"]["fields"] == fields
    assert engine.run([step({})]).steps["a"]["output"]["fields"] == []


def test_a_rule_reads_what_is_now_each_time_it_is_asked(engine: Engine) -> None:
    one, two = (held["value"] for held in given(engine.run([step({"value": "<< $util.uuid >>"})])))
    assert one != two


def test_in_a_loop_the_parent_is_the_iteration_around(engine: Engine) -> None:
    inner = step({"items": "<< $item.rows >>", "value": "<< $parent.item.name >>-<< $parent.index >>-<< $item >>"})
    outermost = {"items": "<< $item.rows >>", "value": "<< $parent.parent.item >>"}
    loop = {"stepId": "l", "stepType": "core.for-each", "input": {"items": "<< initial.l >>", "steps": [inner]}}
    rows = [{"name": "x", "rows": [1, 2]}, {"name": "y", "rows": []}, {"name": "z", "rows": [3]}]
    result = engine.run([loop], {"l": rows})
    found = [held["output"]["a"]["given"] for held in result.steps["l"]["output"]["items"]]
    assert [[held["value"] for held in iteration] for iteration in found] == [["x-0-1", "x-0-2"], [], ["z-2-3"]]

    deep = {"stepId": "m", "stepType": "core.for-each", "input": {"items": "<< $item.l >>", "steps": [step(outermost)]}}
    loop = {"stepId": "l", "stepType": "core.for-each", "input": {"items": "<< initial.l >>", "steps": [deep]}}
    result = engine.run([loop], {"l": [{"l": [{"rows": [1]}]}]})
    (inside,) = result.steps["l"]["output"]["items"][0]["output"]["m"]["items"]
    assert inside["output"]["a"]["given"] == [{"value": {"l": [{"rows": [1]}]}}]


def test_what_is_missing_is_told_once_however_many_items_lack_it(engine: Engine) -> None:
    rule = {"a": "<< $item.nme >>", "b": {"var": "$item.nme"}, "c": "<< $item.age >>"}
    result = engine.run([step({"items": "<< initial.l >>", "value": rule})], {"l": [{"name": "x"}] * 500})
    assert given(result)[499] == {"value": {"a": None, "b": None, "c": None}}
    assert engine.messages == [
        "steps[0].input.value: '$item.nme' is missing, null is used; did you mean '$item.name'?",
        "steps[0].input.value: '$item.age' is missing, null is used",
    ]


@pytest.mark.parametrize(
    ("rule", "place", "shown"),
    [
        ("<< $item.nme >>", "value", "$item.nme"),
        ({"a": ["<< 'x' | append: $item.nme >>"]}, "value.a[0]", "'x' | append: $item.nme"),
        ({"a": {"var": "$item.nme"}}, "value.a", "$item.nme"),
        ({"var": "$item.nme"}, "value", "$item.nme"),
    ],
    ids=str,
)
def test_in_a_strict_run_it_fails_and_says_for_which_item(engine: Engine, rule: Any, place: str, shown: str) -> None:
    items = [{"nme": 1}, {"nme": 1}, {"name": 1}]
    result = engine.run([step({"items": items, "value": rule})], options={"strict": True})
    error = result.steps["a"]["error"]
    first, expression, caret = error["message"].splitlines()
    assert error["code"] == "template_error"
    assert first == (f"steps[0].input.{place} for items[2]: '$item.nme' is missing; did you mean '$item.name'?")
    assert expression.strip() == shown
    assert caret.index("^") == expression.index("$item.nme")


def test_a_failure_names_the_place_the_item_and_the_expression(engine: Engine) -> None:
    rule = {"total": ["<< $item.n * 2 >>"]}
    result = engine.run([step({"items": [{"n": 1}, {"n": "x"}], "value": rule})])
    assert result.steps["a"]["error"]["message"] == (
        "steps[0].input.value.total[0] for items[1]: cannot multiply text by a number\n    $item.n * 2\n            ^"
    )
    condition = engine.run([step({"items": [1, "x"], "keep": {">": [{"+": [{"var": "$item"}, 1]}, 1]}})])
    assert condition.steps["a"]["error"]["message"] == (
        'steps[0].input.keep[">"][0]["+"] for items[1]: arithmetic takes numbers, not "x"'
    )


def test_the_list_that_an_item_is_of_is_named(engine: Engine) -> None:
    result = engine.run([{"stepId": "a", "stepType": "test.other", "input": {"value": "<< $item + 'x' >>"}}])
    message = result.steps["a"]["error"]["message"]
    assert message.startswith("steps[0].input.value for rows[4]: cannot add text to a number")


def test_rules_of_steps_that_run_at_once_do_not_meet(engine: Engine) -> None:
    steps = [step({"items": list(range(200)), "value": f"<< $item * {n} + $index >>"}, f"s{n}") for n in range(4)]
    result = engine.run([{"stepId": "p", "stepType": "core.parallel", "input": {"steps": steps}}])
    for n in range(4):
        found = result.steps[f"s{n}"]["output"]["given"]
        assert [held["value"] for held in found] == [at * n + at for at in range(200)]
