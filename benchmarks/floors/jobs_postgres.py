"""A queue by hand on PostgreSQL: claim 100 in one statement, end 100 with their records in another."""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

import psycopg

BATCH: Final = 100
CHANNEL: Final = "jobs"


class Contestant:
    """One session that commits each statement, on tables with the least columns that do the same."""

    _SCHEMA = """
        CREATE TABLE IF NOT EXISTS jobs (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            handler text NOT NULL, queue text NOT NULL, priority int NOT NULL DEFAULT 0,
            input json NOT NULL, state text NOT NULL DEFAULT 'pending', run_at timestamptz NOT NULL DEFAULT now(),
            token text, fence int NOT NULL DEFAULT 0, lease_until timestamptz,
            started_at timestamptz, finished_at timestamptz, output json
        );
        CREATE INDEX IF NOT EXISTS jobs_due ON jobs (queue, priority DESC, run_at, id) WHERE state = 'pending';
        CREATE TABLE IF NOT EXISTS records (
            job bigint NOT NULL, path text NOT NULL, step_type text NOT NULL, state text NOT NULL,
            started_at timestamptz NOT NULL, duration_ms float8 NOT NULL, output json, PRIMARY KEY (job, path)
        )
    """
    _INSERT = "INSERT INTO jobs (handler, queue, input) VALUES ('nothing', 'default', %s)"
    _CLAIM = """
        WITH picked AS MATERIALIZED (
            SELECT id FROM jobs WHERE queue = 'default' AND state = 'pending' AND run_at <= now()
            ORDER BY priority DESC, run_at, id LIMIT %s FOR UPDATE SKIP LOCKED
        )
        UPDATE jobs AS j
        SET state = 'running', token = %s, fence = fence + 1, lease_until = now() + interval '30 s', started_at = now()
        FROM picked WHERE j.id = picked.id
        RETURNING j.id, j.input
    """
    _FINISH = """
        WITH done AS (
            UPDATE jobs SET state = 'success', finished_at = now(), token = NULL, lease_until = NULL, output = '{}'
            WHERE id = ANY(%s) AND token = %s AND state = 'running'
            RETURNING id, started_at
        )
        INSERT INTO records (job, path, step_type, state, started_at, duration_ms, output)
        SELECT id, 'job', 'nothing', 'success', started_at, 0.1, '{}' FROM done
    """

    def __init__(self, url: str) -> None:
        self._session = psycopg.connect(url, autocommit=True)
        self._session.execute(self._SCHEMA)
        self._token = str(uuid.uuid4())

    def fill(self, jobs: int) -> None:
        """Have so many jobs wait, and nothing else."""
        self.clear()
        self.enqueue(jobs, 1_000)
        self._session.execute("VACUUM (ANALYZE) jobs")

    def clear(self) -> None:
        """Forget every job."""
        self._session.execute("TRUNCATE jobs, records")

    def enqueue(self, jobs: int, size: int) -> None:
        """Insert so many, ``size`` in a transaction."""
        for at in range(0, jobs, size):
            rows = [(f'{{"number": {number}}}',) for number in range(at, min(jobs, at + size))]
            if size == 1:
                self._session.execute(self._INSERT, rows[0])
                continue
            with self._session.transaction(), self._session.cursor() as cursor:
                cursor.executemany(self._INSERT, rows)

    def drain(self) -> int:
        """Claim and end until nothing waits; gives how many."""
        done = 0
        while rows := self._session.execute(self._CLAIM, (BATCH, self._token)).fetchall():
            ended = [_work(job, given) for job, given in rows]
            done += self._session.execute(self._FINISH, (ended, self._token)).rowcount
        return done

    def succeeded(self) -> int:
        """How many have ended well, with a record."""
        sql = "SELECT count(*) FROM jobs JOIN records ON job = id WHERE jobs.state = 'success'"
        return int(self._session.execute(sql).fetchall()[0][0])

    def listen(self) -> None:
        """Be told of what comes."""
        self._session.execute(f"LISTEN {CHANNEL}".encode())

    def woken(self) -> float:
        """Wait for a notification; gives when it came."""
        next(self._session.notifies(timeout=30, stop_after=1))
        return time.monotonic()

    def wake(self) -> float:
        """Notify; gives when that began."""
        began = time.monotonic()
        self._session.execute(f"NOTIFY {CHANNEL}".encode())
        return began

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def _work(job: int, given: Any) -> int:
    assert "number" in given
    return job
