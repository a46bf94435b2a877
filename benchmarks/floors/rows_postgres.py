"""Rows by hand on PostgreSQL: flo's own table, and statements that do the same to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg

from benchmarks import tables
from benchmarks.floors.rows_sqlite import message
from benchmarks.tables import HOLDER, TABLE

CONNECTIONS: Final = 4

Rows = list[tuple[str, dict[str, Any]]]


class Contestant:
    """Sessions that commit each statement, and a table of records beside flo's."""

    _SCHEMA = """
        CREATE TABLE IF NOT EXISTS records (
            execution_id text NOT NULL, path text NOT NULL, step_type text NOT NULL, state text NOT NULL,
            started_at timestamptz NOT NULL, duration_ms float8 NOT NULL, output json, PRIMARY KEY (execution_id, path)
        )
    """
    _CLAIM = """
        WITH picked AS MATERIALIZED (
            SELECT key FROM flo.rows
            WHERE table_name = %(table)s AND status = 'pending' AND (expires_at IS NULL OR expires_at > now())
            ORDER BY created_at, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        )
        UPDATE flo.rows AS r
        SET value = r.value || jsonb_build_object(
                'status', 'in_flight', 'claimedAt', now(), 'claimedBy', %(holder)s::text
            ),
            updated_at = now(), claim_count = r.claim_count + 1
        FROM picked WHERE r.table_name = %(table)s AND r.key = picked.key
        RETURNING r.created_at, r.seq, r.key, r.value
    """
    _FINISH = """
        UPDATE flo.rows SET value = jsonb_set(value, '{status}', '"done"'), updated_at = now()
        WHERE table_name = %(table)s AND key = %(key)s AND (expires_at IS NULL OR expires_at > now())
          AND value ->> 'claimedBy' = %(holder)s
        RETURNING value
    """
    _RECORDED = f"""
        WITH done AS ({_FINISH}), record AS (
            INSERT INTO records
            SELECT %(round)s::text || %(holder)s, %(key)s, 'data-store.atomic-update', 'success', now(), 0.1,
                   '{{"updated": true}}'
            FROM done
        )
        SELECT value FROM done
    """

    def __init__(self, url: str) -> None:
        tables.make(url)
        self._sessions = [psycopg.connect(url, autocommit=True) for _ in range(CONNECTIONS)]
        self._sessions[0].execute(self._SCHEMA)
        self._rounds = 0

    def claim(self, times: int, limit: int) -> int:
        """Claim so many times; gives how many rows."""
        return sum(len(self._claimed(limit)) for _ in range(times))

    def update(self, times: int) -> int:
        """Guarded updates of claimed rows, one by one."""
        done, session = 0, self._sessions[0]
        for number in range(1, times + 1):
            values = {"table": TABLE, "key": f"in_flight-{number}", "holder": HOLDER}
            done += session.execute(self._FINISH, values).fetchone() is not None
        return done

    def dispatch(self, limit: int) -> int:
        """Claim, look at each row, and mark it done with a record, until nothing is found; gives how many. Each batch
        is shared among threads that have a session each."""
        done, self._rounds = 0, self._rounds + 1
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            while rows := self._claimed(limit):
                shares = [rows[at::CONNECTIONS] for at in range(CONNECTIONS)]
                done += sum(pool.map(self._finish, self._sessions, shares))
        return done

    def _claimed(self, limit: int) -> Rows:
        values = {"table": TABLE, "limit": limit, "holder": HOLDER}
        rows = self._sessions[0].execute(self._CLAIM, values).fetchall()
        return [(row[2], row[3]) for row in sorted(rows, key=lambda row: row[:2])]

    def _finish(self, session: psycopg.Connection[Any], rows: Rows) -> int:
        done = 0
        for key, value in rows:
            message(key, value)
            values = {"table": TABLE, "key": key, "holder": HOLDER, "round": self._rounds}
            done += session.execute(self._RECORDED, values).fetchone() is not None
        return done

    def close(self) -> None:
        """Close the sessions."""
        for session in self._sessions:
            session.close()
