"""``flo env``: environments, wherever their values lie, and the encrypted table of the store."""

from __future__ import annotations

from typing import Final

import click

from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, write
from flo.engine.commands.setup import (
    asked,
    cell,
    nothing_removed,
    opened_setup,
    secret_json,
    warn_if_hidden,
    warn_of_argument,
    warn_of_problems,
)
from flo.engine.commands.sources import json_argument, text_argument
from flo.engine.environments.entries import DEFAULT
from flo.engine.environments.keyring import no_key
from flo.engine.environments.marking import is_secret
from flo.engine.environments.reading import read_discreetly
from flo.engine.environments.table import Rotated, keep, rotate
from flo.engine.errors import NotFound
from flo.engine.sealing import SealBroken, new_key
from flo.engine.stores.settings import SettingStore
from flo.engine.values import Json

_STILL_SEALED: Final = (
    "executions hold secrets that were sealed when they began or waited: keep the old keys behind the first until the"
    " executions that are under way have ended, and dead jobs are run anew or removed"
)


@click.group(cls=CommandGroup)
def env() -> None:
    """Environments: the values that workflows read from $env."""


@env.command("list", short_help="List the environments, and where their values come from.")
@store_option
@json_option
def list_environments(store: str | None, as_json: bool) -> None:
    """List the environments and their values, *** for what is secret, and where each value comes from: a variable of
    the process, the settings file, or the store. What cannot be had is told on standard error."""
    with opened_setup(store) as setup:
        found = {name: setup.environments.describe(name) for name in setup.environments.known()}
    if not found[DEFAULT]:
        del found[DEFAULT]
    for values in found.values():
        warn_of_problems(values)
    if as_json:
        print_json_list(
            {"name": name, "values": [value.as_json() for value in values]} for name, values in found.items()
        )
    elif found:
        rows = [(name, value.name, cell(value), value.origin) for name, values in found.items() for value in values]
        rows += [(name, "-", "-", "-") for name, values in found.items() if not values]
        print_table(("ENVIRONMENT", "NAME", "VALUE", "SOURCE"), sorted(rows))
    else:
        note("no environment is set up; 'flo env set' stores a value, docs/environments.md tells of other ways")


@env.command(short_help="Print the values of an environment.")
@click.argument("name")
@store_option
@json_option
def show(name: str, store: str | None, as_json: bool) -> int:
    """Print the values of an environment as a run gets them, *** for what is secret, and where each comes from. Ends
    with 1 where one of them cannot be had."""
    with opened_setup(store) as setup:
        found = setup.environments.describe(name)
    problems = warn_of_problems(found)
    if as_json:
        print_json({"name": name, "values": [value.as_json() for value in found]})
    elif found:
        print_table(("NAME", "VALUE", "SOURCE"), [(value.name, cell(value), value.origin) for value in found])
    else:
        note(f"environment {name!r} has no values")
    return 1 if problems else 0


@env.command("set", short_help="Seal a value and store it.")
@click.argument("name")
@click.argument("key")
@click.argument("value", metavar="VALUE|@FILE|-", required=False)
@click.option("--plain", is_flag=True, help="It is no secret: logs and lists may show it.")
@click.option("--json-value", is_flag=True, help="The value is JSON, not text.")
@store_option
@json_option
def set_value(
    name: str, key: str, value: str | None, plain: bool, json_value: bool, store: str | None, as_json: bool
) -> None:
    """Seal a value of an environment and store it. It is secret unless --plain says otherwise, and the store holds it
    sealed in any case.

    Without a value, it is asked for on the terminal, where it is not shown. '-' reads it from standard input, @FILE
    from a file; the line break at the end is not part of it. Sealing takes a master key: FLO_MASTER_KEY, or for an
    embedded store a file beside it, which is made when it is first needed.
    """
    if not plain:
        warn_of_argument(value)
    raw = _raw(value, key, plain, json_value)
    with opened_setup(store) as setup:
        warn_if_hidden(setup, "environment", name, key)
        keep(setup.table, setup.keyring, "environment", name, key, raw)
    if as_json:
        print_json({"environment": name, "name": key, "secret": is_secret(raw)})
    else:
        note(f"{key!r} of environment {name!r} is stored, sealed")


def _raw(value: str | None, key: str, plain: bool, json_value: bool) -> Json:
    """The value as it is kept. What is typed on the terminal is taken as it stands."""
    raw: Json
    if value is None:
        typed = asked(key, hidden=not plain)
        raw = read_discreetly(typed, "the value")[0] if json_value else typed
    elif json_value:
        raw = json_argument(value, "the value") if plain else secret_json(value, "the value")
    else:
        raw = text_argument(value, "the value")
    return raw if plain or is_secret(raw) else {"secret": raw}


@env.command(short_help="Remove a value, or an environment, from the store.")
@click.argument("name")
@click.argument("key", required=False)
@store_option
@json_option
def delete(name: str, key: str | None, store: str | None, as_json: bool) -> None:
    """Remove a value of an environment from the store; without a key all values that the store has of it."""
    with opened_setup(store) as setup:
        count = setup.table.remove("environment", name, key)
        if not count:
            elsewhere = None if key is None else nothing_removed(setup, "environment", name, key)
            raise elsewhere or _not_stored(setup.table, name, key)
    if as_json:
        print_json({"deleted": count})
    else:
        note(f"{count:,} {'value' if count == 1 else 'values'} removed")


def _not_stored(table: SettingStore, name: str, key: str | None) -> NotFound:
    """The store has no such environment, or no such value of it; names the nearest that it has."""
    rows = table.find("environment")
    if key is None or all(row.owner != name for row in rows):
        return NotFound("stored environment", name, {row.owner for row in rows})
    return NotFound("stored value", f"{name} {key}", [f"{row.owner} {row.name}" for row in rows])


@env.command(short_help="Print a new master key.")
@json_option
def key(as_json: bool) -> None:
    """Print a new master key, for FLO_MASTER_KEY. Nothing is stored: keep it where you keep passwords."""
    made = new_key()
    if as_json:
        print_json({"key": made})
    else:
        write(f"{made}\n")


@env.command("rotate", short_help="Seal everything anew with the first master key.")
@store_option
@json_option
def rotate_keys(store: str | None, as_json: bool) -> None:
    """Seal everything that is set up in the store anew with the first master key. To change keys: put the new one
    first, wherever workflows run (FLO_MASTER_KEY=NEW,OLD, or the first line of the key file); rotate; take the old one
    away once the executions that were under way have ended, which hold secrets that it sealed.

    Others may read and write meanwhile. Where something cannot be opened nothing is changed. It can be run again.
    """
    with opened_setup(store) as setup:
        keys = setup.keyring.find()
        if keys is not None:
            rotated = rotate(setup.table, keys)
        elif setup.table.find("environment") or setup.table.find("connection"):
            raise SealBroken("what is in the store", no_key(setup.keyring.key_file))
        else:
            rotated = Rotated(0, 0)
    if as_json:
        print_json({"sealedAnew": rotated.anew, "current": rotated.current})
    else:
        note(f"sealed anew: {rotated.anew:,}; sealed with the first key already: {rotated.current:,}")
    if keys is not None:
        note(_STILL_SEALED)
