"""JSON values: what passes, what is refused and where, and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.errors import ValueRefused
from flo.engine.hiding import has_secret
from flo.engine.secrecy import Lost, Secret
from flo.engine.values import (
    Json,
    LazyList,
    dump,
    is_builtin,
    is_storable,
    kind_of,
    new_id,
    place_text,
    plain,
    shown,
    storable,
    whole,
)


class Rows(LazyList):
    """Three items that are read when something refers to them."""

    def __len__(self) -> int:
        return 3

    def item(self, index: int) -> Json:
        return index


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
@settings(deadline=None, max_examples=200)
def test_any_json_value_is_plain_and_reads_back_equal(value: object) -> None:
    kept = plain(value)
    assert kept == value
    assert json.loads(dump(kept)) == value
    assert dump(kept) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert is_builtin(kept)


@pytest.mark.parametrize("odd", [Secret("s"), Lost("***"), Rows()])
@given(JSON_VALUES)
@settings(deadline=None, max_examples=20)
def test_a_secret_or_a_lazy_list_is_found_however_deep_it_lies(odd: Json, value: Json) -> None:
    assert not is_builtin([value, {"a": [{"b": odd}]}, value])
    assert whole([value, odd]) == [value, list(odd) if isinstance(odd, Rows) else odd]


@pytest.mark.parametrize("odd", [Secret("s"), Lost("***"), [Secret("s")], {"a": Secret("s")}])
@pytest.mark.parametrize("at", [0, 9_999, 10_000, 25_000])
def test_one_is_found_wherever_it_stands_in_a_long_list(odd: Json, at: int) -> None:
    items: list[Json] = list(range(25_001))
    assert is_builtin(items)
    assert not has_secret({"before": 1, "items": items})
    items[at] = odd
    assert not is_builtin(items)
    assert has_secret({"before": 1, "items": items})
    assert has_secret(items)


def test_a_secret_key_is_found() -> None:
    assert has_secret({Secret("key"): 1})
    assert has_secret({"a": {Secret("key"): 1}})
    assert not has_secret({"a": {"key": 1}})


@given(st.text(st.characters(categories=["L", "Nd", "Cc", "Cs"]), max_size=5))
def test_what_every_store_can_hold_is_left_as_it_is(text: str) -> None:
    assert is_storable(text) is not bool(re.search("[\x00\ud800-\udfff]", text))
    assert is_storable(storable(text))
    assert not is_storable(text) or storable(text) is text


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, float("nan")]}, "a[1]"),
        ({"a": float("inf")}, "a"),
        ({"a": [10**4300]}, "a[0]"),
        ({"a": -(10**4300)}, "a"),
        ({"a": b"bytes"}, "a"),
        ({"a": {"b": {1, 2}}}, "a.b"),
        ({"a": object()}, "a"),
        ({"a": "x\x00y"}, "a"),
        ({"a": "\ud800"}, "a"),
        ({"a": {3: "three"}}, "a"),
        ({"a": {"k\x00": 1}}, "a"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: object, place: str) -> None:
    with pytest.raises(ValueRefused) as refused:
        plain(value)
    assert refused.value.place == place
    assert refused.value.code == "invalid_value"


def test_nesting_past_the_limit_is_refused_and_not_a_crash() -> None:
    value: list[object] = []
    for _ in range(5_000):
        value = [value]
    with pytest.raises(ValueRefused, match="nesting deeper than 200"):
        plain(value)


def test_tuples_become_lists_and_a_lazy_list_stays_lazy() -> None:
    class Counted(LazyList):
        def item(self, index: int) -> int:
            raise AssertionError("it was read")

        def __len__(self) -> int:
            return 3

    lazy = Counted()
    assert plain({"a": (1, 2), "b": lazy}) == {"a": [1, 2], "b": lazy}


def test_a_lazy_list_is_written_as_the_list_it_stands_for() -> None:
    class Squares(LazyList):
        def item(self, index: int) -> int:
            return index * index

        def __len__(self) -> int:
            return 3

    squares = Squares()
    assert dump({"items": squares}) == '{"items":[0,1,4]}'
    assert (squares[-1], squares[1:], list(squares)) == (4, [1, 4], [0, 1, 4])
    for index in (3, -4):
        with pytest.raises(IndexError):
            squares[index]


def test_characters_are_written_as_they_are_and_nan_never() -> None:
    assert dump({"k": "é🙂\u2028"}) == '{"k":"é🙂\u2028"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump(float("nan"))


def test_big_integers_stay_exact() -> None:
    assert dump(plain(7615917337495251231)) == "7615917337495251231"
    assert dump(plain(2**64)) == "18446744073709551616"


def test_a_place_is_written_as_people_read_it() -> None:
    place = ("steps", 1, "input", "where", 0, "odd key", "x-api-key")
    assert place_text(place) == 'steps[1].input.where[0]["odd key"].x-api-key'


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "a boolean"), (1, "a number"), ("", "text"), ([], "a list"), ({}, "an object")],
)
def test_kinds_have_plain_names(value: object, kind: str) -> None:
    assert kind_of(value) == kind


def test_a_shown_value_is_cut() -> None:
    assert len(shown("x" * 1000)) == 60


def test_ids_are_uuid_7_distinct_and_rise_by_the_millisecond() -> None:
    ids: Sequence[str] = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", id) for id in ids)
    assert [id[:13] for id in ids] == sorted(id[:13] for id in ids)
