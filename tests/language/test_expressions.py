"""What expressions mean: literals, operators, filters, and what is missing."""

from __future__ import annotations

import pytest

from flo.engine.errors import TemplateFailed
from flo.engine.language.expressions import compile_expression
from flo.engine.language.scope import Missing, Scope
from flo.engine.values import Json

INITIAL: Json = {
    "name": "Ann",
    "none": None,
    "no": False,
    "count": 4,
    "price": 2.5,
    "digits": "0000",
    "list": [1, 2, 3],
    "tags": ["a", None],
    "person": {"name": "Bob", "age": 41},
    "at": "2026-01-01T12:00:00Z",
}


def given(text: str) -> Json:
    """What an expression gives, where nothing may be missing."""
    missing: list[Missing] = []
    value = compile_expression(text).evaluate(Scope({"initial": INITIAL}), missing.append)
    assert missing == []
    return value


def missing_in(text: str) -> tuple[Json, list[str]]:
    """What an expression gives, and the paths that it missed."""
    missing: list[Missing] = []
    value = compile_expression(text).evaluate(Scope({"initial": INITIAL}), missing.append)
    return value, [each.path for each in missing]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("18446744073709551616", 18446744073709551616),
        ("1.0", 1.0),
        ("-5", -5),
        ("2e3", 2000.0),
        ("1.5E-2", 0.015),
        ("true", True),
        ("True", True),
        ("false", False),
        ("False", False),
        ("null", None),
        ("nil", None),
        ("None", None),
        ("empty", ""),
        ("blank", ""),
        ("''", ""),
        ('"it\'s"', "it's"),
        (r"'it\'s'", "it's"),
        (r'"a\n\t\\\"\/"', 'a\n\t\\"/'),
        (r'"\u00e9 \ud83d\ude42"', "é 🙂"),
        ("'>> }} %}'", ">> }} %}"),
        ("[]", []),
        ("[1, 'a', [null]]", [1, "a", [None]]),
        ("{}", {}),
        ("{'a': 1, \"b c\": {'d': [true]}}", {"a": 1, "b c": {"d": [True]}}),
        ("(1..4)", [1, 2, 3, 4]),
        ("(3..1)", []),
        ("(-1 .. initial.count - 3)", [-1, 0, 1]),
        ("(1.9..3.9)", [1, 2, 3]),
    ],
)
def test_a_literal_gives_its_value_with_its_type(text: str, value: Json) -> None:
    found = given(text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("7 -2", 5),
        ("initial.count - 1", 3),
        ("-initial.count + 1", -3),
        ("2 - -2", 4),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("-7 / 7", -1),
        ("6.0 / 2", 3.0),
        ("7 % 3", 1),
        ("-7 % 3", 2),
        ("7.5 % 2", 1.5),
        ("0.5 * 4", 2.0),
        ("1 + 0.5", 1.5),
        ("9007199254740993 + 0", 9007199254740993),
        ("10000000000000000000000 / 10", 1000000000000000000000),
        ("'a' + 'b' + \"c\"", "abc"),
        ("initial.list + [4]", [1, 2, 3, 4]),
    ],
)
def test_arithmetic_keeps_whole_numbers_whole(text: str, value: Json) -> None:
    found = given(text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 + 'a'", "cannot add text to a number"),
        ("'a' + 1", "cannot add a number to text"),
        ("initial.name - 1", "cannot subtract a number from text"),
        ("true * 2", "cannot multiply a boolean by a number"),
        ("[] / 2", "cannot divide a list by a number"),
        ("null % 2", "cannot take the remainder of null by a number"),
        ("'ab' * 1000000000", "cannot multiply text by a number"),
        ("-initial.person", "cannot negate an object"),
        ("initial.cuont + 1", "cannot add a number to 'initial.cuont' (missing); did you mean 'initial.count'?"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("1 / 0.0", "division by zero"),
        ("1e308 * 10", "a number that is too large"),
        ("1e308 + 1e308", "a number that is too large"),
        ("('a'..3)", "a range goes from number to number, but text came"),
        ("(1..1000000000)", "a range of more than 100,000 numbers"),
    ],
)
def test_arithmetic_on_what_does_not_fit_fails_and_says_what_came(text: str, message: str) -> None:
    with pytest.raises(TemplateFailed) as failure:
        compile_expression(text).evaluate(Scope({"initial": INITIAL}), lambda missing: None)

    assert failure.value.reason == message
    assert failure.value.text == text
    assert failure.value.code == "template_error"


