"""What is no expression, or too long, or too deep; and that nothing grows without bound."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language.expressions import compile_expression
from flo.engine.language.scope import Scope
from flo.engine.values import Json


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "an expression is missing between the marks", 0),
        ("1 +", "a value is missing here; the expression ends", 3),
        ("a and", "a value is missing here; the expression ends", 5),
        ("a and and b", "a value is missing here; 'and' came", 6),
        ("a b", "an operator is missing before 'b'", 2),
        ("a- 1", "a hyphen inside a name belongs to the name; a subtraction has blanks around it", 3),
        ("(1, 2)", "')' is missing after what '(' opened; ',' came", 2),
        ("[1, 2", "']' is missing after the items of a list; the expression ends", 5),
        ("{a: 1}", "a key in quotes is missing here; 'a' came", 1),
        ("{'a' 1}", "':' is missing after a key; '1' came", 5),
        ("{'a': 1, 'a': 2}", "the key 'a' stands twice in one object", 9),
        ("a.", "a name is missing after '.'; the expression ends", 2),
        ("a.['b']", "a name is missing after '.'; '[' came", 2),
        ("a[1", "']' is missing after a key or an index; the expression ends", 3),
        ("1 if 2", "'else' is missing after 'a if condition'; the expression ends", 6),
        ("1 < 2 < 3", "comparisons cannot be chained; join two of them with 'and'", 6),
        ("a = 1", "no operator '='; write '=='", 2),
        ("a === 1", "no operator '==='; write '=='", 2),
        ("a && b", "no operator '&&'; write 'and'", 2),
        ("a || b", "no operator '||'; write 'or'", 2),
        ("!a", "no operator '!'; write 'not'", 0),
        ("a ? 1 : 2", "no operator '?'; write 'a if condition else b'", 2),
        ("2 ** 9", "no operator '**'; there are no powers", 2),
        ("a & b", "the character '&' means nothing here", 2),
        ("5a", "a name cannot start with a digit", 0),
        ("0123", "a number has no leading zeros; quote it to keep it as text", 0),
        ("1e999", "a number that is too large", 0),
        ("9" * 4301, "a number of more than 4,300 digits", 0),
        ("x == 'a", "quoted text that is never closed", 5),
        (r"'a\d'", r"no escape '\\d'; a backslash itself is written twice", 2),
        (r"'\ud800'", r"'\\ud800' is half a character", 1),
        (r"'\u0000'", "the character U+0000 cannot be stored as JSON", 1),
        ("$util.now()", "nothing can be called; a filter stands after '|'", 9),
        ("a |", "the name of a filter is missing after '|'; the expression ends", 3),
        ("a | upcsae", "no filter 'upcsae'; did you mean 'upcase'?", 4),
        ("a | upcase: 1", "filter 'upcase' takes 0 arguments, 1 came", 4),
        ("a | append", "filter 'append' takes 1 argument, 0 came", 4),
        ("a | slice: 1, 2, 3", "filter 'slice' takes 1 to 2 arguments, 3 came", 4),
        ("a | upcase: loud: 1", "filter 'upcase' has no argument 'loud'", 12),
        ("a | append: 'x' 'y'", "an operator is missing before \"'y'\"", 16),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(text: str, message: str, position: int) -> None:
    with pytest.raises(ExpressionInvalid) as problem:
        compile_expression(text)

    assert (problem.value.message, problem.value.position) == (message, position)


@pytest.mark.parametrize("spelling", ["initial.a +", " initial.a + ", "\n initial.a +\t"])
def test_blanks_around_an_expression_change_nothing(spelling: str) -> None:
    with pytest.raises(ExpressionInvalid) as problem:
        compile_expression(spelling)

    assert str(problem.value) == "a value is missing here; the expression ends\n    initial.a +\n               ^"


def nested(opening: str, depth: int, closing: str) -> str:
    return opening * depth + "1" + closing * depth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 + " * 6_000 + "1", "an expression of 24,001 characters; at most 20,000 are allowed"),
        ("x" + "|upcase" * 20_000, "an expression of 140,001 characters; at most 20,000 are allowed"),
        ("x" + "|abs" * 2_000, "an expression of more than 1,000 operators and filters"),
        ("1" + "+1" * 2_000, "an expression of more than 1,000 operators and filters"),
        ("x" + ".a" * 5_000, "a path of more than 200 steps"),
        (nested("(", 5_000, ")"), "an expression nested deeper than 100"),
        (nested("[", 5_000, "]"), "an expression nested deeper than 100"),
        (nested("{'a':", 1_000, "}"), "an expression nested deeper than 100"),
        (nested("a[", 5_000, "]"), "an expression nested deeper than 100"),
        (nested("not ", 1_000, ""), "an expression nested deeper than 100"),
        (nested("-", 1_000, ""), "an expression nested deeper than 100"),
        (nested("1 if 1 else ", 1_000, ""), "an expression nested deeper than 100"),
        ("1" + "|abs+1" * 400, "an expression nested deeper than 100"),
    ],
)
def test_what_is_too_large_is_an_error_at_once(text: str, message: str) -> None:
    with pytest.raises(ExpressionInvalid) as problem:
        compile_expression(text)

    assert problem.value.message == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1" + " + 1" * 1_000, 1_001),
        ("1" + " | plus: 1" * 1_000, 1_001),
        ("false or " * 1_000 + "7", 7),
        (nested("(", 99, ")"), 1),
        (nested("(1 + ", 45, ")"), 46),
    ],
)
def test_what_is_within_the_bounds_is_computed(text: str, value: Json) -> None:
    assert compile_expression(text).evaluate(Scope({}), lambda missing: None) == value


def test_text_and_lists_cannot_grow_without_bound() -> None:
    scope = Scope({"initial": {"text": "x" * (9 * 1024 * 1024)}})
    with pytest.raises(TemplateFailed, match="text longer than 16,777,216 characters"):
        compile_expression("initial.text + initial.text").evaluate(scope, lambda missing: None)


def test_numbers_cannot_grow_without_bound() -> None:
    big: Any = 10**4000
    with pytest.raises(TemplateFailed, match=r"a number of more than 4,300 digits"):
        compile_expression("n * n").evaluate(Scope({"n": big}), lambda missing: None)
    with pytest.raises(TemplateFailed, match="a number that is too large"):
        compile_expression("n * 0.5").evaluate(Scope({"n": big}), lambda missing: None)


def test_a_filter_that_breaks_fails_the_step_and_not_the_process() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(TemplateFailed):
        compile_expression("x | json").evaluate(Scope({"x": deep}), lambda missing: None)
