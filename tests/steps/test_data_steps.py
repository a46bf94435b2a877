"""Step types on lists: the right values, with their types; what is refused; what they cost."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast, overload

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.comparison import equal, order
from flo.engine.errors import RunCancelled, WorkflowInvalid
from flo.engine.language.conditions import compile_condition
from flo.engine.language.rules import compile_rule
from flo.engine.language.scope import Scope
from flo.engine.registry import Registry
from flo.engine.secrecy import Secret
from flo.engine.step import Engine, Rule, StepCall
from flo.engine.values import Json, JsonObject, LazyList, dump
from flo.steps.data_equality import key_of
from flo.testing import FrozenClock

REGISTRY = Registry.installed()
MANY = 100_000 if "FLO_TEST_FULL" in os.environ else 10_000
UTC, BERLIN = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"
ONES: list[Json] = [1, 1.0, True, "1", [1], {"n": 1}]


@pytest.fixture(scope="module")
def engine() -> Iterator[Flo]:
    with app.open("memory:", clock=FrozenClock()) as opened:
        yield opened


Run = Callable[..., Any]


@pytest.fixture
def run(engine: Flo) -> Run:
    """Run a step of a type with this input, and an `initial`; gives what it gives, or its error."""

    def ran(step_type: str, given: Mapping[str, Any], initial: Any = None, **document: Any) -> Any:
        step = {"stepId": "a", "stepType": step_type, "input": given}
        held = engine.run({"steps": [step], **document}, initial).steps["a"]
        return held["output"] if held["error"] is None else held["error"]

    return ran


def same(found: Any, wanted: Any) -> None:
    """Equal with every type: ``1`` is not ``1.0`` here."""
    assert dump(found) == dump(wanted)


PEOPLE: Any = [
    {"name": "Ann", "age": 30, "zip": "0000"},
    {"name": "bob", "age": 4},
    {"name": "Cyd", "age": 30.0, "zip": "0042"},
]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("<< $item.age > 10 >>", [0, 2]),
        ("<< $item.age == 30 >>", [0, 2]),
        ({"==": [{"var": "$item.zip"}, "0042"]}, [2]),
        ({"and": [{">": [{"var": "$item.age"}, 10]}, "<< $index > 0 >>"]}, [2]),
        ({"field": "$item.zip", "operator": "set"}, [0, 2]),
        ({"any": [{"field": "$item.age", "operator": "lt", "value": 5},
                  {"field": "$item.name", "operator": "equals", "value": "<< initial.name >>"}]}, [1, 2]),
        ("<< $isFirst or $isLast >>", [0, 2]),
        (True, [0, 1, 2]),
        (False, []),
        ("<< $item.age - 4 >>", [0, 2]),
    ],
    ids=str,
)  # fmt: skip
def test_filter_keeps_the_items_for_which_its_condition_holds(run: Run, condition: Any, kept: list[int]) -> None:
    given = {"items": "<< initial.people >>", "condition": condition}
    same(
        run("data.filter", given, {"people": PEOPLE, "name": "Cyd"}),
        {"items": [PEOPLE[at] for at in kept], "count": len(kept)},
    )


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("<< $item.zip | default: 'none' >>", ["0000", "none", "0042"]),
        ({"var": "$item.age"}, [30, 4, 30.0]),
        ({"name": "<< $item.name | upcase >>", "next": {"+": [{"var": "$item.age"}, 1]}, "kind": "person"},
         [{"name": "ANN", "next": 31, "kind": "person"}, {"name": "BOB", "next": 5, "kind": "person"},
          {"name": "CYD", "next": 31.0, "kind": "person"}]),
        (["<< $index >>", "<< $item >>"], [[at, person] for at, person in enumerate(PEOPLE)]),
        ({"big": "<< initial.big + $index >>"}, [{"big": 10**30}, {"big": 10**30 + 1}, {"big": 10**30 + 2}]),
        ("#<< $index >>", ["#0", "#1", "#2"]),
    ],
    ids=str,
)  # fmt: skip
def test_map_makes_a_value_of_each_item(run: Run, value: Any, items: Any) -> None:
    given = {"items": "<< initial.people >>", "value": value}
    same(run("data.map", given, {"people": PEOPLE, "big": 10**30}), {"items": items, "count": 3})


@pytest.mark.parametrize(
    ("items", "initial", "value", "result"),
    [
        ([1, 2, 3], 0, {"+": [{"var": "$accumulator"}, {"var": "$item"}]}, 6),
        ([1, 2.5], 0, "<< $accumulator + $item >>", 3.5),
        ([10**30, 1], 0, "<< $accumulator + $item >>", 10**30 + 1),
        (["b", "c"], "a", "<< $accumulator >><< $item >>", "abc"),
        (["b", "c"], [], "<< $accumulator | push: $item | push: $index >>", ["b", 0, "c", 1]),
        ([3, 9, 4], None, {"if": [{">": [{"var": "$item"}, {"var": "$accumulator"}]}, {"var": "$item"},
                                  {"var": "$accumulator"}]}, 9),
        ([], "0000", "<< $accumulator + 1 >>", "0000"),
        ([{"k": 2}], {"n": 1}, {"n": "<< $accumulator.n + $item.k >>"}, {"n": 3}),
    ],
)  # fmt: skip
def test_reduce_makes_one_value_of_all_items(run: Run, items: Any, initial: Any, value: Any, result: Any) -> None:
    same(run("data.reduce", {"items": items, "initial": initial, "value": value}), {"value": result})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"items": [3, 1, 2]}, [1, 2, 3]),
        ({"items": [3, 1, 2], "direction": "desc"}, [3, 2, 1]),
        ({"items": ["b", "a", "B", "é", "10", "9"]}, ["10", "9", "B", "a", "b", "é"]),
        ({"items": ["x", None, 2, True, UTC, 1.5, False, None]}, [False, True, 1.5, 2, UTC, "x", None, None]),
        ({"items": ["x", None, 2, True, UTC, 1.5, False], "direction": "DESC"}, ["x", UTC, 2, 1.5, True, False, None]),
        ({"items": [2**53 + 1, 2**53, float(2**53), 2**53 - 1]}, [2**53 - 1, 2**53, float(2**53), 2**53 + 1]),
        ({"items": ["2026-01-01T02:00:00+02:00", "2026-01-01T00:30:00Z", UTC]},
         ["2026-01-01T02:00:00+02:00", UTC, "2026-01-01T00:30:00Z"]),
        ({"items": [1.0, 1, 0]}, [0, 1.0, 1]),
        ({"items": [1.0, 1, 2], "direction": "desc"}, [2, 1.0, 1]),
        ({"items": PEOPLE, "by": "<< $item.age >>"}, [PEOPLE[1], PEOPLE[0], PEOPLE[2]]),
        ({"items": PEOPLE, "by": {"var": "$item.age"}, "direction": "desc"}, [PEOPLE[0], PEOPLE[2], PEOPLE[1]]),
        ({"items": PEOPLE, "by": {"value": "<< $item.age >>", "direction": "desc"}},
         [PEOPLE[0], PEOPLE[2], PEOPLE[1]]),
        ({"items": PEOPLE, "by": ["<< $item.age >>", {"value": "<< $item.name >>", "direction": "desc"}]},
         [PEOPLE[1], PEOPLE[2], PEOPLE[0]]),
        ({"items": PEOPLE, "by": ["<< $item.age >>", {"value": "<< $item.name >>", "direction": "asc"}],
          "direction": "desc"}, [PEOPLE[0], PEOPLE[2], PEOPLE[1]]),
        ({"items": PEOPLE, "by": "<< $item.zip >>", "direction": "desc"}, [PEOPLE[2], PEOPLE[0], PEOPLE[1]]),
        ({"items": PEOPLE, "by": {"-": [{"var": "$index"}]}}, [*reversed(PEOPLE)]),
        ({"items": [[2], [1]], "by": "<< $item[0] >>"}, [[1], [2]]),
        ({"items": []}, []),
    ],
)  # fmt: skip
def test_sort_puts_items_into_order(run: Run, given: Any, wanted: Any) -> None:
    same(run("data.sort", given), {"items": wanted, "count": len(wanted)})


def test_group_keeps_types_apart_and_stands_in_order_of_first_appearance(run: Run) -> None:
    items: Any = [{"k": key, "at": at} for at, key in enumerate([*ONES, 1, "1", None, {"n": 1.0}, 5, "5", UTC, BERLIN])]
    found = run("data.group", {"items": "<< initial.l >>", "by": "<< $item.k >>"}, {"l": [*items, {"at": 14}]})
    assert [(dump(group["key"]), [item["at"] for item in group["items"]]) for group in found["groups"]] == [
        ("1", [0, 1, 6]), ("true", [2]), ('"1"', [3, 7]), ("[1]", [4]), ('{"n":1}', [5, 9]), ("null", [8, 14]),
        ("5", [10]), ('"5"', [11]), (f'"{UTC}"', [12, 13]),
    ]  # fmt: skip
    assert found["count"] == 9
    assert [group["count"] for group in found["groups"]] == [3, 1, 2, 1, 2, 2, 1, 1, 2]


def test_group_takes_any_json_as_a_key(run: Run) -> None:
    items = [{"a": 1, "b": "x"}, {"a": "1", "b": "x"}, {"a": 1.0, "b": "x"}]
    found = run("data.group", {"items": items, "by": ["<< $item.a >>", "<< $item.b >>"]})
    same([group["key"] for group in found["groups"]], [[1, "x"], ["1", "x"]])
    found = run("data.group", {"items": items, "by": {"a": "<< $item.a >>", "odd": {"%": [{"var": "$index"}, 2]}}})
    same([group["key"] for group in found["groups"]], [{"a": 1, "odd": 0}, {"a": "1", "odd": 1}])


def test_unique_keeps_the_first_of_each_key(run: Run) -> None:
    items: list[Json] = [*ONES, 1, "1", [1.0], {"n": 1.0}, None, None, UTC, BERLIN, [UTC], [BERLIN]]
    kept: list[Json] = [1, True, "1", [1], {"n": 1}, None, UTC, [UTC], [BERLIN]]
    same(run("data.unique", {"items": items}), {"items": kept, "count": 9})
    by = "<< $item.name | downcase >>"
    same(
        run("data.unique", {"items": [{"name": "Ann"}, {"name": "ANN", "n": 2}, {"name": "Bob"}], "by": by}),
        {"items": [{"name": "Ann"}, {"name": "Bob"}], "count": 2},
    )


def test_classify_puts_each_item_into_the_first_case_that_holds(run: Run) -> None:
    cases = [
        {"caseId": "big", "when": "<< $item > 10 >>"},
        {"caseId": "even", "when": {"==": [{"%": [{"var": "$item"}, 2]}, 0]}},
        {"caseId": "none", "when": False},
    ]
    same(
        run("data.classify", {"items": [12, 3, 4, 11, 5], "cases": cases}),
        {"groups": {"big": [12, 11], "even": [4], "none": [], "default": [3, 5]},
         "counts": {"big": 2, "even": 1, "none": 0, "default": 2}},
    )  # fmt: skip
    found = run("data.classify", {"items": [1, 12], "cases": cases, "default": "<< 'ev' >>en"})
    same(found, {"groups": {"big": [12], "even": [1], "none": []}, "counts": {"big": 1, "even": 1, "none": 0}})
    assert run("data.classify", {"items": [], "cases": cases})["counts"] == dict.fromkeys(
        ("big", "even", "none", "default"), 0
    )


LEFT: Any = [{"id": 1}, {"id": "1"}, {"id": 2}, {"id": None}, {}]
RIGHT: Any = [{"of": 1.0, "n": "a"}, {"of": 1, "n": "b"}, {"of": None, "n": "c"}, {"n": "d"}, {"of": 3, "n": "e"}]


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        (None, [(0, 0), (0, 1)]),
        ("inner", [(0, 0), (0, 1)]),
        ("left", [(0, 0), (0, 1), (1, None), (2, None), (3, None), (4, None)]),
    ],
)
def test_join_pairs_items_with_equal_keys(run: Run, kind: str | None, pairs: Any) -> None:
    given = {"items": LEFT, "with": RIGHT, "left": "<< $item.id >>", "right": {"var": "$item.of"}}
    wanted = [{"left": LEFT[left], "right": None if right is None else RIGHT[right]} for left, right in pairs]
    same(
        run("data.join", given if kind is None else {**given, "type": kind}),
        {"items": wanted, "count": len(wanted)},
    )


def test_join_by_one_rule_for_both_lists_and_by_several_keys(run: Run) -> None:
    rows: Any = [{"a": 1, "b": 1}, {"a": 1, "b": None}]
    found = run("data.join", {"items": rows, "with": rows, "on": ["<< $item.a >>", "<< $item.b >>"]})
    same(found["items"], [{"left": rows[0], "right": rows[0]}])
    found = run("data.join", {"items": rows, "with": rows, "on": {"a": "<< $item.a >>", "b": "<< $item.b >>"}})
    assert found["count"] == 1
    assert run("data.join", {"items": rows, "with": rows, "on": "<< $item.a >>"})["count"] == 4


@pytest.mark.parametrize(
    ("items", "size", "parts"),
    [
        ([1, 2, 3, 4, 5], 2, [[1, 2], [3, 4], [5]]),
        ([1, 2], 2, [[1, 2]]),
        ([1, 2], 10**30, [[1, 2]]),
        ([1, None, "0000"], 1, [[1], [None], ["0000"]]),
        ([], 3, []),
    ],
)
def test_chunk_cuts_a_list_into_parts(run: Run, items: Any, size: int, parts: Any) -> None:
    same(
        run("data.chunk", {"items": "<< initial.l >>", "size": "<< initial.n >>"}, {"l": items, "n": size}),
        {"items": parts, "count": len(parts)},
    )


RULES: Mapping[str, JsonObject] = {
    "data.filter": {"condition": True},
    "data.map": {"value": "<< $item >>"},
    "data.reduce": {"value": "<< $item >>", "initial": 0},
    "data.sort": {},
    "data.group": {"by": "<< $item >>"},
    "data.unique": {},
    "data.classify": {"cases": [{"caseId": "x", "when": True}]},
    "data.join": {"with": [], "on": "<< $item >>"},
    "data.chunk": {"size": 2},
}


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


class Answers:
    """An engine that evaluates rules, as a step asks for them."""

    def __init__(self, rules: Mapping[str, Json], cancelled: threading.Event, after: int | None) -> None:
        self.rules, self.asked = rules, 0
        self._cancelled, self._after = cancelled, after

    def has_rule(self, field: str) -> bool:
        return field in self.rules

    def rule(self, field: str, over: str = "items") -> Rule:
        held = self.rules[field]
        is_condition = field.endswith(("condition", "when"))
        evaluate = compile_condition(held).holds if is_condition else compile_rule(held).give
        scope = Scope()

        def rule(names: Mapping[str, Json]) -> Json:
            self.asked += 1
            if self.asked == self._after:
                self._cancelled.set()
            return evaluate(scope.child(dict(names)), lambda missing: None)

        return rule


def body(
    step_type: str, given: JsonObject, rules: Mapping[str, Json], cancel_after: int | None = None
) -> tuple[Any, Answers]:
    """What the body of a step type gives."""
    cancelled = threading.Event()
    if cancel_after == 0:
        cancelled.set()
    answers = Answers(rules, cancelled, cancel_after)
    none: Any = None
    call = StepCall(
        step_id="a", path="a", execution_id="e", attempt=1, idempotency_key="e:a", store=none, clock=FrozenClock(),
        log=lambda level, message, data=None: None, cancelled=cancelled, deadline=None, secrets=none,
        engine=cast(Engine, answers),
    )  # fmt: skip
    return REGISTRY[step_type].body(call, given), answers


class Row(dict[str, Any]):
    """An object that counts how many of its kind are there."""

    alive = most = 0

    def __init__(self, **pairs: Any) -> None:
        super().__init__(pairs)
        Row.alive += 1
        Row.most = max(Row.most, Row.alive)

    def __del__(self) -> None:
        Row.alive -= 1


class Pages(LazyList):
    """A list that is read as it is needed: its items are made when they are asked for, and must be asked for once."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.read = 0

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | Sequence[Json]:
        raise AssertionError("it is gone through, never indexed")

    def __iter__(self) -> Iterator[Json]:
        for index in range(self._length):
            self.read += 1
            yield Row(id=index, name=f"the name of {index % 10}")


