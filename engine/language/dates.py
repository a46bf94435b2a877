"""Dates in templates: read as people and machines write them, written by a format, moved by calendar units.

A date is an aware time. It keeps the offset it was written with; text without one is UTC.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final

from flo.engine.errors import did_you_mean
from flo.engine.instants import write_instant
from flo.engine.values import Json

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NUMBERS: Final = {
    spelling: number
    for number, name in enumerate(_MONTHS, 1)
    for spelling in (name.lower(), name[:3].lower(), name[:4].lower())
}

_TIME = (
    r"(?:(?:[Tt]|,?\ +)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?"
    r"\ *(?P<half>[AaPp][Mm])?\ *(?P<zone>[Zz]|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
)
_DAY_NAME = rf"(?:(?:{'|'.join(name[:3] + '(?:' + name[3:] + ')?' for name in _DAYS)}),?\ +)?"
_FORMS: Final = (
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
    _DAY_NAME + r"(?P<name>[a-z]{3,9})\.?\ +(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\ +(?P<year>\d{4})",
    _DAY_NAME + r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[\ -](?P<name>[a-z]{3,9})\.?,?[\ -](?P<year>\d{4})",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TEXT: Final = re.compile(r"\d{1,12}", re.ASCII)
_LONGEST_DATE: Final = 80
_LONGEST_FORMAT: Final = 1000
_WIDEST: Final = 100


def read_date(value: Json) -> datetime | None:
    """Read a date: ISO 8601, ``March 14, 2016``, ``14 Mar 2016 10:00``, seconds since 1970 as a number or as digits,
    and ``now`` or ``today`` for the moment of reading. None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _since_epoch(value)
    if not isinstance(value, str) or len(value) > _LONGEST_DATE:
        return None
    text = value.strip()
    if text.lower() in ("now", "today"):
        return datetime.now(UTC)
    if _EPOCH_TEXT.fullmatch(text):
        return _since_epoch(int(text))
    for form in _forms():
        if found := form.fullmatch(text):
            return _from_parts(found.groupdict())
    return None


@cache
def _forms() -> Sequence[re.Pattern[str]]:
    """Compiled when the first date is read: most runs read none."""
    return [re.compile(pattern + _TIME, re.ASCII | re.IGNORECASE) for pattern in _FORMS]


