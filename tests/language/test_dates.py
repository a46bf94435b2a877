"""Dates: reading, formats, moves and time zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flo.engine.instants import parse_instant
from flo.engine.language.dates import read_date
from flo.engine.language.filters import FILTERS
from flo.engine.values import Json


def use(name: str, value: Json, *arguments: Json) -> Json:
    return FILTERS[name].function(value, *arguments)


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("2016-03-14", "2016-03-14T00:00:00Z"),
        ("2016-03-14T10:20:30.5Z", "2016-03-14T10:20:30.5Z"),
        ("2016-03-14 10:20", "2016-03-14T10:20:00Z"),
        ("2016-03-14T10:20:30.123456789+02:00", "2016-03-14T08:20:30.123456Z"),
        ("2016-03-14T10:20:30-0330", "2016-03-14T13:50:30Z"),
        ("2016/3/4", "2016-03-04T00:00:00Z"),
        ("March 14, 2016", "2016-03-14T00:00:00Z"),
        ("Mar 14 2016 3:04 pm", "2016-03-14T15:04:00Z"),
        ("12:00", None),
        ("Mar 14 2016 12:30 AM", "2016-03-14T00:30:00Z"),
        ("Mon, 14 Mar 2016 10:00:00 +0100", "2016-03-14T09:00:00Z"),
        ("14th march 2016", "2016-03-14T00:00:00Z"),
        ("1457913600", "2016-03-14T00:00:00Z"),
        (1457913600, "2016-03-14T00:00:00Z"),
        (-0.5, "1969-12-31T23:59:59.5Z"),
        ("2016-02-30", None),
        ("2016-03-14T25:00:00Z", None),
        ("2016-03-14T10:00:00+25:00", None),
        ("Smarch 14, 2016", None),
        ("Mar 14 2016 13:00 pm", None),
        ("soon", None),
        ("", None),
        ("9" * 100_000, None),
        (10**20, None),
        (10**400, None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_a_date_is_read_as_people_and_machines_write_it(value: Json, instant: str | None) -> None:
    assert read_date(value) == (None if instant is None else parse_instant(instant))


@pytest.mark.parametrize("word", ["now", "Today"])
def test_now_is_the_moment_of_reading(word: str) -> None:
    found = read_date(word)

    assert found is not None
    assert abs(datetime.now(UTC) - found) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y-%m-%d", "2026-03-05"),
        ("%d.%m.%y %H:%M:%S", "05.03.26 17:08:09"),
        ("%-d/%-m %I:%M %p", "5/3 05:08 PM"),
        ("%e|%k|%l|%P", " 5|17| 5|pm"),
        ("%a %A %b %B %h", "Thu Thursday Mar March Mar"),
        ("%^a %#p", "THU pm"),
        ("%j %u %w %V %G %U %W %C", "064 4 4 10 2026 09 09 20"),
        ("%s", "1772723289"),
        ("%L %N %3N %6N", "123 123456000 123 123456"),
        ("%z %:z %Z", "+0200 +02:00 +02:00"),
        ("%F %T %R %D", "2026-03-05 17:08:09 17:08 03/05/26"),
        ("%c", "Thu Mar  5 17:08:09 2026"),
        ("%6Y %_m %10A", "002026  3   Thursday"),
        ("100%% %q %", "100% %q %"),
        ("a%nb%tc", "a\nb\tc"),
    ],
)
def test_a_format_means_what_it_means_in_liquid(form: str, text: str) -> None:
    assert use("date", "2026-03-05T17:08:09.123456+02:00", form) == text


@pytest.mark.parametrize("day", range(1, 15))
@pytest.mark.parametrize("year", [2021, 2023, 2024, 2026])
def test_numbers_of_weeks_and_days_agree_with_the_calendar(year: int, day: int) -> None:
    moment = datetime(year, 1, day, 12, tzinfo=UTC)
    form = "%j %U %W %V %G %u %w %I"

    assert use("date", moment.isoformat(), form) == moment.strftime(form)


def test_what_is_no_date_comes_back_as_it_is() -> None:
    for value in ("soon", "-1152098955", None, [1], {"a": 1}):
        assert use("date", value, "%Y") == value
    assert use("date", "2026-01-01", "") == "2026-01-01"


def test_a_format_is_bounded() -> None:
    with pytest.raises(ValueError, match="at most 1,000 characters"):
        use("date", "2026-01-01", "%Y" * 600)
    text = use("date", "2026-01-01", "%9999999Y")
    assert isinstance(text, str)
    assert len(text) == 100


@pytest.mark.parametrize(
    ("name", "value", "arguments", "expected"),
    [
        ("date_sub", "2026-01-01T00:05:00Z", ["5m"], "2026-01-01T00:00:00.000000Z"),
        ("date_add", "2026-01-01T00:05:00.25Z", ["1h 30m"], "2026-01-01T01:35:00.250000Z"),
        ("date_add", "2026-01-31", [1, "month"], "2026-02-28T00:00:00.000000Z"),
        ("date_add", "2024-02-29", [1, "years"], "2025-02-28T00:00:00.000000Z"),
        ("date_sub", "2026-01-15", [2, "quarters"], "2025-07-15T00:00:00.000000Z"),
        ("date_add", "2026-01-15", [-2, "d"], "2026-01-13T00:00:00.000000Z"),
        ("date_add", "2026-01-15", [1.5, "hours"], "2026-01-15T01:30:00.000000Z"),
        ("date_add", "2026-01-15T10:00:00+02:00", ["1d"], "2026-01-16T10:00:00.000000+02:00"),
        ("date_add", 0, ["1w"], "1970-01-08T00:00:00.000000Z"),
    ],
)
def test_a_date_is_moved_by_a_duration_or_a_number_of_units(
    name: str, value: Json, arguments: list[Json], expected: str
) -> None:
    assert use(name, value, *arguments) == expected


@pytest.mark.parametrize(
    ("value", "arguments", "message"),
    [
        ("soon", ["5m"], '"soon" is no date'),
        (None, ["5m"], "null is no date"),
        ("2026-01-01", ["five"], "is no duration"),
        ("2026-01-01", [5], "needs a unit"),
        ("2026-01-01", [5, "minuts"], "did you mean 'minute'"),
        ("2026-01-01", [0.5, "months"], "whole numbers"),
        ("2026-01-01", ["5m", "days"], "a unit goes with a number"),
        ("9999-12-31", ["2d"], "outside the years"),
        ("9999-12-31", [1, "month"], "outside the years"),
        ("2026-01-01", [10**400, "days"], "outside the years"),
    ],
)
def test_a_move_that_means_nothing_is_refused(value: Json, arguments: list[Json], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use("date_add", value, *arguments)


@pytest.mark.parametrize(
    ("value", "zone", "expected"),
    [
        ("2026-07-01T12:00:00Z", "Europe/Warsaw", "2026-07-01T14:00:00.000000+02:00"),
        ("2026-01-01T12:00:00Z", "Europe/Warsaw", "2026-01-01T13:00:00.000000+01:00"),
        ("2026-01-01T12:00:00+05:00", "UTC", "2026-01-01T07:00:00.000000Z"),
        ("2026-01-01T12:00:00Z", "Asia/Kathmandu", "2026-01-01T17:45:00.000000+05:45"),
    ],
)
def test_a_time_zone_gives_its_offset_at_that_instant(value: str, zone: str, expected: str) -> None:
    assert use("to_timezone", value, zone) == expected


def test_an_offset_with_seconds_is_written_in_whole_minutes_at_the_same_instant() -> None:
    text = use("to_timezone", "1850-07-01T12:00:00Z", "America/New_York")

    assert isinstance(text, str)
    assert parse_instant(text) == parse_instant("1850-07-01T12:00:00Z")


@pytest.mark.parametrize("zone", ["Europe/Warsav", "Mars/Olympus", "", "../passwd", "America", 5, "x" * 5000, "a\x00b"])
def test_an_unknown_time_zone_is_refused(zone: Json) -> None:
    with pytest.raises(ValueError, match="time zone"):
        use("to_timezone", "2026-01-01", zone)


def test_an_unknown_time_zone_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="no time zone 'Europe/Warsav'; did you mean 'Europe/Warsaw'"):
        use("to_timezone", "2026-01-01", "Europe/Warsav")


@pytest.mark.parametrize(
    ("value", "arguments", "expected"),
    [
        ("2026-07-01T23:30:00Z", [], "2026-07-01T00:00:00.000000Z"),
        ("2026-07-01T23:30:00+05:00", [], "2026-07-01T00:00:00.000000+05:00"),
        ("2026-07-01T23:30:00Z", ["Europe/Warsaw"], "2026-07-02T00:00:00.000000+02:00"),
        ("2026-03-29T12:00:00Z", ["Europe/Warsaw"], "2026-03-29T00:00:00.000000+01:00"),
    ],
)
def test_the_start_of_a_day_is_where_the_day_is(value: str, arguments: list[Json], expected: str) -> None:
    assert use("start_of_day", value, *arguments) == expected


def test_a_day_that_starts_in_a_gap_starts_right_after_it() -> None:
    text = use("start_of_day", "2026-09-06T12:00:00Z", "America/Santiago")

    assert isinstance(text, str)
    assert parse_instant(text) == parse_instant("2026-09-06T01:00:00-03:00")
