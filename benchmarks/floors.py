"""What one would write by hand: the same rows of the same table, with a driver, its statements and nothing else."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import psycopg

Claimed = tuple[str, dict[str, Any]]
"""A claimed row: its key and its value."""


class ByHand(Protocol):
    """A queue by hand. Each call is one statement that commits by itself."""

    def claim(self, table: str, limit: int, holder: str) -> list[Claimed]:
        """Take the oldest pending rows."""

    def finish(self, table: str, key: str, holder: str) -> bool:
        """Mark a row done, if ``holder`` still has it."""

    def close(self) -> None:
        """Close the connection."""


class SqliteByHand:
    """One connection, with the journal and the care for power cuts that flo's own has."""

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

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")

    def claim(self, table: str, limit: int, holder: str) -> list[Claimed]:
        values = {"table": table, "limit": limit, "holder": holder, "now": _now()}
        rows = self._connection.execute(self._CLAIM, values).fetchall()
        return [(key, json.loads(value)) for _, _, key, value in sorted(rows)]

    def finish(self, table: str, key: str, holder: str) -> bool:
        values = {"table": table, "key": key, "holder": holder, "now": _now()}
        rows = self._connection.execute(self._FINISH, values).fetchall()
        return bool(rows and json.loads(rows[0][0]))

    def close(self) -> None:
        self._connection.close()


class PostgresByHand:
    """One session that commits each statement, prepared by the driver after its fifth use."""

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

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def claim(self, table: str, limit: int, holder: str) -> list[Claimed]:
        values = {"table": table, "limit": limit, "holder": holder}
        rows = self._connection.execute(self._CLAIM, values).fetchall()
        return [(row[2], row[3]) for row in sorted(rows, key=lambda row: row[:2])]

    def finish(self, table: str, key: str, holder: str) -> bool:
        values = {"table": table, "key": key, "holder": holder}
        return self._connection.execute(self._FINISH, values).fetchone() is not None

    def close(self) -> None:
        self._connection.close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
