"""Filters on dates: formats, moves, time zones."""

from __future__ import annotations

from datetime import datetime

from flo.engine.instants import parse_duration
from flo.engine.language.dates import find_zone, format_date, move, read_date, require_date, shift, write_date
from flo.engine.language.operators import written
from flo.engine.values import Json, kind_of, shown


def date(value: Json, form: Json) -> Json:
    """Write a date by a format such as ``%Y-%m-%d``; what is no date comes back as it is."""
    found = read_date(value)
    layout = written(form)
    return value if found is None or not layout else format_date(found, layout)


def date_add(value: Json, amount: Json, unit: Json = None) -> Json:
    """Move a date forward: by a duration (``"1h 30m"``), or by a number and a unit (``3, "months"``)."""
    return _moved(value, amount, unit, 1)


def date_sub(value: Json, amount: Json, unit: Json = None) -> Json:
    """Move a date back: by a duration (``"1h 30m"``), or by a number and a unit (``3, "months"``)."""
    return _moved(value, amount, unit, -1)


def _moved(value: Json, amount: Json, unit: Json, sign: int) -> Json:
    moment = require_date(value, shown(value))
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        if not isinstance(unit, str):
            raise ValueError(f'{shown(amount)} needs a unit: {shown(amount)}, "minutes"')
        return write_date(shift(moment, sign * amount, unit.strip()))
    if unit is not None:
        raise ValueError(f"a unit goes with a number, not with {kind_of(amount)}")
    duration = parse_duration(amount)
    if duration is None:
        raise ValueError(f'{shown(amount)} is no duration; write it like "5m", "1h 30m" or "2d"')
    return write_date(move(moment, lambda: sign * duration))


def to_timezone(value: Json, zone: Json) -> Json:
    """Give a date the offset that a time zone (``Europe/Paris``) has at that instant."""
    return write_date(_in_zone(require_date(value, shown(value)), zone))


def start_of_day(value: Json, zone: Json = None) -> Json:
    """Give the first instant of a date's day: in a time zone if one is named, else at the date's own offset."""
    moment = require_date(value, shown(value))
    if zone is not None:
        moment = _in_zone(moment, zone)
    return write_date(moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0))


def _in_zone(moment: datetime, zone: Json) -> datetime:
    try:
        return moment.astimezone(find_zone(zone))
    except OverflowError:
        raise ValueError("the date would lie outside the years 1 to 9999") from None
