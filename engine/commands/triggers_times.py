"""``flo triggers next`` and ``explain``: what a schedule means. An expression opens no store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

import click

from flo.engine.clock import Clock, SystemClock
from flo.engine.commands.options import instant, json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, warn, write
from flo.engine.commands.trigger_words import print_times, times_json
from flo.engine.frozen import frozen
from flo.engine.instants import parse_duration, write_instant
from flo.engine.schedule.crontab import parse_cron
from flo.engine.schedule.explaining import cautions
from flo.engine.schedule.explaining import explain as explain_cron
from flo.engine.schedule.schedules import Schedule, read_interval, read_schedule
from flo.engine.schedule.zones import parse_zone

_EXPLAINED: Final = 3
_UNITS: Final = (("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1)), ("second", timedelta(seconds=1)))

_EARLIEST: Final = datetime(1000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Further out some zones' clocks are out of what a date can be."""


def start_instant(value: str) -> datetime:
    """Read an option: an instant that has slots after it."""
    found = instant(value)
    if not _EARLIEST <= found <= _LATEST:
        raise click.BadParameter(f"{value!r} is out of range, expected an instant of the years 1000 to 9000")
    return found


_timezone_option = click.option(
    "--timezone",
    metavar="ZONE",
    help="An IANA name. Of an expression: whose clock it goes by, UTC by default. Of a trigger: in which it is shown.",
)


@click.command("next", short_help="Print when a schedule fires next.")
@click.argument("what", metavar="NAME|EXPRESSION")
@_timezone_option
@click.option("--from", "start", type=start_instant, metavar="INSTANT", help="After this instant. Default: now.")
@click.option(
    "-n",
    "count",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=5,
    show_default=True,
    help="So many, if there are.",
)
@store_option
@json_option
def next_times(
    what: str, timezone: str | None, start: datetime | None, count: int, store: str | None, as_json: bool
) -> None:
    """Print when a schedule fires next, in its zone and in UTC; with --json an array of {local, utc}.

    An EXPRESSION is a cron line ('0 9 * * mon-fri', @daily) or an interval ('65m', counted from --from); no store is
    opened for it. A NAME is that of a trigger, whether it is on or off. 'jitterSeconds' is not in these times.
    """
    zone = None if timezone is None else parse_zone(timezone)
    asked = _ask(what, zone, start, count, store, SystemClock())
    if as_json:
        print_json_list(times_json(asked.slots, asked.shown_in))
    else:
        _print(asked)


@click.command(short_help="Say a schedule in words, and what may surprise.")
@click.argument("what", metavar="NAME|EXPRESSION")
@_timezone_option
@store_option
@json_option
def explain(what: str, timezone: str | None, store: str | None, as_json: bool) -> None:
    """Say a schedule in words, and its next three times; and warn of what may surprise: steps that do not divide the
    hour, days that not every month has, times that a change of the clock leaves out or repeats.

    With --json one object: expression, timezone, text, cautions, next. NAME and EXPRESSION are those of 'flo triggers
    next'.
    """
    zone = None if timezone is None else parse_zone(timezone)
    clock = SystemClock()
    asked = _ask(what, zone, None, _EXPLAINED, store, clock)
    text, cautioned = worded(asked), cautions_of(asked, clock)
    if as_json:
        print_json(
            {
                "expression": asked.expression,
                "timezone": asked.schedule.zone.key,
                "text": text,
                "cautions": list(cautioned),
                "next": times_json(asked.slots, asked.shown_in),
            }
        )
        return
    write(f"{text}\n")
    _print(asked)
    for caution in cautioned:
        warn(caution)


@frozen
class Asked:
    """A schedule that was asked about, and its next slots.

    ``counted_from`` is what its intervals are counted from, None where it is no trigger's yet. ``shown_in`` is the zone
    in which its slots are shown.
    """

    expression: str
    schedule: Schedule
    counted_from: datetime | None
    shown_in: ZoneInfo
    slots: Sequence[datetime]


def of_expression(text: str, zone: ZoneInfo, start: datetime, count: int) -> Asked:
    """A cron line, or an interval that is counted from ``start``. Raises ``CronInvalid``, ``ScheduleInvalid``."""
    if parse_duration(text) is not None:
        schedule = Schedule(zone, every=read_interval(text))
    else:
        schedule = Schedule(zone, cron=parse_cron(text))
    return Asked(text, schedule, None, zone, list(islice(schedule.slots(start, start), count)))


def worded(asked: Asked) -> str:
    """A schedule in words."""
    schedule = asked.schedule
    if schedule.cron is not None:
        return explain_cron(schedule.cron)
    assert schedule.every is not None
    start = "the moment it is added" if asked.counted_from is None else write_instant(asked.counted_from)
    return f"every {_interval(schedule.every)}, counted from {start}"


def cautions_of(asked: Asked, clock: Clock) -> Sequence[str]:
    """What of it may surprise; changes of the clock are those of the coming two years."""
    cron = asked.schedule.cron
    return () if cron is None else cautions(cron, asked.schedule.zone, clock.now())


def is_expression(text: str) -> bool:
    """Whether a text means a cron line or an interval; else it is a name, which may have blanks."""
    words = text.split()
    return (
        parse_duration(text) is not None
        or not words
        or "*" in text
        or text.startswith("@")
        or (len(words) > 1 and (words[0][0].isdigit() or len(words) in (5, 6)))
    )


def _ask(
    what: str, zone: ZoneInfo | None, start: datetime | None, count: int, store: str | None, clock: Clock
) -> Asked:
    if is_expression(what):
        return of_expression(what, zone or parse_zone("UTC"), start or clock.now(), count)
    from flo.engine import app  # an expression does without, and is there at once

    with app.open(store) as engine:
        trigger = engine.triggers.find(what)
        slots = engine.triggers.coming(trigger, start=start, count=count)
    schedule = read_schedule(trigger.config)
    expression = trigger.config["every" if schedule.cron is None else "cron"]
    counted_from = schedule.start_at or trigger.anchor
    return Asked(str(expression), schedule, counted_from, zone or schedule.zone, slots)


def _print(asked: Asked) -> None:
    if asked.slots:
        print_times(asked.slots, asked.shown_in)
    else:
        note("it does not fire any more")


def _interval(every: timedelta) -> str:
    """An interval in the largest unit that divides it: ``65 minutes``, ``24 hours``, ``1.5 seconds``."""
    for unit, length in _UNITS:
        if not every % length:
            return f"{every // length:,} {unit}s" if every != length else unit
    return f"{every / timedelta(seconds=1):g} seconds"
