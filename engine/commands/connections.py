"""``flo connections``: how steps reach other services, wherever it is written."""

from __future__ import annotations

from collections.abc import Mapping

import click

from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table
from flo.engine.commands.setup import (
    nothing_removed,
    opened_setup,
    secret_json,
    warn_if_hidden,
    warn_of_argument,
    warn_of_problems,
    worded,
)
from flo.engine.environments.loading import Described
from flo.engine.environments.table import keep
from flo.engine.errors import NotFound


@click.group(cls=CommandGroup)
def connections() -> None:
    """Connections: how steps reach other services."""


@connections.command("list", short_help="List the connections, and where they come from.")
@store_option
@json_option
def list_connections(store: str | None, as_json: bool) -> None:
    """List the connections as they were written, *** for what is secret, and where each comes from: a variable of the
    process, the settings file, or the store. What cannot be had is told on standard error."""
    with opened_setup(store) as setup:
        found = setup.environments.describe_connections()
    warn_of_problems(found)
    if as_json:
        print_json_list(each.as_json() for each in found)
    elif found:
        print_table(("NAME", "TYPE", "BASE URL", "SOURCE"), [_row(each) for each in found])
    else:
        note("there are no connections; 'flo connections set' stores one, docs/environments.md tells of other ways")


@connections.command(short_help="Print a connection.")
@click.argument("name")
@store_option
@json_option
def show(name: str, store: str | None, as_json: bool) -> int:
    """Print a connection as it was written, *** for what is secret. With --json also where it comes from. Ends with 1
    where it cannot be had."""
    with opened_setup(store) as setup:
        known = {each.name: each for each in setup.environments.describe_connections()}
    if name not in known:
        raise NotFound("connection", name, known)
    problems = warn_of_problems([known[name]])
    if as_json or not problems:
        print_json(known[name].as_json() if as_json else known[name].value)
    return 1 if problems else 0


@connections.command("set", short_help="Seal a connection and store it.")
@click.argument("name")
@click.argument("value", metavar="JSON|@FILE|-")
@store_option
@json_option
def set_connection(name: str, value: str, store: str | None, as_json: bool) -> None:
    """Seal a connection and store it, in place of the one of that name. It is a JSON object, such as
    {"baseUrl": "https://api.example.com", "auth": {"type": "bearer", "token": "…"}}; all text in it is secret but that
    of "type", "baseUrl" and "description", and headers that every client sends.

    Sealing takes a master key, as for 'flo env set'.
    """
    warn_of_argument(value)
    raw = secret_json(value, "the connection")
    with opened_setup(store) as setup:
        warn_if_hidden(setup, "connection", name)
        keep(setup.table, setup.keyring, "connection", name, "", raw)
    if as_json:
        print_json({"name": name})
    else:
        note(f"connection {name!r} is stored, sealed")


@connections.command(short_help="Remove a connection from the store.")
@click.argument("name")
@store_option
@json_option
def delete(name: str, store: str | None, as_json: bool) -> None:
    """Remove a connection from the store."""
    with opened_setup(store) as setup:
        count = setup.table.remove("connection", name)
        if not count:
            known = [held.owner for held in setup.table.find("connection")]
            raise nothing_removed(setup, "connection", name) or NotFound("connection", name, known)
    if as_json:
        print_json({"deleted": count})
    else:
        note(f"connection {name!r} is removed")


def _row(described: Described) -> tuple[str, str, str, str]:
    held = described.value if isinstance(described.value, Mapping) else {}
    kind, base_url = (worded(held[key]) if key in held else "-" for key in ("type", "baseUrl"))
    return described.name, kind, base_url, described.origin
