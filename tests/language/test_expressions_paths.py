"""Paths: what they reach, what they never reach, and how they are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import pytest

from flo.engine.language.expressions import compile_expression
from flo.engine.language.paths import Path
from flo.engine.language.scope import Fresh, Missing, Scope
from flo.engine.values import Json


class Lazily(Sequence[Json]):
    """A list whose items are read when they are asked for."""

    def __init__(self, *items: Json) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Json]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._items[index]


@dataclass
class Ended:
    """A step that ended."""

    meta: Json


@pytest.fixture
def scope() -> Scope:
    around = Scope(
        {
            "initial": {
                "headers": {"x-api-key": "secret", "a.b": 1, "": "no name", "0": "zero", "size": 99, "été": "summer"},
                "key": "x-api-key",
                "at": 1,
                "where": {"key": "at"},
                "rows": [{"name": "Ann"}, {"name": "Bob"}],
                "text": "hello",
                "nothing": [],
                "true": "a key",
                "order": {"items": ["tea"], "keys": 1, "first-name": "Ann", "ready?": True},
            },
            "fetch-users": {"data": [{"name": "Cy"}], "$meta": "a key of the output"},
            "loop": {"items": Lazily({"index": 0}, {"index": 1})},
            "empty": {"count": 3},
            "in": {"x": 1},
            "$util": Fresh({"today": lambda: "2026-01-01"}),
        }
    )
    around.metas["fetch-users"] = Ended({"success": True})
    around.metas["skipped"] = Ended({"skipped": True})
    return around.child({"$item": {"value": {"payload": [1]}, "$meta": {"n": 1}}})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("fetch-users.data[0].name", "Cy"),
        ("initial.headers['x-api-key']", "secret"),
        ('initial.headers["a.b"]', 1),
        ("initial.headers['']", "no name"),
        ("initial.headers.x-api-key", "secret"),
        ("initial.headers[initial.key]", "secret"),
        ("initial[initial.where.key]", 1),
        ("initial.rows[initial.at].name", "Bob"),
        ("initial.rows[initial.at - 1].name", "Ann"),
        ("initial.rows[-1].name", "Bob"),
        ("initial.rows.0.name", "Ann"),
        ("initial.rows\n [ 0 ] . name", "Ann"),
        ("initial.headers[0]", "zero"),
        ("initial.headers.0", "zero"),
        ("initial.headers.été", "summer"),
        ("initial.order.items", ["tea"]),
        ("initial.order.keys", 1),
        ("initial.order.first-name", "Ann"),
        ("initial.order.ready?", True),
        ("initial.true", "a key"),
        ("$item.value.payload[0]", 1),
        ("empty.count", 3),
        ("in.x + 1", 2),
        ("fetch-users.$meta.success", True),
        ("fetch-users['$meta'].success", True),
        ("fetch-users.$meta['succ' + 'ess']", True),
        ("$item.$meta.n", 1),
        ("$item.$meta['n' + '']", 1),
        ("skipped.$meta.skipped", True),
        ("skipped.$meta['skip' + 'ped']", True),
        ("$util.today", "2026-01-01"),
        ("loop.items[1].index", 1),
        ("loop.items[-1].index", 1),
        ("loop.items.first.index", 0),
        ("loop.items.size", 2),
        ("initial.rows.size", 2),
        ("initial.rows.first.name", "Ann"),
        ("initial.rows.last.name", "Bob"),
        ("initial.text.size", 5),
        ("initial.text.first", "h"),
        ("initial.text.last", "o"),
        ("initial.nothing.size", 0),
        ("initial.headers.size", 99),
        ("initial.order.size", 4),
    ],
)
def test_a_path_reaches_keys_and_indexes(scope: Scope, text: str, value: Json) -> None:
    missing: list[Missing] = []

    assert compile_expression(text).evaluate(scope, missing.append) == value
    assert missing == []


@pytest.mark.parametrize(
    "text",
    [
        "initial.__class__",
        "initial['__init__']",
        "initial.get",
        '"".__class__.__mro__',
        "initial.text.upper",
        "initial.rows.append",
        "initial.rows['0']",
        "initial.rows[true]",
        "initial.rows[0.0]",
        "initial.rows[null]",
        "initial.rows[99999999999999999999999]",
        "initial.headers[true]",
        "initial.headers[null]",
        "initial.headers[0.5]",
        "initial.text[0]",
        "initial.at.real",
        "initial.order.first",
        "initial.nothing.first",
        "initial.nothing.last",
        "initial.rows[2].name",
        "loop.items[2]",
        "loop.items._items",
        "nothing-such.$meta.success",
        "initial.$meta",
    ],
)
def test_a_path_reaches_nothing_else(scope: Scope, text: str) -> None:
    missing: list[Missing] = []

    assert compile_expression(text).evaluate(scope, missing.append) is None
    assert [each.path for each in missing] == [text]


def test_an_inner_scope_hides_the_names_around(scope: Scope) -> None:
    inner = scope.child({"$item": "inner"})

    assert compile_expression("$item").evaluate(inner, lambda missing: None) == "inner"
    assert compile_expression("initial.at").evaluate(inner, lambda missing: None) == 1


def listed(text: str) -> list[tuple[str, tuple[int | str | None, ...], int, str]]:
    return [(path.root, path.segments, path.position, path.text) for path in compile_expression(text).paths]


def test_an_expression_lists_every_path_in_the_order_of_the_text() -> None:
    assert listed("a.b[0] + c['d e'][f.g].h") == [
        ("a", ("b", 0), 0, "a.b[0]"),
        ("c", ("d e", None, "h"), 9, "c['d e'][f.g].h"),
        ("f", ("g",), 18, "f.g"),
    ]
    assert listed("$item.x | default: y.z, allow_false: q if not i else [j, {'k': k-l}]") == [
        ("$item", ("x",), 0, "$item.x"),
        ("y", ("z",), 19, "y.z"),
        ("q", (), 37, "q"),
        ("i", (), 46, "i"),
        ("j", (), 54, "j"),
        ("k-l", (), 63, "k-l"),
    ]


def test_a_path_lists_indexes_as_numbers_and_keys_as_text() -> None:
    assert listed("a.0[-1]['2'].03.$meta") == [("a", (0, -1, "2", "03", "$meta"), 0, "a.0[-1]['2'].03.$meta")]


def test_words_of_the_grammar_and_keys_of_objects_are_no_paths() -> None:
    assert listed("true and null or empty == blank or 'x' in {'y': nil}") == []


def test_a_path_knows_its_expression_and_where_its_parts_end() -> None:
    path = compile_expression("  1 + a.b['c'] ").paths[0]

    assert path == Path("a", ("b", "c"), 4, "a.b['c']", "1 + a.b['c']", (5, 7, 12))
