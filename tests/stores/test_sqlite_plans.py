"""SQLite's plans: a queue stays fast however many finished rows lie in its table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from flo.engine.instants import write_instant
from flo.engine.stores.filters import EVERY, Condition, parse_where
from flo.engine.stores.ordering import parse_order, read_cursor
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.sqlite_data import candidates
from flo.engine.values import Json
from flo.testing import FrozenClock

DONE, PENDING = 20_000, 1_000
"""SQLite's planner knows no numbers of rows: nobody has it count them."""

OLDEST = parse_order({"field": "createdAt", "direction": "asc"})
_FILL = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
INSERT INTO rows (table_name, key, value, status, created_at, updated_at)
SELECT 'queue', :status || n, :value, :status, :at, :at FROM numbers
"""


def status(value: str) -> Condition:
    return parse_where([{"field": "status", "operator": "equals", "value": value}])


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A table in which most rows are finished, and many are not."""
    path = tmp_path_factory.mktemp("queue") / "flo.sqlite"
    clock = FrozenClock()
    store = SqliteStore.open(path, clock, synchronous="OFF")
    store.migrate()
    for state, count in (("done", DONE), ("pending", PENDING)):
        values = {
            "count": count,
            "status": state,
            "value": json.dumps({"status": state}),
            "at": write_instant(clock.now()),
        }
        store._database.write(lambda execute, values=values: execute(_FILL, values))
    yield path
    store.close()


@pytest.fixture
def store(queue: Path, clock: FrozenClock) -> Iterator[SqliteStore]:
    made = SqliteStore.open(queue, clock, synchronous="OFF")
    yield made
    made.close()


def plan(store: SqliteStore, where: Condition, order: Json) -> str:
    sql, values, _ = candidates("queue", where, parse_order(order), None)
    return "\n".join(row[3] for row in store._database.read(f"EXPLAIN QUERY PLAN {sql}", values))


@pytest.mark.parametrize(
    ("where", "order", "index"),
    [
        (status("pending"), {"field": "createdAt"}, "rows_by_status (table_name=? AND status=?)"),
        (status("pending"), [], "rows_in_status (table_name=? AND status=?)"),
        (EVERY, {"field": "createdAt"}, "rows_by_creation (table_name=?)"),
        (EVERY, [], "rows_in_table (table_name=?)"),
        (parse_where([{"field": "key", "operator": "eq", "value": "k"}]), [], "(table_name=? AND key=?)"),
        (
            parse_where([{"field": "createdAt", "operator": "lt", "value": "2026-01-01T00:00:00Z"}]),
            {"field": "createdAt"},
            "rows_by_creation (table_name=? AND created_at<?)",
        ),
    ],
)
def test_an_index_gives_the_rows_in_their_order(store: SqliteStore, where: Condition, order: Json, index: str) -> None:
    steps = plan(store, where, order)
    assert index in steps
    assert "TEMP B-TREE" not in steps


@pytest.mark.parametrize(
    ("order", "index"),
    [
        ([], "rows_in_table (table_name=? AND rowid>?)"),
        ({"field": "createdAt"}, "rows_by_creation (table_name=? AND created_at>?)"),
        ({"field": "createdAt", "direction": "desc"}, "rows_by_creation (table_name=? AND created_at<?)"),
    ],
)
def test_a_later_page_starts_at_its_place(store: SqliteStore, order: Json, index: str) -> None:
    by = parse_order(order)
    page = store.data.query("queue", EVERY, by, limit=1)
    assert page.next_cursor is not None
    sql, values, _ = candidates("queue", EVERY, by, read_cursor(by, page.next_cursor))
    assert index in "\n".join(row[3] for row in store._database.read(f"EXPLAIN QUERY PLAN {sql}", values))


def test_the_newest_rows_are_read_from_the_end_of_an_index(store: SqliteStore) -> None:
    steps = plan(store, EVERY, {"field": "createdAt", "direction": "desc"})
    assert "rows_by_creation (table_name=?)" in steps


@pytest.mark.parametrize("order", [OLDEST, ()])
def test_a_claim_reads_little_of_a_long_table(queue: Path, order: tuple[()], clock: FrozenClock) -> None:
    sql, values, in_order = candidates("queue", status("pending"), order, None)
    assert in_order
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection = sqlite3.connect(queue)
    connection.set_progress_handler(count, 10)
    rows = connection.execute(sql, {**values, "now": write_instant(clock.now())}).fetchmany(10)
    connection.close()
    assert len(rows) == 10
    assert steps < 100, "so many tens of instructions of SQLite's machine"


def test_counts_by_status_read_no_values(store: SqliteStore) -> None:
    assert store.data.count("queue", status("done")) == DONE
    assert store.data.count("queue", EVERY) == DONE + PENDING


def test_claims_come_in_batches(store: SqliteStore) -> None:
    rows = store.data.claim("queue", status("pending"), OLDEST, limit=100, holder="h", changes=())
    assert [row.key for row in rows] == [f"pending{number}" for number in range(1, 101)]
