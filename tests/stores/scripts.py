"""What the scripts of other processes share: how they open a store by the machine's clock, and how they tell."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flo.engine.clock import SystemClock
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store


def say(value: object) -> None:
    """Tell the test something, as a line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def opened(url: str) -> Store:
    """The store of a URL; on SQLite nothing that was written has to survive a power cut."""
    if url.startswith("sqlite:"):
        return SqliteStore.open(Path(url.removeprefix("sqlite:")), SystemClock(), synchronous="OFF")
    return PostgresStore.open(url)


def begin() -> None:
    """Say that the store is open, and wait until the test lets all begin."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
