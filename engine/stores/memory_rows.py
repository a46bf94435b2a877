"""The rows of the memory store."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from flo.engine.clock import Clock
from flo.engine.frozen import frozen
from flo.engine.stores.base import Page, Row, Stored, Table, Updated
from flo.engine.stores.changes import Change, apply
from flo.engine.stores.claiming import claimed, is_held, renewed
from flo.engine.stores.filters import Condition, matches
from flo.engine.stores.limits import check_name, expiry, stored_text
from flo.engine.stores.ordering import Order, read_cursor
from flo.engine.stores.selection import Numbered, page, plain_text, required, select
from flo.engine.values import Json


@frozen
class _Kept:
    """A row as it is kept: its number in the insertion order, and its value as JSON text."""

    number: int
    key: str
    text: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    claim_count: int = 0

    def row(self) -> Row:
        return Row(self.key, json.loads(self.text), self.created_at, self.updated_at, self.expires_at, self.claim_count)


class MemoryData:
    """The ``DataStore`` of the memory store. One lock makes each call one step for every other thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._tables: dict[str, dict[str, _Kept]] = {}
        self._last_number = 0
        self._undo: list[tuple[str, str, _Kept | None]] | None = None
        """Inside a transaction: what was there before each change of a table's key."""

    def now(self) -> datetime:
        return self._clock.now()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the lock; on an exception undo what was changed since. Is not nested."""
        with self._lock:
            self._undo = []
            try:
                yield
            except BaseException:
                self._restore(self._undo)
                raise
            finally:
                self._undo = None

    def set(
        self, table: str, key: str, value: Json, *, ttl: timedelta | None = None, if_absent: bool = False
    ) -> Stored:
        check_name("table", table)
        check_name("key", key)
        text = stored_text(table, key, value)
        with self._lock:
            now = self.now()
            expires_at = expiry(now, ttl)
            held = self._live(table, key, now)
            if held is None or not if_absent:
                kept = self._put(table, key, text, now, expires_at)
                return Stored(kept.row(), created=held is None)
            return Stored(held.row(), created=False)

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        check_name("table", table)
        texts: dict[str, str] = {}
        for key, value in entries:
            check_name("key", key)
            texts[key] = stored_text(table, key, value)
        created = updated = 0
        with self._lock:
            now = self.now()
            for key, text in texts.items():
                if self._live(table, key, now) is None:
                    created += 1
                elif if_absent:
                    continue
                else:
                    updated += 1
                self._put(table, key, text, now, None)
        return created, updated

    def get(self, table: str, key: str) -> Row | None:
        check_name("table", table)
        check_name("key", key)
        with self._lock:
            held = self._live(table, key, self.now())
        return None if held is None else held.row()

    def query(self, table: str, where: Condition, order: Order = (), *, limit: int, cursor: str | None = None) -> Page:
        check_name("table", table)
        after = None if cursor is None else read_cursor(order, cursor)
        with self._lock:
            now = self.now()
            candidates = self._candidates(table, where, now)
            found = select(candidates, where, order, now, limit=limit + 1, after=after, in_order=not order)
        return page(found, order, limit)

    def count(self, table: str, where: Condition) -> int:
        check_name("table", table)
        with self._lock:
            return len(self._matching(table, where, self.now()))

    def delete(self, table: str, where: Condition) -> int:
        check_name("table", table)
        with self._lock:
            gone = self._matching(table, where, self.now())
            for row in gone:
                self._write(table, row.key, None)
        return len(gone)

    def claim(
        self, table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
    ) -> Sequence[Row]:
        check_name("table", table)
        with self._lock:
            now = self.now()
            objects = (held for held in self._candidates(table, where, now) if isinstance(held[1].value, Mapping))
            found = select(objects, where, order, now, limit=limit, in_order=not order)
            changed = []
            for number, row in found:
                text = stored_text(table, row.key, claimed(row.value, holder, changes, now))
                changed.append(_Kept(number, row.key, text, row.created_at, now, row.expires_at, row.claim_count + 1))
            for kept in changed:
                self._write(table, kept.key, kept)
        return [kept.row() for kept in changed]

    def update(
        self, table: str, key: str, where: Condition, changes: Sequence[Change], *, upsert: bool = False
    ) -> Updated:
        check_name("table", table)
        check_name("key", key)
        with self._lock:
            now = self.now()
            held = self._live(table, key, now)
            if held is None:
                if not upsert:
                    return Updated(False, None, "not-found")
                text = stored_text(table, key, apply({}, changes, now))
                return Updated(True, self._put(table, key, text, now, None).row())
            row = held.row()
            if not matches(where, row, now):
                return Updated(False, row, "guard")
            text = stored_text(table, key, apply(row.value, changes, now))
            kept = _Kept(held.number, key, text, held.created_at, now, held.expires_at, held.claim_count)
            self._write(table, key, kept)
            return Updated(True, kept.row())

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        check_name("table", table)
        renewed_keys = []
        with self._lock:
            now = self.now()
            for key, claim_count in held.items():
                kept = self._live(table, key, now)
                if kept is None or kept.claim_count != claim_count:
                    continue
                row = kept.row()
                if is_held(row.value, holder):
                    text = stored_text(table, key, renewed(row.value, now))
                    again = _Kept(kept.number, key, text, kept.created_at, now, kept.expires_at, claim_count)
                    self._write(table, key, again)
                    renewed_keys.append(key)
        return renewed_keys

    def remove_expired(self, limit: int = 1000) -> int:
        with self._lock:
            now = self.now()
            expired = [
                (name, kept.key) for name, rows in self._tables.items() for kept in rows.values() if _ended(kept, now)
            ][:limit]
            for name, key in expired:
                self._write(name, key, None)
        return len(expired)

    def tables(self) -> Sequence[Table]:
        with self._lock:
            now = self.now()
            counts = {name: sum(not _ended(kept, now) for kept in rows.values()) for name, rows in self._tables.items()}
        return [Table(name, count) for name, count in sorted(counts.items()) if count]

    def size(self) -> int:
        """How many characters the values of all rows have as JSON."""
        with self._lock:
            return sum(len(kept.text) for rows in self._tables.values() for kept in rows.values())

    def _live(self, table: str, key: str, now: datetime) -> _Kept | None:
        kept = self._tables.get(table, {}).get(key)
        return None if kept is None or _ended(kept, now) else kept

    def _candidates(self, table: str, where: Condition, now: datetime) -> Iterator[Numbered]:
        """The live rows in insertion order; only the one of a key that ``where`` asks for."""
        rows = self._tables.get(table, {})
        keys = {text for test in required(where) if test.field.column == "key" and (text := plain_text(test))}
        kept_rows = [kept for key in keys if (kept := rows.get(key))] if keys else rows.values()
        for kept in kept_rows:
            if not _ended(kept, now):
                yield kept.number, kept.row()

    def _matching(self, table: str, where: Condition, now: datetime) -> list[Row]:
        return [row for _, row in self._candidates(table, where, now) if matches(where, row, now)]

    def _put(self, table: str, key: str, text: str, now: datetime, expires_at: datetime | None) -> _Kept:
        """Write a whole row: over a live one in its place, else as the last of its table."""
        live = self._live(table, key, now)
        if live is None:
            self._write(table, key, None)  # an expired row gives up its place
            self._last_number += 1
            kept = _Kept(self._last_number, key, text, now, now, expires_at)
        else:
            kept = _Kept(live.number, key, text, live.created_at, now, expires_at)
        self._write(table, key, kept)
        return kept

    def _write(self, table: str, key: str, kept: _Kept | None) -> None:
        """Change, add or remove what is kept of a key; the one place that does."""
        rows = self._tables.setdefault(table, {})
        if self._undo is not None:
            self._undo.append((table, key, rows.get(key)))
        if kept is None:
            rows.pop(key, None)
        else:
            rows[key] = kept

    def _restore(self, undo: Sequence[tuple[str, str, _Kept | None]]) -> None:
        for table, key, before in reversed(undo):
            rows = self._tables[table]
            if before is None:
                rows.pop(key, None)
            else:
                rows[key] = before
        for table in {table for table, _, _ in undo}:  # a row that was removed comes back to its place
            self._tables[table] = dict(sorted(self._tables[table].items(), key=lambda row: row[1].number))


def _ended(kept: _Kept, now: datetime) -> bool:
    return kept.expires_at is not None and kept.expires_at <= now
