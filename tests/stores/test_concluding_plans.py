"""The plans of what ends executions: each is found by its key, however many run, and a plan may be made before any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_connections import Address, Connection
from flo.engine.stores.sql_endings import left_statement
from flo.engine.stores.sql_finishing import END_MANY, HELD
from flo.engine.stores.sqlite import SqliteStore
from flo.testing import FrozenClock

from .jobs import DIGEST, START
from .test_queue_plans import _NUMBERS, postgres_plan, sqlite_plan

RUNNING = 5_000
"""So many run without a queue, every second one as a part of another."""

ENDS = {"ends": "[]"}
LEFT = {"ids": '["a", "b"]', "queues": ["default"]}

_FILL = """
INSERT INTO executions (id, digest, input, state, queue, priority, run_at, due_at, created_at, root_id, parent_id)
{numbers}
SELECT 'e' || n, :digest, '{{}}', 'running', '', 0, :at, :at, :at, 'r' || n / 10,
       CASE WHEN n % 2 = 0 THEN 'r' || n / 10 END FROM numbers
"""


def fill(store: SqliteStore | PostgresStore) -> None:
    sql = _FILL.format(numbers=_NUMBERS[store._database.dialect])
    store._database.write(lambda execute: execute(sql, {"count": RUNNING, "digest": DIGEST, "at": START}))


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    with Address(postgres_url).connect() as connection:
        yield connection


def check(connection: Connection) -> None:
    shown = postgres_plan(connection, END_MANY, ENDS, "generic")
    assert shown.count("using executions_pkey on executions e") == 2, shown
    assert shown.count(" on executions e") == 3, shown  # the third one is the update
    shown = postgres_plan(connection, left_statement("postgresql"), LEFT, "generic")
    assert "using executions_by_parent on executions e" in shown, shown
    assert "using executions_pkey on executions e" in shown, shown
    assert "using execution_waits_for_end on execution_waits w" in shown, shown
    assert "using execution_effects_pkey on execution_effects f" in shown, shown
    assert "Seq Scan" not in shown, shown


def test_ends_on_postgresql_read_keys_whenever_the_plan_was_made(connection: Connection, postgres_url: str) -> None:
    check(connection)
    connection.execute(b"VACUUM ANALYZE flo.executions")
    check(connection)
    store = PostgresStore.open(postgres_url)
    fill(store)
    store.close()
    check(connection)
    connection.execute(b"ANALYZE flo.executions")
    check(connection)


def test_what_ends_and_what_is_left_by_that_is_read_from_indexes_of_sqlite(tmp_path: Path, clock: FrozenClock) -> None:
    store = SqliteStore.open(tmp_path / "flo.sqlite", clock, synchronous="OFF")
    store.migrate()
    fill(store)
    shown = sqlite_plan(store, left_statement("sqlite"), {"ids": '["a", "b"]', "queues": '["default"]'})
    held = sqlite_plan(store, HELD, {"ids": '["a", "b"]'})
    store.close()
    assert "SEARCH e USING INDEX sqlite_autoindex_executions_1 (id=?)" in held
    for found in ("INDEX executions_by_parent (parent_id=?)", "INDEX execution_waits_for_end (name=?)"):
        assert found in shown
    assert "SCAN e" not in shown
