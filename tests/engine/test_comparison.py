"""How JSON values compare: strict types, exact numbers, instants by their moment."""

from __future__ import annotations

from itertools import combinations

import pytest

from flo.engine.comparison import equal, identical, order, sort_key


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (5, "5"),
        (1, True),
        (0, False),
        (None, False),
        (None, 0),
        ("", None),
        ([], {}),
        ("true", True),
        ([], ""),
        (0, []),
    ],
)
def test_values_of_different_types_are_never_equal(left: object, right: object) -> None:
    assert not equal(left, right)
    assert not equal(right, left)
    assert order(left, right) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (2**64, 2**64),
        ("2026-04-01T10:00:00Z", "2026-04-01 12:00:00.000+02:00"),
        ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}),
        (-0.0, 0),
        (10**23, 1e23),
    ],
)
def test_these_are_equal(left: object, right: object) -> None:
    assert equal(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (2**53, 2**53 + 1),
        (2**64, 2**64 + 1),
        (2.0**53, 2**53 + 1),
        ([1], [True]),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": 1, "b": None}),
        ([1, 2], [2, 1]),
        ("a", "A"),
    ],
)
def test_these_are_not_equal(left: object, right: object) -> None:
    assert not equal(left, right)


def test_instants_inside_lists_are_texts() -> None:
    assert not equal(["2026-04-01T10:00:00Z"], ["2026-04-01T10:00:00+00:00"])
    assert not identical("2026-04-01T10:00:00Z", "2026-04-01T10:00:00+00:00")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (9, 10),
        ("10", "9"),
        (2**63, 2**63 + 1),
        (1e22, 10**22 + 1),
        ("2026-04-01T10:00:00Z", "2026-04-01T09:00:00-02:00"),
        ("Z", "a"),
        ("\uffff", "\U00010000"),
        (-(10**400), 1e308),
    ],
)
def test_order_is_exact_for_numbers_and_by_code_point_for_text(left: object, right: object) -> None:
    assert order(left, right) == -1
    assert order(right, left) == 1


@pytest.mark.parametrize(("left", "right"), [(True, False), (None, None), ([1], [2]), ({}, {}), (5, "4")])
def test_nothing_else_has_an_order(left: object, right: object) -> None:
    assert order(left, right) is None


def test_sort_keys_put_every_type_in_its_place() -> None:
    rising = [
        None, False, True, -(10**30), -1.5, 0, 1, 1.5, 2**53, 2**53 + 1, 1e300,
        "2026-04-01T12:00:00+02:00", "2026-04-01T10:00:00.5Z", "", "10", "9", "é",
    ]  # fmt: skip
    for earlier, later in combinations(rising, 2):
        assert sort_key(earlier) < sort_key(later), (earlier, later)
    assert sort_key([1]) == sort_key({"a": 2})
    assert sort_key(0) == sort_key(-0.0)
