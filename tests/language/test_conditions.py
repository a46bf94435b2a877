"""Conditions in all their forms, over what a step sees."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.instants import write_instant
from flo.engine.language.conditions import CompiledCondition, compile_condition
from flo.engine.language.scope import Fresh, Missing, Scope
from flo.engine.stores.base import Row
from flo.engine.stores.filters import Operator, matches, parse_where
from flo.engine.values import Json, dump

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Ended:
    """A step that ended."""

    meta: Json


@pytest.fixture
def scope() -> Scope:
    around = Scope(
        {
            "initial": {"n": 5, "text": "5", "nil": None, "list": ["a", "b"], "empty": [], "rule": {"==": [1, 1]}},
            "fetch-users": {"data": [{"name": "Ann"}], "$meta": "a key of the output"},
            "$util": Fresh({"now": lambda: write_instant(NOW)}),
        }
    )
    around.metas["fetch-users"] = Ended({"success": True, "attempts": 2})
    return around.child({"$item": {"value": {"status": "pending", "at": "2026-01-01T12:50:00+01:00"}}})


def holds(condition: Json, scope: Scope) -> bool:
    missing: list[Missing] = []
    answer = compile_condition(condition).holds(scope, missing.append)
    assert missing == []
    return answer


def paths(condition: CompiledCondition) -> list[str]:
    return [path.text for _, path in condition.paths]


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (True, True),
        (False, False),
        ("<< initial.n == 5 >>", True),
        ("{{initial.n}}", True),
        ("<< initial.text >>", True),
        ("<< initial.nil >>", False),
        ("<< initial.empty >>", False),
        ("<< initial.rule >>", True),
        ({"===": ["<< initial.n >>", 5]}, True),
        ({"===": ["{{ initial.text }}", 5]}, False),
        ({"==": ["{{ initial.text }}", 5]}, True),
        ({"===": ["n=<< initial.n >>", "n=5"]}, True),
        ({"===": [{"var": "initial.n"}, 5]}, True),
        ({"==": [{"var": "fetch-users.data.0.name"}, "Ann"]}, True),
        ({"var": "fetch-users.$meta.success"}, True),
        ({">": [{"var": "fetch-users.$meta.attempts"}, 1]}, True),
        ({"in": ["pending", [{"var": "$item.value.status"}]]}, True),
        ({"some": [{"var": "initial.list"}, {"==": [{"var": ""}, "b"]}]}, True),
        ({"all": [{"var": "initial.list"}, {"in": [{"var": ""}, "<< initial.list >>"]}]}, True),
        ({"missing": ["initial.n", "initial.zip"]}, True),
        ({"!": {"missing": ["initial.n"]}}, True),
        ({"var": "initial.empty"}, False),
        ({"<": [{"var": "$item.value.at"}, "<< $util.now >>"]}, True),
    ],
)
def test_a_condition_gives_its_answer(condition: Json, answer: bool, scope: Scope) -> None:
    assert holds(condition, scope) is answer


def test_what_a_template_gives_is_data_and_never_a_rule(scope: Scope) -> None:
    scope.names["$item"] = {"rule": {"var": "initial.n"}, "marks": "<< initial.n >>"}

    assert holds({"===": ["<< $item.rule >>", 5]}, scope) is False
    assert holds({"===": [{"var": "$item.marks"}, 5]}, scope) is False
    assert holds({"in": [{"var": "$item.marks"}, "<< $item.marks >> !"]}, scope) is True


@pytest.mark.parametrize(
    "condition",
    ["<< initial.nn >>", {"!": [{"!": {"var": "initial.nn"}}]}, {"==": ["<< initial.nn >>", 1]}],
)
def test_a_missing_value_counts_as_null_and_is_told_once(condition: Json, scope: Scope) -> None:
    missing: list[Missing] = []

    assert compile_condition(condition).holds(scope, missing.append) is False
    assert [(each.path, each.hint) for each in missing] == [("initial.nn", "; did you mean 'initial.n'?")]


@pytest.mark.parametrize(
    "condition",
    [
        {"===": [{"var": ["initial.nn", 7]}, 7]},
        {"===": ["<< initial.nn | default: 7 >>", 7]},
        {"field": "initial.nn", "operator": "notSet"},
    ],
)
def test_a_default_and_a_test_for_it_are_silent_about_what_is_missing(condition: Json, scope: Scope) -> None:
    assert holds(condition, scope) is True


def test_a_missing_value_fails_where_the_run_is_strict(scope: Scope) -> None:
    def refuse(missing: Missing) -> None:
        raise TemplateFailed(f"{missing.path!r} is missing")

    for condition in ("<< initial.nn >>", {"var": "initial.nn"}, {"var": "fetch-users.$meta.nn"}):
        with pytest.raises(TemplateFailed, match=r"nn' is missing"):
            compile_condition(condition).holds(scope, refuse)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("<< initial.n == fetch-users.data.size >>", ["initial.n", "fetch-users.data.size"]),
        ({"==": ["<< initial.n >>", {"var": "fetch-users.x.y"}]}, ["initial.n", "fetch-users.x.y"]),
        ({"map": [{"var": "initial.list"}, {"cat": [{"var": "inner"}, "<< $vars.x >>"]}]}, ["$vars.x", "initial.list"]),
        ({"field": "initial.x", "operator": "in", "value": ["<< $vars.y >>"]}, ["initial.x", "$vars.y"]),
    ],
)
def test_the_paths_of_a_condition_are_known_before_it_is_evaluated(condition: Json, expected: list[str]) -> None:
    assert sorted(paths(compile_condition(condition))) == sorted(expected)


def test_a_path_of_a_condition_has_its_root_its_segments_and_its_place() -> None:
    ((place, path),) = compile_condition({"!": [{"var": "fetch-users.$meta.success"}]}).paths

    assert place == ("!", 0, "var")
    assert (path.root, path.segments) == ("fetch-users", ("$meta", "success"))


@pytest.mark.parametrize(
    ("condition", "place", "message"),
    [
        ("true", (), "one expression in marks, a row condition or JSONLogic; text without marks came"),
        ("<< a >> ", (), "marks with text around them came"),
        ("{% if a %}x{% endif %}", (), "marks with text around them came"),
        (None, (), "null came"),
        (1, (), "a number came"),
        ([True], (), "a list came"),
        ({}, (), "an object with 0 keys came"),
        ({"==": [1, 1], "!=": [1, 2]}, (), "an object with 2 keys came"),
        ("<< a | nope >>", (), "no filter 'nope'"),
        ({"and": [True, "<< 1 + >>"]}, ("and", 1), ""),
        ({"and": [True, {"eq": [1, 1]}]}, ("and", 1), "no JSONLogic operator 'eq'"),
        ({"!": {"var": ""}}, ("!", "var"), "'var' needs a path here"),
        (
            {"and": [True, {"field": "a", "operator": "set"}]},
            ("and", 1),
            "a row condition means nothing inside JSONLogic",
        ),
        ({"!": {"field": "a", "operator": "eq", "value": 1}}, ("!",), "a row condition means nothing inside JSONLogic"),
        ({"all": [{"field": "a", "operator": "set"}, {"==": [1, 1]}]}, ("all", 0), "group some with 'all' or 'any'"),
        ({"field": "a", "operator": "equls", "value": 1}, ("operator",), "no operator 'equls'; did you mean 'equals'?"),
        ({"field": "a", "operator": "equls", "value": "<< b >>"}, ("operator",), "did you mean 'equals'?"),
        ({"field": "a", "operator": "in", "value": "x"}, ("value",), "in needs a list; text came"),
        ({"field": "a", "operator": "equals"}, (), "equals needs a value"),
        ({"field": "a", "operator": "set", "value": "<< b >>"}, ("value",), "set takes no value"),
        ({"field": "<< a >>", "operator": "set"}, ("field",), "the field is a path, without marks"),
        ({"field": "a..b", "operator": "set"}, ("field",), "segments are parted by single dots"),
        ({"field": "a", "operator": "equals", "value": ["<< 1 + >>"]}, ("value", 0), ""),
        ({"all": [{"field": "a", "operator": "set"}, {"any": [{"field": "b"}]}]}, ("all", 1, "any", 0), "no operator"),
    ],
)
def test_a_condition_that_means_nothing_is_reported_with_its_place(
    condition: Json, place: tuple[str | int, ...], message: str
) -> None:
    problems: list[tuple[tuple[str | int, ...], str]] = []
    compile_condition(condition, lambda at, problem: problems.append((at, problem.message)))

    assert [at for at, _ in problems] == [place]
    assert message in problems[0][1]
    with pytest.raises(ExpressionInvalid):
        compile_condition(condition)


@pytest.mark.parametrize(
    ("condition", "place", "message"),
    [
        ({"if": [{"+": [1, {"var": "initial.list"}]}, 1]}, 'if[0]["+"]', "arithmetic takes numbers, not a list"),
        ({"!": ["<< initial.n | divided_by: 0 >>"]}, '["!"][0]', "cannot divide by 0"),
        ({"field": "initial.n", "operator": "in", "value": "<< initial.n >>"}, "", "in needs a list; a number came"),
        (
            {"field": "initial.n", "operator": "equals", "value": "<< initial.nn >>"},
            "value",
            "did you mean 'initial.n'",
        ),
        (
            {"any": [{"field": "initial.n", "operator": "in", "value": [1, "<< x.y >>"]}]},
            "any[0].value[1]",
            "is missing",
        ),
    ],
)
def test_a_condition_that_has_no_answer_fails_with_its_place(
    condition: Json, place: str, message: str, scope: Scope
) -> None:
    with pytest.raises(TemplateFailed) as failed:
        compile_condition(condition).holds(scope, lambda missing: None)

    assert failed.value.place == place
    assert message in failed.value.reason


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ({"field": "initial.n", "operator": "equals", "value": 5}, True),
        ({"field": "initial.n", "operator": "eq", "value": "<< initial.text >>"}, False),
        ({"field": "initial.list[0]", "operator": "startsWith", "value": "a"}, True),
        ({"field": "initial.nil", "operator": "isNull"}, True),
        ({"field": "initial.nn", "operator": "isNull"}, False),
        ({"field": "initial.nn", "operator": "notEquals", "value": 1}, True),
        ({"field": "nowhere.x", "operator": "notSet"}, True),
        ({"field": "fetch-users.$meta.success", "operator": "equals", "value": True}, True),
        ({"field": "$item.value.at", "operator": "olderThan", "value": "5m"}, True),
        ({"field": "$item.value.at", "operator": "olderThan", "value": "<< '15m' >>"}, False),
        ({"field": "$item.value.at", "operator": "equals", "value": "2026-01-01T11:50:00Z"}, True),
        (
            {
                "all": [
                    {"field": "initial.n", "operator": "gt", "value": 4},
                    {"field": "initial.n", "operator": "lt", "value": 5},
                ]
            },
            False,
        ),
        ({"any": [{"all": [{"field": "initial.n", "operator": "gt", "value": 4}]}, {"all": []}]}, True),
        ({"any": [{"field": "initial.n", "operator": "set"}, {"any": []}]}, True),
    ],
)
def test_the_tests_of_where_work_on_what_a_scope_holds(condition: Json, answer: bool, scope: Scope) -> None:
    assert holds(condition, scope) is answer


def test_every_value_of_a_group_is_there_before_the_first_test(scope: Scope) -> None:
    never: Json = {"field": "initial.n", "operator": "equals", "value": 0}
    missing: Json = {"field": "initial.n", "operator": "equals", "value": "<< initial.nn >>"}

    with pytest.raises(TemplateFailed, match=r"all\[1\].value: 'initial.nn' is missing"):
        compile_condition({"all": [never, missing]}).holds(scope, lambda found: None)


VALUES: list[Json] = [
    None,
    True,
    1,
    1.0,
    5,
    "5",
    "",
    "a",
    "ab",
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
    "2026-01-01T00:00:00Z",
    "2026-01-01T01:00:00+01:00",
]


@pytest.mark.parametrize("operator", [operator.value for operator in Operator])
def test_every_operator_answers_for_a_scope_as_it_does_for_a_row(operator: str) -> None:
    operands: list[Json] = {"in": [VALUES, []], "notIn": [VALUES, []], "olderThan": ["5m"], "newerThan": ["5m"]}.get(
        operator, VALUES
    )
    if operator in ("set", "notSet", "isNull"):
        operands = [None]
    for held in ({"x": value} for value in VALUES):
        scope = Scope({"row": held, "$util": {"now": write_instant(NOW)}})
        row = Row("k", {"row": held}, NOW, NOW)
        for field in ("row.x", "row.y", "row.x.a", "row.x[0]"):
            for operand in operands:
                test: Json = {"field": field, "operator": operator, "value": operand}
                expected = matches(parse_where([test]), row, NOW)
                assert holds(test, scope) is expected, dump(test)


@settings(deadline=None, max_examples=200)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(["<< initial.n >>", "<<", "{{ 1 | plus: }}", "initial.n", "set", "$item"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["all", "any", "field", "operator", "value", "var", "==", "map", "missing", "+"]),
                inner | st.lists(inner, max_size=3),
                max_size=3,
            )
        ),
        max_leaves=10,
    )
)
def test_any_json_as_a_condition_gives_an_answer_or_a_clear_error(condition: Json) -> None:
    scope = Scope({"initial": {"n": 1}, "$item": [1]})
    try:
        answer = compile_condition(condition).holds(scope, lambda missing: None)
    except (ExpressionInvalid, TemplateFailed):
        return
    assert answer in (True, False)
