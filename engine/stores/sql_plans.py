"""Plans of statements that have to be fast whatever the statistics say."""

from __future__ import annotations

from typing import Any

from flo.engine.stores.database import Database, Execute, Values


def by_index(execute: Execute, dialect: str) -> None:
    """Let a transaction read no whole table where an index serves.

    PostgreSQL's statistics are always behind what a queue is; by them it would read a million that have ended to find
    the few that have not.
    """
    if dialect == "postgresql":
        execute("SET LOCAL enable_seqscan = off")


def read_by_index(database: Database, sql: str, values: Values) -> list[tuple[Any, ...]]:
    """Run one query so."""
    if database.dialect != "postgresql":
        return database.read(sql, values)

    def work(execute: Execute) -> list[tuple[Any, ...]]:
        by_index(execute, database.dialect)
        return execute(sql, values)

    return database.write(work)
