"""Options that several commands have, and the kinds of value that they take."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from flo.engine.instants import parse_duration, parse_instant

store_option = click.option(
    "--store",
    metavar="URL",
    help="The store: sqlite:PATH, postgresql://USER:PASSWORD@HOST/DATABASE or memory:. "
    "Default: FLO_STORE from the environment, else sqlite:.flo/flo.sqlite.",
)
steps_option = click.option(
    "--steps",
    metavar="FILE|MODULE",
    multiple=True,
    help="A Python file or module with more step types, besides those of FLO_STEPS. May be given several times.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
json_anyway_option = click.option(
    "--json", is_flag=True, expose_value=False, help="Nothing changes: it is JSON anyway."
)


def duration(value: str) -> timedelta:
    """Read an option: seconds as a number, or a duration such as 90s or 5m."""
    found = parse_duration(value) or parse_duration(f"{value}s")
    if not found:
        raise click.BadParameter(f"{value!r} is no duration above zero; write seconds, or 250ms, 90s, 5m, 2h")
    return found


def instant(value: str) -> datetime:
    """Read an option: an RFC 3339 instant."""
    found = parse_instant(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no instant with a zone; write 2030-01-31T09:00:00Z or …T09:00:00+01:00")
    return found
