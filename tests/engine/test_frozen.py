"""Frozen records: as those of the standard library, but for who sees to it that they stay as they are."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import field, replace

import pytest

from flo.engine.frozen import frozen


@frozen
class Point:
    """A record."""

    x: int
    y: int = 0
    path: Sequence[str] = ()
    seen: int | None = field(default=None, compare=False)


def test_records_with_equal_fields_are_equal_and_one_key() -> None:
    assert Point(1, seen=1) == Point(1, seen=2)
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_a_record_is_changed_by_making_another_one() -> None:
    made = Point(1, 2)
    assert replace(made, y=3) == Point(1, 3)
    assert made == Point(1, 2)


def test_a_record_has_its_fields_and_nothing_else() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 1  # type: ignore[attr-defined]


def test_a_record_is_shown_as_it_is_made() -> None:
    assert repr(Point(1, path=["a"])) == "Point(x=1, y=0, path=['a'], seen=None)"
    around = Point(1, path=(inside := []))
    inside.append(around)
    assert repr(around) == "Point(x=1, y=0, path=[...], seen=None)"


def test_a_record_equals_none_of_another_class() -> None:
    @frozen
    class Place:
        x: int

    assert Point(1) != Place(1)
    assert Place(1) == Place(1) != Place(2)


def test_records_without_fields_are_equal() -> None:
    @frozen
    class Nothing:
        """Says that something is so."""

    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_what_a_record_says_of_itself_stays() -> None:
    @frozen
    class Held:
        x: list[int]

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Held) and other.x is self.x

        def __hash__(self) -> int:
            return id(self.x)

        def __repr__(self) -> str:
            return "held"

    assert Held([]) != Held([])
    assert hash(Held(shared := [])) == id(shared)
    assert repr(Held([])) == "held"


def test_a_record_can_be_copied_and_sent() -> None:
    made = Point(1, 2, ("a",))
    assert copy(made) == deepcopy(made) == pickle.loads(pickle.dumps(made)) == made
