"""``flo triggers list`` and ``show``: how triggers stand, and what became of their slots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import click

from flo.engine import app
from flo.engine.commands.options import json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, shown_text, write
from flo.engine.commands.trigger_words import (
    next_fires,
    print_times,
    standing,
    times_json,
    trigger_json,
    when,
    why_not,
)
from flo.engine.instants import write_instant
from flo.engine.schedule.schedules import read_schedule
from flo.engine.schedule.zones import parse_zone
from flo.engine.triggers import Firing, Trigger
from flo.engine.values import dump

_COMING: Final = 5


@click.command("list", short_help="List triggers, and when they fire next.")
@click.argument("workflow", required=False)
@store_option
@json_option
def list_triggers(workflow: str | None, store: str | None, as_json: bool) -> None:
    """List triggers, or those of one workflow: what fires each, whether it is on, when it fires next (UTC), and what
    became of its last slot.

    With --json an array: id, workflow, name, type, enabled, declared (its workflow's document has it), revision,
    config, next and last.
    """
    with app.open(store) as engine:
        found = engine.triggers.list(None if workflow is None else engine.stored(workflow).name)
        now, last = engine.data.now(), engine.triggers.last_firings()
        following = {held.id: next_fires(engine.triggers, held, now) for held in found}
    if as_json:
        print_json_list(trigger_json(held, following[held.id], last.get(held.id)) for held in found)
    elif found:
        rows = [_row(held, following[held.id], last.get(held.id)) for held in found]
        print_table(("NAME", "TYPE", "WHEN", "ENABLED", "NEXT", "LAST"), rows)
    else:
        note("there are no triggers; a workflow's 'triggers' declare them, 'flo triggers add' adds one")


@click.command(short_help="Show a trigger, and what became of its slots.")
@click.argument("name")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=10,
    show_default=True,
    help="So many of its last slots.",
)
@store_option
@json_option
def show(name: str, limit: int, store: str | None, as_json: bool) -> None:
    """Show a trigger: its config, whether it is on, the next five times at which it fires, and what became of its last
    slots: fired, with the execution; skipped, with the reason (overlap, misfire, disabled); failed, with the error.

    NAME is WORKFLOW/NAME, or its name, its workflow's or its id where only one is meant.
    """
    with app.open(store) as engine:
        trigger = engine.triggers.find(name)
        following = next_fires(engine.triggers, trigger, engine.data.now(), _COMING)
        firings = engine.triggers.firings(trigger.id, limit=limit)
    facts = trigger_json(trigger, following, firings[0] if firings else None)
    zone = read_schedule(trigger.config).zone if following else parse_zone("UTC")
    if as_json:
        coming, past = times_json(following, zone), [firing.as_json() for firing in firings]
        print_json({**facts, "coming": coming, "firings": past})
        return
    for fact, value in {**facts, "when": when(trigger)}.items():
        if fact not in ("next", "last"):
            write(f"{fact:<9} {shown_text(value if isinstance(value, str) else dump(value), ' ' * 10)}\n")
    if following:
        write("\nCOMING\n")
        print_times(following, zone)
    if firings:
        write("\nSLOTS\n")
        print_table(("OUTCOME", "SLOT", "AT", "EXECUTION", "WHY"), [_slot_row(firing) for firing in firings])
    note(f"{trigger.full_name!r} {standing(trigger, following)}")


def _row(trigger: Trigger, following: Sequence[datetime], last: Firing | None) -> tuple[str, ...]:
    return (
        trigger.full_name,
        trigger.kind,
        when(trigger),
        "yes" if trigger.enabled else "no",
        write_instant(following[0]) if following else "-",
        "-" if last is None else f"{last.outcome} {write_instant(last.at)}",
    )


def _slot_row(firing: Firing) -> tuple[str, ...]:
    return (
        firing.outcome,
        firing.slot if firing.scheduled_at is None else write_instant(firing.scheduled_at),
        write_instant(firing.at),
        firing.execution_id or "-",
        why_not(firing),
    )
