"""Filters on lists and objects."""

from __future__ import annotations

import pytest

from flo.engine.language.filters import FILTERS
from flo.engine.values import Json

PEOPLE: list[Json] = [
    {"name": "Bo", "age": 40, "home": {"city": "Oslo"}},
    {"name": "ann", "age": 31, "home": {"city": "Rome"}},
    {"name": "Cy", "age": None, "active": True},
]


def use(name: str, value: Json, *arguments: Json) -> Json:
    return FILTERS[name].function(value, *arguments)


def names(people: Json) -> list[Json]:
    assert isinstance(people, list)
    return [person["name"] for person in people]


@pytest.mark.parametrize(
    ("name", "value", "arguments", "expected"),
    [
        ("size", "añ🙂", [], 3),
        ("size", [1, 2], [], 2),
        ("size", {"a": 1}, [], 1),
        ("size", None, [], 0),
        ("first", [3, 4], [], 3),
        ("first", {"a": 1, "b": 2}, [], ["a", 1]),
        ("first", [], [], None),
        ("last", [3, 4], [], 4),
        ("join", [1, [2, None, [True]], {"a": 1}], ["-"], '1-2--true-{"a":1}'),
        ("join", ["a", "b"], [], "a b"),
        ("reverse", [1, [2, 3]], [], [[2, 3], 1]),
        ("reverse", "ab", [], "ab"),
        (
            "uniq",
            [1, 1.0, True, "1", {"a": 1}, {"a": 1.0}, [1], [True], None, None],
            [],
            [1, True, "1", {"a": 1}, [1], [True], None],
        ),
        ("compact", [0, None, "", False, None], [], [0, "", False]),
        ("concat", [1], [[2, [3]]], [1, 2, [3]]),
        ("arrayConcat", [1], [[2], 3, None], [1, 2, 3]),
        ("arrayConcat", None, [[2]], [2]),
        ("push", [1], [[2]], [1, [2]]),
        ("push", None, [1], [1]),
        ("map", [{"a": 1}, {"b": 2}, None], ["a"], [1, None, None]),
        ("map", [{"a": {"b": [5, 6]}}], ["a.b.1"], [6]),
        ("map", [{"a.b": 1, "a": {"b": 2}}], ["a.b"], [1]),
        ("map", [{"a": 1}, [{"a": 2}, [{"a": 3}]]], ["a"], [1, 2, 3]),
        ("sum", [1, "2", 0.5, None], [], 3.5),
        ("sum", [0.1, 0.2], [], 0.3),
        ("sum", [{"n": 1}, {}, {"n": 2}], ["n"], 3),
        ("slice", "Liquid", [-3, 2], "ui"),
        ("slice", [1, 2, 3], [1, 5], [2, 3]),
        ("slice", [1, 2, 3], [9], []),
        ("keys", {"b": 1, "a": 2}, [], ["b", "a"]),
        ("values", {"b": 1, "a": 2}, [], [1, 2]),
        ("keys", None, [], []),
    ],
)
def test_a_list_filter_gives_what_its_documentation_says(
    name: str, value: Json, arguments: list[Json], expected: Json
) -> None:
    result = use(name, value, *arguments)

    assert result == expected
    assert repr(result) == repr(expected), "types are kept"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["age", 31], ["ann"]),
        (["age", 31.0], ["ann"]),
        (["age", "31"], []),
        (["age"], ["Bo", "ann"]),
        (["active", True], ["Cy"]),
        (["home.city", "Oslo"], ["Bo"]),
        (["nope"], []),
    ],
)
def test_where_and_its_kin_agree(arguments: list[Json], found: list[str]) -> None:
    everyone = names(PEOPLE)
    others = [name for name in everyone if name not in found]

    assert names(use("where", PEOPLE, *arguments)) == found
    assert names(use("reject", PEOPLE, *arguments)) == others
    assert use("has", PEOPLE, *arguments) is bool(found)
    assert use("find_index", PEOPLE, *arguments) == (everyone.index(found[0]) if found else None)
    assert use("find", PEOPLE, *arguments) == (PEOPLE[everyone.index(found[0])] if found else None)


@pytest.mark.parametrize("name", ["where", "reject", "has", "find", "find_index", "map"])
def test_a_property_of_a_number_is_an_error_that_says_what_came(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} takes a list of objects, but found a number \(1\)"):
        use(name, [1, 2], "age")


def test_sort_puts_any_values_in_one_order_and_keeps_ties() -> None:
    mixed: list[Json] = [
        {"a": 1},
        "b",
        None,
        "2026-01-01T01:00:00+01:00",
        10,
        "a",
        True,
        9.5,
        [2],
        "2025-12-31T23:30:00Z",
    ]

    assert use("sort", mixed) == [
        True, 9.5, 10, "2025-12-31T23:30:00Z", "2026-01-01T01:00:00+01:00", "a", "b", {"a": 1}, [2], None,
    ]  # fmt: skip


def test_sort_by_a_property_puts_null_and_missing_last() -> None:
    people: list[Json] = [{"name": "none"}, *PEOPLE]

    assert names(use("sort", people, "age")) == ["ann", "Bo", "none", "Cy"]
    assert names(use("sort", people, "home.city")) == ["Bo", "ann", "none", "Cy"]


def test_sort_natural_pays_no_regard_to_case() -> None:
    assert names(use("sort_natural", PEOPLE, "name")) == ["ann", "Bo", "Cy"]
    assert use("sort_natural", ["b", "a", None, "C", "A"]) == ["a", "A", "b", "C", None]


@pytest.mark.parametrize("name", ["reverse", "sort", "sort_natural", "uniq", "compact"])
def test_null_is_not_mistaken_for_an_empty_list(name: str) -> None:
    assert use(name, None) is None
    assert use(name, []) == []


@pytest.mark.parametrize("name", ["map", "where", "reject"])
def test_null_is_not_mistaken_for_an_empty_list_by_filters_with_a_property(name: str) -> None:
    assert use(name, None, "a") is None
    assert use(name, [], "a") == []


def test_lists_do_not_grow_past_their_bound() -> None:
    many: list[Json] = [0] * 600_000
    for name, arguments in (("concat", [many]), ("arrayConcat", [many]), ("join", ["x" * 100])):
        with pytest.raises(ValueError, match="more than"):
            use(name, many, *arguments)
    with pytest.raises(ValueError, match="more than"):
        use("push", [0] * 1_000_000, 1)


def test_push_does_not_nest_without_end() -> None:
    nested: Json = []
    for _ in range(198):
        nested = use("push", [], nested)

    with pytest.raises(ValueError, match="nested deeper than 200"):
        use("push", [], nested)


def test_the_value_that_a_filter_is_given_stays_as_it_is() -> None:
    value: list[Json] = [3, 1, 2]
    for name in ("sort", "reverse", "uniq", "compact"):
        use(name, value)
    use("push", value, 4)

    assert value == [3, 1, 2]
