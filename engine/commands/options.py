"""Options that several commands have, and the kinds of value that they take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import click

from flo.engine.instants import parse_duration, parse_instant

Command = TypeVar("Command", bound=Callable[..., Any])
_STRICT: Final = "FLO_STRICT_PLUGINS"

store_option = click.option(
    "--store",
    metavar="URL",
    help="The store: sqlite:PATH, postgresql://USER:PASSWORD@HOST/DATABASE or memory:. "
    "Default: FLO_STORE from the environment, else sqlite:.flo/flo.sqlite.",
)
_steps_option = click.option(
    "--steps",
    metavar="FILE|MODULE",
    multiple=True,
    help="A Python file or module with more step types, besides those of FLO_STEPS. May be given several times.",
)


def _be_strict(context: click.Context, parameter: click.Parameter, strict: bool) -> None:
    if strict:
        context.with_resource(_strict_plugins())


@contextmanager
def _strict_plugins() -> Iterator[None]:
    """What the option asks for is what the variable asks for: it is set while the command runs."""
    before = os.environ.get(_STRICT)
    os.environ[_STRICT] = "1"
    try:
        yield
    finally:
        os.environ.pop(_STRICT)
        if before is not None:
            os.environ[_STRICT] = before


_strict_plugins_option = click.option(
    "--strict-plugins",
    is_flag=True,
    expose_value=False,
    callback=_be_strict,
    help="End with an error where step types cannot be loaded; otherwise they are left aside. "
    "So does FLO_STRICT_PLUGINS=1.",
)


def steps_option(command: Command) -> Command:
    """``--steps``, which the command takes as ``steps``, and ``--strict-plugins``, which it need not know of."""
    return _steps_option(_strict_plugins_option(command))


env_option = click.option(
    "--env",
    "environment",
    metavar="NAME",
    help="The environment that fills $env, whatever the workflow says. 'flo env list' tells which there are.",
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
