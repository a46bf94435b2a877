"""Rules: when an object in one is JSONLogic, what it gives, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language.logic import KNOWN
from flo.engine.language.rules import compile_rule
from flo.engine.language.scope import Missing, Scope
from flo.engine.secrecy import Secret
from flo.engine.values import Json, dump

ITEM: Json = {
    "first": "Ada",
    "last": "Lovelace",
    "zip": "0042",
    "n": 5,
    "big": 12345678901234567890,
    "one": 1,
    "point": 1.0,
    "yes": True,
    "nil": None,
    "marks": "<< $item.n >>",
    "logic": {"var": "$item.n"},
    "tags": ["a", "b"],
}


@pytest.fixture
def scope() -> Scope:
    return Scope({"initial": {"factor": 2}}).child({"$item": ITEM, "$index": 3})


def given(rule: Json, scope: Scope) -> Json:
    missing: list[Missing] = []
    value = compile_rule(rule).give(scope, missing.append)
    assert missing == []
    return value


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("<< $item.zip >>", "0042"),
        ("<< $item.big >>", 12345678901234567890),
        ("<< $item.one >>", 1),
        ("<< $item.point >>", 1.0),
        ("<< $item.yes >>", True),
        ("<< $item.nil >>", None),
        ("<< $item >>", ITEM),
        ("{{ $item.first }} #<< $index >>", "Ada #3"),
        ({"var": "$item.zip"}, "0042"),
        ({"var": "$item.big"}, 12345678901234567890),
        ({"var": "$item.tags.1"}, "b"),
        ({"var": ["$item.nope", "else"]}, "else"),
        ({"cat": [{"var": "$item.first"}, " ", "<< $item.last | upcase >>"]}, "Ada LOVELACE"),
        ({"if": [{">": [{"var": "$item.n"}, 3]}, {"kind": "big", "n": "<< $item.n >>"}, "small"]},
         {"kind": "big", "n": 5}),
        ({"name": "<< $item.first >>", "kind": "person"}, {"name": "Ada", "kind": "person"}),
        ({"name": "<< $item.first >>"}, {"name": "Ada"}),
        (["<< $item.first >>", 1, {"*": [{"var": "$item.n"}, {"var": "initial.factor"}]}], ["Ada", 1, 10]),
        ({"deep": {"list": [{"total": {"+": [{"var": "$item.n"}, 1]}}]}}, {"deep": {"list": [{"total": 6}]}}),
        ({"a": {"var": "$item.zip"}, "b": {"var": "$item.n"}}, {"a": "0042", "b": 5}),
        ({}, {}),
        (5, 5),
        (None, None),
        ({"+": 1, "-": 2}, {"+": 1, "-": 2}),
        ({"var": 1, "of": 2}, {"var": 1, "of": 2}),
        ({"field": "x", "operator": "equals", "value": "<< $item.n >>"},
         {"field": "x", "operator": "equals", "value": 5}),
        ({"logs": "<< $item.n >>"}, {"logs": 5}),
        ({"logs": {"var": "$item.n"}}, {"logs": 5}),
        ("<< {'log': $item.n} >>", {"log": 5}),
        ({"out": "<< {'map': [$item.first]} >>"}, {"out": {"map": ["Ada"]}}),
    ],
    ids=str,
)  # fmt: skip
def test_a_rule_gives_its_value_with_its_types(rule: Json, value: Json, scope: Scope) -> None:
    assert dump(given(rule, scope)) == dump(value)


@pytest.mark.parametrize("rule", ["<< $item.marks >>", {"var": "$item.marks"}, {"x": "<< $item.logic >>"}])
def test_what_an_item_holds_is_never_a_rule(rule: Json, scope: Scope) -> None:
    assert "$item.n" in dump(given(rule, scope))


@pytest.mark.parametrize("rule", ["<< $item.key >>", {"var": "$item.key"}])
def test_a_secret_passes_as_it_is(rule: Json, scope: Scope) -> None:
    secret = Secret("s3cret")
    scope.names["$item"] = {"key": secret}
    assert given(rule, scope) is secret
    assert given({"of": [rule]}, scope)["of"][0] is secret  # type: ignore[index, call-overload]


def test_a_value_is_made_anew_for_each_item(scope: Scope) -> None:
    rule: Any = compile_rule({"list": ["<< $item.n >>"], "other": 1})
    first, second = (rule.give(scope, lambda missing: None) for _ in range(2))
    assert first == second
    assert first is not second
    assert first["list"] is not second["list"]


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ("name", (), "text without marks came; did you mean '<< $item.name >>'?"),
        ("$item.name", (), "text without marks came; did you mean '<< $item.name >>'?"),
        ("some words", (), "text without marks came"),
        ({"vra": "$item.n"}, (), "no JSONLogic operator 'vra'; did you mean 'var'?"),
        ({"a": {"vra": "$item.n"}}, ("a",), "did you mean 'var'?"),
        ({"=>": [{"var": "$item.n"}, 1]}, (), "no JSONLogic operator '=>'; did you mean"),
        ({"maps": [{"var": "$item.tags"}, {"var": ""}]}, (), "did you mean 'map'?"),
        ({"logs": [{"var": "$item.n"}]}, (), "an object with this key is << {'logs': …} >>"),
        ({"+": [{"vra": "$item.n"}, 1]}, ("+", 0), "no JSONLogic operator 'vra'; did you mean 'var'?"),
        ({"a": [{"if": [True, {"eq": [1]}]}]}, ("a", 0, "if", 1), "no JSONLogic operator 'eq'"),
        ({">": [{"var": "$item.n"}, 1], "<": [{"var": "$item.n"}, 9]}, (), "an object with 2 keys came"),
        ({"==": [1]}, (), "'==' takes at least 2 arguments, not 1"),
        ({"a": {"var": ""}}, ("a", "var"), "'var' needs a path here"),
        ({"a": "<< $item.n + >>"}, ("a",), "a value is missing here"),
        ({"a": "<< $item.n | upcas >>"}, ("a",), "did you mean 'upcase'?"),
        ({"and": [{"field": "$item.n", "operator": "equals", "value": 1}]}, ("and", 0), "a row condition means"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_rule_is_told_with_its_place(rule: Json, place: Any, message: str) -> None:
    told: list[tuple[Any, str]] = []
    compile_rule(rule, lambda inside, problem: told.append((inside, problem.message)))
    assert [held for held, _ in told] == [place]
    assert message in told[0][1]
    with pytest.raises(ExpressionInvalid):
        compile_rule(rule)


def test_every_operator_makes_an_object_jsonlogic() -> None:
    for name in KNOWN:
        rule = compile_rule({name: [{"var": "$item.n"}, {"var": "$item.n"}]})
        assert not rule.constant
        assert next(path.text for _, path in rule.paths) == "$item.n"


def test_the_paths_of_a_rule_have_their_places() -> None:
    rule = compile_rule({"a": "<< $item.x >>", "b": [{"+": [{"var": "$index"}, "<< initial.y >>"]}]})
    assert [(place, path.text) for place, path in rule.paths] == [
        (("a",), "$item.x"),
        (("b", 0, "+", 1), "initial.y"),
        (("b", 0, "+", 0, "var"), "$index"),
    ]


@pytest.mark.parametrize(
    ("rule", "place", "text"),
    [
        ("<< $item.first + 1 >>", "", "$item.first + 1"),
        ({"a": [0, "<< $item.first + 1 >>"]}, "a[1]", "$item.first + 1"),
        ({"odd key": "<< $item.first * 2 >>"}, '["odd key"]', "$item.first * 2"),
        ({"a": {"+": [{"var": "$item.first"}, 1]}}, 'a["+"]', ""),
        ({"a": {"cat": ["<< $item.first + 1 >>"]}}, "a.cat[0]", "$item.first + 1"),
    ],
)
def test_a_failure_says_where_in_the_rule_it_is(rule: Json, place: str, text: str, scope: Scope) -> None:
    with pytest.raises(TemplateFailed) as failed:
        given(rule, scope)
    assert (failed.value.place, failed.value.text) == (place, text)


@pytest.mark.parametrize("rule", ["<< $item.nn >>", {"var": "$item.nn"}])
def test_what_is_missing_is_null_and_told(rule: Json, scope: Scope) -> None:
    missing: list[Missing] = []
    assert compile_rule({"a": rule}).give(scope, missing.append) == {"a": None}
    assert [(held.path, held.hint) for held in missing] == [("$item.nn", "; did you mean '$item.n'?")]


def test_a_rule_that_nests_too_deep_is_refused() -> None:
    rule: Json = "<< $item >>"
    for _ in range(100_000):
        rule = [rule]
    with pytest.raises(ExpressionInvalid, match="the rule nests too deep"):
        compile_rule(rule)
