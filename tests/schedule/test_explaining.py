"""What an expression says in words, and which traps it is warned of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.schedule.crontab import CronInvalid, parse_cron
from flo.engine.schedule.explaining import cautions, explain

NOW = datetime(2027, 1, 1, tzinfo=UTC)
INTERVAL = "for a real interval write every:"
LAST = "L is the last day of each month"
EITHER = "day of month and day of week are both restricted, and either is enough: it fires"


def warned(text: str, zone: str = "UTC", now: datetime = NOW) -> Sequence[str]:
    return cautions(parse_cron(text), ZoneInfo(zone), now)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,20,40 * * * *", "every 20 minutes"),
        ("*/45 * * * *", "at minutes 0 and 45 of every hour"),
        ("7/10 * * * *", "at minutes 7, 17, 27, 37, 47 and 57 of every hour"),
        ("*/7 * * * *", "at minutes 0, 7, 14 and so on to 56 of every hour"),
        ("@hourly", "at minute 0 of every hour"),
        ("30 */2 * * *", "at minute 30 of hours 0, 2, 4 and so on to 22"),
        ("*/5 9-17 * * 1-5", "every 5 minutes of hours 9 to 17 on Monday to Friday"),
        ("* 2 * * *", "every minute of hour 2"),
        ("1-59 2 * * *", "at minutes 1 to 59 of hour 2"),
        ("30 2 * * *", "at 02:30 every day"),
        ("30 2 * * 1-5", "at 02:30 on Monday to Friday"),
        ("0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("0 9 * * 0", "at 09:00 on Sunday"),
        ("0 9 * * 7,6", "at 09:00 on Saturday and Sunday"),
        ("0 9 * * fri-mon", "at 09:00 on Friday to Monday"),
        ("0 9 * * 6-1", "at 09:00 on Saturday to Monday"),
        ("0 9 * * 1,3,5,0", "at 09:00 on Sunday, Monday, Wednesday and Friday"),
        ("0 9 * * 0-7", "at 09:00 every day"),
        ("0 9 13 * *", "at 09:00 on day 13 of the month"),
        ("0 9 1,15,L * *", "at 09:00 on days 1 and 15 and the last day of the month"),
        ("0 9 LW * *", "at 09:00 on the last weekday (Monday to Friday) of the month"),
        ("0 9 * * 5#2", "at 09:00 on the 2nd Friday of the month"),
        ("0 9 * * 1,fril", "at 09:00 on Monday and the last Friday of the month"),
        ("0 0 13 * 5", "at 00:00 on day 13 of the month, or on Friday"),
        ("0 0 13 6,12 5", "at 00:00 on day 13 of the month, or on Friday, in June and December"),
        ("0 0 */2 * 1", "at 00:00 on days 1, 3, 5 and so on to 31 of the month, if that is Monday"),
        ("0 0 * 1,3-5 *", "at 00:00 every day in January and March to May"),
        ("@yearly", "at 00:00 on day 1 of the month in January"),
        ("* * 13 * *", "every minute on day 13 of the month"),
        ("* * * 2 *", "every minute every day in February"),
    ],
)
def test_an_expression_is_said_in_words(text: str, words: str) -> None:
    assert explain(parse_cron(text)) == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*/45 * * * *", [
            f"'*/45' in minute fires at minutes 0 and 45: gaps of 45 and 15 minutes; {INTERVAL} \"45m\"",
        ]),
        ("5/50 * * * *", [
            f"'5/50' in minute fires at minutes 5 and 55: gaps of 50 and 10 minutes; {INTERVAL} \"50m\"",
        ]),
        ("0-59/40 1 * * *", [
            f"'0-59/40' in minute fires at minutes 0 and 40: gaps of 40 and 20 minutes; {INTERVAL} \"40m\"",
        ]),
        ("30/45 * * * *", [f"'30/45' in minute fires at minute 30: gaps of 60 minutes; {INTERVAL} \"45m\""]),
        ("0 */13 * * *", [f"'*/13' in hour fires at hours 0 and 13: gaps of 13 and 11 hours; {INTERVAL} \"13h\""]),
        ("0 0 */7 * *", [
            f"'*/7' in day of month starts again each month, on days 1, 8, 15, 22 and 29; {INTERVAL} \"7d\"",
        ]),
        ("0 0 31 * *", [
            f"day 31 of the month does not come in February, April, June, September and November; {LAST}",
        ]),
        ("0 0 30 1-3 *", [f"day 30 of the month does not come in February; {LAST}"]),
        ("0 0 29 * *", [f"day 29 of the month comes in February in leap years only; {LAST}"]),
        ("0 0 30,31 4 *", [f"day 31 of the month does not come in April; {LAST}"]),
        ("0 0 13 * 5", [f"{EITHER} on day 13 of the month, or on Friday"]),
        ("0 0 31 2 5", [
            f"day 31 of the month does not come in February; {LAST}",
            f"{EITHER} on day 31 of the month, or on Friday",
        ]),
    ],
)  # fmt: skip
def test_a_trap_of_the_calendar_is_said_in_words(text: str, said: Sequence[str]) -> None:
    assert warned(text) == said


@pytest.mark.parametrize(
    ("text", "zone", "said"),
    [
        ("30 2 * * *", "Europe/Berlin", [
            "2027-03-28 02:30 does not exist in Europe/Berlin: it fires at 03:00",
            "2027-10-31 02:30 happens twice in Europe/Berlin: it fires the first time",
            "2028-03-26 02:30 does not exist in Europe/Berlin: it fires at 03:00",
            "2028-10-29 02:30 happens twice in Europe/Berlin: it fires the first time",
        ]),
        ("0,30 2 * 3 *", "Europe/Berlin", [
            "2027-03-28 02:00 and 02:30 do not exist in Europe/Berlin: it fires once, at 03:00",
            "2028-03-26 02:00 and 02:30 do not exist in Europe/Berlin: it fires once, at 03:00",
        ]),
        ("0-59/5 0-23 28 3 *", "Europe/Berlin", [
            "2027-03-28 02:00 to 02:55 do not exist in Europe/Berlin: it fires once, at 03:00",
        ]),
        ("*/15 2 31 10 *", "Europe/Berlin", [
            "2027-10-31 02:00 to 02:45 happen twice in Europe/Berlin: it fires both times",
        ]),
        ("*/40 2 28 3 *", "Europe/Berlin", [
            f"'*/40' in minute fires at minutes 0 and 40: gaps of 40 and 20 minutes; {INTERVAL} \"40m\"",
            "2027-03-28 02:00 and 02:40 do not exist in Europe/Berlin: it does not fire then",
        ]),
        ("0 0 * * 7", "America/Santiago", [
            "2027-09-05 00:00 does not exist in America/Santiago: it fires at 01:00",
            "2028-09-03 00:00 does not exist in America/Santiago: it fires at 01:00",
        ]),
        ("45 1 4 4 *", "Australia/Lord_Howe", [
            "2027-04-04 01:45 happens twice in Australia/Lord_Howe: it fires the first time",
        ]),
        ("15 2 3 10 *", "Australia/Lord_Howe", [
            "2027-10-03 02:15 does not exist in Australia/Lord_Howe: it fires at 02:30",
        ]),
    ],
)  # fmt: skip
def test_a_change_of_the_clock_is_named_by_its_date(text: str, zone: str, said: Sequence[str]) -> None:
    assert warned(text, zone) == said


def test_a_day_that_a_zone_left_out_is_named_with_the_one_after_it() -> None:
    assert warned("0 12 30 12 *", "Pacific/Apia", datetime(2011, 6, 1, tzinfo=UTC)) == [
        "2011-12-30 12:00 does not exist in Pacific/Apia: it fires at 2011-12-31 00:00"
    ]


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("* * * * *", "Europe/Berlin"),
        ("*/15 * * * *", "Europe/Berlin"),
        ("7/10 * * * *", "UTC"),
        ("0 9-17/2 * * *", "Europe/Berlin"),
        ("0 18-23/2 * * *", "UTC"),
        ("30 2 * * *", "Asia/Kolkata"),
        ("30 3 * * *", "Europe/Berlin"),
        ("30 2 * * 1-5", "Europe/Berlin"),
        ("0 0 L * *", "UTC"),
        ("0 0 31 1,3,5 *", "UTC"),
        ("0 0 28-31 * *", "UTC"),
        ("0 0 * * 5", "UTC"),
        ("0 */6 * * *", "America/New_York"),
    ],
)
def test_an_expression_without_traps_is_not_warned_of(text: str, zone: str) -> None:
    assert warned(text, zone) == []


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text("0123456789*,-/#Ll", min_size=1, max_size=5), min_size=5, max_size=5).map(" ".join))
def test_whatever_reads_as_an_expression_can_be_said_and_judged(text: str) -> None:
    try:
        cron = parse_cron(text)
    except CronInvalid:
        return
    assert explain(cron)
    assert all(cautions(cron, ZoneInfo("Europe/Berlin"), NOW))
