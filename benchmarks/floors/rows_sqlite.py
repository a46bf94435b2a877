"""Rows by hand on SQLite: flo's own table, and statements that do the same to it."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from benchmarks import tables
from benchmarks.tables import HOLDER, TABLE


class Contestant:
    """One connection with ``synchronous = FULL``, and a table of records beside flo's."""

    _SCHEMA = """
        PRAGMA synchronous = FULL;
        CREATE TABLE IF NOT EXISTS records (
            execution_id TEXT NOT NULL, path TEXT NOT NULL, step_type TEXT NOT NULL, state TEXT NOT NULL,
            started_at TEXT NOT NULL, duration_ms REAL NOT NULL, output TEXT, PRIMARY KEY (execution_id, path)
        );
    """
    _CLAIM = """
        UPDATE rows
        SET value = json_set(value, '$.status', 'in_flight', '$.claimedAt', :now, '$.claimedBy', :holder),
            status = 'in_flight', updated_at = :now, claim_count = claim_count + 1
        WHERE seq IN (
            SELECT seq FROM rows
            WHERE table_name = :table AND status = 'pending' AND (expires_at IS NULL OR expires_at > :now)
            ORDER BY created_at, seq LIMIT :limit
        )
        RETURNING created_at, seq, key, value
    """
    _FINISH = """
        UPDATE rows
        SET value = json_set(value, '$.status', 'done'), status = 'done', updated_at = :now
        WHERE table_name = :table AND key = :key AND (expires_at IS NULL OR expires_at > :now)
          AND json_extract(value, '$.claimedBy') = :holder
        RETURNING value
    """
    _RECORD = """
        INSERT INTO records
        VALUES (:round || :holder, :key, 'data-store.atomic-update', 'success', :now, 0.1, '{"updated": true}')
    """

    def __init__(self, url: str) -> None:
        tables.make(url)
        path = url.removeprefix("sqlite:")
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._connection.executescript(self._SCHEMA)
        self._rounds = 0

    def claim(self, times: int, limit: int) -> int:
        """Claim so many times; gives how many rows."""
        return sum(len(self._claimed(limit)) for _ in range(times))

    def update(self, times: int) -> int:
        """Guarded updates of claimed rows, one by one."""
        return sum(self._finish(f"in_flight-{number}") for number in range(1, times + 1))

    def dispatch(self, limit: int) -> int:
        """Claim, look at each row, and mark it done with a record, until nothing is found; gives how many."""
        done, self._rounds = 0, self._rounds + 1
        while rows := self._claimed(limit):
            for key, value in rows:
                message(key, value)
                self._connection.execute("BEGIN IMMEDIATE")
                done += self._finish(key)
                self._connection.execute(self._RECORD, self._values(key) | {"round": self._rounds})
                self._connection.execute("COMMIT")
        return done

    def _claimed(self, limit: int) -> list[tuple[str, dict[str, Any]]]:
        values = {"table": TABLE, "limit": limit, "holder": HOLDER, "now": _now()}
        rows = self._connection.execute(self._CLAIM, values).fetchall()
        return [(key, json.loads(value)) for _, _, key, value in sorted(rows)]

    def _finish(self, key: str) -> bool:
        rows = self._connection.execute(self._FINISH, self._values(key)).fetchall()
        return bool(rows and json.loads(rows[0][0]))

    def _values(self, key: str) -> dict[str, Any]:
        return {"table": TABLE, "key": key, "holder": HOLDER, "now": _now()}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def message(key: str, value: dict[str, Any]) -> str:
    """What the recipe logs."""
    return f"working on {key}: {value['payload']}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
