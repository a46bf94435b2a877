"""Instants and durations: what reads as one, what does not, and the one stored form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.instants import parse_duration, parse_instant, read_instant, write_instant


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("2026-04-01T10:00:00Z", "2026-04-01T10:00:00+00:00", 0),
        ("2026-04-01T10:00:00Z", "2026-04-01T12:00:00+02:00", 0),
        ("2026-04-01 10:00:00Z", "2026-04-01T10:00:00.000000000Z", 0),
        ("2026-04-01T10:00:00z", "2026-04-01t10:00:00Z", 0),
        ("2026-04-01T10:00:00Z", "2026-04-01T12:30:00+02:00", -1),
        ("2026-04-01T10:00:00Z", "2026-04-01T10:00:00.5Z", -1),
        ("2026-04-01T10:00:00.05Z", "2026-04-01T10:00:00.5Z", -1),
        ("2026-04-01T10:00:00.0000000001Z", "2026-04-01T10:00:00Z", 1),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", 1),
        ("2026-03-01T00:30:00+01:00", "2026-02-28T23:30:00Z", 0),
    ],
)
def test_instants_compare_by_the_moment(left: str, right: str, order: int) -> None:
    first, second = read_instant(left), read_instant(right)
    assert first is not None
    assert second is not None
    assert (first > second) - (first < second) == order


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-01", "2026-04-01T10:00:00", "2026-04-01T10:00Z", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z",
        "2026-04-01T24:00:00Z", "2026-04-01T10:60:00Z", "2026-04-01T23:59:60Z", "0000-01-01T00:00:00Z",
        "2026-04-01T10:00:00+24:00", "2026-04-01T10:00:00.Z", " 2026-04-01T10:00:00Z", "yesterday", "",
        "٢٠٢٦-04-01T10:00:00Z", "2026-04-01T10:00:00Z\n",
    ],
)  # fmt: skip
def test_what_is_no_instant_reads_as_none(text: str) -> None:
    assert read_instant(text) is None
    assert parse_instant(text) is None


@pytest.mark.parametrize("value", [None, 5, True, [], {}])
def test_only_text_reads_as_an_instant(value: object) -> None:
    assert read_instant(value) is None


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
@settings(deadline=None, max_examples=200)
def test_the_stored_form_reads_back_and_sorts_as_time_does(moment: datetime, zone: timezone) -> None:
    text = write_instant(moment)
    assert len(text) == 27
    assert parse_instant(text) == moment
    if 2 <= moment.year <= 9998:
        assert read_instant(moment.astimezone(zone).isoformat()) == read_instant(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("250ms", 0.25),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1.5s", 1.5),
        ("0s", 0),
    ],
)
def test_durations_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 minutes", "-5m", "5m!", "101y", "99999999w", None, 5, "1e3s"])
def test_what_is_no_duration_reads_as_none(text: object) -> None:
    assert parse_duration(text) is None