@pytest.mark.parametrize(
    ("step_type", "given", "rules", "count"),
    [
        ("data.filter", {}, {"condition": "<< $item.id < 10 >>"}, 100_000),
        ("data.map", {}, {"value": "<< $item.id % 7 >>"}, MANY),
        ("data.reduce", {"initial": 0}, {"value": "<< $accumulator + $item.id >>"}, MANY),
        ("data.unique", {}, {"by": "<< $item.name >>"}, 100_000),
        ("data.join", {"with": []}, {"on": "<< $item.id >>"}, MANY),
    ],
)
def test_items_that_are_not_kept_are_held_one_at_a_time(step_type: str, given: Any, rules: Any, count: int) -> None:
    items = Pages(count)
    Row.alive = Row.most = 0
    _, answers = body(step_type, {"items": items, **given}, rules)
    assert (items.read, answers.asked) == (count, count)
    assert Row.most < 20


@pytest.mark.parametrize(
    ("step_type", "given", "rules"),
    [
        ("data.sort", {}, {"by": "<< $item.name >>"}),
        ("data.group", {}, {"by": "<< $item.name >>"}),
        ("data.chunk", {"size": 10}, {}),
    ],
)
def test_what_holds_all_items_takes_little_besides(step_type: str, given: Any, rules: Any) -> None:
    items = [{"id": at, "name": f"the name of {at % 10}"} for at in range(5_000)]
    tracemalloc.start()
    body(step_type, {"items": items, **given}, rules)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * len(items)


