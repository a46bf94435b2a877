"""The plans of queues: what they look for comes from an index, however many finished executions lie before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE
from flo.engine.stores import sql_claims
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_claims import OUTLOOK, claim_statement
from flo.engine.stores.postgres_connections import Address, Connection
from flo.engine.stores.sql import newest_statement
from flo.engine.stores.sql_burying import ANYTHING, SEARCHES
from flo.engine.stores.sqlite import SqliteStore
from flo.testing import FrozenClock

from .jobs import DIGEST, DOCUMENT, START

FINISHED, PENDING = 20_000, 100

_NUMBERS = {
    "sqlite": "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)",
    "postgresql": "WITH numbers (n) AS (SELECT generate_series(1, :count::int))",
}
_FILL = """
INSERT INTO executions (id, digest, input, state, queue, priority, run_at, due_at, created_at, finished_at, root_id)
{numbers}
SELECT '{state}-' || n, :digest, '{{}}', '{state}', 'default', 0, :at, {due}, :at, {ended}, '{state}-' || n FROM numbers
"""
BURIED = ("executions_by_deadline", "executions_poisoned", "executions_running")
PAGE: Mapping[str, object] = {"queue": "default", "limit": 10}
PLACE: Mapping[str, object] = {"priority": 0, "run_at": START, "created_at": START, "id": "pending-5"}


def fill(store: SqliteStore | PostgresStore) -> None:
    """A queue in which most has ended."""
    for state, count, due, ended in (("success", FINISHED, "NULL", ":at"), ("pending", PENDING, ":at", "NULL")):
        sql = _FILL.format(numbers=_NUMBERS[store._database.dialect], state=state, due=due, ended=ended)
        values = {"count": count, "digest": DIGEST, "at": START}
        store._database.write(lambda execute, sql=sql, values=values: execute(sql, values))  # type: ignore[misc]
    defined = {"digest": DIGEST, "document": DOCUMENT}
    insert = "INSERT INTO definitions (digest, document) VALUES (:digest, :document)"
    store._database.write(lambda execute: execute(insert, defined))


@pytest.fixture
def sqlite(tmp_path: Path, clock: FrozenClock) -> Iterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "flo.sqlite", clock, synchronous="OFF")
    store.migrate()
    fill(store)
    yield store
    store.close()


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore.open(postgres_url)
    fill(store)
    yield store
    store.close()


@pytest.fixture
def connection(postgres: PostgresStore, postgres_url: str) -> Iterator[Connection]:
    """A session as the store has them, in a database that is filled."""
    with Address(postgres_url).connect() as connection:
        yield connection


def sqlite_plan(store: SqliteStore, sql: str, values: Mapping[str, object]) -> str:
    return "\n".join(row[3] for row in store._database.read(f"EXPLAIN QUERY PLAN {sql}", values))


def postgres_plan(connection: Connection, sql: str, values: Mapping[str, object], mode: str) -> str:
    """The plan of a prepared statement: made for its values, or once for any (``generic``)."""
    names = list(values)

    def parameter(found: re.Match[str]) -> str:
        return "statement_timestamp()" if found[1] == "now" else f"${names.index(found[1]) + 1}"

    text = re.sub(r"(?<!:):([a-z]\w*)", parameter, sql)
    connection.execute(f"SET plan_cache_mode = force_{mode}_plan".encode())
    connection.execute(f"PREPARE asked AS {text}".encode())
    literals = ", ".join(psycopg.sql.Literal(value).as_string(connection) for value in values.values())
    rows = connection.execute(f"EXPLAIN EXECUTE asked{f'({literals})' if literals else ''}".encode()).fetchall()
    connection.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize(("after", "passed"), [(False, False), (True, False), (True, True)])
def test_a_claim_on_sqlite_reads_an_index_in_its_order(sqlite: SqliteStore, after: bool, passed: bool) -> None:
    sql = sql_claims.page_statement("sqlite", after=after, passed=passed)
    values = {**PAGE, **(PLACE if after else {}), **({"passed": '["1:c"]'} if passed else {})}
    shown = sqlite_plan(sqlite, sql, values)
    assert "USING INDEX executions_to_claim (queue=?" in shown
    assert "TEMP B-TREE" not in shown


def test_a_claim_on_sqlite_gives_what_is_due(sqlite: SqliteStore) -> None:
    claimed = sqlite.queue.claim(["default"], worker="w1", lease=LEASE, limit=10).deliveries
    assert len({delivery.execution.id for delivery in claimed}) == 10
    assert all(delivery.execution.id.startswith("pending-") for delivery in claimed)


def test_whether_anything_is_due_is_read_from_an_index_of_sqlite(sqlite: SqliteStore) -> None:
    queue = {"queue": "default"}
    for sql in (sql_claims.due_statement("sqlite"), sql_claims.next_due_statement()):
        shown = sqlite_plan(sqlite, sql, queue)
        assert "executions_next_due (queue=?" in shown
        assert "TEMP B-TREE" not in shown


def test_what_is_to_be_buried_is_read_from_indexes_of_sqlite(sqlite: SqliteStore) -> None:
    for sql, index in zip(SEARCHES["sqlite"], BURIED, strict=True):
        shown = sqlite_plan(sqlite, sql, {"limit": 10})
        assert f"USING INDEX {index} (" in shown
        assert "TEMP B-TREE" not in shown
    shown = sqlite_plan(sqlite, ANYTHING["sqlite"], {})
    assert all(f"INDEX {index} (" in shown for index in BURIED), shown


def test_the_newest_of_all_are_read_from_the_index_of_states(sqlite: SqliteStore, connection: Connection) -> None:
    sql = newest_statement(["e.parent_id IS NULL", "e.queue = 'mail'"], 50)
    shown = sqlite_plan(sqlite, sql, {})
    assert shown.count("USING COVERING INDEX executions_by_state (state=?)") == len(ExecutionState), shown
    for when in ("", "ANALYZE flo.executions"):
        if when:
            connection.execute(when.encode())
        shown = postgres_plan(connection, sql, {}, "generic")
        assert "Seq Scan on executions" not in shown, shown
        assert "Index Only Scan Backward using executions_by_state on executions" in shown, shown
        assert "Index Cond: (state = 'success'::text)" in shown, shown
        assert "executions_pkey" in shown, shown


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_what_a_workflow_has_is_read_from_its_indexes(sqlite: SqliteStore, connection: Connection, mode: str) -> None:
    listed = "SELECT e.id FROM executions e WHERE e.workflow = :workflow ORDER BY e.created_at DESC, e.id DESC LIMIT 9"
    ended = "SELECT e.id FROM executions e WHERE e.workflow = :workflow AND e.finished_at IS NOT NULL"
    ended += " ORDER BY e.finished_at, e.id LIMIT 9"
    for sql, index in ((listed, "executions_by_workflow"), (ended, "executions_by_workflow_and_end")):
        shown = sqlite_plan(sqlite, sql, {"workflow": "a"})
        assert f"INDEX {index} (workflow=?" in shown, shown
        assert "TEMP B-TREE" not in shown, shown
        shown = postgres_plan(connection, sql, {"workflow": "a"}, mode)
        assert f"using {index} on executions e" in shown, shown
        assert "Sort" not in shown, shown


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_a_claim_on_postgresql_reads_an_index_in_its_order(connection: Connection, mode: str) -> None:
    for when in ("", "ANALYZE flo.executions"):
        if when:
            connection.execute(when.encode())
        for limit in (1, 10, 100):
            for queues in (["default"], ["default", "mail"]):
                values = {"queues": queues, "claimant": "w1", "lease": LEASE, "limit": limit}
                shown = postgres_plan(connection, claim_statement(limit), values, mode)
                assert "Index Scan using executions_to_claim on executions e" in shown, shown
                assert "Seq Scan on executions" not in shown, shown
                # what was picked is put in order, the candidates are in it already
                assert shown.count("Sort Key") == 1, shown


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_a_page_of_candidates_on_postgresql_is_read_from_an_index(connection: Connection, mode: str) -> None:
    for when in ("", "ANALYZE flo.executions"):
        if when:
            connection.execute(when.encode())
        for after, passed in ((False, False), (True, False), (True, True)):
            sql = sql_claims.page_statement("postgresql", after=after, passed=passed)
            values = {**PAGE, **(PLACE if after else {}), **({"passed": ["1:c"]} if passed else {})}
            shown = postgres_plan(connection, sql, values, mode)
            assert "Index Scan using executions_to_claim on executions e" in shown, shown
            assert "Sort" not in shown, shown


def test_indexes_are_taken_though_the_table_was_empty_when_that_was_planned(postgres_url: str) -> None:
    with Address(postgres_url).connect() as connection:
        picked = postgres_plan(connection, sql_claims.STILL_DUE, {"ids": ["pending-1"]}, "generic")
        lost = postgres_plan(connection, ANYTHING["postgresql"], {}, "generic")
    assert "using executions_pkey" in picked, picked
    assert all(f"using {index}" in lost for index in BURIED), lost


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_when_to_look_again_is_read_from_an_index_of_postgresql(connection: Connection, mode: str) -> None:
    for when in ("", "ANALYZE flo.executions"):
        if when:
            connection.execute(when.encode())
        shown = postgres_plan(connection, OUTLOOK, {"queues": ["default"]}, mode)
        assert "Seq Scan on executions" not in shown, shown
        assert "executions_next_due" in shown, shown


def test_what_is_to_be_buried_is_read_from_indexes_of_postgresql(connection: Connection) -> None:
    connection.execute(b"ANALYZE flo.executions")
    for sql, index in zip(SEARCHES["postgresql"], BURIED, strict=True):
        shown = postgres_plan(connection, sql, {"limit": 10}, "generic")
        assert f"Index Scan using {index}" in shown, shown
    shown = postgres_plan(connection, ANYTHING["postgresql"], {}, "generic")
    assert all(f"using {index}" in shown for index in BURIED), shown


def test_a_claim_on_postgresql_gives_what_is_due(postgres: PostgresStore) -> None:
    claimed = postgres.queue.claim(["default"], worker="w1", lease=timedelta(minutes=1), limit=10).deliveries
    assert len({delivery.execution.id for delivery in claimed}) == 10
    assert all(delivery.execution.id.startswith("pending-") for delivery in claimed)
