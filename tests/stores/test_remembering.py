"""What says the same is read once, and nothing else is taken for the same."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.errors import FilterInvalid
from flo.engine.secrecy import Secret
from flo.engine.stores.changes import apply, parse_changes
from flo.engine.stores.filters import parse_where
from flo.engine.stores.remembering import remembering
from flo.engine.values import Json
from flo.testing import FrozenClock

NOW = FrozenClock().now()


class Reader:
    def __init__(self) -> None:
        self.read: list[Json] = []
        self.reader = remembering(self._read)

    def _read(self, value: Json, mode: str = "all") -> tuple[str, str]:
        self.read.append(value)
        if value == "broken":
            raise ValueError(value)
        return repr(value), mode


def test_what_says_the_same_is_read_once() -> None:
    held = Reader()
    shared = [1, "two"]
    assert held.reader([shared, shared]) == held.reader([[1, "two"], [1, "two"]])
    assert held.read == [[[1, "two"], [1, "two"]]]


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ("1", 1), ({}, []), ({"a": 1}, {"a": 1.0})]
)
def test_what_is_only_equal_is_read_anew(one: Any, other: Any) -> None:
    held = Reader()
    assert held.reader(one) == (repr(one), "all")
    assert held.reader(other) == (repr(other), "all")
    assert held.reader(one, "any") == (repr(one), "any")


def test_failures_and_what_is_large_or_secret_are_not_remembered() -> None:
    held = Reader()
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            held.reader("broken")
        held.reader("x" * 3000)
        held.reader([Secret("s", "name")])
    assert len(held.read) == 6
    assert type(held.read[-1][0]) is Secret  # type: ignore[index]


def test_what_was_read_does_not_change_with_what_it_was_read_from() -> None:
    change: Any = [{"field": "a", "operation": "set", "value": {"n": 1}}]
    first = apply({}, parse_changes(change), NOW)
    change[0]["value"]["n"] = 2
    assert first == {"a": {"n": 1}}
    assert apply({}, parse_changes(change), NOW) == {"a": {"n": 2}}
    change[0]["value"]["n"] = 1
    assert apply({}, parse_changes(change), NOW) == {"a": {"n": 1}}


def test_a_mistake_is_told_each_time_at_its_place() -> None:
    for place in ("where", "until", "where"):
        with pytest.raises(FilterInvalid) as told:
            parse_where([{"field": "a", "operator": "equal", "value": 1}], "all", place)
        assert place in str(told.value)
