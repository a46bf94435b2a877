"""Durable workflows by hand on PostgreSQL: runs, and records of their ten steps."""

from __future__ import annotations

import uuid
from typing import Final

import psycopg

STEPS: Final = 10


class Contestant:
    """One session."""

    _SCHEMA = """
        CREATE TABLE IF NOT EXISTS runs (
            id uuid PRIMARY KEY, input json NOT NULL, state text NOT NULL, started_at timestamptz NOT NULL,
            finished_at timestamptz, output json
        );
        CREATE TABLE IF NOT EXISTS records (
            run uuid NOT NULL, path text NOT NULL, step_type text NOT NULL, state text NOT NULL,
            started_at timestamptz NOT NULL, duration_ms float8 NOT NULL, output json, PRIMARY KEY (run, path)
        );
        CREATE TABLE IF NOT EXISTS items (
            key text PRIMARY KEY, value jsonb NOT NULL, updated_at timestamptz NOT NULL
        )
    """
    _BEGIN = "INSERT INTO runs VALUES (%(run)s, '{}', 'running', now())"
    _END = "UPDATE runs SET state = 'success', finished_at = now(), output = '{}' WHERE id = %(run)s"
    _WRITE = """
        INSERT INTO items VALUES (%(key)s, '{"number": 1}', now())
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
    """
    _RECORD = "INSERT INTO records VALUES (%(run)s, %(path)s, 'set', 'success', now(), 0.1, '{\"number\": 1}')"
    _ROWS = (
        f"WITH begun AS ({_BEGIN}), written AS ({_WRITE}) {_RECORD}",
        *[f"WITH written AS ({_WRITE}) {_RECORD}"] * (STEPS - 2),
        f"WITH ended AS ({_END}), written AS ({_WRITE}) {_RECORD}",
    )
    _OUTSIDE = (
        f"WITH begun AS ({_BEGIN}) {_RECORD}",
        *[_RECORD] * (STEPS - 2),
        f"WITH ended AS ({_END}) {_RECORD}",
    )

    def __init__(self, url: str) -> None:
        self._session = psycopg.connect(url, autocommit=True)
        self._session.execute(self._SCHEMA)

    def prepare(self, executions: int) -> None:
        """Forget every run."""
        self._session.execute("TRUNCATE runs, records, items")

    def run(self, executions: int, does: str) -> int:
        """Run: a commit for each step that writes a row, or acts outside, with its record; else one for all."""
        each = {"rows": self._ROWS, "outside": self._OUTSIDE}.get(does)
        for number in range(executions):
            run = uuid.uuid4()
            records = [{"run": run, "path": f"step-{at}", "key": f"{number}-{at}"} for at in range(STEPS)]
            if each is not None:
                for sql, values in zip(each, records, strict=True):
                    self._session.execute(sql, values)
                continue
            with self._session.transaction(), self._session.cursor() as cursor:
                cursor.execute(self._BEGIN, records[0])
                cursor.executemany(self._RECORD, records)
                cursor.execute(self._END, records[0])
        return executions

    def close(self) -> None:
        """Close the session."""
        self._session.close()
