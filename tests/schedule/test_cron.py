"""What reads as a cron expression, when it fires beside changes of the clock, and what is refused with which hint."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.schedule.crontab import CronInvalid, parse_cron

BERLIN = ZoneInfo("Europe/Berlin")


def fires(text: str, zone: str, start: str, count: int) -> list[str]:
    """The next instants, as ``2027-03-28 01:00``, with seconds where there are any."""
    found = islice(parse_cron(text).after(datetime.fromisoformat(f"{start}Z"), ZoneInfo(zone)), count)
    return [f"{instant:%Y-%m-%d %H:%M:%S}".removesuffix(":00") for instant in found]


@pytest.mark.parametrize(
    ("text", "zone", "start", "expected"),
    [
        # a fixed time in a gap fires at its end
        ("30 2 * * *", "Europe/Berlin", "2027-03-26 12:00",
            ["2027-03-27 01:30", "2027-03-28 01:00", "2027-03-29 00:30"]),
        ("30 2 * * *", "America/New_York", "2027-03-13 00:00",
            ["2027-03-13 07:30", "2027-03-14 07:00", "2027-03-15 06:30"]),
        ("0 0 * * *", "America/Santiago", "2027-09-03 12:00",
            ["2027-09-04 04:00", "2027-09-05 04:00", "2027-09-06 03:00"]),
        ("30 0 * * *", "America/Santiago", "2027-09-03 12:00",
            ["2027-09-04 04:30", "2027-09-05 04:00", "2027-09-06 03:30"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-01 00:00",
            ["2027-10-01 15:45", "2027-10-02 15:30", "2027-10-03 15:15"]),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00",
            ["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"]),
        # several in one gap fire once, and with the one that is due at its end
        ("0,15,30 2 * * *", "Europe/Berlin", "2027-03-27 12:00",
            ["2027-03-28 01:00", "2027-03-29 00:00", "2027-03-29 00:15"]),
        ("30 2,3 * * *", "Europe/Berlin", "2027-03-27 12:00",
            ["2027-03-28 01:00", "2027-03-28 01:30", "2027-03-29 00:30"]),
        ("0 2,3 * * *", "Europe/Berlin", "2027-03-27 12:00",
            ["2027-03-28 01:00", "2027-03-29 00:00", "2027-03-29 01:00"]),
        ("30 0,1 * * *", "America/Santiago", "2027-09-05 00:00",
            ["2027-09-05 04:00", "2027-09-05 04:30", "2027-09-06 03:30"]),
        ("15,30 2 * * *", "Australia/Lord_Howe", "2027-10-02 12:00",
            ["2027-10-02 15:30", "2027-10-03 15:15", "2027-10-03 15:30"]),
        # a fixed time in an overlap fires the first time
        ("30 2 * * *", "Europe/Berlin", "2027-10-29 12:00",
            ["2027-10-30 00:30", "2027-10-31 00:30", "2027-11-01 01:30"]),
        ("30 1 * * *", "America/New_York", "2027-11-06 00:00",
            ["2027-11-06 05:30", "2027-11-07 05:30", "2027-11-08 06:30"]),
        ("30 23 * * *", "America/Santiago", "2027-04-02 12:00",
            ["2027-04-03 02:30", "2027-04-04 02:30", "2027-04-05 03:30"]),
        ("0 0 * * *", "America/Santiago", "2027-04-02 12:00",
            ["2027-04-03 03:00", "2027-04-04 04:00", "2027-04-05 04:00"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2027-04-02 00:00",
            ["2027-04-02 14:45", "2027-04-03 14:45", "2027-04-04 15:15"]),
        ("30 2 * * *", "Europe/Berlin", "2027-10-31 01:00", ["2027-11-01 01:30"]),  # begun in the second pass
        ("0,30 2,3 * * *", "Europe/Berlin", "2027-10-31 01:10",
            ["2027-10-31 02:00", "2027-10-31 02:30", "2027-11-01 01:00"]),
        # wildcards go by elapsed time
        ("*/30 * * * *", "Europe/Berlin", "2027-10-30 23:45",
            ["2027-10-31 00:00", "2027-10-31 00:30", "2027-10-31 01:00", "2027-10-31 01:30", "2027-10-31 02:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-10-30 12:00",
            ["2027-10-31 00:00", "2027-10-31 00:30", "2027-10-31 01:00", "2027-10-31 01:30", "2027-11-01 01:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-27 12:00", ["2027-03-29 00:00", "2027-03-29 00:30"]),
        ("0 */2 * * *", "Europe/Berlin", "2027-03-27 22:30",
            ["2027-03-27 23:00", "2027-03-28 02:00", "2027-03-28 04:00"]),
        ("0 * * * *", "America/Santiago", "2027-09-05 02:30",
            ["2027-09-05 03:00", "2027-09-05 04:00", "2027-09-05 05:00"]),
        ("0 * * * *", "Australia/Lord_Howe", "2027-04-03 13:30",
            ["2027-04-03 14:00", "2027-04-03 15:30", "2027-04-03 16:30"]),
        ("*/15 * * * *", "Australia/Lord_Howe", "2027-04-03 14:40",
            ["2027-04-03 14:45", "2027-04-03 15:00", "2027-04-03 15:15", "2027-04-03 15:30"]),
        ("0 * * * *", "Australia/Lord_Howe", "2027-10-02 14:00",
            ["2027-10-02 14:30", "2027-10-02 16:00", "2027-10-02 17:00"]),
        ("* * 31 10 *", "Europe/Berlin", "2026-12-01 00:00", ["2027-10-30 22:00", "2027-10-30 22:01"]),
        ("0 * 30 12 *", "Pacific/Apia", "2011-12-01 00:00", ["2012-12-29 10:00", "2012-12-29 11:00"]),
        # offsets that have seconds: Monrovia was 0:44:30 behind until the end of 6 January 1972
        ("0 12 * * *", "Africa/Monrovia", "1972-01-05 20:00", ["1972-01-06 12:44:30", "1972-01-07 12:00"]),
        ("30 0 * * *", "Africa/Monrovia", "1972-01-06 20:00", ["1972-01-07 00:44:30", "1972-01-08 00:30"]),
        ("0 * * * *", "Africa/Monrovia", "1972-01-06 23:30", ["1972-01-06 23:44:30", "1972-01-07 01:00"]),
        # the calendar alone
        ("30 9 * * 1-5", "Asia/Kolkata", "2027-01-01 00:00", ["2027-01-01 04:00", "2027-01-04 04:00"]),
        ("0 0 29 2 *", "UTC", "2027-01-01 00:00", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 29 2 *", "UTC", "2096-03-01 00:00", ["2104-02-29 00:00"]),
        ("0 0 * 2 mon#5", "UTC", "2072-03-01 00:00", ["2112-02-29 00:00"]),
        ("0 0 13 * 5", "UTC", "2027-09-01 00:00",
            ["2027-09-03 00:00", "2027-09-10 00:00", "2027-09-13 00:00", "2027-09-17 00:00"]),
        ("0 0 LW * *", "UTC", "2027-01-01 00:00", ["2027-01-29 00:00", "2027-02-26 00:00", "2027-03-31 00:00"]),
    ],
)  # fmt: skip
def test_an_expression_fires_when_a_person_reckons_it_does(
    text: str, zone: str, start: str, expected: Sequence[str]
) -> None:
    assert fires(text, zone, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["0 9 * * 0", "0 9 * * 7", "0 9 * * sun", "0 9 * * SUN", "0 9 * * 7-7"], [3, 10, 17]),
        (["0 9 * * 1,7", "0 9 * * sun-mon", "0 9 * * 0-1", "0 9 * * 7-1"], [3, 4, 10, 11]),
        (["0 9 * * 5-7", "0 9 * * fri-sun", "0 9 * * Fri,SAT,0"], [1, 2, 3, 8]),
        (["0 9 * * fri-mon", "0 9 * * 5-1", "0 9 * * 5-1/1"], [1, 2, 3, 4, 8]),
        (["0 9 * * 6-1", "0 9 * * sat-mon"], [2, 3, 4, 9]),
        (["0 9 * * 1-5", "0 9 * * mon-fri", "  0  9\t*  *   Mon-Fri\n"], [1, 4, 5, 6, 7, 8, 11]),
        (["0 9 * * fri-mon/2", "0 9 * * 5,0"], [1, 3, 8, 10]),
        (["0 9 * * 5#2", "0 9 * * fri#2", "0 9 * JAN 5#2"], [8]),
        (["0 9 * * 5L", "0 9 * jan fril", "0 9 * * FriL"], [29]),
        (["0 9 * * 7#1,0L", "0 9 * * sun#1,sunL"], [3, 31]),
        (["0 9 */10 * *", "0 9 1/10 * *", "0 9 1-31/10 * *", "00 09 01,11,21,31 01 *"], [1, 11, 21, 31]),
        (["0 9 L * *", "0 9 l * *"], [31]),
        (["0 9 20/20,L * *"], [20, 31]),
        (["0 9 */2 * 7", "0 9 */2 1-3 sun"], [3, 17, 31]),
        (["0 9 1-9 * */3"], [2, 3, 6, 9]),
    ],
)
def test_ways_to_write_the_same_days_agree(texts: Sequence[str], days: Sequence[int]) -> None:
    """January 2027 begins on a Friday; where both day fields are given and neither has a star, either is enough."""
    for text in texts:
        january = [d for d in fires(text, "UTC", "2027-01-01 00:00", 40) if d.startswith("2027-01")]
        assert [int(day[8:10]) for day in january][: len(days)] == days, text


@pytest.mark.parametrize(
    ("alias", "written"),
    [
        ("@yearly", "0 0 1 1 *"), ("@Annually", "0 0 1 1 *"), ("@monthly", "0 0 1 * *"), ("@WEEKLY", "0 0 * * 0"),
        ("@daily", "0 0 * * *"), ("@midnight", "0 0 * * *"), (" @hourly ", "0 * * * *"),
    ],
)  # fmt: skip
def test_an_alias_is_the_expression_it_stands_for(alias: str, written: str) -> None:
    assert parse_cron(alias).expression == alias.strip()
    assert fires(alias, "Europe/Berlin", "2027-02-27 12:00", 5) == fires(
        written, "Europe/Berlin", "2027-02-27 12:00", 5
    )


def test_an_expression_is_kept_as_written_but_for_its_blanks() -> None:
    assert parse_cron("  0  9\t* *   Mon-FRI\n").expression == "0 9 * * Mon-FRI"
    assert parse_cron("0 9 * *  1") == parse_cron("0 9 * * 1")


@pytest.mark.parametrize(
    ("text", "field", "parts"),
    [
        ("61 * * * *", "minute", ["'61'", "0 to 59"]),
        ("60 * * * *", "minute", ["'60'", "0 to 59"]),
        ("5,61 * * * *", "minute", ["'61'", "0 to 59"]),
        ("a * * * *", "minute", ["'a'", "no number", "0 to 59"]),
        ("-5 * * * *", "minute", ["'-5'", "0 to 59"]),
        ("5-1 * * * *", "minute", ["'5-1' runs backwards", "'1-5'", "'5-59,0-1'"]),
        ("*/0 * * * *", "minute", ["step '0'", "1 to 60"]),
        ("*/x * * * *", "minute", ["step 'x'", "1 to 60"]),
        ("*/90 * * * *", "minute", ["step '90'", "1 to 60", 'every: "90m"']),
        ("*/5/2 * * * *", "minute", ["'*/5/2'", "'*/n'"]),
        ("*-5 * * * *", "minute", ["'*-5'"]),
        ("5,,6 * * * *", "minute", ["empty entry", "comma"]),
        ("5, * * * *", "minute", ["empty entry"]),
        ("L * * * *", "minute", ["'L'", "day of month"]),
        ("H * * * *", "minute", ["'h'", "0 to 59"]),
        ("\x00 * * * *", "minute", ["'\\x00'"]),
        ("٣ * * * *", "minute", ["'٣'", "ASCII", "0 to 59"]),
        ("5² * * * *", "minute", ["ASCII"]),
        ("0\u00a05 * * * *", "minute", ["'0\\xa05'", "ASCII"]),
        ("0 24 * * *", "hour", ["'24'", "0 to 23"]),
        ("0 22-4 * * *", "hour", ["'4-22'", "'22-23,0-4'"]),
        ("0 */36 * * *", "hour", ["'36'", "1 to 24", 'every: "36h"']),
        ("0 0 0 * *", "day of month", ["'0'", "1 to 31"]),
        ("0 0 32 * *", "day of month", ["'32'", "1 to 31"]),
        ("0 0 ? * *", "day of month", ["'?'", "write '*'"]),
        ("0 0 15W * *", "day of month", ["'15W'", "nearest weekday", "LW"]),
        ("0 0 L-3 * *", "day of month", ["'L-3'", "LW"]),
        ("0 0 */40 * *", "day of month", ["'40'", 'every: "40d"']),
        ("0 0 31 2 *", "day of month", ["'31'", "feb", "1 to 29", "L for the last day"]),
        ("0 0 30 2 *", "day of month", ["'30'", "feb", "1 to 29"]),
        ("0 0 30,31 feb */2", "day of month", ["'30,31'", "feb"]),
        ("0 0 31 4,6,9,11 *", "day of month", ["'31'", "apr, jun, sep, nov", "1 to 30"]),
        ("0 0 */28 2 mon#4", "day of month", ["'*/28'", "'mon#4'", "both are needed"]),
        ("0 0 */30 * mon#2", "day of month", ["'*/30'", "'mon#2'"]),
        ("* * * 13 *", "month", ["'13'", "1 to 12", "jan to dec"]),
        ("* * * 0 *", "month", ["'0'", "1 to 12"]),
        ("* * * jnu *", "month", ["'jnu'", "did you mean 'jun'?"]),
        ("* * * january *", "month", ["'january'", "did you mean 'jan'?"]),
        ("* * * nov-feb *", "month", ["'nov-feb'", "'11-12,1-2'"]),
        ("* * * */13 *", "month", ["'13'", "1 to 12"]),
        ("* * * * mno", "day of week", ["'mno'", "0 to 7", "did you mean 'mon'?"]),
        ("* * * * wednesday", "day of week", ["did you mean 'wed'?"]),
        ("* * * * 8", "day of week", ["'8'", "0 to 7", "sun to sat"]),
        ("* * * * 8L", "day of week", ["'8'", "0 to 7"]),
        ("* * * * */8", "day of week", ["'8'", "1 to 7", 'every: "8d"']),
        ("* * * * L", "day of week", ["'L'", "6L"]),
        ("* * * * ?", "day of week", ["'?'", "write '*'"]),
        ("* * * * 5#6", "day of week", ["'5#6'", "5#1 to 5#5"]),
        ("* * * * mon-fri#2", "day of week", ["'mon-fri#2'"]),
        ("", None, ["empty", "five fields, minute first", "such as"]),
        (" \t\n", None, ["empty"]),
        ("5", None, ["1 field came", "did you mean '5 * * * *'?"]),
        ("* * * *", None, ["4 fields came", "five, minute first", "did you mean '* * * * *'?"]),
        ("61 * * *", None, ["4 fields came", "five, minute first"]),
        ("0 0 9 * * 1", None, ["6 fields came", "five, minute first", "no seconds", "did you mean '0 9 * * 1'?"]),
        ("30 0 9 ? * 2-6", None, ["'0 9 * * 2-6'", "count from Sunday as 0"]),
        ("*/10 * * * * *", None, ["6 fields came", 'every: "10s"']),
        ("* * * * * *", None, ['every: "1s"']),
        ("0 9 1 1 * 2027", None, ["no year", "startAt and endAt", "'0 9 1 1 *'"]),
        ("0 0 9 1 1 ? 2027", None, ["7 fields came", "did you mean '0 9 1 1 *'?"]),
        ("0 0 61 9 * *", None, ["6 fields came", "five, minute first"]),
        ("1 2 3 4 5 6 7 8", None, ["8 fields came"]),
        ("@reboot", None, ["no boot", "startAt"]),
        ("@every 65m", None, ['every: "65m"']),
        ("@dayly", None, ["'@dayly'", "did you mean '@daily'?"]),
        ("@", None, ["known are @yearly"]),
        ("0 0 * * " + "1," * 100 + "1", None, ["209 characters", "at most 200"]),
        ("9" * 10_000_000, None, ["10000000 characters", "at most 200"]),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused_with_field_range_and_the_nearest_right_thing(
    text: str, field: str | None, parts: Sequence[str]
) -> None:
    with pytest.raises(CronInvalid) as refused:
        parse_cron(text)
    error = refused.value
    assert (error.field, error.exit_code) == (field, 1)
    for part in parts:
        assert part in error.message
    assert error.message.startswith(field or "")
    assert error.expression == " ".join(text[:201].split(None if text.isascii() else " "))
    assert str(error).startswith(f"no cron expression {error.expression!r}"[:60])
    assert str(error).endswith(f": {error.message}")
    assert len(str(error)) < 400


@pytest.mark.parametrize("text", ["61 * * *", "0 0 61 9 * *", "0 0 0 31 2 *", "@foo * * * *"])
def test_no_expression_is_proposed_that_would_be_refused_itself(text: str) -> None:
    with pytest.raises(CronInvalid) as refused:
        parse_cron(text)
    assert "did you mean" not in refused.value.message


@settings(deadline=None, max_examples=300)
@given(st.text("0123456789*,-/#LlWw?@ abfijmnorstuy", max_size=24) | st.text(max_size=12))
def test_any_text_is_an_expression_that_fires_or_is_refused(text: str) -> None:
    try:
        cron = parse_cron(text)
    except CronInvalid:
        return
    assert next(cron.after(datetime(2027, 1, 1, tzinfo=UTC), BERLIN)).tzinfo is UTC


def test_a_start_within_a_minute_counts_and_the_instant_itself_does_not() -> None:
    noon = datetime(2027, 1, 1, 12, tzinfo=UTC)
    for text in ("* * * * *", "0-59 0-23 * * *"):
        cron = parse_cron(text)
        assert next(cron.after(noon, BERLIN)) == noon + timedelta(minutes=1)
        assert next(cron.after(noon - timedelta(microseconds=1), BERLIN)) == noon
        assert next(cron.after(noon + timedelta(seconds=30, microseconds=1), BERLIN)) == noon + timedelta(minutes=1)


def test_a_start_is_an_instant_whatever_the_zone_or_the_pass_it_is_written_in() -> None:
    second_pass = datetime(2027, 10, 31, 2, 30, tzinfo=BERLIN, fold=1)
    assert next(parse_cron("30 2 * * *").after(second_pass, BERLIN)) == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)
    assert next(parse_cron("*/15 * * * *").after(second_pass, BERLIN)) == datetime(2027, 10, 31, 1, 45, tzinfo=UTC)
    tokyo = datetime(2027, 1, 1, 8, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert next(parse_cron("0 0 * * *").after(tokyo, ZoneInfo("UTC"))) == datetime(2027, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="aware"):
        parse_cron("* * * * *").after(datetime(2027, 1, 1), BERLIN)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize(("text", "most"), [("0 0 * * *", 4), ("0 */12 * * *", 8), ("0 0 29 2 *", 0)])
def test_the_instants_end_with_the_calendar(zone: str, text: str, most: int) -> None:
    found = list(parse_cron(text).after(datetime(9999, 12, 28, 12, tzinfo=UTC), ZoneInfo(zone)))
    assert max(most - 3, 0) <= len(found) <= most
    assert all(early < late for early, late in pairwise(found))
