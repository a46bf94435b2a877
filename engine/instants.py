"""Instants and durations: RFC 3339 in, RFC 3339 out with microseconds and ``Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_RFC3339: Final = re.compile(
    r"(?!0000)(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]"
    r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?(?:([Zz])|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_WRITTEN: Final = "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ"
_EPOCH_DAY: Final = datetime(1970, 1, 1).toordinal()
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Instant = tuple[int, str]
"""Whole seconds since 1970 and the digits of the fraction without trailing zeros: exact, and ordered as tuples are."""


def read_instant(text: object) -> Instant | None:
    """Read an RFC 3339 instant (section 5.6): offset required, ``T`` or a blank, any number of fraction digits.

    Gives None for everything else, impossible dates included. Leap seconds (``:60``) are not instants here.
    """
    if not isinstance(text, str) or not (found := _RFC3339.fullmatch(text)):
        return None
    year, month, day, hour, minute, second, fraction, zulu, sign, off_hour, off_minute = found.groups()
    try:
        days = datetime(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    if not zulu:
        offset = int(off_hour) * 3600 + int(off_minute) * 60
        seconds -= offset if sign == "+" else -offset
    return seconds, (fraction or "").rstrip("0")


def write_instant(instant: datetime) -> str:
    """Write an aware time in the one stored form: UTC, six fraction digits, ``Z``."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return _WRITTEN % (
        instant.year, instant.month, instant.day, instant.hour, instant.minute, instant.second, instant.microsecond,
    )  # fmt: skip  # in half the time of ``isoformat``


def parse_instant(text: str) -> datetime | None:
    """Read an RFC 3339 instant as an aware UTC time, cut to microseconds; None where it is none or out of range."""
    instant = read_instant(text)
    if instant is None:
        return None
    seconds, fraction = instant
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            seconds=seconds, microseconds=int(fraction[:6].ljust(6, "0"))
        )
    except OverflowError:
        return None


def parse_duration(text: object) -> timedelta | None:
    """Read ``"250ms"``, ``"5m"``, ``"1h 30m"``, ``"2d"``, ``"1w"``; None where it is none, or past 100 years."""
    if not isinstance(text, str):
        return None
    seconds, end = 0.0, 0
    text = text.strip()
    while end < len(text):
        found = _PART.match(text, end)
        if not found:
            return None
        seconds += float(found[1]) * _SECONDS[found[2]]
        end = found.end()
        while end < len(text) and text[end] == " ":
            end += 1
    if not text or seconds > 100 * 366 * 86_400:
        return None
    return timedelta(seconds=seconds)
