"""What every filter promises, whatever it is given."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.language.filters import FILTERS, Filter
from flo.engine.values import Json, plain

ANY_TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT
    | st.sampled_from(
        [
            "2026-03-29T01:30:00+01:00",
            "now",
            "Europe/Paris",
            "5m",
            "days",
            "%Y %s %-d %^10b",
            "a.b",
            "1e5",
            "0x1",
            "-7.5",
            "<a>",
        ]
    )
)
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ANY_TEXT, inner, max_size=5), max_leaves=12
)


def outcome(entry: Filter, value: Json, arguments: Sequence[Json]) -> Json | ValueError:
    try:
        return entry.function(value, *arguments)
    except ValueError as error:
        return error


def is_sound(result: Json | ValueError) -> bool:
    """Whether it is JSON, or a refusal that says why."""
    return bool(str(result)) if isinstance(result, ValueError) else plain(result) == result


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_filter_gives_json_or_a_value_error_for_any_values(data: st.DataObject) -> None:
    entry = FILTERS[data.draw(st.sampled_from(sorted(FILTERS)))]
    value = data.draw(ANY_JSON)
    arguments = data.draw(st.lists(ANY_JSON, min_size=entry.least, max_size=min(entry.most, 3)))

    assert is_sound(outcome(entry, value, arguments))


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_any_filter_survives_every_pair_of_kinds(name: str) -> None:
    entry = FILTERS[name]
    kinds: list[Json] = [None, True, 0, -1, 2.5, 10**400, "", "a b", "12", [], [None, 1, "a"], {}, {"a": {"b": 1}}]
    for value in kinds:
        for argument in kinds:
            assert is_sound(outcome(entry, value, [argument] * max(entry.least, min(entry.most, 1))))


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_a_filter_takes_the_arguments_that_the_table_says_and_is_documented(name: str) -> None:
    entry = FILTERS[name]
    parameters = [
        parameter
        for parameter in inspect.signature(entry.function).parameters.values()
        if parameter.kind is not parameter.KEYWORD_ONLY
    ][1:]
    is_open = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]

    assert entry.name == name
    assert entry.least == len(required)
    assert is_open or entry.most == len(parameters)
    assert (entry.function.__doc__ or "").rstrip().endswith(".")


def test_only_default_looks_at_what_is_missing() -> None:
    assert [name for name, entry in FILTERS.items() if entry.sees_missing] == ["default"]
