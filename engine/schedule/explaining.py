"""Cron expressions in words, and the traps that one falls into in a zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from flo.engine.schedule.cron import Cron, CronField, change_between, offset_at

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_SHORTER: Final = {29: (2,), 30: (2,), 31: (2, 4, 6, 9, 11)}
"""The months in which a day does not come, or not in every year."""

_MOST_TIMES: Final = 6
_STRIDE: Final = timedelta(hours=12)
_LOOKED_AHEAD: Final = timedelta(days=731)
_SECOND: Final = timedelta(seconds=1)


def explain(cron: Cron) -> str:
    """Say in English when an expression fires: ``at 02:30 on Monday to Friday``."""
    time, date = _time(cron), _date(cron)
    return f"{time} {date}" if date else time


def cautions(cron: Cron, zone: ZoneInfo, now: datetime | None = None) -> list[str]:
    """Say what of an expression may surprise; with ``now`` also which changes of the clock of the two years from then
    on it meets, by date."""
    changes = () if now is None else _clock_changes(cron, zone, now)
    return [*_uneven_steps(cron), *_missing_days(cron), *_either_day(cron), *changes]


def _time(cron: Cron) -> str:
    minute, hour = cron.minute, cron.hour
    if len(minute.values) * len(hour.values) <= _MOST_TIMES:
        times = [f"{h:02}:{m:02}" for h in hour.values for m in minute.values]
        return f"at {_joined(times)}"
    every = _even_step(minute)
    minutes = f"at {_counted('minute', minute)}"
    if every:
        minutes = "every minute" if every == 1 else f"every {every} minutes"
        return minutes if hour.full else f"{minutes} of {_counted('hour', hour)}"
    return f"{minutes} of every hour" if hour.full else f"{minutes} of {_counted('hour', hour)}"


def _date(cron: Cron) -> str:
    day, weekday = _day_of_month(cron.day_of_month), _day_of_week(cron.day_of_week)
    month = "" if cron.month.full else f"in {_listed(cron.month.values, lambda value: _MONTHS[value - 1])}"
    if cron.either_day:
        days = f"on {day or 'every day'}, or on {weekday or 'every day'}"
        return f"{days}, {month}" if month else days
    if day and weekday:
        days = f"on {day}, if that is {weekday}"
    elif day or weekday:
        days = f"on {day or weekday}"
    else:
        days = "every day" if month or len(cron.minute.values) * len(cron.hour.values) <= _MOST_TIMES else ""
    return f"{days} {month}".strip()


def _day_of_month(field: CronField) -> str:
    """Empty where every day will do."""
    if field.full:
        return ""
    names = {"L": "the last day", "LW": "the last weekday (Monday to Friday)"}
    plain = [_counted("day", field)] if field.values else []
    return f"{_joined([*plain, *(names[entry.special] for entry in field.specials)])} of the month"


def _day_of_week(field: CronField) -> str:
    """Empty where every day will do."""
    if field.full:
        return ""
    picked = [
        f"the {'last' if entry.special == 'last' else _ordinal(int(entry.special))} {_DAYS[entry.first]} of the month"
        for entry in field.specials
    ]
    plain = [_listed(_from_a_start(field.values), lambda value: _DAYS[value], 7)] if field.values else []
    return _joined([*plain, *picked])


def _uneven_steps(cron: Cron) -> Iterator[str]:
    for name, field, size, unit in (("minute", cron.minute, 60, "m"), ("hour", cron.hour, 24, "h")):
        for text, entry in zip(field.text.split(","), field.entries, strict=True):
            values = range(entry.first, entry.last + 1, entry.step)
            whole = entry.open or (entry.first == 0 and entry.last == size - 1)
            around = size - values[-1] + values[0]
            if whole and entry.step > 1 and around != entry.step:
                gaps = f"gaps of {entry.step} and {around} {name}s" if len(values) > 1 else f"gaps of {around} {name}s"
                yield (
                    f"{text!r} in {name} fires at {_counted(name, field, values)}: {gaps}; "
                    f'for a real interval write every: "{entry.step}{unit}"'
                )
    for text, entry in zip(cron.day_of_month.text.split(","), cron.day_of_month.entries, strict=True):
        if entry.open and entry.step > 1:
            values = range(entry.first, entry.last + 1, entry.step)
            yield (
                f"{text!r} in day of month starts again each month, on {_counted('day', cron.day_of_month, values)}; "
                f'for a real interval write every: "{entry.step}d"'
            )


def _missing_days(cron: Cron) -> Iterator[str]:
    """A range from below the 29th to the 31st means the rest of the month, and so does an open one."""
    written = [
        entry
        for entry in cron.day_of_month.entries
        if not (entry.special or entry.open or (entry.first < 29 and entry.last == 31))
    ]
    for day, shorter in _SHORTER.items():
        lacking = [_MONTHS[month - 1] for month in shorter if month in cron.month.values]
        if lacking and any(day in range(entry.first, entry.last + 1, entry.step) for entry in written):
            if day == 29:
                yield "day 29 of the month comes in February in leap years only; L is the last day of each month"
            else:
                yield f"day {day} of the month does not come in {_joined(lacking)}; L is the last day of each month"


def _either_day(cron: Cron) -> Iterator[str]:
    day, weekday = _day_of_month(cron.day_of_month), _day_of_week(cron.day_of_week)
    if cron.either_day:
        yield (
            f"day of month and day of week are both restricted, and either is enough: it fires "
            f"on {day or 'every day'}, or on {weekday or 'every day'}"
        )


def _clock_changes(cron: Cron, zone: ZoneInfo, now: datetime) -> Iterator[str]:
    """Those that fixed times, or wildcards within certain hours, are touched by."""
    if cron.hour.full and not cron.fixed:
        return
    for change in _changes(zone, now.astimezone(UTC)):
        before, after = offset_at(change - _SECOND, zone), offset_at(change, zone)
        first, end = sorted((change.replace(tzinfo=None) + before, change.replace(tzinfo=None) + after))
        touched = list(_between(cron, first, end))
        if not touched:
            continue
        times = _times(touched)
        many = len(touched) > 1
        if after > before:
            does = "do not exist" if many else "does not exist"
            at = f"{end:%H:%M}" if end.date() == touched[0].date() else f"{end:%Y-%m-%d %H:%M}"
            fires = f"it fires {'once, ' if many else ''}at {at}" if cron.fixed else "it does not fire then"
        else:
            does = "happen twice" if many else "happens twice"
            fires = "it fires the first time" if cron.fixed else "it fires both times"
        yield f"{times} {does} in {zone.key}: {fires}"


def _between(cron: Cron, first: datetime, end: datetime) -> Iterator[datetime]:
    """The local times from ``first`` up to before ``end`` that an expression matches."""
    for local in cron.calendar(first - _SECOND):
        if local >= end:
            return
        yield local


def _changes(zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """The instants at which the zone's offset changes."""
    moment, end = start.replace(microsecond=0), start + _LOOKED_AHEAD
    while moment < end:
        following = moment + _STRIDE
        if offset_at(moment, zone) != offset_at(following, zone):
            yield change_between(moment, following, zone)
        moment = following


