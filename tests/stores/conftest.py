"""A fresh store of each kind, over a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flo.engine.clock import Clock
from flo.engine.stores.base import DataStore
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

STORES = ("memory", "sqlite", "postgresql")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, clock: FrozenClock, tmp_path: Path) -> Iterator[Store]:
    """A store with a schema and nothing in it. Its clock is the test's, on PostgreSQL too."""
    made = _open(request, clock, tmp_path)
    made.migrate()
    yield made
    made.close()


@pytest.fixture
def data(store: Store) -> DataStore:
    return store.data


def _open(request: pytest.FixtureRequest, clock: Clock, folder: Path) -> Store:
    match request.param:
        case "memory":
            return MemoryStore(clock)
        case "sqlite":
            return SqliteStore.open(folder / "flo.sqlite", clock, synchronous="OFF")
        case _:
            url: str = request.getfixturevalue("postgres_url")
            return PostgresStore.open(url, clock)
