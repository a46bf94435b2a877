"""Cron expressions, and the instants at which they fire in a zone, whatever its clocks do. ``crontab`` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from flo.engine.frozen import frozen

_SECOND: Final = timedelta(seconds=1)
_STRIDE: Final = timedelta(hours=12)
_MARGIN: Final = timedelta(days=2)


@frozen
class Entry:
    """One entry of a field's list: the values from ``first`` to ``last`` by ``step``; past 6, weekdays go on at 0.

    ``open`` says that no end was written (``*``, ``*/5``, ``7/10``). ``special`` is ``L`` or ``LW`` in day of month;
    in day of week it picks among the month's weekdays ``first``: ``last``, or ``1`` to ``5``.
    """

    first: int
    last: int
    step: int = 1
    open: bool = False
    special: str = ""


@frozen
class CronField:
    """A field as written, its entries, and the sorted values that its plain entries give (Sunday is 0)."""

    text: str
    entries: Sequence[Entry]
    values: Sequence[int]
    full: bool = False

    @property
    def starred(self) -> bool:
        """Whether it begins with ``*``, and so restricts nothing in the eyes of the other day field."""
        return self.text.startswith("*")

    @property
    def specials(self) -> Sequence[Entry]:
        """The entries that only a calendar can resolve."""
        return tuple(entry for entry in self.entries if entry.special)


@frozen
class Cron:
    """An expression, as written but for its blanks, its five fields, and the ``plain`` form that cronsim reads."""

    expression: str
    minute: CronField
    hour: CronField
    day_of_month: CronField
    month: CronField
    day_of_week: CronField
    plain: str

    @property
    def fixed(self) -> bool:
        """Whether it fires at fixed times of the wall clock: neither minute nor hour begins with ``*``."""
        return not (self.minute.starred or self.hour.starred)

    @property
    def either_day(self) -> bool:
        """Whether day of month or day of week is enough: both are restricted (crontab(5))."""
        return not (self.day_of_month.starred or self.day_of_week.starred)

    def calendar(self, local: datetime) -> CronSim:
        """The local times after ``local`` that it matches, without a zone; ends at the end of year 9999 with
        OverflowError."""
        return CronSim(self.plain, local)

    def after(self, instant: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """The instants after ``instant`` (aware) at which it fires: UTC, strictly rising, up to year 9999.

        A fixed time that a change of the clock leaves out fires at the change, one that it repeats fires the first
        time (as Debian's cron does). Other expressions fire in every real minute whose local reading matches.
        """
        if instant.tzinfo is None:
            raise ValueError("an aware instant is needed")
        start = instant.astimezone(UTC)
        calendar = self.calendar(_reading(start, zone))
        return _at_fixed_times(calendar, start, zone) if self.fixed else _in_real_minutes(calendar, start, zone)


def change_between(early: datetime, late: datetime, zone: ZoneInfo) -> datetime:
    """The second from which on the zone's offset is no longer that of ``early``, as it is not at ``late``."""
    offset = offset_at(early, zone)
    while late - early > _SECOND:
        middle = early + timedelta(seconds=(late - early) // _SECOND // 2)
        if offset_at(middle, zone) == offset:
            early = middle
        else:
            late = middle
    return late


def offset_at(instant: datetime, zone: ZoneInfo) -> timedelta:
    """What the zone's clocks are ahead of UTC at an instant."""
    return instant.astimezone(zone).utcoffset() or timedelta()


def _reading(instant: datetime, zone: ZoneInfo) -> datetime:
    """What the zone's clocks show at an instant."""
    return instant.astimezone(zone).replace(tzinfo=None)


def _at_fixed_times(calendar: CronSim, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    last = start
    with suppress(OverflowError):
        for local in calendar:
            instant = local.replace(tzinfo=zone).astimezone(UTC)  # the first of two, by the offset before a gap
            if _reading(instant, zone) != local:
                by_the_offset_after = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
                instant = change_between(by_the_offset_after, instant, zone)
                calendar.dt = _reading(instant, zone) - _SECOND  # the rest of the gap is this same instant
            if instant > last:
                last = instant
                yield instant


def _in_real_minutes(calendar: CronSim, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Goes from stretch to stretch of one offset, in which local times are instants moved by it."""
    moment = start.replace(microsecond=0) + _SECOND
    quiet_from = quiet_until = datetime.min  # the calendar has nothing between these: it is not searched again there
    with suppress(OverflowError):
        while True:
            offset = offset_at(moment, zone)
            local = moment.replace(tzinfo=None) + offset
            # The search begins early, since a clock that is set back shows again what has been.
            calendar.dt = local - _MARGIN
            near = next(calendar, None)
            if near is None:
                return
            if near - local > 2 * _MARGIN:
                moment += near - local - _MARGIN
                continue
            end = moment + _STRIDE
            if offset_at(end, zone) != offset:
                end = change_between(moment, end, zone)
            local_end, latest = end.replace(tzinfo=None) + offset, local - _SECOND
            if not (quiet_from <= latest and local_end <= quiet_until):
                calendar.dt = latest
                for match in calendar:
                    if match >= local_end:
                        quiet_from, quiet_until = latest, match
                        break
                    yield (match - offset).replace(tzinfo=UTC)
                    latest = match
            moment = end
