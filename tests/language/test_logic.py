"""JSONLogic: the public tests, the coercions, and the bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language import logic, logic_operators
from flo.engine.values import Json, dump, plain

PUBLIC_TESTS = Path(__file__).resolve().parents[2].parent / "shared" / "conformance" / "jsonlogic_compatible.json"


@pytest.mark.skipif(not PUBLIC_TESTS.exists(), reason="the public JSONLogic tests do not lie beside the checkout")
def test_all_public_tests_pass() -> None:
    cases = [case for case in json.loads(PUBLIC_TESTS.read_text("utf-8")) if isinstance(case, dict)]
    failed = [case for case in cases if dump(logic.apply(case["rule"], case.get("data"))) != dump(case["result"])]

    assert len(cases) == 278
    assert failed == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"==": [0, ""]}, True),
        ({"==": [1, True]}, True),
        ({"==": [None, 0]}, False),
        ({"==": ["a", 0]}, False),
        ({"==": [[1], [1]]}, True),
        ({"==": [[1], 1]}, False),
        ({"===": [1, 1.0]}, True),
        ({"===": [1, True]}, False),
        ({"===": ["5", 5]}, False),
        ({"===": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}, True),
        ({"!==": ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00"]}, False),
        ({"<": ["2026-01-01T00:30:00+01:00", "2026-01-01T00:00:00Z"]}, True),
        ({"<": ["10", "9"]}, True),
        ({"<": ["10", 9]}, False),
        ({">": [None, -1]}, True),
        ({">": ["a", 1]}, False),
        ({"<=": [1, 2, 2, 3]}, True),
        ({">": [3, 2, 2]}, False),
        ({"<": [[1], 2]}, False),
        ({"in": [5, "a5"]}, True),
        ({"in": [5, ["5"]]}, False),
        ({"in": [1, [True]]}, False),
        ({"in": [True, [1]]}, False),
        ({"in": [1, [True, 1.0]]}, True),
        ({"in": [None, [0, None]]}, True),
        ({"in": [10**23, [1e23]]}, True),
        ({"in": [[1, {"a": 2, "b": 3}], [[1, {"b": 3, "a": 2.0}]]]}, True),
        ({"in": ["2026-01-01T00:00:00Z", ["2026-01-01T01:00:00+01:00"]]}, True),
        ({"in": ["a", None]}, False),
        ({"+": ["1", 2.5]}, 3.5),
        ({"+": []}, 0),
        ({"+": [2**70, 1]}, 2**70 + 1),
        ({"/": [2**70, 2]}, 2**69),
        ({"%": [-7, 3]}, -1),
        ({"%": [5.5, 2]}, 1.5),
        ({"cat": ["a", None, True, 1.5, [1]]}, "atrue1.5[1]"),
        ({"substr": ["añ🙂b", 1, -1]}, "ñ🙂"),
        ({"substr": ["abc", -9, 2]}, "ab"),
        ({"merge": [[1, [2]], 3]}, [1, [2], 3]),
        ({"missing": {"merge": ["a", "b"]}}, ["a", "b"]),
        ({"log": "x"}, "x"),
        ({"a": {"var": "x"}, "b": 1}, {"a": {"var": "x"}, "b": 1}),
        ({}, {}),
    ],
)
def test_a_rule_gives_its_value(rule: Json, expected: Json) -> None:
    result = logic.apply(rule)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("user.name", "Ann"),
        ("tags.1", "b"),
        ("tags.9", None),
        ("tags.size", 2),
        ("user.name.size", 3),
        ("nothing.at.all", None),
        ("a.b", None),
        (["user.age", 7], 7),
        (["user.name", 7], "Ann"),
        (["nil", 7], None),
        (None, {"user": {"name": "Ann"}, "tags": ["a", "b"], "nil": None}),
    ],
)
def test_var_follows_a_dotted_path(path: Json, expected: Json) -> None:
    data: Json = {"user": {"name": "Ann"}, "tags": ["a", "b"], "nil": None}

    assert logic.apply({"var": path}, data) == expected


def test_what_data_holds_is_never_a_rule() -> None:
    rule = {"var": "secret"}
    data: Json = {"found": rule, "list": [rule, {"+": [1, 1]}], "secret": 42}

    assert logic.apply({"var": "found"}, data) == rule
    assert logic.apply({"map": [{"var": "list"}, {"var": ""}]}, data) == data["list"]  # type: ignore[index,call-overload]
    assert logic.apply({"if": [True, {"var": "found"}]}, data) == rule


def test_only_the_branch_that_is_taken_is_evaluated() -> None:
    fails = {"/": [1, 0]}

    assert logic.apply({"if": [True, "yes", fails]}) == "yes"
    assert logic.apply({"or": [1, fails]}) == 1
    assert logic.apply({"and": [0, fails]}) == 0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"eqals": [1, 1]}, "no JSONLogic operator 'eqals'"),
        ({"filtr": [[], True]}, "no JSONLogic operator 'filtr'; did you mean 'filter'?"),
        ({"if": [False, 1, {"nope": 1}]}, "no JSONLogic operator 'nope'"),
        ({"==": [1]}, "'==' takes at least 2 arguments, not 1"),
        ({"!": []}, "'!' takes at least 1 argument, not 0"),
        ({"map": {"var": "x"}}, "'map' takes at least 2 arguments, not 1"),
        ({"var": [[1]]}, "a path is text, not a list"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_before_it_is_applied(rule: Json, message: str) -> None:
    with pytest.raises(ExpressionInvalid) as refused:
        logic.compile_rule(rule)

    assert message in str(refused.value)


def test_every_problem_of_a_rule_is_reported_with_its_place() -> None:
    problems: list[tuple[object, str]] = []
    rule = {"and": [{"zzz": 1}, {"==": [{"zzz": 1}]}, {"var": "a"}]}

    compiled = logic.compile_rule(rule, report=lambda place, problem: problems.append((place, problem.message)))

    assert problems == [
        (("and", 0), "no JSONLogic operator 'zzz'"),
        (("and", 1, "==", 0), "no JSONLogic operator 'zzz'"),
        (("and", 1), "'==' takes at least 2 arguments, not 1"),
    ]
    assert compiled.variables == ((("and", 2, "var"), "a"),)


def test_the_variables_of_a_rule_are_those_that_read_the_outer_data() -> None:
    rule = {
        "or": [
            {"some": [{"var": "list"}, {"==": [{"var": "inner"}, 1]}]},
            {"var": ["b.c", {"var": "d"}]},
            {"var": {"var": "e"}},
        ]
    }

    assert [path for _, path in logic.compile_rule(rule).variables] == ["list", "d", "b.c", "e"]


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ({"+": [1, None]}, '["+"]', "arithmetic takes numbers, not null"),
        ({"if": [True, {"*": [1, "two"]}]}, 'if[1]["*"]', 'not "two"'),
        ({"/": [1, 0]}, '["/"]', "division by zero"),
        ({"%": [1, "0"]}, '["%"]', "division by zero"),
        ({"-": [True, 1]}, '["-"]', "not true"),
        ({"/": [10**400, 3]}, '["/"]', "too large"),
        ({"*": [1e308, 10]}, '["*"]', "too large"),
        ({"max": [1, "x"]}, "max", 'not "x"'),
        ({"max": ["1e999"]}, "max", 'not "1e999"'),
        ({"substr": ["a", "b"]}, "substr", "the start must be a whole number"),
        ({"missing_some": ["a", []]}, "missing_some", "takes a number and a list"),
        ({"var": {"merge": [1]}}, "var", "a path is text, not a list"),
    ],
)
def test_a_rule_that_has_no_value_fails_with_its_place(rule: Json, place: str, message: str) -> None:
    with pytest.raises(TemplateFailed) as failed:
        logic.apply(rule)

    assert failed.value.place == place
    assert message in failed.value.reason


SPECIAL = ["var", "missing", "missing_some", "if", "?:", "and", "or", "map", "filter", "reduce", "all", "some", "none"]
MANY: list[Json] = list(range(50_000))


@pytest.mark.parametrize(
    "rule",
    [
        {"reduce": [MANY, {"cat": [{"var": "accumulator"}, {"var": "accumulator"}]}, "ab"]},
        {"reduce": [MANY, {"*": [{"var": "accumulator"}, {"var": "accumulator"}]}, 3]},
        {"reduce": [MANY, {"merge": [{"var": "accumulator"}, {"var": "accumulator"}]}, [1]]},
        {"reduce": [MANY, {"merge": [{"var": "accumulator"}, {"var": "current"}]}, []]},
        {"map": [MANY, {"map": [MANY, {"var": ""}]}]},
        {"map": [MANY, [*MANY, {"var": ""}]]},
        {"reduce": [MANY, [{"var": "accumulator"}, {"var": "accumulator"}], []]},
        {"reduce": [MANY[:40], [{"var": "accumulator"}, {"cat": [{"var": "accumulator"}]}], ["x"]]},
        {"map": [MANY, {"cat": ["x" * 15_000_000, {"var": ""}]}]},
        {"filter": [MANY, {"in": [-1, MANY]}]},
        {"filter": [MANY, {"in": ["2026-01-01T00:00:00Z", ["2026"] * 50_000]}]},
        {"filter": [MANY, {"in": [[1], [[[1]]] * 50_000]}]},
        {"filter": [MANY, {"===": [[[MANY]], [[MANY]]]}]},
    ],
    ids=[
        "cat",
        "power",
        "merge",
        "append",
        "nested loops",
        "lists",
        "doubled lists",
        "doubled text",
        "long texts",
        "search",
        "search of an instant",
        "search of a list",
        "deep equality",
    ],
)
def test_no_rule_works_without_end(rule: Json) -> None:
    with pytest.raises(TemplateFailed, match="more than"):
        logic.apply(rule)


@pytest.mark.parametrize("levels", [50, 99, 500, 5000, 100_000])
@pytest.mark.parametrize("is_listed", [True, False])
def test_nesting_ends_in_a_value_or_an_error(levels: int, is_listed: bool) -> None:
    rule: Json = True
    for _ in range(levels):
        rule = {"!": [rule]} if is_listed else {"!": rule}

    if levels < 100:
        assert logic.apply(rule) is (levels % 2 == 0)
    else:
        with pytest.raises(ExpressionInvalid, match="nests deeper than 200"):
            logic.apply(rule)


OPERATORS = st.sampled_from([*logic_operators.OPERATORS, *SPECIAL, "nope"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab.01 -", max_size=6)
)
RULES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(OPERATORS, inner | st.lists(inner, max_size=4), max_size=2)
        | st.dictionaries(OPERATORS, st.lists(inner, min_size=2, max_size=3), min_size=1, max_size=1)
    ),
    max_leaves=15,
)


@settings(deadline=None, max_examples=200)
@given(RULES, RULES)
def test_any_json_as_a_rule_gives_json_or_a_clear_error(rule: Json, data: Json) -> None:
    try:
        result = logic.apply(rule, data)
    except (ExpressionInvalid, TemplateFailed):
        return
    plain(result)
