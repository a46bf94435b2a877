"""Step types on lists: what they cost in memory and comparisons, and that they give way when they are to stop."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from flo.engine.errors import RunCancelled
from flo.engine.values import Json, LazyList

from .data_cases import RULES, body

MANY = 100_000 if "FLO_TEST_FULL" in os.environ else 10_000


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

    def item(self, index: int) -> Json:
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
