"""Statements of one session go out together, and each failure is told, whoever waits for the answer."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence

import psycopg
import pytest

from flo.engine.abreast import OthersFailed, abreast
from flo.engine.errors import StoreError, StoreUnavailable
from flo.engine.jobs import LEASE, Entries, Hold
from flo.engine.stores.changes import Change, parse_changes
from flo.engine.stores.database import Execute
from flo.engine.stores.filters import Condition, parse_where
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_changes import changes_sql
from flo.engine.stores.postgres_connections import Address
from flo.engine.stores.postgres_data import _UPDATE
from flo.engine.stores.postgres_database import PostgresDatabase
from flo.engine.stores.postgres_statement import Values
from flo.engine.stores.postgres_where import where_sql

from .jobs import claimed_one, held, line

PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE :like"
PUT = "INSERT INTO trial (n, text) VALUES (:n, :text)"


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    """A database with one session, and a table for trials."""
    made = PostgresDatabase(Address(postgres_url), connections=1)
    made.run("CREATE TABLE trial (n int UNIQUE, text text)")
    yield made
    made.close()


def numbers(database: PostgresDatabase) -> list[int]:
    return [n for (n,) in database.read("SELECT n FROM trial ORDER BY n")]


def test_what_nobody_waits_for_is_done_by_the_commit(database: PostgresDatabase) -> None:
    def work(execute: Execute) -> list[tuple[int]]:
        execute.later(PUT, {"n": 1, "text": "a"})
        execute.many(PUT, [{"n": n, "text": "b"} for n in (2, 3)])
        rows = execute("SELECT n FROM trial ORDER BY n")
        execute.later(PUT, {"n": 4, "text": "c"})
        return rows

    assert database.write(work) == [(1,), (2,), (3,)]
    assert numbers(database) == [1, 2, 3, 4]


@pytest.mark.parametrize("asks", [False, True])
def test_a_failure_of_what_nobody_waited_for_undoes_all(database: PostgresDatabase, asks: bool) -> None:
    def work(execute: Execute) -> None:
        execute(PUT, {"n": 1, "text": "a"})
        execute.later("SELECT 1 / :n::int", {"n": 0})
        execute.later(PUT, {"n": 2, "text": "b"})
        if asks:
            execute("SELECT 1")

    with pytest.raises(StoreError, match="division by zero"):
        database.write(work)
    assert numbers(database) == []
    assert database.read("SELECT 1") == [(1,)]


def test_a_failure_that_was_passed_over_still_fails_the_transaction(database: PostgresDatabase) -> None:
    def work(execute: Execute) -> str:
        execute(PUT, {"n": 1, "text": "a"})
        with pytest.raises(psycopg.Error):
            execute("SELECT 1 / 0")
        return "as if nothing had happened"

    with pytest.raises(StoreError, match="division by zero"):
        database.write(work)
    assert numbers(database) == []


def test_more_than_the_ways_hold_goes_both_ways(database: PostgresDatabase) -> None:
    """Neither side waits for the other to read first."""
    text = "x" * 20_000
    seen: list[int] = []

    def work(execute: Execute) -> None:
        for n in range(500):
            execute.later(PUT, {"n": n, "text": text})
            execute.later("SELECT text FROM trial WHERE n = :n", {"n": n}, lambda rows: seen.append(len(rows[0][0])))

    database.write(work)
    assert seen == [20_000] * 500
    assert len(numbers(database)) == 500


def test_who_is_abreast_gets_the_answers_to_its_own_questions(database: PostgresDatabase) -> None:
    got: dict[int, list[object]] = {n: [] for n in range(20)}

    def work(execute: Execute) -> None:
        pieces = iter(got)

        def piece() -> bool:
            if (n := next(pieces, None)) is None:
                return False
            for _ in range(n % 4):
                got[n] += execute("SELECT :n::int", {"n": n})
                execute.later("SELECT 'of nobody'")
            execute(PUT, {"n": n, "text": "a"})
            got[n] += execute("SELECT n FROM trial WHERE n = :n", {"n": n})
            return True

        abreast(piece, 3)

    database.write(work)
    assert got == {n: [(n,)] * (n % 4 + 1) for n in range(20)}
    assert numbers(database) == list(range(20))


def test_one_abreast_that_fails_undoes_what_the_others_did(database: PostgresDatabase) -> None:
    ended: list[type[BaseException] | None] = []

    def work(execute: Execute) -> None:
        pieces = iter(range(9))

        def piece() -> bool:
            n = next(pieces)
            try:
                execute(PUT, {"n": n, "text": "a"})
                execute("SELECT 1 / :n::int", {"n": n - 4})
            except BaseException as error:
                ended.append(type(error))
                raise
            return True

        abreast(piece, 3)

    with pytest.raises(StoreError, match="division by zero"):
        database.write(work)
    assert ended == [psycopg.errors.DivisionByZero, OthersFailed, OthersFailed]
    assert numbers(database) == []
    assert database.read("SELECT 1") == [(1,)]


def test_what_is_said_twice_is_prepared_and_what_cannot_be_is_not(database: PostgresDatabase) -> None:
    for text in ("a", "b", "c"):
        database.run("SELECT :text::text, 'once'", {"text": text})
        with pytest.raises(StoreError, match="does not exist"):
            database.run("SELECT :text::text, wrong", {"text": text})
    assert database.read(PREPARED, {"like": "%''once''%"})[0][0] == 0, "the pattern is of this statement"
    assert database.read(PREPARED, {"like": "%'once'%"}) == [(1,)]
    assert database.read(PREPARED, {"like": "%wrong%"}) == [(0,)]
    database.run("ALTER TABLE trial ADD COLUMN wrong int")
    assert database.run("SELECT count(wrong) FROM trial") == [(0,)]


def test_a_session_keeps_no_more_statements_than_it_uses(database: PostgresDatabase) -> None:
    for number in range(400):
        for _ in range(2):
            assert database.run(f"SELECT {number} + :n::int", {"n": 1}) == [(number + 1,)]
    assert 0 < database.read("SELECT count(*) FROM pg_prepared_statements")[0][0] < 200


def test_another_type_of_value_is_another_statement(database: PostgresDatabase) -> None:
    for value in (1, "1", 2**40, None, 1.5, True):
        for _ in range(3):
            assert database.run("SELECT (:value)::text IS NULL", {"value": value}) == [(value is None,)]


def test_an_interrupt_ends_the_statement_and_the_next_one_goes_well(
    database: PostgresDatabase, postgres_url: str
) -> None:
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND wait_event = 'PgSleep'"

    def interrupt() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as watcher:
            while watcher.execute(sleeping).fetchone() != (1,):
                pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        database.write(lambda execute: (execute.later(PUT, {"n": 1, "text": "a"}), execute("SELECT pg_sleep(60)")))
    thread.join()
    assert numbers(database) == []
    with psycopg.connect(postgres_url, autocommit=True) as watcher:
        assert watcher.execute(sleeping).fetchone() == (0,)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    made = PostgresStore.open(postgres_url)
    yield made
    made.close()


@pytest.mark.parametrize("locked", ["flo.rows WHERE key = 'k'", "flo.executions"])
def test_a_brief_transaction_rather_fails_than_waits_for_a_lock(
    store: PostgresStore, postgres_url: str, locked: str
) -> None:
    """So that transactions which hold several locks end before the server would look for a deadlock."""
    store.data.set("t", "k", 1)
    hold = held(store).hold
    with psycopg.connect(postgres_url) as other:
        other.execute(f"SELECT 1 FROM {locked} FOR UPDATE".encode())
        with pytest.raises(StoreUnavailable, match="holds a lock for too long"):
            store.queue.own(hold, lambda owned: owned.data.set("t", "k", 2), brief=True)
    store.queue.own(hold, lambda owned: owned.data.set("t", "k", 3), brief=True)
    row = store.data.get("t", "k")
    assert row is not None
    assert row.value == 3


def test_the_patience_of_a_session_is_its_own_again_after_a_brief_transaction(store: PostgresStore) -> None:
    hold: Hold = held(store).hold
    store.queue.own(hold, lambda owned: None, brief=True)
    assert store._database.read("SHOW lock_timeout") == [("30s",)]


def test_records_alone_are_refused_too_where_the_claim_is_lost(store: PostgresStore) -> None:
    """Nothing of such a transaction waits for an answer but the commit."""
    first = held(store)
    store._database.run("UPDATE executions SET due_at = :now - interval '1 second'", {})
    second = claimed_one(store)
    assert second.hold.token != first.hold.token
    lines = Entries(lines=[line(first.execution.id, 1)])
    with pytest.raises(Exception, match="is lost"):
        store.queue.own(first.hold, lambda owned: owned.record(lines))
    assert list(store.executions.lines(first.execution.id)) == []
    assert store.queue.renew([second.hold], lease=LEASE) == [second.hold]


def test_a_guarded_update_finds_its_row_by_its_key_whatever_its_guard_asks(
    store: PostgresStore, postgres_url: str
) -> None:
    """Nothing has this status when the plan is made; its index would seem as quick a way to the row."""
    store.data.set_many("t", [(f"k{number}", {"status": "done"}) for number in range(5_000)])
    guard = parse_where([{"field": "status", "operator": "equals", "value": "in_flight"}])
    changes = parse_changes([{"field": "n", "operation": "set", "value": 1}])
    with Address(postgres_url).connect() as connection:
        connection.execute("ANALYZE flo.rows")
        shown = [text for (text,) in connection.execute(_explained(guard, changes)).fetchall()]
    assert any("Index Scan using rows_pkey" in line for line in shown), shown


def _explained(guard: Condition, changes: Sequence[Change]) -> bytes:
    values = Values()
    parts = {"where": where_sql(guard, values), "value": changes_sql("r.value", changes, values)}
    named = {"table": "t", "key": "k1", **values}
    sql = re.sub(r"(?<!:):([a-z]\w*)", lambda found: _literal(found[1], named), _UPDATE.format_map(parts))
    return f"EXPLAIN {sql}".encode()


def _literal(name: str, values: Mapping[str, object]) -> str:
    return "now()" if name == "now" else psycopg.sql.Literal(values[name]).as_string()
