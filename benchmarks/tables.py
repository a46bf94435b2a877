"""Statements on flo's tables that are not measured: what prepares a round, and what checks it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg

TABLE: Final = "pending_ops"
HOLDER: Final = "benchmark"

Statements = Mapping[str, Sequence[str]]

_RECORDS: Final = ("executions", "execution_steps", "execution_lines")
CLEAR_EXECUTIONS: Final[Statements] = {
    "sqlite": tuple(f"DELETE FROM {table}" for table in _RECORDS),
    "postgresql": (f"TRUNCATE {', '.join(f'flo.{table}' for table in _RECORDS)} CASCADE",),
}
_CLEAR_ROWS: Final[Statements] = {
    "sqlite": ("DELETE FROM rows WHERE table_name = :table",),
    "postgresql": ("DELETE FROM flo.rows WHERE table_name = %(table)s",),
}
_SETTLE: Final[Statements] = {
    "sqlite": ("PRAGMA wal_checkpoint(TRUNCATE)",),
    "postgresql": ("VACUUM (ANALYZE) flo.executions", "VACUUM (ANALYZE) flo.rows"),
}
SUCCEEDED: Final[Statements] = {
    "sqlite": ("SELECT count(*) FROM executions WHERE state = 'success'",),
    "postgresql": ("SELECT count(*) FROM flo.executions WHERE state = 'success'",),
}
_ADD_ROWS: Final[Statements] = {
    "sqlite": (
        """
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
        INSERT INTO rows (table_name, key, value, status, created_at, updated_at)
        SELECT :table, :status || '-' || n, :value, :status,
               printf('2025-01-01T00:00:%02d.%06dZ', n / 1000000, n % 1000000), '2025-01-01T00:00:00.000000Z'
        FROM numbers
        """,
    ),
    "postgresql": (
        """
        INSERT INTO flo.rows (table_name, key, value, created_at, updated_at)
        SELECT %(table)s, %(status)s || '-' || n, %(value)s::jsonb,
               timestamptz '2025-01-01 00:00:00Z' + n * interval '1 microsecond', '2025-01-01 00:00:00Z'
        FROM generate_series(1, %(count)s) AS n
        """,
    ),
}
_REOPEN: Final[Statements] = {
    "sqlite": (
        """
        UPDATE rows SET status = :target, value = json_set(value, '$.status', :target)
        WHERE table_name = :table AND status = :source
        """,
    ),
    "postgresql": (
        """
        UPDATE flo.rows SET value = jsonb_set(value, '{status}', to_jsonb(%(target)s::text))
        WHERE table_name = %(table)s AND status = %(source)s
        """,
    ),
}
_DONE: Final[Statements] = {
    "sqlite": ("SELECT count(*) FROM rows WHERE status = 'done'",),
    "postgresql": ("SELECT count(*) FROM flo.rows WHERE status = 'done'",),
}

_PADDING: Final = "x" * 100
_NO_VALUES: Final[Mapping[str, Any]] = {}


def run(url: str, statements: Statements, values: Mapping[str, Any] = _NO_VALUES) -> None:
    """Send statements, in the words of the database, each in a transaction of its own."""
    scheme, path = url.split(":", 1)
    if scheme == "sqlite":
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            for statement in statements[scheme]:
                connection.execute(statement, values)
        return
    with psycopg.connect(url, autocommit=True) as session:
        for statement in statements[scheme]:
            session.execute(statement.encode(), values or None)


def number(url: str, statements: Statements) -> int:
    """The number that one statement gives."""
    scheme, path = url.split(":", 1)
    [statement] = statements[scheme]
    if scheme == "sqlite":
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            return int(connection.execute(statement).fetchall()[0][0])
    with psycopg.connect(url) as session:
        return int(session.execute(statement.encode()).fetchall()[0][0])


def make(url: str) -> None:
    """Make flo's tables, by a process of its own: the one that asks is not to grow by the engine."""
    subprocess.run([sys.executable, "-c", f"from flo.engine import app; app.open({url!r}).close()"], check=True)


def settle(url: str) -> None:
    """Leave the tables as an idle database would have them."""
    run(url, _SETTLE)


def clear_rows(url: str, table: str = TABLE) -> None:
    """Remove every row of a table."""
    run(url, _CLEAR_ROWS, {"table": table})


def fill_rows(url: str, count: int, status: str = "pending", *, holder: str | None = None) -> None:
    """Have so many rows of a status, with keys ``status-1`` and so on, and no others."""
    clear_rows(url)
    add_rows(url, count, status, holder=holder)


def add_rows(url: str, count: int, status: str, *, holder: str | None = None) -> None:
    """Add so many rows of a status, created a microsecond apart."""
    value = {"status": status, "payload": {"task": _PADDING}, "claimedBy": holder}
    run(url, _ADD_ROWS, {"table": TABLE, "count": count, "status": status, "value": json.dumps(value)})
    settle(url)


def reopen_rows(url: str, source: str, target: str) -> None:
    """Give every row of one status another one."""
    run(url, _REOPEN, {"table": TABLE, "source": source, "target": target})
    settle(url)


def done_rows(url: str) -> int:
    """How many rows are done."""
    return number(url, _DONE)