def test_a_failure_shows_a_caret_under_the_operator() -> None:
    with pytest.raises(TemplateFailed) as failure:
        given("initial.count * 2 + initial.name")

    assert str(failure.value).splitlines()[1:] == ["    initial.count * 2 + initial.name", "                      ^"]


@pytest.mark.parametrize(
    "text",
    [
        "1 == 1.0",
        "not 1 == '1'",
        "1 != true",
        "0 <> false",
        "null == initial.none",
        "[1, {'a': 2}] == [1, {'a': 2.0}]",
        "'2026-01-01T13:00:00+01:00' == initial.at",
        "initial.at < '2026-01-01 12:00:00.5Z'",
        "2 < 10",
        "'10' < '2'",
        "2 <= 2 and 2 >= 2",
        "3 > 2.5",
        "'a' in initial.name | downcase",
        "'nn' in initial.name",
        "2 in initial.list",
        "2.0 in initial.list",
        "'2' not in initial.list",
        "null in initial.tags",
        "'age' in initial.person",
        "41 not in initial.person",
        "initial.name contains 'An'",
        "initial.list contains 3",
        "not (initial.count contains 4)",
        "not ('a' in null)",
    ],
)
def test_a_comparison_that_holds(text: str) -> None:
    assert given(text) is True


@pytest.mark.parametrize("text", ["5 < '6'", "5 > '4'", "5 >= '5'", "null < 1", "true > false", "[] <= []", "{} > 1"])
def test_ordering_across_types_never_matches(text: str) -> None:
    assert given(text) is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[] == empty", True),
        ("'' == empty", True),
        ("initial.person == empty", False),
        ("null == empty", False),
        ("'  ' == blank", True),
        ("initial.none == blank", True),
        ("false == blank", True),
        ("blank != initial.name", True),
        ("0 == blank", False),
        ("empty == blank", False),
        ("empty == empty", True),
    ],
)
def test_empty_and_blank_mean_what_liquid_means(text: str, value: Json) -> None:
    assert given(text) is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("initial.name or 'x'", "Ann"),
        ("initial.no or initial.none or 'x'", "x"),
        ("initial.none and 'x'", None),
        ("'' and 'x'", "x"),
        ("0 or 'x'", 0),
        ("true or false and false", True),
        ("not false and true", True),
        ("not [] or false", False),
        ("'yes' if initial.count > 3 else 'no'", "yes"),
        ("1 if false else 2 if false else 3", 3),
        ("(1 if true else 2) + 1", 2),
    ],
)
def test_logic_gives_the_operand_that_decides(text: str, value: Json) -> None:
    assert given(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("initial.name | upcase", "ANN"),
        ("initial.list | slice: 1, 2", [2, 3]),
        ("initial.list | slice(1, 2)", [2, 3]),
        ("initial.list | slice: initial.count - 3, 2", [2, 3]),
        ("initial.none | default: 'n/a'", "n/a"),
        ("initial.none | default('n/a')", "n/a"),
        ("initial.none | default: initial.person.name | upcase", "BOB"),
        ("initial.no | default: 1, allow_false: true", False),
        ("initial.no | default(1, allow_false: initial.no)", 1),
        ("initial.list|reverse|first", 3),
        ("initial.count * initial.price | round", 10),
        ("initial.list | size > 2 and initial.tags | size == 2", True),
        ("1 + (initial.list | size)", 4),
        ("initial.list | size + 1", 4),
        ("-5 | abs", 5),
        ("'x' if false else 'y' | upcase", "Y"),
        ("[initial.list | size, 1 if initial.none else 2]", [3, 2]),
        ("(initial.list | first)", 1),
        ("('a,b' | split: ',')[1]", "b"),
        ("([initial.person] | first).name.size", 3),
        ("[10, 20][1]", 20),
        ("{'a': {'b': 5}}.a.b", 5),
        ("'abc'.size", 3),
    ],
)
def test_filters_bind_as_people_read_them(text: str, value: Json) -> None:
    assert given(text) == value


