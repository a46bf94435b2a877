"""Sealed settings, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flo.engine.stores.database import Database
from flo.engine.stores.settings import Kind, Setting

_COLUMNS: Final = "s.kind, s.owner, s.name, s.sealed, s.updated_at"
_PUT: Final = """
INSERT INTO settings (kind, owner, name, sealed, updated_at) VALUES (:kind, :owner, :name, :sealed, :now)
ON CONFLICT (kind, owner, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at
"""
_REMOVE: Final = "DELETE FROM settings WHERE kind = :kind AND owner = :owner{named} RETURNING name"
_FIND: Final = f"SELECT {_COLUMNS} FROM settings s WHERE s.kind = :kind{{owned}} ORDER BY s.owner, s.name"
_RESEAL: Final = """
UPDATE settings SET sealed = :sealed WHERE kind = :kind AND owner = :owner AND name = :name AND sealed = :before
RETURNING name
"""
"""On PostgreSQL a statement that waited for another writer looks at the row again, as that one left it."""


class SqlSettings:
    """The ``SettingStore`` of both SQL adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, kind: Kind, owner: str, name: str, sealed: str) -> None:
        values = {"kind": kind, "owner": owner, "name": name, "sealed": sealed}
        self._database.write(lambda execute: execute(_PUT, values))

    def remove(self, kind: Kind, owner: str, name: str | None = None) -> int:
        sql = _REMOVE.format(named="" if name is None else " AND name = :name")
        values = {"kind": kind, "owner": owner} if name is None else {"kind": kind, "owner": owner, "name": name}
        return len(self._database.write(lambda execute: execute(sql, values)))

    def find(self, kind: Kind, owner: str | None = None) -> Sequence[Setting]:
        sql = _FIND.format(owned="" if owner is None else " AND s.owner = :owner")
        values = {"kind": kind} if owner is None else {"kind": kind, "owner": owner}
        return [self._setting(row) for row in self._database.read(sql, values)]

    def reseal(self, old: Setting, sealed: str) -> bool:
        values = {"kind": old.kind, "owner": old.owner, "name": old.name, "before": old.sealed, "sealed": sealed}
        return bool(self._database.write(lambda execute: execute(_RESEAL, values)))

    def _setting(self, row: tuple[Any, ...]) -> Setting:
        return Setting(row[0], row[1], row[2], row[3], self._database.instant(row[4]))
