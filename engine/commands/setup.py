"""What ``flo env`` and ``flo connections`` have in common: where settings come from, and how they are shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from flo.engine import app
from flo.engine.commands.output import warn
from flo.engine.commands.sources import STDIN, read_argument
from flo.engine.environments.keyring import Keyring
from flo.engine.environments.loading import Described, Environments
from flo.engine.environments.reading import read_discreetly
from flo.engine.errors import FloError
from flo.engine.frozen import frozen
from flo.engine.opening import DEFAULT_URL, open_environments, open_keyring
from flo.engine.stores.settings import Kind, SettingStore
from flo.engine.values import Json, dump

_CUT = 120


@frozen
class Setup:
    """What the owner set up: all of it, and the encrypted table with its keys."""

    environments: Environments
    table: SettingStore
    keyring: Keyring


@contextmanager
def opened_setup(store: str | None) -> Iterator[Setup]:
    """Open the store, and tell of what others on the machine may read."""
    with app.open(store) as engine:
        keyring = open_keyring(store or os.environ.get("FLO_STORE") or DEFAULT_URL, os.environ)
        environments = open_environments(engine.store, keyring, os.environ)
        for said in (*environments.warnings(), keyring.warning()):
            if said is not None:
                warn(said)
        yield Setup(environments, engine.store.settings, keyring)


def secret_json(argument: str, name: str) -> Json:
    """The JSON of ``JSON``, ``@FILE`` or ``-``; nothing of it is shown where it is wrong."""
    return read_discreetly(*read_argument(argument, name))[0]


def warn_of_argument(argument: str | None) -> None:
    """Tell of a secret that others may have seen."""
    if argument is not None and argument != STDIN and not argument.startswith("@"):
        warn(
            "others on this machine may see a secret that stands on the command line; better give it with '-' or @FILE"
        )


def asked(name: str, *, hidden: bool) -> str:
    """Ask for a value on the terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("give a value, @FILE, or '-' to read it from standard input")
    answer: str = click.prompt(f"Value of {name}", hide_input=hidden, err=True)
    return answer


def warn_if_hidden(setup: Setup, kind: Kind, owner: str, name: str = "") -> None:
    """Tell of a value that was stored, and that another one wins over."""
    if (origin := setup.environments.nearer(kind, owner, name)) is not None:
        warn(f"{origin} has {name or owner!r} too, and wins")


def nothing_removed(setup: Setup, kind: Kind, owner: str, name: str = "") -> FloError | None:
    """Why the table had nothing to be removed, where it lies elsewhere."""
    origin = setup.environments.nearer(kind, owner, name)
    return None if origin is None else FloError(f"{name or owner!r} comes from {origin}: remove it there")


def worded(value: Json) -> str:
    """A value as it stands in a table: text as it is."""
    text = value if isinstance(value, str) else dump(value)
    return text if len(text) <= _CUT else text[: _CUT - 1] + "…"


def cell(described: Described) -> str:
    """The value of one line of a table."""
    return "-" if described.problem is not None else worded(described.value)


def warn_of_problems(found: Sequence[Described]) -> int:
    """Tell what cannot be had, and why; gives how many."""
    problems = [each.problem for each in found if each.problem is not None]
    for problem in problems:
        warn(problem)
    return len(problems)
