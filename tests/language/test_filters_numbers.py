"""Filters that calculate, compare and convert."""

from __future__ import annotations

import pytest

from flo.engine.language.filters import FILTERS
from flo.engine.values import Json, dump


def use(name: str, value: Json, *arguments: Json) -> Json:
    return FILTERS[name].function(value, *arguments)


@pytest.mark.parametrize(
    ("name", "value", "arguments", "expected"),
    [
        ("plus", 2, [3], "5"),
        ("plus", "3", [4], "7"),
        ("plus", 0.1, [0.2], "0.3"),
        ("plus", 10, [2.0], "12.0"),
        ("plus", 2**70, [1], "1180591620717411303425"),
        ("minus", "10.1", ["2.2"], "7.9"),
        ("times", 3, [2.5], "7.5"),
        ("times", 10**30, [10**30], "1" + "0" * 60),
        ("divided_by", 9, [2], "4"),
        ("divided_by", -7, [2], "-4"),
        ("divided_by", 9.0, [2], "4.5"),
        ("modulo", -7, [3], "2"),
        ("modulo", 5.5, [2], "1.5"),
        ("round", 2.5, [], "3"),
        ("round", -2.5, [], "-3"),
        ("round", 1.005, [2], "1.01"),
        ("round", 1234, [-2], "1200"),
        ("round", 1e300, [400], "1e+300"),
        ("ceil", "5.1", [], "6"),
        ("floor", -5.4, [], "-6"),
        ("abs", "-5", [], "5"),
        ("at_least", 4, [5], "5"),
        ("at_most", 4.5, [4], "4"),
        ("plus", "many", [1], "1"),
        ("plus", True, [1], "1"),
    ],
)
def test_arithmetic_is_liquids_and_exact(name: str, value: Json, arguments: list[Json], expected: str) -> None:
    assert dump(use(name, value, *arguments)) == expected


@pytest.mark.parametrize("divisor", [0, 0.0, "zero", None])
@pytest.mark.parametrize("name", ["divided_by", "modulo"])
def test_dividing_by_nothing_is_refused(name: str, divisor: Json) -> None:
    with pytest.raises(ValueError, match="cannot divide by"):
        use(name, 10, divisor)


@pytest.mark.parametrize(
    ("name", "value", "argument"),
    [("times", 10**4000, 10**400), ("times", 1e308, 10), ("plus", 10**400, 0.5), ("plus", "9" * 5000, 1)],
)
def test_a_number_that_grows_too_large_is_refused(name: str, value: Json, argument: Json) -> None:
    with pytest.raises(ValueError, match="the number"):
        use(name, value, argument)


@pytest.mark.parametrize(
    ("value", "other", "holds"),
    [
        (5, 5, {"eq", "gte", "lte"}),
        (5, 5.0, {"eq", "gte", "lte"}),
        (5, "5", {"ne"}),
        (1, True, {"ne"}),
        (9, 10, {"ne", "lt", "lte"}),
        ("9", "10", {"ne", "gt", "gte"}),
        (None, 0, {"ne"}),
        ([1, {"a": 1}], [1, {"a": 1.0}], {"eq"}),
        ("2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00", {"eq", "gte", "lte"}),
    ],
)
def test_comparisons_are_strict_about_types_and_know_instants(value: Json, other: Json, holds: set[str]) -> None:
    assert {name for name in ("eq", "ne", "lt", "lte", "gt", "gte") if use(name, value, other)} == holds


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0000", "0"),
        (" 42 ", "42"),
        ("-7", "-7"),
        ("+7", "7"),
        ("1e5", "100000.0"),
        ("1.50", "1.5"),
        (".5", "0.5"),
        (str(10**30), str(10**30)),
    ],
)
def test_to_number_reads_text_exactly(text: str, number: str) -> None:
    assert dump(use("to_number", text)) == number


@pytest.mark.parametrize("value", ["", "five", "5 apples", "1_000", "1,5", "0x1", "1e999", "٣", None, True, [], {}])
def test_to_number_refuses_what_is_no_number(value: Json) -> None:
    with pytest.raises(ValueError, match=r"is no number|is too large"):
        use("to_number", value)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (True, True),
        ("true", True),
        (" Yes ", True),
        ("on", True),
        ("1", True),
        (1, True),
        ("FALSE", False),
        ("no", False),
        ("off", False),
        (0, False),
    ],
)
def test_to_boolean_reads_a_short_list_of_words(value: Json, result: bool) -> None:
    assert use("to_boolean", value) is result


@pytest.mark.parametrize("value", ["", "maybe", 2, None, []])
def test_to_boolean_refuses_everything_else(value: Json) -> None:
    with pytest.raises(ValueError, match="is no boolean"):
        use("to_boolean", value)
