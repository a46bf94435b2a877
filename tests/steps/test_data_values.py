"""Step types on lists give the right values, with their types."""

from __future__ import annotations

from typing import Any, cast

import pytest

from flo.engine.secrecy import Secret
from flo.engine.values import Json, dump

from .conftest import Run, same
from .data_cases import BERLIN, UTC, body

ONES: list[Json] = [1, 1.0, True, "1", [1], {"n": 1}]


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


def test_a_key_with_null_deep_inside_matches_nothing(run: Run) -> None:
    items: Any = [{"k": [[None]]}, {"k": {"a": [{"b": None}]}}, {"k": [[1]]}]
    made = run("data.join", {"items": items, "with": items, "on": "<< $item.k >>"})
    assert made["items"] == [{"left": {"k": [[1]]}, "right": {"k": [[1]]}}]