def _times(touched: Sequence[datetime]) -> str:
    """The date of the first, and the times: all of few, or the first and the last."""
    first, last = touched[0], touched[-1]
    if len(touched) > 3:
        until = f"{last:%H:%M}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M}"
        return f"{first:%Y-%m-%d %H:%M} to {until}"
    return f"{first:%Y-%m-%d} {_joined([f'{local:%H:%M}' for local in touched])}"


def _even_step(field: CronField) -> int:
    """The minutes between any two times, from one hour to the next too; 0 where they differ or are an hour."""
    values = field.values
    steps = {later - earlier for earlier, later in pairwise([*values, values[0] + 60])}
    return steps.pop() if len(steps) == 1 and len(values) > 1 and not values[0] else 0


def _from_a_start(values: Sequence[int]) -> Sequence[int]:
    """Days of week from Monday on, or from the first of those that go over the week's end together."""
    ordered = sorted(values, key=lambda value: (value - 1) % 7)
    starts = [value for value in ordered if (value - 1) % 7 not in values]
    if starts and 0 in values and 1 in values:
        first = starts[-1]
        return sorted(values, key=lambda value: (value - first) % 7)
    return ordered


def _counted(noun: str, field: CronField, values: Sequence[int] | None = None) -> str:
    numbers = field.values if values is None else values
    return f"{noun}{'s' * (len(numbers) > 1)} {_listed(numbers, str)}"


def _listed(values: Sequence[int], name: Callable[[int], str], around: int = 0) -> str:
    """``1``, ``1 and 15``, ``9 to 17``, ``0, 5, 10 and so on to 55``: three and more in a row are a range.

    ``around`` is the number after which values begin again; 0: never.
    """
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > _MOST_TIMES and len(steps) == 1 and steps != {1}:
        return f"{_joined([name(value) for value in values[:3]], ', ')} and so on to {name(values[-1])}"
    runs: list[list[int]] = []
    for value in values:
        if runs and value - runs[-1][-1] in (1, 1 - around):
            runs[-1].append(value)
        else:
            runs.append([value])
    words: list[str] = []
    for run in runs:
        words += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else [name(value) for value in run]
    return _joined(words)


def _joined(words: Sequence[str], last: str = " and ") -> str:
    return last.join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"