class Counted(str):
    """Text that counts how often it is compared."""

    compared = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("step_type", ["data.group", "data.unique", "data.join"])
def test_equal_keys_are_found_without_comparing_every_pair(step_type: str) -> None:
    items = [Counted(f"key {at % 2_500}") for at in range(5_000)]
    Counted.compared = 0
    rules = {"by": "<< $item >>", "on": "<< $item >>"}
    body(step_type, {"items": items, "with": items[:2_500]}, rules)
    assert Counted.compared < 5 * len(items)


@pytest.mark.parametrize("step_type", RULES)
def test_a_step_that_is_to_stop_gives_way(step_type: str) -> None:
    by = "<< $item.id >>"
    rules: Any = {"condition": True, "value": by, "by": by, "on": by, "cases[0].when": True}
    items = Pages(10_000)
    with pytest.raises(RunCancelled):
        body(step_type, {**RULES[step_type], "items": items}, rules, cancel_after=0 if step_type == "data.chunk" else 9)
    assert items.read < 5_000


def test_a_secret_passes_as_the_same_object() -> None:
    secret = Secret("s3cret")
    items: list[Json] = [secret, {"k": secret}]
    for step_type, rules in (("data.filter", {"condition": True}), ("data.map", {"value": "<< $item >>"})):
        found = body(step_type, {"items": items}, cast(Any, rules))[0]["items"]
        assert found[0] is secret
        assert found[1]["k"] is secret
    (group, _) = body("data.group", {"items": [secret, 1]}, {"by": "<< $item >>"})[0]["groups"]
    assert group["key"] is secret
    assert group["items"] == [secret]


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(-(10**25), 10**25), st.floats(allow_nan=False,
    allow_infinity=False), st.sampled_from([1e23, 1e16, 0.0, -0.0, 10**23, 2**53, float(2**53), 2**53 + 1]),
    st.text(max_size=2), st.sampled_from(["", "1", "true", UTC, BERLIN, "2026-01-01T00:00:00.000Z"]),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@given(VALUES, VALUES)
