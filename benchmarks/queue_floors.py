"""A queue of jobs by hand: the same table of executions, with a driver, the least statements and nothing else."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import psycopg

QUEUE = "by-hand"
TOKEN = "token"
HANDLER = "benchmark.nothing"

Job = tuple[str, dict[str, Any]]
"""A claimed job: its id and its input."""


class JobsByHand(Protocol):
    """Jobs by hand. Each call is one transaction."""

    def enqueue(self, inputs: Sequence[dict[str, Any]]) -> None:
        """Insert jobs."""

    def claim(self) -> Job | None:
        """Take the next job that is due, for half a minute."""

    def finish(self, job: str) -> None:
        """Mark a job done, if its claim holds."""

    def close(self) -> None:
        """Close the connection."""


def jobs_by_hand(url: str) -> JobsByHand:
    """A connection of its own to the database of a store's URL."""
    if urlsplit(url).scheme == "sqlite":
        return _SqliteJobs(Path(url.partition(":")[2]))
    return _PostgresJobs(url)


class _SqliteJobs:
    """One connection, with the journal and the care for power cuts that flo's own has."""

    _INSERT = """
        INSERT INTO executions (id, digest, input, state, handler, queue, run_at, due_at, created_at, root_id)
        VALUES (:id, 'none', :input, 'pending', :handler, :queue, :now, :now, :now, :id)
    """
    _CLAIM = """
        UPDATE executions
        SET state = 'running', lease_token = :token, fence = fence + 1, deliveries = deliveries + 1,
            claimed_at = :now, due_at = :until, started_at = coalesce(started_at, :now)
        WHERE id = (
            SELECT id FROM executions WHERE queue = :queue AND due_at <= :now
            ORDER BY priority DESC, run_at, created_at, id LIMIT 1
        )
        RETURNING id, input
    """
    _FINISH = """
        UPDATE executions
        SET state = 'success', finished_at = :now, due_at = NULL, lease_token = NULL, output = '{}'
        WHERE id = :id AND lease_token = :token AND state = 'running'
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")

    def enqueue(self, inputs: Sequence[dict[str, Any]]) -> None:
        now = _text(datetime.now(UTC))
        rows = [_job(given) | {"now": now} for given in inputs]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._INSERT, rows)
        self._connection.execute("COMMIT")

    def claim(self) -> Job | None:
        now = datetime.now(UTC)
        values = {"queue": QUEUE, "token": TOKEN, "now": _text(now), "until": _text(now + timedelta(seconds=30))}
        rows = self._connection.execute(self._CLAIM, values).fetchall()
        return (rows[0][0], json.loads(rows[0][1])) if rows else None

    def finish(self, job: str) -> None:
        self._connection.execute(self._FINISH, {"id": job, "token": TOKEN, "now": _text(datetime.now(UTC))})

    def close(self) -> None:
        self._connection.close()


class _PostgresJobs:
    """One session that commits each statement, prepared by the driver after its fifth use."""

    _INSERT = """
        INSERT INTO flo.executions (id, digest, input, state, handler, queue, run_at, due_at, created_at, root_id)
        VALUES (%(id)s, 'none', %(input)s, 'pending', %(handler)s, %(queue)s, now(), now(), now(), %(id)s)
    """
    _CLAIM = """
        WITH picked AS MATERIALIZED (
            SELECT id FROM flo.executions WHERE queue = %(queue)s AND due_at <= now()
            ORDER BY priority DESC, run_at, created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
        )
        UPDATE flo.executions AS e
        SET state = 'running', lease_token = %(token)s, fence = fence + 1, deliveries = deliveries + 1,
            claimed_at = now(), due_at = now() + interval '30 s', started_at = coalesce(started_at, now())
        FROM picked WHERE e.id = picked.id
        RETURNING e.id, e.input::text
    """
    _FINISH = """
        UPDATE flo.executions
        SET state = 'success', finished_at = now(), due_at = NULL, lease_token = NULL, output = '{}'
        WHERE id = %(id)s AND lease_token = %(token)s AND state = 'running'
    """

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def enqueue(self, inputs: Sequence[dict[str, Any]]) -> None:
        if len(inputs) == 1:
            self._connection.execute(self._INSERT, _job(inputs[0]))
            return
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(self._INSERT, [_job(given) for given in inputs])

    def claim(self) -> Job | None:
        row = self._connection.execute(self._CLAIM, {"queue": QUEUE, "token": TOKEN}).fetchone()
        return None if row is None else (row[0], json.loads(row[1]))

    def finish(self, job: str) -> None:
        self._connection.execute(self._FINISH, {"id": job, "token": TOKEN})

    def close(self) -> None:
        self._connection.close()


def _job(given: dict[str, Any]) -> dict[str, Any]:
    return {"id": str(uuid.uuid4()), "input": json.dumps(given), "handler": HANDLER, "queue": QUEUE}


def _text(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
