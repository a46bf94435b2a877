"""Very many old executions are pruned while others claim: a bounded number of rows at once, in little memory."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.clock import SystemClock
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Ended, JobOptions
from flo.testing import FrozenClock

PRUNER = Path(__file__).with_name("pruner.py")
OLD = 50_000 if "FLO_TEST_FULL" in os.environ else 15_000
RECORDS = 20_000
"""One of them has so many records of steps."""

AT_ONCE = 1_100
"""Rows: a thousand records, and a hundred executions."""

PAYLOAD = 3_000
MEMORY = 32_000_000
"""Bytes more than at first: less than the payloads of all together."""

TABLES = ("executions", "execution_steps", "execution_lines")
NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
NOTE = {
    "sqlite": [
        "CREATE TRIGGER note_{table} AFTER DELETE ON {table} BEGIN UPDATE removed SET n = n + 1; END",
    ],
    "postgresql": [
        "CREATE FUNCTION note_{table} () RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN UPDATE flo.removed SET n = n + (SELECT count(*) FROM gone); RETURN NULL; END'",
        "CREATE TRIGGER note AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone"
        " FOR EACH STATEMENT EXECUTE FUNCTION note_{table} ()",
    ],
}


def test_very_many_executions_are_pruned_beside_claims_in_small_transactions(shared_url: str) -> None:
    with app.open(shared_url, clock=FrozenClock(SystemClock().now() - timedelta(days=30))) as engine:
        ended, waiting = ended_and_waiting(engine)
    rows = multiply(shared_url, ended)
    swollen = size(shared_url)
    command = [sys.executable, str(PRUNER), shared_url]
    with app.open(shared_url) as engine:
        pruning = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            ids = claim_while(pruning, engine)
        finally:
            pruning.kill()
        out, said = pruning.communicate()
        assert pruning.returncode == 0, said
        told = json.loads(out)
        assert told["gone"] == OLD
        assert sum(told["removed"]) == rows
        assert max(told["removed"]) <= AT_ONCE
        assert told["peak"] - told["before"] < MEMORY < OLD * PAYLOAD
        left = {held.id: held.state for held in engine.executions.list(limit=OLD)}
        assert left == {waiting: ExecutionState.PENDING} | dict.fromkeys(ids, ExecutionState.SUCCESS)
        assert len(ids) > 10, "nothing was claimed meanwhile"
    assert size(shared_url) < swollen / 3 or not swollen


def ended_and_waiting(engine: Flo) -> tuple[str, str]:
    """An execution that has ended with records, and one that nobody has claimed."""
    say: Any = {"stepId": "say", "stepType": "core.log", "input": {"message": "hello"}}
    enqueued = engine.enqueue({"steps": [say]}, {"payload": "x" * PAYLOAD})
    engine.worker().run(threading.Event(), drain=True)
    return enqueued.execution_id, engine.enqueue("core.log", {"message": "hello"}, JobOptions("no")).execution_id


def claim_while(pruning: subprocess.Popen[str], engine: Flo) -> list[str]:
    """Enqueue, claim and conclude, one at a time, until a process has ended; gives the ids."""
    ids, queue = [], engine.store.queue
    while pruning.poll() is None:
        enqueued = engine.enqueue("core.log", {"message": "hello"})
        [delivery] = queue.claim(["default"], worker="w", lease=LEASE, limit=1).deliveries
        assert delivery.execution.id == enqueued.execution_id
        queue.conclude(delivery.hold, Ended(ExecutionState.SUCCESS))
        ids.append(enqueued.execution_id)
    return ids


def multiply(url: str, execution_id: str) -> int:
    """Make ``OLD`` executions with records of one, and count from then on what is removed; gives how many rows there
    are of them."""
    with connected(url) as connection:
        for table in TABLES:
            copy(connection, table, OLD - 1, execution_id, {"id", "root_id", "execution_id"})
        copy(connection, "execution_steps", RECORDS, execution_id, {"path"})
        connection.execute("CREATE TABLE removed (n bigint)")
        connection.execute("INSERT INTO removed VALUES (0)")
        dialect = "sqlite" if isinstance(connection, sqlite3.Connection) else "postgresql"
        for table in TABLES:
            for statement in NOTE[dialect]:
                connection.execute(statement.format(table=table))
        if dialect == "postgresql":
            connection.execute("VACUUM (ANALYZE)")
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]
        return int(sum(counts)) - 1


def copy(connection: Any, table: str, count: int, execution_id: str, numbered: set[str]) -> None:
    """Add copies of the rows of an execution, in which some columns have a number behind their value."""
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
    names = [column[0] for column in described if column[0] != "seq"]
    values = [f"{name} || '-' || n" if name in numbered else name for name in names]
    key = "id" if table == "executions" else "execution_id"
    connection.execute(
        f"{NUMBERS.format(count=count)}INSERT INTO {table} ({', '.join(names)})"
        f" SELECT {', '.join(values)} FROM {table} CROSS JOIN numbers WHERE {key} = '{execution_id}'"
    )


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection of the driver's own, which commits each statement."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:"), isolation_level=None)) as file:
            yield file
        return
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET search_path = flo")
        yield session


def size(url: str) -> int:
    """The bytes of a SQLite file and its log; of another database none."""
    if not url.startswith("sqlite:"):
        return 0
    path = Path(url.removeprefix("sqlite:"))
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)
