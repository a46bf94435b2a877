"""Every fire of 2027 and 2028 in six zones, against instants that are reckoned from the rule by other means.

The rows say by hand which minutes, hours and days an expression means; the zone's offsets are read minute by minute
where they change. Nothing here reads an expression, or goes through a calendar library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.schedule.crontab import parse_cron

ZONES = ("Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
START, END = datetime(2027, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
DAY = 24 * 60


def every_day(_: date) -> bool:
    return True


def on(*weekdays: int) -> Callable[[date], bool]:
    """Monday is 1, Sunday 7."""
    return lambda day: day.isoweekday() in weekdays


def is_last(day: date) -> bool:
    return (day + timedelta(1)).day == 1


def is_last_working_day(day: date) -> bool:
    left = [day + timedelta(ahead) for ahead in range(1, 7) if (day + timedelta(ahead)).month == day.month]
    return day.isoweekday() <= 5 and all(later.isoweekday() > 5 for later in left)


def is_changing(day: date) -> bool:
    """Whether it is in a month in which clocks may change."""
    return day.month in {3, 4, 9, 10, 11}


@dataclass(frozen=True)
class Row:
    """An expression, whether its times are fixed, and what it means."""

    text: str
    fixed: bool
    minutes: Collection[int]
    hours: Collection[int]
    days: Callable[[date], bool] = every_day


ALL = range(24)
ROWS = (
    Row("30 2 * * *", True, {30}, {2}),
    Row("0 0 * * *", True, {0}, {0}),
    Row("30 23 * * *", True, {30}, {23}),
    Row("0 * * 3,4,9-11 *", False, {0}, ALL, is_changing),
    Row("30 * * 3,4,9-11 *", False, {30}, ALL, is_changing),
    Row("*/15 * 1-7,27-31 3,4,9-11 *", False, {0, 15, 30, 45}, ALL, lambda d: is_changing(d) and not 7 < d.day < 27),
    Row("* 2 1-7,28-31 3,4,9-11 *", False, range(60), {2}, lambda d: is_changing(d) and not 7 < d.day < 28),
    Row("*/20 1-3 * 3,4,9-11 *", False, {0, 20, 40}, {1, 2, 3}, is_changing),
    Row("15 */2 * 3,4,9-11 *", False, {15}, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, is_changing),
    Row("10-50/20 0-2 * 3,4,9-11 *", True, {10, 30, 50}, {0, 1, 2}, is_changing),
    Row("0,30 0,1,2,3 * 3,4,9-11 *", True, {0, 30}, {0, 1, 2, 3}, is_changing),
    Row("7/25 23 * * *", True, {7, 32, 57}, {23}),
    Row("0 9 * * 1-5", True, {0}, {9}, on(1, 2, 3, 4, 5)),
    Row("0 9 * * 0", True, {0}, {9}, on(7)),
    Row("15 2 * * 7", True, {15}, {2}, on(7)),
    Row("0 3 * * fri-mon", True, {0}, {3}, on(5, 6, 7, 1)),
    Row("45 1 * * 5-7", True, {45}, {1}, on(5, 6, 7)),
    Row("0 12 * * 1,7", True, {0}, {12}, on(1, 7)),
    Row("0 0 13 * 5", True, {0}, {0}, lambda day: day.day == 13 or day.isoweekday() == 5),
    Row("0 0 */10 * 1", True, {0}, {0}, lambda day: day.day in {1, 11, 21, 31} and day.isoweekday() == 1),
    Row("5 4 1-7 * */2", True, {5}, {4}, lambda day: day.day <= 7 and day.isoweekday() in {7, 2, 4, 6}),
    Row("0 0 L * *", True, {0}, {0}, is_last),
    Row("45 23 LW * *", True, {45}, {23}, is_last_working_day),
    Row("0 2 * * sunL", True, {0}, {2}, lambda day: day.isoweekday() == 7 and (day + timedelta(7)).month != day.month),
    Row("30 2 * 3,11 7#2", True, {30}, {2}, lambda day: day.month in {3, 11} and on(7)(day) and 8 <= day.day <= 14),
    Row("* * 29 2 *", False, range(60), ALL, lambda day: (day.month, day.day) == (2, 29)),
    Row("0 0 31 * *", True, {0}, {0}, lambda day: day.day == 31),
    Row("0 6 1 jan,JUL *", True, {0}, {6}, lambda day: day.day == 1 and day.month in {1, 7}),
    Row("@weekly", True, {0}, {0}, on(7)),
)


@cache
def stretches(zone: ZoneInfo) -> Sequence[tuple[int, int, int]]:
    """First minute, minute after the last, and minutes ahead of UTC, of each stretch of one offset."""

    def ahead(minute: int) -> int:
        offset = (EPOCH + minute * MINUTE).astimezone(zone).utcoffset()
        assert offset is not None
        return offset // MINUTE

    first, end = (START - EPOCH) // MINUTE, (END - EPOCH) // MINUTE
    found, begun = [], first
    for hour in range(first, end, 60):
        if ahead(hour) != ahead(hour + 60):
            change = next(minute for minute in range(hour + 1, hour + 61) if ahead(minute) != ahead(hour))
            found.append((begun, change, ahead(hour)))
            begun = change
    return [*found, (begun, end, ahead(end - 1))]


def reckoned(row: Row, zone: ZoneInfo) -> list[datetime]:
    """The instants of a row, by the rule: a fixed time fires the first time its clock shows it, or at the end of the
    gap that it is in; any other in each real minute that matches."""
    first_day = START.date() - timedelta(2)
    days = [day for ahead in range(735) if row.days(day := first_day + timedelta(ahead))]
    at_midnight = [(day - EPOCH.date()).days * DAY for day in days]
    wanted = [
        day + hour * 60 + minute for day in at_midnight for hour in sorted(row.hours) for minute in sorted(row.minutes)
    ]
    instants: set[int] = set()
    shown: set[int] = set()
    for begin, end, ahead in stretches(zone):
        here = [local for local in wanted if begin + ahead <= local < end + ahead]
        instants.update(local - ahead for local in here if not (row.fixed and local in shown))
        shown.update(here)
    if row.fixed:
        for (_, change, before), (_, _, after) in pairwise(stretches(zone)):
            if any(change + before <= local < change + after for local in wanted):
                instants.add(change)
    return [EPOCH + minute * MINUTE for minute in sorted(instants)]


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_every_fire_of_two_years_is_the_one_that_the_rule_gives(row: Row, name: str) -> None:
    zone = ZoneInfo(name)
    fired = takewhile(lambda instant: instant < END, parse_cron(row.text).after(START - MINUTE, zone))
    assert list(fired) == reckoned(row, zone)


CHANGES = (
    ("Europe/Berlin", datetime(2027, 3, 28, tzinfo=UTC)),
    ("America/New_York", datetime(2027, 11, 7, tzinfo=UTC)),
    ("America/Santiago", datetime(2027, 4, 4, tzinfo=UTC)),
    ("America/Santiago", datetime(2027, 9, 5, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2027, 4, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2027, 10, 2, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2027, 10, 31, tzinfo=UTC)),  # by two hours
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),  # by a day
)


Reading = tuple[datetime, int, int, date]
"""An instant, and the minute, hour and date that it stands for."""


@cache
def clock(name: str, change: datetime) -> tuple[Sequence[Reading], Sequence[Reading]]:
    """What a zone's clock shows in each minute of the days about a change; and what it shows, or has just left out,
    for the first time."""
    zone = ZoneInfo(name)
    shown, new = [], []
    latest = datetime.min
    for minute in range(-4 * DAY, 6 * DAY):
        instant = change + minute * MINUTE
        local = instant.astimezone(zone).replace(tzinfo=None)
        shown.append((instant, local.minute, local.hour, local.date()))
        latest = max(latest, local - DAY * MINUTE - MINUTE)
        while latest < local:
            latest += MINUTE
            if minute > -4 * DAY:
                new.append((instant, latest.minute, latest.hour, latest.date()))
    return shown, new


def watched(name: str, change: datetime, row: Row) -> list[datetime]:
    """The instants at which someone who watches the clock, and keeps to the rule, would fire."""
    readings = clock(name, change)[row.fixed]
    days = {day for day in {reading[3] for reading in readings} if row.days(day)}
    fired = (at for at, minute, hour, day in readings if minute in row.minutes and hour in row.hours and day in days)
    return sorted(set(fired))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Fields as lists, or with a star, that mean what the row says."""

    def numbers(low: int, high: int, most: int) -> set[int]:
        return draw(st.sets(st.integers(low, high), min_size=1, max_size=most))

    def field(low: int, high: int, likely: Sequence[int]) -> tuple[str, set[int]]:
        match draw(st.sampled_from(["star", "step", "list", "likely"])):
            case "star":
                return "*", set(range(low, high + 1))
            case "step":
                step = draw(st.integers(2, high - low))
                return f"*/{step}", set(range(low, high + 1, step))
            case "list":
                values = numbers(low, high, 5)
            case _:
                values = draw(st.sets(st.sampled_from(likely), min_size=1))
        return ",".join(map(str, draw(st.permutations(sorted(values))))), values

    minute, minutes = field(0, 59, [0, 15, 30, 59])
    hour, hours = field(0, 23, [0, 1, 2, 3, 23])
    day, days = field(1, 31, [1, 28, 30, 31])
    weekday, weekdays = field(0, 7, [0, 7, 6])
    either = not (day.startswith("*") or weekday.startswith("*"))

    def matches(date: date) -> bool:
        both = (date.day in days, bool(weekdays & {date.isoweekday(), date.isoweekday() % 7}))
        return any(both) if either else all(both)

    text = f"{minute} {hour} {day} * {weekday}"
    return Row(text, not (minute.startswith("*") or hour.startswith("*")), minutes, hours, matches)


