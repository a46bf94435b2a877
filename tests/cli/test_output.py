"""What the command prints, and how."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from flo.engine.commands.output import one_line, pieces
from flo.engine.values import Json, LazyList, dump

KEYS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


class Read(LazyList):
    def __init__(self, held: Sequence[Json]) -> None:
        self.held = held

    def __len__(self) -> int:
        return len(self.held)

    def item(self, index: int) -> Json:
        return self.held[index]


@given(VALUES)
def test_pieces_make_the_same_text_as_the_value_whole(value: Json) -> None:
    assert "".join(pieces(value)) == dump(value)


@given(st.lists(VALUES, max_size=5))
def test_lists_in_the_store_are_written_like_lists(held: list[Json]) -> None:
    assert json.loads("".join(pieces({"a": {"items": Read(held)}}))) == {"a": {"items": held}}


@given(st.text())
def test_a_line_stays_a_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert "\x1b" not in one_line(text)
