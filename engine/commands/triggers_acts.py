"""``flo triggers enable``, ``disable``, ``remove`` and ``fire``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from flo.engine import app
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, write
from flo.engine.commands.sources import object_argument
from flo.engine.commands.trigger_words import next_fires, standing, trigger_json
from flo.engine.triggers import Trigger


@click.command(short_help="Switch triggers on.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_option
@json_option
def enable(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Switch triggers on: they count from now, what they would have fired while they were off is not caught up."""
    with app.open(store) as engine:
        _each(engine, names, engine.triggers.enable, as_json)


@click.command(short_help="Switch triggers off.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_option
@json_option
def disable(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Switch triggers off, for every scheduler from this moment on. What they fired goes on."""
    with app.open(store) as engine:
        _each(engine, names, engine.triggers.disable, as_json)


@click.command(short_help="Remove triggers that were added by hand.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_option
@json_option
def remove(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Remove triggers that were added by 'flo triggers add'; what they fired stays. One that its workflow's document
    declares goes with it: take it out there, and 'flo add' the document again."""
    with app.open(store) as engine:
        removed = [engine.triggers.remove(held.id) for held in _found(engine, names)]
    if as_json:
        print_json_list(trigger_json(held, (), None) for held in removed)
    else:
        for held in removed:
            note(f"{held.full_name!r} is removed")


@click.command(short_help="Fire a trigger now.")
@click.argument("name")
@click.option("--input", "input_", metavar="JSON|@FILE|-", help="An object, merged over the trigger's 'initialData'.")
@store_option
@steps_option
@json_option
def fire(name: str, input_: str | None, store: str | None, steps: tuple[str, ...], as_json: bool) -> None:
    """Fire a trigger now, whatever its schedule, its 'overlap' and its switch say; its schedule goes on as before.

    The execution is put into the trigger's queue, for workers to run, and its id is printed. With --json: executionId,
    and how the slot is recorded: slot, outcome, at, scheduledAt, reason, error, passed, since.
    """
    initial = object_argument(input_, "--input")
    with app.open(store, steps=steps) as engine:
        trigger = engine.triggers.find(name)
        firing = engine.triggers.fire(trigger.id, initial)
    if as_json:
        print_json({"executionId": firing.execution_id, **firing.as_json()})
    else:
        write(f"{firing.execution_id}\n")
        note(f"{trigger.full_name!r} is fired; a worker will run it ('flo serve', 'flo worker')")


def _each(engine: app.Flo, names: Sequence[str], switch: Callable[[str], Trigger], as_json: bool) -> None:
    """Switch triggers, and tell how they stand then."""
    switched = [switch(held.id) for held in _found(engine, names)]
    now = engine.data.now()
    last = engine.triggers.last_firings() if as_json else {}
    stands = [(held, next_fires(engine.triggers, held, now), last.get(held.id)) for held in switched]
    if as_json:
        print_json_list(trigger_json(*one) for one in stands)
    else:
        for held, following, _ in stands:
            note(f"{held.full_name!r} {standing(held, following)}")


def _found(engine: app.Flo, names: Sequence[str]) -> Sequence[Trigger]:
    """All of them, before anything is done to the first; each once."""
    found = [engine.triggers.find(name) for name in names]
    return list({held.id: held for held in found}.values())