@settings(deadline=None, max_examples=120)
@given(rows(), st.sampled_from(CHANGES), st.integers(0, 4 * DAY))
def test_any_fields_fire_as_one_who_watches_the_clock_would(
    row: Row, change: tuple[str, datetime], skipped: int
) -> None:
    name, about = change
    start, end = about + (skipped - 3 * DAY) * MINUTE, about + 6 * DAY * MINUTE
    expected = [instant for instant in watched(name, about, row) if instant > start]
    fired = parse_cron(row.text).after(start, ZoneInfo(name))
    assert list(takewhile(lambda instant: instant < end, fired)) == expected


@settings(deadline=None, max_examples=60)
@given(rows(), st.sampled_from(CHANGES), st.integers(0, 8 * DAY))
def test_to_begin_again_after_any_fire_gives_the_same_ones(
    row: Row, change: tuple[str, datetime], skipped: int
) -> None:
    """A scheduler keeps the last fire, not the iterator."""
    name, about = change
    zone, start = ZoneInfo(name), about + (skipped - 4 * DAY) * MINUTE
    cron = parse_cron(row.text)
    instant = start
    for fired in islice(cron.after(start, zone), 8):
        instant = next(cron.after(instant, zone))
        assert instant == fired


MANY = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Johannesburg", "Africa/Juba", "America/Adak",
    "America/Anchorage", "America/Asuncion", "America/Caracas", "America/Chicago", "America/Halifax",
    "America/Havana", "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Nuuk",
    "America/Phoenix", "America/Santiago", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns",
    "Antarctica/Macquarie", "Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem", "Asia/Kathmandu",
    "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tehran", "Asia/Tokyo", "Australia/Adelaide", "Australia/Eucla",
    "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin", "Europe/Chisinau", "Europe/Dublin",
    "Europe/Istanbul", "Europe/Lisbon", "Europe/London", "Europe/Moscow", "Europe/Volgograd", "Pacific/Apia",
    "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Kiritimati", "Pacific/Norfolk", "UTC",
)  # fmt: skip
SELDOM = ("0 0 13 * 5", "0 0 L * *", "30 2 * * sunL", "@monthly", "@yearly", "0 0 29 2 *", "* * 29 2 *", "@weekly")
OFTEN = (
    "*/15 * * * *", "0-59/15 0-23 * * *", "*/45 * * * *", "@hourly", "30 * * * *", "0 */2 * * *", "*/20 0-3 * * *",
    "@daily", "30 2 * * *", "15 1,2,3 * * *", "0,30 0-3 * * *", "0 9 * * 1-5",
)  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_instants_rise_through_five_years_of_clock_changes(name: str) -> None:
    """Those that fire seldom are followed through all of it, the others through the hours about the first few."""
    zone = ZoneInfo(name)
    start, days = datetime(2025, 1, 1, tzinfo=UTC), 5 * 365
    for text in SELDOM:
        rising([start, *islice(parse_cron(text).after(start, zone), 60)])
    midnights = [start + timedelta(days=day) for day in range(days)]
    changes = [a for a, b in pairwise(midnights) if a.astimezone(zone).utcoffset() != b.astimezone(zone).utcoffset()]
    for text in OFTEN:
        cron = parse_cron(text)
        for change in changes[:3] or [start]:
            begin = change - timedelta(hours=1)
            fired = takewhile(lambda instant, end=begin + timedelta(hours=26): instant < end, cron.after(begin, zone))
            rising([begin, *fired])


def rising(instants: Sequence[datetime]) -> None:
    for earlier, later in pairwise(instants):
        assert earlier < later
        assert (later.second, later.microsecond) == (0, 0)
        assert later.tzinfo is UTC
