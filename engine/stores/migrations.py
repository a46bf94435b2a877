"""The schema, step by step: numbered, forward-only, each step once, whoever else migrates at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from flo.engine.errors import StoreTooNew
from flo.engine.stores.database import Database, Execute

_LOCK: Final = 0x666C6F
"""The number under which PostgreSQL lets one process migrate at a time."""

_TABLE: Final = {
    "sqlite": "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)",
    "postgresql": "CREATE TABLE IF NOT EXISTS flo.migrations (number int PRIMARY KEY, applied_at timestamptz NOT NULL)",
}
_RECORDED: Final = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'",
    "postgresql": "SELECT count(*) FROM pg_tables WHERE schemaname = 'flo' AND tablename = 'migrations'",
}


def schema_version(database: Database) -> int:
    """The newest step that was applied; 0 where there was none."""
    if not database.read(_RECORDED[database.dialect])[0][0]:
        return 0
    return _newest(database.read("SELECT max(number) FROM migrations"))


def known_version(dialect: str) -> int:
    """The newest step that this flo knows."""
    return len(_steps(dialect))


def migrate(database: Database) -> int:
    """Apply the steps that are missing, each in a transaction of its own; gives how many this call applied.

    Raises ``StoreTooNew`` where a newer flo has been. A store that is up to date is only read.
    """
    steps = _steps(database.dialect)
    if (found := schema_version(database)) > len(steps):
        raise StoreTooNew(database.url, found, len(steps))
    applied = 0
    while found < len(steps):
        found, ours = database.write(lambda execute: _next_step(database, execute, steps))
        applied += ours
    return applied


def _next_step(database: Database, execute: Execute, steps: tuple[str, ...]) -> tuple[int, int]:
    """Apply one step under the lock. Gives the version afterwards, and 1 or 0 for what was done here."""
    if database.dialect == "postgresql":  # SQLite: a write transaction is the lock
        execute("SET LOCAL lock_timeout = 0")
        execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        execute("CREATE SCHEMA IF NOT EXISTS flo")
    execute(_TABLE[database.dialect])
    found = _newest(execute("SELECT max(number) FROM migrations"))
    if found > len(steps):
        raise StoreTooNew(database.url, found, len(steps))
    if found == len(steps):
        return found, 0
    for statement in _statements(steps[found]):
        execute(statement)
    execute("INSERT INTO migrations (number, applied_at) VALUES (:number, :now)", {"number": found + 1})
    return found + 1, 1


def _newest(rows: list[tuple[int | None]]) -> int:
    return rows[0][0] or 0


@cache
def _steps(dialect: str) -> tuple[str, ...]:
    """The scripts of a dialect, by number: ``sqlite_0001.sql``, …"""
    folder = Path(__file__).parent
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(f"{dialect}_"))
    return tuple((folder / name).read_text("utf-8") for name in names if name.endswith(".sql"))


def _statements(script: str) -> Iterator[str]:
    """Cut a script where a line ends a statement, outside function bodies (``$$``). Comment lines are left out."""
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("--"):
            continue
        lines.append(line)
        text = "\n".join(lines).strip()
        if text.endswith(";") and text.count("$$") % 2 == 0:
            yield text
            lines.clear()
