"""When schedules fire next: what the zones cost beside the calendar alone, and the longest search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from zoneinfo import ZoneInfo

from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Line, compared
from benchmarks.measuring import Sample, Way, by_turns
from flo.engine.schedule.cron import Cron
from flo.engine.schedule.crontab import CronInvalid, parse_cron

ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Johannesburg",
    "Africa/Lagos",
    "America/Anchorage",
    "America/Argentina/Buenos_Aires",
    "America/Asuncion",
    "America/Bogota",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Havana",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Nuuk",
    "America/Phoenix",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Dubai",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Atlantic/Reykjavik",
    "Australia/Adelaide",
    "Australia/Brisbane",
    "Australia/Lord_Howe",
    "Australia/Perth",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/Kyiv",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Moscow",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Honolulu",
    "UTC",
]
EXPRESSIONS = (
    "* * * * *", "*/5 * * * *", "*/15 2 * * *", "7 * * * *", "0 */2 * * *", "30 2 * * *", "0 0 * * *", "30 1,2,3 * * *",
    "0 9 * * mon-fri", "0 9 * * 0", "0 0 13 * 5", "0 0 1 * *", "0 0 L * *", "0 18 LW * *", "0 10 * * 1#1",
    "0 10 * * 5L", "0 0 31 * *", "0 0 29 2 *", "* * 29 2 *", "0 0 * 2 mon#5",
)  # fmt: skip
REFUSED = ("0 0 31 2 *", "61 * * * *", "* * * *", "0 0 0 * * *", "*/0 * * * *", "a * * * *", "", "0 0 * * mno")
BEGIN = datetime(2026, 12, 31, 22, 7, tzinfo=UTC)
YEARS = timedelta(days=5 * 365)
ALONE = "calendar alone"


def schedule_lines(ground: Ground) -> Iterator[Line]:
    """The next fire of twenty expressions in fifty zones, from moments that are spread over five years."""
    crons = [parse_cron(text) for text in EXPRESSIONS]
    zones = [ZoneInfo(name) for name in ZONES]
    starts = [BEGIN + number * (YEARS / ground.sizes.searches) for number in range(ground.sizes.searches)]
    searches = len(starts) * len(crons) * len(zones)
    slowest = max(_search(cron, zone, starts) for cron in crons for zone in zones)
    refusal = max(_seconds(partial(_refuse, text)) for text in REFUSED)

    def in_zones(times: int) -> Sample:
        return Sample(_seconds(lambda: [_search(cron, zone, starts) for cron in crons for zone in zones]) / searches)

    def alone(times: int) -> Sample:
        return Sample(_seconds(partial(_walk, crons * len(zones), starts)) / searches)

    series = by_turns([Way(OWN, in_zones), Way(ALONE, alone)], searches, ground.sizes.long_rounds)
    note = f"slowest of {searches:,} searches {slowest * 1000:.1f} ms, slowest refusal {refusal * 1000:.1f} ms"
    yield from compared("next fire in fifty zones", "none", series[OWN], [(Against(ALONE), series[ALONE])], note=note)


def _search(cron: Cron, zone: ZoneInfo, starts: Sequence[datetime]) -> float:
    """The longest search for the two next fires, in seconds. They rise."""
    longest = 0.0
    for start in starts:
        began = time.perf_counter()
        found = cron.after(start, zone)
        first, second = next(found), next(found)
        longest = max(longest, time.perf_counter() - began)
        if not start < first < second:
            raise AssertionError(f"{cron.expression} in {zone.key} does not rise after {start}")
    return longest


def _walk(crons: Sequence[Cron], starts: Sequence[datetime]) -> None:
    for cron, start in product(crons, starts):
        found = cron.calendar(start.replace(tzinfo=None))
        next(found), next(found)


def _refuse(text: str) -> None:
    try:
        parse_cron(text)
    except CronInvalid:
        return
    raise AssertionError(f"{text!r} is accepted")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