def _since_epoch(seconds: float) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def _from_parts(parts: dict[str, str | None]) -> datetime | None:
    name = parts.get("name")
    month = _MONTH_NUMBERS.get(name.lower(), 0) if name else int(parts["month"] or 0)
    hour, half = int(parts["hour"] or 0), (parts["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        return datetime(
            int(parts["year"] or 0), month, int(parts["day"] or 0), hour, int(parts["minute"] or 0),
            int(parts["second"] or 0), int((parts["fraction"] or "")[:6].ljust(6, "0")), _offset(parts["zone"]),
        )  # fmt: skip
    except ValueError:
        return None


def _offset(text: str | None) -> tzinfo:
    if text is None or text[0] not in "+-":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError("no such offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset) if offset else UTC


def require_date(value: Json, shown_value: str) -> datetime:
    """Read a date, or raise ``ValueError``."""
    found = read_date(value)
    if found is None:
        raise ValueError(f"{shown_value} is no date; write it like 2026-01-31T10:00:00Z")
    return found


def find_zone(name: Json) -> tzinfo:
    """Find a time zone by its IANA name; raises ``ValueError`` that names the nearest one."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    if not isinstance(name, str):
        raise ValueError("a time zone is named by text such as 'Europe/Paris'")
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"no time zone {name!r}{did_you_mean(name, available_timezones())}") from None


def write_date(moment: datetime) -> str:
    """Write a date as RFC 3339 with microseconds: ``Z`` at UTC, else with its offset in whole minutes."""
    offset = moment.utcoffset()
    if not offset:
        return write_instant(moment)
    minutes = round(offset / timedelta(minutes=1))
    return moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat(timespec="microseconds")


_UNITS: Final = {
    "millisecond": timedelta(milliseconds=1), "second": timedelta(seconds=1), "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1),
}  # fmt: skip
_MONTHS_IN: Final = {"month": 1, "quarter": 3, "year": 12}
_SHORT: Final = {"ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "y": "year"}


def shift(moment: datetime, count: float, unit: str) -> datetime:
    """Move a date by a number of units. Months and years keep the day, or take the month's last one."""
    name = _SHORT.get(unit, unit.lower().removesuffix("s"))
    if name in _UNITS:
        return move(moment, lambda: count * _UNITS[name])
    if name not in _MONTHS_IN:
        known = [*_UNITS, *_MONTHS_IN]
        raise ValueError(f"no unit {unit!r}{did_you_mean(name, known)}; units are {', '.join(known)}")
    if count != int(count):
        raise ValueError(f"{name}s are counted in whole numbers, not {count}")
    index = moment.year * 12 + moment.month - 1 + int(count) * _MONTHS_IN[name]
    year, month = index // 12, index % 12 + 1
    if not 1 <= year <= 9999:
        raise ValueError("the date would lie outside the years 1 to 9999")
    return moment.replace(year=year, month=month, day=min(moment.day, monthrange(year, month)[1]))


def move(moment: datetime, step: Callable[[], timedelta]) -> datetime:
    """Move a date by elapsed time."""
    try:
        return moment + step()
    except (OverflowError, ValueError):
        raise ValueError("the date would lie outside the years 1 to 9999") from None


_DIRECTIVE: Final = re.compile(r"%(?P<flags>[-0_^#]*)(?P<width>\d*)(?P<colons>:{0,2})(?P<letter>[A-Za-z%+])")
_NUMBERS: Final[dict[str, tuple[Callable[[datetime], int], int, str]]] = {
    "Y": (lambda t: t.year, 4, "0"),
    "C": (lambda t: t.year // 100, 2, "0"),
    "y": (lambda t: t.year % 100, 2, "0"),
    "m": (lambda t: t.month, 2, "0"),
    "d": (lambda t: t.day, 2, "0"),
    "e": (lambda t: t.day, 2, " "),
    "j": (lambda t: t.timetuple().tm_yday, 3, "0"),
    "H": (lambda t: t.hour, 2, "0"),
    "k": (lambda t: t.hour, 2, " "),
    "I": (lambda t: (t.hour + 11) % 12 + 1, 2, "0"),
    "l": (lambda t: (t.hour + 11) % 12 + 1, 2, " "),
    "M": (lambda t: t.minute, 2, "0"),
    "S": (lambda t: t.second, 2, "0"),
    "s": (lambda t: (t - _EPOCH) // timedelta(seconds=1), 1, "0"),
    "u": (lambda t: t.isoweekday(), 1, "0"),
    "w": (lambda t: t.isoweekday() % 7, 1, "0"),
    "G": (lambda t: t.isocalendar()[0], 4, "0"),
    "g": (lambda t: t.isocalendar()[0] % 100, 2, "0"),
    "V": (lambda t: t.isocalendar()[1], 2, "0"),
    "U": (lambda t: _week_of_year(t, first_day=6), 2, "0"),
    "W": (lambda t: _week_of_year(t, first_day=0), 2, "0"),
}
_TEXTS: Final[dict[str, Callable[[datetime], str]]] = {
    "A": lambda t: _DAYS[t.weekday()],
    "a": lambda t: _DAYS[t.weekday()][:3],
    "B": lambda t: _MONTHS[t.month - 1],
    "b": lambda t: _MONTHS[t.month - 1][:3],
    "h": lambda t: _MONTHS[t.month - 1][:3],
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "P": lambda t: "am" if t.hour < 12 else "pm",
    "Z": lambda t: _offset_text(t, ":") if t.utcoffset() else "UTC",
    "n": lambda t: "\n",
    "t": lambda t: "\t",
    "%": lambda t: "%",
}
_COMPOSED: Final = {
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "v": "%e-%^b-%Y",
    "X": "%H:%M:%S",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "+": "%a %b %e %H:%M:%S %Z %Y",
}


def format_date(moment: datetime, form: str) -> str:
    """Write a date by a format of ``strftime``: the directives and flags (``-`` ``0`` ``_`` ``^`` ``#``) of Ruby's, in
    English whatever the locale. A directive that does not exist stays as it is."""
    if len(form) > _LONGEST_FORMAT:
        raise ValueError(f"a date format has at most {_LONGEST_FORMAT:,} characters")
    return _DIRECTIVE.sub(lambda found: _directive(moment, found), form)


def _directive(moment: datetime, found: re.Match[str]) -> str:
    flags, letter, colons = found["flags"], found["letter"], found["colons"]
    width = min(int(found["width"][:4] or 0), _WIDEST)
    if letter == "z":
        return _offset_text(moment, colons)
    if colons:
        return found[0]
    if letter in _NUMBERS:
        number, digits, fill = _NUMBERS[letter]
        return _padded(str(number(moment)), flags, width or digits, fill)
    if letter in ("L", "N"):
        places = width or (3 if letter == "L" else 9)
        return f"{moment.microsecond:06d}".ljust(places, "0")[:places]
    if letter in _COMPOSED:
        text = _DIRECTIVE.sub(lambda inner: _directive(moment, inner), _COMPOSED[letter])
    elif letter in _TEXTS:
        text = _TEXTS[letter](moment)
    else:
        return found[0]
    if "^" in flags:
        text = text.upper()
    if "#" in flags:
        text = text.lower() if letter == "p" else text.upper()
    return text.rjust(width, "0" if "0" in flags else " ")


def _padded(digits: str, flags: str, width: int, fill: str) -> str:
    if "-" in flags:
        return digits
    if "0" in flags:
        return digits.zfill(width)
    if "_" in flags:
        return digits.rjust(width)
    return digits.zfill(width) if fill == "0" else digits.rjust(width)


def _offset_text(moment: datetime, colons: str) -> str:
    seconds = round((moment.utcoffset() or timedelta()).total_seconds())
    sign, seconds = "-" if seconds < 0 else "+", abs(seconds)
    mark = ":" if colons else ""
    text = f"{sign}{seconds // 3600:02d}{mark}{seconds // 60 % 60:02d}"
    return f"{text}:{seconds % 60:02d}" if colons == "::" else text


def _week_of_year(moment: datetime, first_day: int) -> int:
    """The week of the year, where weeks start at ``first_day`` (0: Monday) and days before the first one are in week
    0."""
    day = moment.timetuple().tm_yday
    january = date(moment.year, 1, 1).weekday()
    return (day - 1 + (january - first_day) % 7) // 7 if january != first_day else (day - 1) // 7 + 1