def test_a_filter_that_refuses_its_value_shows_its_place() -> None:
    with pytest.raises(TemplateFailed) as failure:
        given("initial.count | divided_by: 0")

    assert failure.value.position == len("initial.count | ")


@pytest.mark.parametrize(
    ("text", "value", "missing"),
    [
        ("initial.nope", None, ["initial.nope"]),
        ("nope.deep[0].er", None, ["nope.deep[0].er"]),
        ("initial.list[3]", None, ["initial.list[3]"]),
        ("initial.list[-4]", None, ["initial.list[-4]"]),
        ("initial.name.first.second", None, ["initial.name.first.second"]),
        ("[1, initial.nope]", [1, None], ["initial.nope"]),
        ("{'a': initial.nope}", {"a": None}, ["initial.nope"]),
        ("initial.nope | upcase", "", ["initial.nope"]),
        ("'a' | append: initial.nope", "a", ["initial.nope"]),
        ("initial.nope == null", True, ["initial.nope"]),
        ("initial.nope < 5", False, ["initial.nope"]),
        ("not initial.nope", True, ["initial.nope"]),
        ("initial.nope or 1", 1, ["initial.nope"]),
        ("initial.nope and 1", None, ["initial.nope"]),
        ("1 if initial.nope else 2", 2, ["initial.nope"]),
        ("initial.nope in initial.tags", False, ["initial.nope"]),
        ("initial.nope not in initial.tags", True, ["initial.nope"]),
        ("initial.tags contains initial.nope", False, ["initial.nope"]),
        ("initial.list[initial.nope]", None, ["initial.nope"]),
        ("(initial.list | first).name", None, ["(initial.list | first).name"]),
    ],
)
def test_what_is_missing_becomes_null_and_is_told_once(text: str, value: Json, missing: list[str]) -> None:
    assert missing_in(text) == (value, missing)


@pytest.mark.parametrize(
    ("text", "value", "missing"),
    [
        ("initial.nope | default: 'x'", "x", []),
        ("nope.a.b | default: 'x'", "x", []),
        ("initial.nope | default: null", None, []),
        ("initial.nope | default", "", []),
        ("initial.nope | default: initial.never | default: 'x'", "x", []),
        ("initial.name | default: initial.nope", "Ann", []),
        ("initial.nope | default: initial.never", None, ["initial.never"]),
        ("initial.nope | upcase | default: 'x'", "x", ["initial.nope"]),
        ("'nope' in initial", False, []),
    ],
)
def test_default_silences_what_is_missing(text: str, value: Json, missing: list[str]) -> None:
    assert missing_in(text) == (value, missing)


def test_what_is_missing_knows_the_nearest_name_and_its_place() -> None:
    missing: list[Missing] = []
    compile_expression("1 if initial.person.nmae else 2").evaluate(Scope({"initial": INITIAL}), missing.append)

    assert missing[0].hint == "; did you mean 'initial.person.name'?"
    assert (missing[0].source, missing[0].position) == ("1 if initial.person.nmae else 2", 5)


def test_a_short_key_that_is_like_nothing_gets_no_hint() -> None:
    missing: list[Missing] = []
    compile_expression("initial.xyz").evaluate(Scope({"initial": INITIAL}), missing.append)

    assert missing[0].hint == ""


def test_a_missing_value_that_is_an_error_shows_the_expression() -> None:
    def refuse(missing: Missing) -> None:
        raise TemplateFailed(f"{missing.path!r} is missing{missing.hint}")

    with pytest.raises(TemplateFailed) as failure:
        compile_expression("'a' | append: initial.nmae").evaluate(Scope({"initial": INITIAL}), refuse)

    assert str(failure.value).splitlines() == [
        "'initial.nmae' is missing; did you mean 'initial.name'?",
        "    'a' | append: initial.nmae",
        "                  ^",
    ]