@settings(max_examples=300, deadline=None)
def test_two_values_have_one_key_exactly_where_they_are_equal(left: Any, right: Any) -> None:
    assert (key_of(left) == key_of(right)) is equal(left, right)
    if equal(left, right):
        assert hash(key_of(left)) == hash(key_of(right))


@given(st.lists(st.tuples(SCALARS, st.integers(0, 2))), st.booleans())
@settings(max_examples=100, deadline=None)
def test_sorting_is_stable_and_never_against_the_order(pairs: list[tuple[Json, int]], descending: bool) -> None:
    items: list[Json] = [{"k": key, "at": at} for at, (key, _) in enumerate(pairs)]
    direction = "desc" if descending else "asc"
    found = body("data.sort", {"items": items, "direction": direction}, {"by": "<< $item.k >>"})[0]["items"]
    assert sorted(item["at"] for item in found) == list(range(len(items)))
    for first, second in pairwise(found):
        assert order(first["k"], second["k"]) != (-1 if descending else 1) or not _alike(first["k"], second["k"])
        assert first["k"] is not None or second["k"] is None
        if equal(first["k"], second["k"]):
            assert first["at"] < second["at"]


def _alike(left: Json, right: Json) -> bool:
    """Whether two texts are both instants or both none: between those the order of texts does not hold."""
    return not isinstance(left, str) or isinstance(key_of(left), tuple) is isinstance(key_of(right), tuple)


