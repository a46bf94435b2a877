"""Durable workflows by hand on SQLite: runs, and records of their ten steps."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime
from typing import Final

STEPS: Final = 10


class Contestant:
    """One connection with ``synchronous = FULL``."""

    _SCHEMA = """
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        CREATE TABLE IF NOT EXISTS runs (
            id TEXT PRIMARY KEY, input TEXT NOT NULL, state TEXT NOT NULL, started_at TEXT NOT NULL,
            finished_at TEXT, output TEXT
        );
        CREATE TABLE IF NOT EXISTS records (
            run TEXT NOT NULL, path TEXT NOT NULL, step_type TEXT NOT NULL, state TEXT NOT NULL,
            started_at TEXT NOT NULL, duration_ms REAL NOT NULL, output TEXT, PRIMARY KEY (run, path)
        );
        CREATE TABLE IF NOT EXISTS items (key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL);
    """
    _BEGIN = "INSERT INTO runs VALUES (:run, '{}', 'running', :now, NULL, NULL)"
    _END = "UPDATE runs SET state = 'success', finished_at = :now, output = '{}' WHERE id = :run"
    _WRITE = """
        INSERT INTO items VALUES (:key, '{"number": 1}', :now)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
    """
    _RECORD = "INSERT INTO records VALUES (:run, :path, 'set', 'success', :now, 0.1, '{\"number\": 1}')"

    def __init__(self, url: str) -> None:
        self._connection = sqlite3.connect(url.removeprefix("sqlite:"), timeout=30, isolation_level=None)
        self._connection.executescript(self._SCHEMA)

    def prepare(self, executions: int) -> None:
        """Forget every run."""
        self._connection.executescript("DELETE FROM runs; DELETE FROM records; DELETE FROM items")

    def run(self, executions: int, does: str) -> int:
        """Run: a commit for each step that writes a row, or acts outside, with its record; else one for all."""
        execute, each = self._connection.execute, does != "nothing"
        for number in range(executions):
            run = str(uuid.uuid4())
            for at in range(STEPS):
                values = {"run": run, "path": f"step-{at}", "key": f"{number}-{at}", "now": _now()}
                if each or at == 0:
                    execute("BEGIN IMMEDIATE")
                if at == 0:
                    execute(self._BEGIN, values)
                if does == "rows":
                    execute(self._WRITE, values)
                execute(self._RECORD, values)
                if at == STEPS - 1:
                    execute(self._END, values)
                if each or at == STEPS - 1:
                    execute("COMMIT")
        return executions

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
