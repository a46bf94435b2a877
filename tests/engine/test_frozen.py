"""Frozen records: as those of the standard library, but for who sees to it that they stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
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
