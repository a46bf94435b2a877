"""Rows of JSON in SQLite. SQL narrows, the plain reading decides; every write is one turn of the writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from flo.engine.stores.base import Page, Row, Stored, Table, Updated
from flo.engine.stores.changes import Change, apply
from flo.engine.stores.claiming import claimed, is_held, renewed, status_of
from flo.engine.stores.filters import Condition, matches
from flo.engine.stores.limits import check_name, check_ttl, expiry, stored_text
from flo.engine.stores.ordering import Order, Position, read_cursor
from flo.engine.stores.selection import Numbered, page, select
from flo.engine.stores.sql_rows import read_json
from flo.engine.stores.sqlite_database import Joined, SqliteDatabase, Transaction
from flo.engine.stores.sqlite_narrowing import COLUMNS, Narrowed, from_place, in_order, narrow
from flo.engine.values import Json

_FIND: Final = f"SELECT {COLUMNS} FROM rows WHERE table_name = :table AND key = :key"
_FIND_AGAIN: Final = f"SELECT {COLUMNS} FROM rows WHERE seq = :seq"
_INSERT: Final = """
INSERT INTO rows (table_name, key, value, status, created_at, updated_at, expires_at)
VALUES (:table, :key, :value, :status, :now, :now, :expires_at)
"""
_REPLACE: Final = """
UPDATE rows SET value = :value, status = :status, updated_at = :now, expires_at = :expires_at, claim_count = 0
WHERE seq = :seq
"""
_CHANGE: Final = """
UPDATE rows SET value = :value, status = :status, updated_at = :now, claim_count = :claim_count WHERE seq = :seq
"""
_DELETE: Final = "DELETE FROM rows WHERE seq = :seq"
_REMOVE_EXPIRED: Final = """
DELETE FROM rows WHERE seq IN (
    SELECT seq FROM rows WHERE expires_at IS NOT NULL AND expires_at <= :now ORDER BY expires_at LIMIT :limit
)
"""
_TABLES: Final = """
SELECT table_name, count(*) FROM rows WHERE expires_at IS NULL OR expires_at > :now
GROUP BY table_name ORDER BY table_name
"""
_FREED_PAGES: Final = 1000
"""So many free pages are kept for what comes next, and so many more are given back to the disk at once."""


class SqliteData:
    """The ``DataStore`` of the SQLite store."""

    def __init__(self, database: SqliteDatabase | Joined) -> None:
        self._database = database

    def now(self) -> datetime:
        return self._database.now()

    def set(
        self, table: str, key: str, value: Json, *, ttl: timedelta | None = None, if_absent: bool = False
    ) -> Stored:
        check_name("table", table)
        check_name("key", key)
        check_ttl(ttl)
        text, status = stored_text(table, key, value), status_of(value)

        def work(execute: Transaction) -> Stored:
            held = _live(execute, table, key)
            if held is not None and if_absent:
                return Stored(held[1], created=False)
            expires_at = expiry(execute.now, ttl)
            _put(execute, held, table, key, text, status, expires_at)
            created_at = execute.now if held is None else held[1].created_at
            return Stored(Row(key, read_json(text), created_at, execute.now, expires_at), created=held is None)

        return self._database.write(work)

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        check_name("table", table)
        texts: dict[str, tuple[str, str | None]] = {}
        for key, value in entries:
            check_name("key", key)
            texts[key] = stored_text(table, key, value), status_of(value)

        def work(execute: Transaction) -> tuple[int, int]:
            created = updated = 0
            for key, (text, status) in texts.items():
                held = _live(execute, table, key)
                if held is not None and if_absent:
                    continue
                _put(execute, held, table, key, text, status, None)
                created += held is None
                updated += held is not None
            return created, updated

        return self._database.write(work)

    def get(self, table: str, key: str) -> Row | None:
        check_name("table", table)
        check_name("key", key)
        with self._database.reading() as execute:
            rows = execute(_FIND, {"table": table, "key": key})
            row = _row(rows[0])[1] if rows else None
            return None if row is None or _ended(row, execute.now) else row

    def query(self, table: str, where: Condition, order: Order = (), *, limit: int, cursor: str | None = None) -> Page:
        check_name("table", table)
        after = None if cursor is None else read_cursor(order, cursor)
        with self._database.reading() as execute:
            return page(_select(execute, table, where, order, limit + 1, after), order, limit)

    def count(self, table: str, where: Condition) -> int:
        check_name("table", table)
        narrowed = narrow(table, where)
        with self._database.reading() as execute:
            if narrowed.exact:
                counted: int = execute(f"SELECT count(*) FROM rows WHERE {narrowed.sql}", narrowed.values)[0][0]
                return counted
            with execute.stream(f"SELECT {COLUMNS} FROM rows WHERE {narrowed.sql}", narrowed.values) as rows:
                return sum(matches(where, _row(row)[1], execute.now) for row in rows)

    def delete(self, table: str, where: Condition) -> int:
        check_name("table", table)
        narrowed = narrow(table, where)

        def work(execute: Transaction) -> int:
            deleted = _delete(execute, where, narrowed)
            _give_space_back(execute)
            return deleted

        return self._database.write(work)

    def claim(
        self, table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
    ) -> Sequence[Row]:
        check_name("table", table)

        # in an order that SQL cannot give all candidates have to be read, which is not for the time of the lock
        picked = None if in_order(order) else self._pick(table, where, order, limit)
        if picked == []:
            return []

        def work(execute: Transaction) -> Sequence[Row]:
            found = None if picked is None else _unchanged(execute, where, picked)
            if found is None:
                found = _select(execute, table, where, order, limit, objects=True)
            taken = [
                (number, row, claimed(row.value, holder, changes, execute.now), row.claim_count + 1)
                for number, row in found
            ]
            return _change(execute, table, taken)

        return self._database.write(work)

    def update(
        self, table: str, key: str, where: Condition, changes: Sequence[Change], *, upsert: bool = False
    ) -> Updated:
        check_name("table", table)
        check_name("key", key)

        def work(execute: Transaction) -> Updated:
            now = execute.now
            held = _live(execute, table, key)
            if held is None:
                if not upsert:
                    return Updated(False, None, "not-found")
                value = apply({}, changes, now)
                text = stored_text(table, key, value)
                _put(execute, None, table, key, text, status_of(value), None)
                return Updated(True, Row(key, read_json(text), now, now))
            number, row = held
            if not matches(where, row, now):
                return Updated(False, row, "guard")
            changed = _change(execute, table, [(number, row, apply(row.value, changes, now), row.claim_count)])
            return Updated(True, changed[0])

        return self._database.write(work)

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        check_name("table", table)

        def work(execute: Transaction) -> Sequence[str]:
            kept = []
            for key, claim_count in held.items():
                found = _live(execute, table, key)
                if found and found[1].claim_count == claim_count and is_held(found[1].value, holder):
                    kept.append((*found, renewed(found[1].value, execute.now), claim_count))
            return [row.key for row in _change(execute, table, kept)]

        return self._database.write(work)

    def remove_expired(self, limit: int = 1000) -> int:
        def work(execute: Transaction) -> int:
            removed = execute.changes(_REMOVE_EXPIRED, {"limit": limit})
            _give_space_back(execute)
            return removed

        return self._database.write(work)

    def tables(self) -> Sequence[Table]:
        return [Table(name, count) for name, count in self._database.read(_TABLES)]

    def _pick(self, table: str, where: Condition, order: Order, limit: int) -> list[Numbered]:
        with self._database.reading() as execute:
            return _select(execute, table, where, order, limit, objects=True)


def candidates(
    table: str, where: Condition, order: Order, after: Position | None
) -> tuple[str, dict[str, object], bool]:
    """The query for rows that may match, its values, and whether they come in ``order``."""
    narrowed = narrow(table, where)
    ordered = in_order(order)
    beyond = "" if after is None else from_place(order, after, narrowed.values)
    sql = f"SELECT {COLUMNS} FROM rows WHERE {narrowed.sql}{beyond} {ordered or ''}"
    return sql, narrowed.values, ordered is not None


def _select(
    execute: Transaction,
    table: str,
    where: Condition,
    order: Order,
    limit: int,
    after: Position | None = None,
    *,
    objects: bool = False,
) -> list[Numbered]:
    """The rows that match, in order; with ``objects`` only those whose value is one."""
    sql, values, ordered = candidates(table, where, order, after)
    with execute.stream(sql, values) as stream:
        rows: Iterator[Numbered] = map(_row, stream)
        if objects:
            rows = (held for held in rows if isinstance(held[1].value, Mapping))
        return select(rows, where, order, execute.now, limit=limit, after=after, in_order=ordered)


def _row(columns: tuple[Any, ...]) -> Numbered:
    number, key, value, created_at, updated_at, expires_at, claim_count = columns
    instant = datetime.fromisoformat
    ends = None if expires_at is None else instant(expires_at)
    return number, Row(key, read_json(value), instant(created_at), instant(updated_at), ends, claim_count)


def _ended(row: Row, now: datetime) -> bool:
    return row.expires_at is not None and row.expires_at <= now


def _live(execute: Transaction, table: str, key: str) -> Numbered | None:
    """The row of ``key``; one that has expired is removed, so that a new one is new in every way."""
    rows = execute(_FIND, {"table": table, "key": key})
    if not rows:
        return None
    number, row = _row(rows[0])
    if _ended(row, execute.now):
        execute(_DELETE, {"seq": number})
        return None
    return number, row


def _unchanged(execute: Transaction, where: Condition, picked: Sequence[Numbered]) -> list[Numbered] | None:
    """Rows that were read before as they are now; None where one has changed or does not match any more."""
    found = []
    for number, row in picked:
        again = execute(_FIND_AGAIN, {"seq": number})
        if not again or (held := _row(again[0]))[1] != row:
            return None
        if _ended(held[1], execute.now) or not matches(where, held[1], execute.now):
            return None
        found.append(held)
    return found


def _put(
    execute: Transaction,
    held: Numbered | None,
    table: str,
    key: str,
    text: str,
    status: str | None,
    expires_at: datetime | None,
) -> None:
    """Write a whole row, in the place of the one that is ``held``."""
    values = {"value": text, "status": status, "expires_at": expires_at}
    if held is None:
        execute(_INSERT, {**values, "table": table, "key": key})
    else:
        execute(_REPLACE, {**values, "seq": held[0]})


def _change(execute: Transaction, table: str, rows: Sequence[tuple[int, Row, Json, int]]) -> list[Row]:
    """Write new values and claim counts of rows; gives the rows as they are then."""
    changed, written = [], []
    for number, row, value, claim_count in rows:
        text = stored_text(table, row.key, value)
        written.append({"seq": number, "value": text, "status": status_of(value), "claim_count": claim_count})
        changed.append(Row(row.key, read_json(text), row.created_at, execute.now, row.expires_at, claim_count))
    execute.many(_CHANGE, written)
    return changed


def _delete(execute: Transaction, where: Condition, narrowed: Narrowed) -> int:
    if narrowed.exact:
        return execute.changes(f"DELETE FROM rows WHERE {narrowed.sql}", narrowed.values)
    with execute.stream(f"SELECT {COLUMNS} FROM rows WHERE {narrowed.sql}", narrowed.values) as stream:
        gone = [number for number, row in map(_row, stream) if matches(where, row, execute.now)]
    execute.many(_DELETE, [{"seq": number} for number in gone])
    return len(gone)


def _give_space_back(execute: Transaction) -> None:
    """Shrink the file by some of its free pages, where it has many."""
    if execute("PRAGMA freelist_count")[0][0] > 2 * _FREED_PAGES:
        for _ in range(_FREED_PAGES):  # Python takes one step of this statement, which is one page
            execute("PRAGMA incremental_vacuum(1)")
