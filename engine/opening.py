"""Opens the store that a URL names, and what its owner set up for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

from flo.engine.clock import Clock, SystemClock
from flo.engine.environments.files import find_file
from flo.engine.environments.keyring import Keyring
from flo.engine.environments.loading import Environments
from flo.engine.errors import InputInvalid, did_you_mean
from flo.engine.stores.store import Store

DEFAULT_URL: Final = "sqlite:.flo/flo.sqlite"
SCHEMES: Final = ("memory", "sqlite", "postgresql", "postgres", "postgresql+psycopg")


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store of ``url``; its schema is left as it is. An adapter's driver is imported when it is asked for."""
    scheme, colon, rest = url.partition(":")
    match scheme.lower() if colon else "":
        case "memory":
            from flo.engine.stores.memory import MemoryStore

            return MemoryStore(clock or SystemClock())
        case "sqlite":
            from flo.engine.stores.sqlite import SqliteStore

            path, synchronous = _sqlite_parts(url, rest)
            return SqliteStore.open(path, clock or SystemClock(), synchronous=synchronous)
        case "postgresql" | "postgres" | "postgresql+psycopg":
            from flo.engine.stores.postgres import PostgresStore

            return PostgresStore.open(url, clock)
    near = did_you_mean(scheme.partition("/")[0], SCHEMES) or f"; did you mean {f'sqlite:{url}'!r}?"
    raise InputInvalid("store", f"{url!r} is no store: write memory:, sqlite:PATH or postgresql://…{near}")


def open_keyring(url: str, process: Mapping[str, str]) -> Keyring:
    """The master keys of the store of ``url``: an embedded one has its own in a file beside its database."""
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "memory":
            return Keyring(process, in_memory=True)
        case "sqlite":
            path, _ = _sqlite_parts(url, rest)
            return Keyring(process, Path(os.path.abspath(f"{path}-key")))
    return Keyring(process)


def open_environments(store: Store, keyring: Keyring, process: Mapping[str, str]) -> Environments:
    """What the owner set up, as it is found from the working folder."""
    return Environments(store.settings, keyring.find, find_file(process, Path.cwd()), process)


def _sqlite_parts(url: str, rest: str) -> tuple[Path, str]:
    """The file of a URL, and how sure a commit has to be that it is on the disk.

    ``sqlite:PATH`` is relative to the working folder unless PATH is absolute; ``sqlite:///PATH`` is absolute. The one
    option is ``?synchronous=``.
    """
    path, _, query = rest.removeprefix("//").partition("?")
    if not path:
        raise InputInvalid("store", f"{url!r} names no file: write sqlite:PATH")
    synchronous = "FULL"
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name != "synchronous":
            raise InputInvalid("store", f"{url!r} has an unknown option {name!r}; there is 'synchronous'")
        synchronous = value
    return Path(unquote(path)), synchronous
