"""SQLite files: how one is made, and how connections to it are set up."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from flo.engine.errors import InputInvalid, StoreUnavailable
from flo.engine.stores.sqlite_errors import LOCKED, primary_code, translated
from flo.engine.stores.sqlite_turnstile import Turnstile

BUSY_SECONDS: Final = 30.0
"""How long SQLite waits for a lock. Ours are held for milliseconds; other programs may hold theirs longer."""

SYNCHRONOUS: Final = ("FULL", "NORMAL", "EXTRA", "OFF")

_OLDEST: Final = (3, 35)
_STATEMENTS: Final = 256
_LOG_BYTES: Final = 64 * 1024 * 1024
_TRIES: Final = 20


def create(path: Path, place: str) -> None:
    """Make the file, its folder and its journal mode where they are not there yet. Any number of processes may.

    Only the owner may read what is made: 0700 for the folder, 0600 for the file. Raises ``StoreUnavailable``.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        found, oldest = sqlite3.sqlite_version, ".".join(map(str, _OLDEST))
        raise StoreUnavailable(f"{place}: this Python has SQLite {found}; {oldest} or newer is needed")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # an existing file is not opened here: closing it would drop the locks that SQLite has on it in this process
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if path.is_dir() or not path.parent.is_dir():
            raise StoreUnavailable(f"{place} is no file; name a file") from None
    except OSError as error:
        raise StoreUnavailable(f"{place} cannot be made: {error.strerror}: {error.filename}") from error
    turnstile = Turnstile(path)
    try:
        with turnstile.turn(), translated(place):
            _set_journal(path)
    finally:
        turnstile.close()


def _set_journal(path: Path) -> None:
    """Write the settings that stay in the file. Two connections cannot switch to a write-ahead log at once."""
    for tries in range(1, _TRIES + 1):
        try:
            with closing(_connect(path)) as connection:
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA auto_vacuum = incremental")  # counts only before the first table
                    connection.execute("PRAGMA journal_mode = wal").fetchone()
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) not in LOCKED or tries == _TRIES:
                raise
        time.sleep(random.random() * 0.01 * tries)


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that only reads."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = on")
    return connection


def open_writer(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open a connection that writes; ``synchronous`` says how careful it is of power cuts."""
    connection = _connect(path)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    return connection


def check_synchronous(synchronous: str) -> str:
    """Give ``synchronous`` as SQLite spells it. Raises ``InputInvalid``."""
    if synchronous.upper() not in SYNCHRONOUS:
        raise InputInvalid("store", f"synchronous is {synchronous!r}; it must be one of {', '.join(SYNCHRONOUS)}")
    return synchronous.upper()


def _connect(path: Path) -> sqlite3.Connection:
    # transactions are ours to begin and end; a connection is used by one thread at a time, not always the same
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
    )
    connection.execute("PRAGMA temp_store = memory")
    return connection
