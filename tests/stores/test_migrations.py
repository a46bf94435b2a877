"""The schema is brought up to date once, whoever asks for it at the same time, and never by an older flo."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import StoreTooNew
from flo.engine.stores.migrations import known_version
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store

MIGRATE = """
import json, sys
from flo.engine.clock import SystemClock
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
place = sys.argv[1]
opened = PostgresStore.open(place) if "://" in place else SqliteStore.open(place, SystemClock())
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([opened.migrate(), opened.schema_version()]))
opened.close()
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is: a file, or a URL."""
    if dialect == "sqlite":
        return str(tmp_path / "flo.sqlite")
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


def opened(place: str) -> Store:
    return PostgresStore.open(place) if "://" in place else SqliteStore.open(Path(place), SystemClock())


def run(place: str, sql: str) -> Sequence[tuple[object, ...]]:
    """Run a statement past the store."""
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(place, isolation_level=None)) as file:
        return file.execute(sql).fetchall()


def columns(place: str) -> set[tuple[str, str]]:
    """The tables and their columns."""
    if "://" in place:
        sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'flo'"
    else:
        sql = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    return {(str(table), str(column)) for table, column in run(place, sql) if not str(table).startswith("sqlite_")}


def test_an_empty_store_is_at_version_0_and_opening_it_migrates_nothing(place: str) -> None:
    store = opened(place)
    assert store.schema_version() == 0
    assert columns(place) == set()
    store.close()


def test_migrating_takes_every_step_once(place: str, dialect: str) -> None:
    store = opened(place)
    assert store.migrate() == known_version(dialect)
    assert store.schema_version() == known_version(dialect)
    assert store.migrate() == 0
    store.close()


def test_of_several_processes_that_migrate_at_once_each_step_is_taken_by_one(place: str, dialect: str) -> None:
    command = [sys.executable, "-c", MIGRATE, place]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=60) for process in processes]
    assert [stderr for _, stderr in ended] == [""] * 4
    results = [json.loads(stdout) for stdout, _ in ended]
    assert sum(applied for applied, _ in results) == known_version(dialect)
    assert {version for _, version in results} == {known_version(dialect)}


def test_a_store_that_a_newer_flo_wrote_is_refused(place: str, dialect: str) -> None:
    store = opened(place)
    store.migrate()
    table = "flo.migrations" if dialect == "postgresql" else "migrations"
    run(place, f"INSERT INTO {table} (number, applied_at) SELECT 999, max(applied_at) FROM {table}")
    before = columns(place)
    with pytest.raises(StoreTooNew, match="schema version 999, this flo knows up to") as raised:
        store.migrate()
    assert (raised.value.found, raised.value.known) == (999, known_version(dialect))
    assert store.schema_version() == 999
    assert columns(place) == before
    store.close()


def test_both_dialects_have_the_same_tables_and_columns(empty_postgres_url: str, tmp_path: Path) -> None:
    places = (empty_postgres_url, str(tmp_path / "flo.sqlite"))
    for place in places:
        store = opened(place)
        store.migrate()
        store.close()
    postgres, sqlite = map(columns, places)
    assert postgres == sqlite
    assert ("rows", "claim_count") in postgres