@given(st.lists(VALUES, max_size=12))
@settings(max_examples=100, deadline=None)
def test_groups_part_the_items_by_equal_keys(items: list[Json]) -> None:
    groups = body("data.group", {"items": items}, {"by": "<< $item >>"})[0]["groups"]
    firsts: list[Json] = []
    for item in items:
        if not any(equal(item, first) for first in firsts):
            firsts.append(item)
    assert dump([group["key"] for group in groups]) == dump(firsts)
    assert dump([group["items"] for group in groups]) == dump(
        [[item for item in items if equal(item, first)] for first in firsts]
    )
    unique = body("data.unique", {"items": items}, {})[0]["items"]
    assert dump(unique) == dump(firsts)


@given(st.lists(SCALARS, max_size=8), st.lists(SCALARS, max_size=8), st.sampled_from(["inner", "left"]))
@settings(max_examples=100, deadline=None)
def test_a_join_is_what_comparing_every_pair_gives(left: list[Json], right: list[Json], kind: str) -> None:
    found = body("data.join", {"items": left, "with": right, "type": kind}, {"on": "<< $item >>"})[0]["items"]
    wanted: list[Json] = []
    for item in left:
        matches: list[Json] = [other for other in right if item is not None and equal(item, other)]
        if not matches and kind == "left":
            matches = [None]
        wanted += [{"left": item, "right": other} for other in matches]
    assert dump(found) == dump(wanted)


@given(st.lists(st.integers()), st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_chunks_join_to_the_list_again(items: list[Json], size: int) -> None:
    parts = body("data.chunk", {"items": items, "size": size}, {})[0]["items"]
    assert [item for part in parts for item in part] == items
    assert all(len(part) == size for part in parts[:-1])
    assert all(1 <= len(part) <= size for part in parts)
