"""``flo triggers add``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import click

from flo.engine import app
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import note, print_json, warn, write
from flo.engine.commands.services import span
from flo.engine.commands.sources import STDIN, json_argument, parse_shown, read_path, read_stdin
from flo.engine.commands.trigger_words import next_fires, standing, trigger_json
from flo.engine.errors import InputInvalid
from flo.engine.schedule.explaining import cautions
from flo.engine.schedule.schedules import read_schedule
from flo.engine.values import Json, JsonObject, kind_of

_FIELDS: Final = {
    "cron": "cron",
    "every": "every",
    "event_of": "workflow",
    "status": "status",
    "timezone": "timezone",
    "initial": "initialData",
    "misfire": "misfire",
    "grace_": "graceSeconds",
    "overlap": "overlap",
    "jitter": "jitterSeconds",
    "start_at": "startAt",
    "end_at": "endAt",
    "queue": "queue",
    "priority": "priority",
}
"""The options that are fields of the trigger's config."""

_OF_SCHEDULES: Final = ("timezone", "misfire", "grace_", "overlap", "jitter", "start_at", "end_at")


@click.command(short_help="Add a trigger to a stored workflow.")
@click.argument("workflow")
@click.option("--name", metavar="NAME", help="Its name, unlike that of the workflow's others. Default: its type.")
@click.option("--cron", metavar="EXPRESSION", help="At times of the clock: five fields, or @daily and its kin.")
@click.option("--every", metavar="DURATION", help="At a real interval: 30s, 65m, 12h.")
@click.option("--event-of", metavar="WORKFLOW", help="When an execution of this workflow has ended.")
@click.option("--status", metavar="STATUS", multiple=True, help="With --event-of: only if it ended so. Several times.")
@click.option("--file", metavar="FILE|-", help="The trigger as JSON, as it would stand in a workflow's 'triggers'.")
@click.option("--timezone", metavar="ZONE", help="Whose clock --cron goes by: an IANA name. Default: UTC.")
@click.option("--initial", metavar="JSON|@FILE|-", help="'initialData': merged over 'initial', resolved at the fire.")
@click.option("--misfire", type=click.Choice(["once", "skip", "all"]), help="What of missed slots is caught up.")
@click.option("--grace", "grace_", type=span, metavar="SECONDS", help="Missed slots are caught up for so long.")
@click.option(
    "--overlap", type=click.Choice(["allow", "skip", "queue"]), help="What happens while its last run is unfinished."
)
@click.option("--jitter", type=span, metavar="SECONDS", help="Fires are spread over so long after their slots.")
@click.option("--start-at", metavar="INSTANT", help="No slot before it, such as 2030-01-31T09:00:00Z.")
@click.option("--end-at", metavar="INSTANT", help="No slot after it.")
@click.option("--queue", metavar="NAME", help="The queue that it fires into. Default: default.")
@click.option("--priority", type=int, metavar="N", help="Higher comes first.")
@click.option("--disabled", is_flag=True, help="Add it switched off.")
@store_option
@steps_option
@json_option
def add(
    workflow: str,
    name: str | None,
    file: str | None,
    disabled: bool,
    store: str | None,
    steps: tuple[str, ...],
    as_json: bool,
    **config: Any,
) -> None:
    """Add a trigger to a stored workflow: one of --cron, --every, --event-of and --file.

    It stays when the workflow is stored anew, and counts from now on. Its name is printed, and when it fires next; with
    --json what 'flo triggers list' says of it. A trigger that means nothing ends with 3, and every problem is told.
    """
    given = {option: value for option, value in config.items() if value not in (None, ())}
    wanted = _from_options(given) if file is None else _from_file(file, given)
    if name is not None:
        wanted = {**wanted, "name": name}
    if disabled:
        wanted = {**wanted, "enabled": False}
    with app.open(store, steps=steps) as engine:
        added = engine.triggers.add(workflow, wanted)
        now = engine.data.now()
        following = next_fires(engine.triggers, added, now)
        if added.kind == "schedule":
            schedule = read_schedule(added.config)
            for caution in cautions(schedule.cron, schedule.zone, now) if schedule.cron else ():
                warn(caution)
    if as_json:
        print_json(trigger_json(added, following, None))
    else:
        write(f"{added.full_name}\n")
        note(f"{added.full_name!r} {standing(added, following)}")


def _from_options(given: Mapping[str, Any]) -> JsonObject:
    """The trigger that the options say, as a document would. What they mean is checked as one of a document is."""
    kinds = [option for option in ("cron", "every", "event_of") if option in given]
    if len(kinds) != 1:
        raise click.UsageError("give one of --cron, --every, --event-of and --file")
    kind, others = ("event", _OF_SCHEDULES) if kinds == ["event_of"] else ("schedule", ("status",))
    for option in others:
        if option in given:
            with_it = "--event-of" if kind == "schedule" else "--cron or --every"
            raise click.UsageError(f"{_spelled(option)} goes with {with_it}")
    config = {_FIELDS[option]: _value(option, value) for option, value in given.items()}
    return {"type": kind, "config": {kind: config}}


def _value(option: str, value: Any) -> Json:
    """An option's value as a document writes it."""
    match value:
        case timedelta():
            seconds = value.total_seconds()
            return int(seconds) if seconds.is_integer() else seconds
        case tuple():
            return list(value)
        case str() if option == "initial":
            return json_argument(value, "--initial")
        case _:
            found: Json = value
            return found


def _from_file(file: str, given: Mapping[str, Any]) -> JsonObject:
    if given:
        raise click.UsageError(f"--file says all of the trigger; leave out {', '.join(map(_spelled, given))}")
    data, source = (read_stdin(), "standard input") if file == STDIN else (read_path(file), file)
    wanted = parse_shown(data, source)
    if not isinstance(wanted, dict):
        raise InputInvalid(source, f"a trigger is an object, {kind_of(wanted)} came")
    return wanted


def _spelled(option: str) -> str:
    return f"--{option.rstrip('_').replace('_', '-')}"
