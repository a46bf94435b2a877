"""A queue by hand on SQLite: claim 100 in one transaction, end 100 with their records in another."""

from __future__ import annotations

import json
import sqlite3
import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

BATCH: Final = 100


class Contestant:
    """One connection with ``synchronous = FULL``, on tables with the least columns that do the same."""

    _SCHEMA = """
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        CREATE TABLE IF NOT EXISTS jobs (
            id INTEGER PRIMARY KEY, handler TEXT NOT NULL, queue TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0,
            input TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'pending', run_at TEXT NOT NULL,
            token TEXT, fence INTEGER NOT NULL DEFAULT 0, lease_until TEXT,
            started_at TEXT, finished_at TEXT, output TEXT
        );
        CREATE INDEX IF NOT EXISTS jobs_due ON jobs (queue, priority DESC, run_at, id) WHERE state = 'pending';
        CREATE TABLE IF NOT EXISTS records (
            job INTEGER NOT NULL, path TEXT NOT NULL, step_type TEXT NOT NULL, state TEXT NOT NULL,
            started_at TEXT NOT NULL, duration_ms REAL NOT NULL, output TEXT, PRIMARY KEY (job, path)
        );
    """
    _INSERT = "INSERT INTO jobs (handler, queue, input, run_at) VALUES ('nothing', 'default', ?, ?)"
    _CLAIM = """
        UPDATE jobs
        SET state = 'running', token = :token, fence = fence + 1, lease_until = :until, started_at = :now
        WHERE id IN (
            SELECT id FROM jobs WHERE queue = 'default' AND state = 'pending' AND run_at <= :now
            ORDER BY priority DESC, run_at, id LIMIT :limit
        )
        RETURNING id, input
    """
    _FINISH = """
        UPDATE jobs SET state = 'success', finished_at = ?, token = NULL, lease_until = NULL, output = '{}'
        WHERE id = ? AND token = ? AND state = 'running'
    """
    _RECORD = "INSERT INTO records VALUES (?, 'job', 'nothing', 'success', ?, 0.1, '{}')"

    def __init__(self, url: str) -> None:
        path = url.removeprefix("sqlite:")
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._connection.executescript(self._SCHEMA)
        self._token = str(uuid.uuid4())

    def fill(self, jobs: int) -> None:
        """Have so many jobs wait, and nothing else."""
        self.clear()
        self.enqueue(jobs, 1_000)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def clear(self) -> None:
        """Forget every job."""
        self._connection.executescript("DELETE FROM jobs; DELETE FROM records")

    def enqueue(self, jobs: int, size: int) -> None:
        """Insert so many, ``size`` in a transaction."""
        for at in range(0, jobs, size):
            numbers = range(at, min(jobs, at + size))
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(self._INSERT, [(f'{{"number": {number}}}', _text()) for number in numbers])
            self._connection.execute("COMMIT")

    def drain(self) -> int:
        """Claim and end until nothing waits; gives how many."""
        done = 0
        while rows := self._claim():
            now = _text()
            ended = [(now, _work(job, given), self._token) for job, given in rows]
            self._connection.execute("BEGIN IMMEDIATE")
            done += self._connection.executemany(self._FINISH, ended).rowcount
            self._connection.executemany(self._RECORD, [(job, now) for _, job, _ in ended])
            self._connection.execute("COMMIT")
        return done

    def _claim(self) -> list[tuple[int, str]]:
        values = {"token": self._token, "limit": BATCH, "now": _text(), "until": _text(30)}
        self._connection.execute("BEGIN IMMEDIATE")
        rows = self._connection.execute(self._CLAIM, values).fetchall()
        self._connection.execute("COMMIT")
        return rows

    def succeeded(self) -> int:
        """How many have ended well, with a record."""
        sql = "SELECT count(*) FROM jobs JOIN records ON job = id WHERE jobs.state = 'success'"
        return int(self._connection.execute(sql).fetchall()[0][0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _work(job: int, given: str) -> int:
    assert "number" in json.loads(given)
    return job


def _text(seconds: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
