"""PostgreSQL's plans: a claim takes its rows from an index, however many finished ones lie before them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import psycopg
import pytest

from flo.engine.stores.filters import parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_connections import Address, Connection
from flo.engine.stores.postgres_data import claim_statement
from flo.engine.values import Json

DONE, PENDING = 1_000_000, 1_000
PENDING_ROWS = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])
STALE_ROWS = parse_where(
    [
        {"field": "status", "operator": "equals", "value": "in_flight"},
        {"field": "claimedAt", "operator": "olderThan", "value": "5m"},
    ]
)
OLDEST: Json = {"field": "createdAt", "direction": "asc"}

_FILL = """
INSERT INTO flo.rows (table_name, key, value, created_at, updated_at)
SELECT 'queue', {status} || n, jsonb_build_object('status', {status}), now() + n * interval '1 ms', now()
FROM generate_series(1, {count}) AS n
"""


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    """A session as the store has them."""
    with Address(postgres_url).connect() as connection:
        yield connection


def fill(connection: Connection, **counts: int) -> None:
    for status, count in counts.items():
        connection.execute(_FILL.format(status=f"'{status}'", count=count).encode())


def plan(connection: Connection, sql: str, values: Mapping[str, object], mode: str) -> str:
    """The plan of a prepared statement: made for its values, or once for any (``generic``)."""
    names = list(values)
    text = re.sub(
        r"(?<!:):([a-z]\w*)", lambda found: "$0" if found[1] == "now" else f"${names.index(found[1]) + 1}", sql
    )
    connection.execute(f"SET plan_cache_mode = force_{mode}_plan".encode())
    connection.execute(f"PREPARE asked AS {text.replace('$0', 'statement_timestamp()')}".encode())
    literals = ", ".join(psycopg.sql.Literal(value).as_string(connection) for value in values.values())
    rows = connection.execute(f"EXPLAIN EXECUTE asked ({literals})".encode()).fetchall()
    connection.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


CLAIMS = [
    (PENDING_ROWS, OLDEST, "rows_by_status"),
    (PENDING_ROWS, [], "rows_in_status"),
    (STALE_ROWS, OLDEST, "rows_by_status"),
]


def test_a_claim_takes_its_rows_from_the_index_that_has_their_order(connection: Connection) -> None:
    fill(connection, done=DONE, pending=PENDING)
    for when in ("", "ANALYZE flo.rows"):
        if when:
            connection.execute(when.encode())
        for where, order, index in CLAIMS:
            for limit in (1, 10, 100):
                sql, values = claim_statement("queue", where, parse_order(order), limit=limit, holder="h", changes=())
                for mode in ("custom", "generic"):
                    shown = plan(connection, sql, values, mode)
                    assert f"Index Scan using {index}" in shown, shown
                    assert "Seq Scan" not in shown, shown
                    assert "Sort" not in shown, shown


@pytest.mark.parametrize(("order", "index"), [(OLDEST, "rows_by_status"), ([], "rows_in_status")])
def test_a_plan_made_while_nothing_is_finished_does_not_walk_through_what_is_finished_later(
    connection: Connection, order: Json, index: str
) -> None:
    fill(connection, pending=20_000)
    connection.execute("ANALYZE flo.rows")
    sql, values = claim_statement("queue", PENDING_ROWS, parse_order(order), limit=10, holder="h", changes=())
    for mode in ("custom", "generic"):
        assert f"Index Scan using {index}" in plan(connection, sql, values, mode)


def test_a_page_of_a_whole_table_is_read_from_an_index(connection: Connection) -> None:
    fill(connection, done=20_000)
    connection.execute("ANALYZE flo.rows")
    sql = "SELECT r.key FROM flo.rows AS r WHERE r.table_name = :table AND (r.seq > :seq) ORDER BY r.seq LIMIT 100"
    shown = plan(connection, sql, {"table": "queue", "seq": 10}, "generic")
    assert "Index Scan using rows_in_table" in shown
    assert "Sort" not in shown


def test_a_page_of_iterations_is_read_from_an_index(connection: Connection, postgres_url: str) -> None:
    connection.execute("""
        INSERT INTO flo.execution_steps
            (execution_id, path, step_id, step_type, state, started_at, duration_ms, loop_path, loop_index)
        SELECT 'run-' || n % 5, 'each[' || n || ']', 'each', 'core.for-each', 'success', now(), 1, 'each', n / 5
        FROM generate_series(0, 49999) AS n
    """)
    connection.execute("ANALYZE flo.execution_steps")
    sql = (
        "SELECT path FROM execution_steps WHERE execution_id = :id AND loop_path = :loop"
        " AND loop_index >= :start AND loop_index < :end ORDER BY loop_index"
    )
    values = {"id": "run-1", "loop": "each", "start": 9000, "end": 9100}
    shown = plan(connection, sql, values, "custom")
    assert "execution_steps_by_iteration" in shown
    assert "Sort" not in shown
    store = PostgresStore.open(postgres_url)
    page = store.executions.iterations("run-1", "each", start=9000, limit=100)
    assert [step.index for step in page] == list(range(9000, 9100))
    store.close()
