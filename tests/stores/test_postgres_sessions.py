"""PostgreSQL's sessions: what becomes of conflicts, of lost connections, of servers that are not there."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from flo.engine.errors import FloError, InputInvalid, StepFailed, StoreUnavailable
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_connections import Address
from flo.engine.stores.postgres_data import PostgresData
from flo.engine.stores.postgres_database import PostgresDatabase

PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])
OLDEST = parse_order({"field": "createdAt"})
CLAIMANT = Path(__file__).with_name("postgres_claimant.py")
SECRET = "hunter2%2Fx"


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    """A database with one session, so that a test knows which one it has."""
    made = PostgresDatabase(Address(postgres_url), connections=1)
    yield made
    made.close()


@pytest.fixture
def data(database: PostgresDatabase) -> PostgresData:
    return PostgresData(database)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        (f"postgresql://flo:{SECRET}@127.0.0.1:1/flo", "connection refused; is PostgreSQL running there"),
        (f"postgresql+psycopg://flo:{SECRET}@127.0.0.1:1/flo", "connection refused"),
        (f"postgres://flo@127.0.0.1:1/flo?password={SECRET}", "connection refused"),
        (f"postgresql://flo:{SECRET}@nowhere.invalid/flo", "the host is unknown"),
        (f"postgresql://flo:{SECRET}@/flo?host=/no/such/folder", "no server listens on this socket"),
        ("postgresql://flo:hunter2/x@127.0.0.1:1/flo", "cannot be reached"),
    ],
)
def test_a_server_that_is_not_there_is_told_at_once_and_without_the_password(url: str, remedy: str) -> None:
    started = time.monotonic()
    store = PostgresStore.open(url)
    with pytest.raises(StoreUnavailable, match=remedy) as raised:
        store.data.count("queue", EVERY)
    assert time.monotonic() - started < 6
    chain = f"{raised.value} {raised.value.__cause__!r} {raised.value.__context__!r} {store.url}"
    assert "hunter2" not in chain


@pytest.mark.parametrize(
    "url", ["postgresql://flo:hunter2%zz@localhost/flo", "postgresql://flo:hunter2@h/d?nonsense=1"]
)
def test_a_url_that_cannot_be_read_is_the_users_mistake_and_shows_no_password(url: str) -> None:
    with pytest.raises(InputInvalid, match="write postgresql://user:password@host:port/database") as raised:
        PostgresStore.open(url)
    assert "hunter2" not in f"{raised.value} {raised.value.__cause__!r}"


def test_a_database_or_a_user_that_is_not_there_is_told_with_its_remedy(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    nowhere = parts._replace(path="/nowhere").geturl().replace(":///", "://postgres@/")
    with pytest.raises(StoreUnavailable, match="there is no such database; create it with createdb"):
        PostgresStore.open(nowhere).data.now()
    nobody = f"postgresql://nobody@{parts.path}?{parts.query}"
    with pytest.raises(StoreUnavailable, match="there is no such user"):
        PostgresStore.open(nobody).data.now()


def test_a_schema_that_is_missing_is_told_with_its_remedy(empty_postgres_url: str) -> None:
    store = PostgresStore.open(empty_postgres_url)
    with pytest.raises(StoreUnavailable, match="the schema is missing; run flo migrate"):
        store.data.count("queue", EVERY)
    store.close()


def test_a_closed_store_says_so(postgres_url: str) -> None:
    store = PostgresStore.open(postgres_url)
    store.data.now()
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        store.data.now()


def test_nothing_of_a_failed_connection_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreUnavailable):
        PostgresStore.open(f"postgresql://flo:{SECRET}@127.0.0.1:1/flo").data.now()
    assert "hunter2" not in caplog.text


def test_instants_are_the_servers(data: PostgresData, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        before = connection.execute("SELECT clock_timestamp()").fetchone()
        row = data.set("queue", "k", {"status": "pending"}, ttl=timedelta(hours=1)).row
        now = data.now()
        (claimed,) = data.claim("queue", PENDING, (), limit=1, holder="h", changes=())
        after = connection.execute("SELECT clock_timestamp()").fetchone()
    assert before is not None
    assert after is not None
    assert before[0] <= row.created_at <= now <= claimed.updated_at <= after[0]
    assert row.expires_at == row.created_at + timedelta(hours=1)
    assert row.created_at.tzinfo is UTC
    assert isinstance(claimed.value, dict)
    assert claimed.value["claimedAt"] == claimed.as_json()["updatedAt"]


def test_no_statement_takes_an_instant_from_this_process(data: PostgresData, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[object] = []
    original = PostgresDatabase._bound

    def spied(self: PostgresDatabase, sql: str, values: dict[str, object]) -> object:
        bound.extend(values.values())
        return original(self, sql, values)

    monkeypatch.setattr(PostgresDatabase, "_bound", spied)
    data.set("queue", "k", {"status": "pending"}, ttl=timedelta(hours=1))
    data.claim("queue", parse_where([{"field": "createdAt", "operator": "newerThan", "value": "5m"}]), OLDEST, limit=1,
               holder="h", changes=())  # fmt: skip
    data.renew("queue", {"k": 1}, holder="h")
    data.remove_expired()
    assert bound
    assert not [value for value in bound if hasattr(value, "tzinfo")]


def test_a_statement_is_prepared_once_whatever_its_values(data: PostgresData, database: PostgresDatabase) -> None:
    data.set_many("queue", [(f"k{number}", {"status": "pending"}) for number in range(20)])
    for number in range(8):
        where = parse_where([{"field": "status", "operator": "equals", "value": f"pending{number or ''}"}])
        data.claim(f"queue{number % 2 or ''}", where, OLDEST, limit=2, holder=f"run-{number}", changes=())
    statements = database.read("SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%SKIP LOCKED%'")
    assert len([text for (text,) in statements if "pg_prepared" not in text]) == 1


def test_a_deadlock_with_another_session_is_retried_and_not_seen(data: PostgresData, postgres_url: str) -> None:
    data.set_many("t", [("a", 1), ("b", 1)])
    lock = "SELECT 1 FROM flo.rows WHERE key = %s FOR UPDATE"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    results: list[tuple[int, int]] = []
    with psycopg.connect(postgres_url) as other, psycopg.connect(postgres_url, autocommit=True) as watcher:
        other.execute("SET LOCAL deadlock_timeout = '30s'")  # so that the store is the one to give way
        other.execute(lock, ["b"])
        thread = threading.Thread(target=lambda: results.append(data.set_many("t", [("a", 2), ("b", 2)])))
        thread.start()
        while watcher.execute(waiting).fetchone() != (1,):
            pass
        other.execute(lock, ["a"])
        other.commit()
        thread.join()
    assert results == [(0, 2)]
    assert [row.value for row in data.query("t", EVERY, limit=9).rows] == [2, 2]


def test_a_session_that_the_server_ended_while_idle_is_replaced(data: PostgresData, postgres_url: str) -> None:
    data.set("t", "k", 1)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    assert ended == [(True,)]
    assert data.set("t", "k", 2).created is False


def test_a_read_whose_session_is_lost_is_sent_again_and_a_write_is_not(
    data: PostgresData, database: PostgresDatabase
) -> None:
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    for send, doubt in ((database.read, False), (database.run, True)):
        with pytest.raises(StoreUnavailable, match="the connection was lost") as raised:
            send(end)
        assert ("is not known" in str(raised.value)) is doubt
    assert data.count("t", EVERY) == 0


def test_a_change_refused_inside_a_statement_leaves_the_session_sound(data: PostgresData) -> None:
    for _ in range(3):
        with pytest.raises(FloError):
            data.set("t", "k", "x\x00")
    assert data.set("t", "k", 1).created


def test_names_too_long_for_an_index_are_a_clear_error(data: PostgresData) -> None:
    def name(first: int) -> str:
        return "".join(chr(0x4E00 + (first + step * 37) % 20000) for step in range(512))

    assert data.set("t", name(0), 1).created
    with pytest.raises(StepFailed, match="too large for PostgreSQL: index row size"):
        data.set(name(1), name(2), 1)


def test_eight_processes_share_a_queue_without_a_row_in_two_hands(data: PostgresData, postgres_url: str) -> None:
    data.set_many("queue", [(f"k{number:04}", {"status": "pending"}) for number in range(2000)])
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, str(CLAIMANT), postgres_url, f"p{n}"], stdin=pipe, stdout=pipe, text=True)
        for n in range(8)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    claims = [json.loads(line) for process in processes for line in process.communicate(timeout=60)[0].splitlines()]
    assert [process.returncode for process in processes] == [0] * 8
    assert Counter(key for claim in claims for key in claim) == {f"k{number:04}": 1 for number in range(2000)}
    assert all(claim == sorted(claim) for claim in claims)
    assert data.count("queue", PENDING) == 0


FORK = """
import os, sys
from flo.engine.stores.postgres import PostgresStore
store = PostgresStore.open(sys.argv[1])
store.data.set("t", "before", 0)
child = os.fork()
for number in range(50):
    store.data.set("t", f"{'parent' if child else 'child'}-{number}", number)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.close()
"""


def test_a_forked_process_uses_no_session_of_its_parent(data: PostgresData, postgres_url: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", FORK, postgres_url], check=True, timeout=60)
    assert data.count("t", EVERY) == 101


def test_vitals_name_what_an_operator_wants_to_know(postgres_url: str) -> None:
    store = PostgresStore.open(postgres_url)
    store.data.set("t", "k", 1)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT 1")
        ages = (store.vitals()["oldestTransactionSeconds"] for _ in range(10_000))
        assert any(ages), "a transaction that is open grows older"
        vitals = store.vitals()
    assert vitals["adapter"] == "postgresql"
    assert vitals["schemaVersion"] == vitals["knownSchemaVersion"] == store.schema_version()
    assert isinstance(vitals["oldestTransactionSeconds"], float)
    assert isinstance(vitals["floBytes"], int)
    assert vitals["floBytes"] > 0
    assert vitals["deadTuples"] == 0
    store.close()
