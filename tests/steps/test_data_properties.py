"""Step types on lists: what holds for any values."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.comparison import equal, order
from flo.engine.values import Json, dump
from flo.steps.data_equality import key_of

from .data_cases import BERLIN, UTC, body

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(-(10**25), 10**25), st.floats(allow_nan=False,
    allow_infinity=False), st.sampled_from([1e23, 1e16, 0.0, -0.0, 10**23, 2**53, float(2**53), 2**53 + 1]),
    st.text(max_size=2), st.sampled_from(["", "1", "true", UTC, BERLIN, "2026-01-01T00:00:00.000Z"]),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@given(VALUES, VALUES)
@settings(max_examples=300, deadline=None)
def test_two_values_have_one_key_exactly_where_they_are_equal(left: Any, right: Any) -> None:
    assert (key_of(left) == key_of(right)) is equal(left, right)
    if equal(left, right):
        assert hash(key_of(left)) == hash(key_of(right))


@given(st.lists(st.tuples(SCALARS, st.integers(0, 2))), st.booleans())
@settings(max_examples=100, deadline=None)
def test_sorting_is_stable_and_never_against_the_order(pairs: list[tuple[Json, int]], descending: bool) -> None:
    items: list[Json] = [{"k": key, "at": at} for at, (key, _) in enumerate(pairs)]
    direction = "desc" if descending else "asc"
    found = body("data.sort", {"items": items, "direction": direction}, {"by": "<< $item.k >>"})[0]["items"]
    assert sorted(item["at"] for item in found) == list(range(len(items)))
    for first, second in pairwise(found):
        assert order(first["k"], second["k"]) != (-1 if descending else 1) or not _alike(first["k"], second["k"])
        assert first["k"] is not None or second["k"] is None
        if equal(first["k"], second["k"]):
            assert first["at"] < second["at"]


def _alike(left: Json, right: Json) -> bool:
    """Whether two texts are both instants or both none: between those the order of texts does not hold."""
    return not isinstance(left, str) or isinstance(key_of(left), tuple) is isinstance(key_of(right), tuple)


@given(st.lists(VALUES, max_size=12))
@settings(max_examples=100, deadline=None)
def test_groups_part_the_items_by_equal_keys(items: list[Json]) -> None:
    groups = body("data.group", {"items": items}, {"by": "<< $item >>"})[0]["groups"]
    firsts: list[Json] = []
    for item in items:
        if not any(equal(item, first) for first in firsts):
            firsts.append(item)
    assert dump([group["key"] for group in groups]) == dump(firsts)
    assert dump([group["items"] for group in groups]) == dump(
        [[item for item in items if equal(item, first)] for first in firsts]
    )
    unique = body("data.unique", {"items": items}, {})[0]["items"]
    assert dump(unique) == dump(firsts)


@given(st.lists(SCALARS, max_size=8), st.lists(SCALARS, max_size=8), st.sampled_from(["inner", "left"]))
@settings(max_examples=100, deadline=None)
def test_a_join_is_what_comparing_every_pair_gives(left: list[Json], right: list[Json], kind: str) -> None:
    found = body("data.join", {"items": left, "with": right, "type": kind}, {"on": "<< $item >>"})[0]["items"]
    wanted: list[Json] = []
    for item in left:
        matches: list[Json] = [other for other in right if item is not None and equal(item, other)]
        if not matches and kind == "left":
            matches = [None]
        wanted += [{"left": item, "right": other} for other in matches]
    assert dump(found) == dump(wanted)


@given(st.lists(st.integers()), st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_chunks_join_to_the_list_again(items: list[Json], size: int) -> None:
    parts = body("data.chunk", {"items": items, "size": size}, {})[0]["items"]
    assert [item for part in parts for item in part] == items
    assert all(len(part) == size for part in parts[:-1])
    assert all(1 <= len(part) <= size for part in parts)
