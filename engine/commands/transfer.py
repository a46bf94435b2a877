"""Rows from a file into a table: read and checked whole, then written in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from flo.engine.commands.sources import parse_shown
from flo.engine.errors import InputInvalid, ValueRefused, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.instants import parse_instant
from flo.engine.reading import read_text
from flo.engine.stores.base import DataStore
from flo.engine.stores.limits import check_name, stored_text
from flo.engine.values import Json, kind_of, plain, shown

BATCH: Final = 1_000
_FIELDS: Final = ("key", "value", "createdAt", "updatedAt", "expiresAt", "claimCount")


@frozen
class Entry:
    """One row to write."""

    key: str
    value: Json
    expires_at: datetime | None = None


@dataclass(slots=True)
class Written:
    """What became of the entries: ``updated`` rows were replaced, ``expired`` ones left out."""

    created: int = 0
    updated: int = 0
    expired: int = 0


def read_entries(data: bytes, source: str) -> Sequence[Entry]:
    """Read an array of ``{key, value}``, or JSON lines. Raises ``InputInvalid`` with the place of what is wrong."""
    text = read_text(data, source, limit=len(data))
    if text.lstrip().startswith("["):
        held = parse_shown(data, source)
        assert isinstance(held, list)
        return [_entry(value, f"{source}, row {number}") for number, value in enumerate(held, 1)]
    return [_entry(value, f"{source}, line {number}") for number, value in _lines(text, source)]


def _lines(text: str, source: str) -> Iterator[tuple[int, Json]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, parse_shown(line.encode(), source)
            except InputInvalid as wrong:
                raise InputInvalid(source, wrong.message, number, wrong.column) from None


def _entry(held: Json, place: str) -> Entry:
    if not isinstance(held, dict):
        raise InputInvalid(place, f"a row is an object {{key, value}}, {kind_of(held)} came")
    for name in held:
        if name not in _FIELDS:
            raise InputInvalid(place, f"unknown field {name!r}{did_you_mean(name, _FIELDS)}")
    key = held.get("key")
    if not isinstance(key, str):
        raise InputInvalid(place, f"'key' must be text, {kind_of(key) if 'key' in held else 'nothing'} came")
    if "value" not in held:
        raise InputInvalid(place, "it has no 'value'")
    expires = held.get("expiresAt")
    at = parse_instant(expires) if isinstance(expires, str) else None
    if expires is not None and at is None:
        raise InputInvalid(place, f"'expiresAt' must be an instant such as 2026-01-31T12:00:00Z, {shown(expires)} came")
    try:
        return Entry(key, plain(held["value"], ("value",)), at)
    except ValueRefused as refused:
        raise InputInvalid(place, refused.message) from None


def write_entries(store: DataStore, table: str, entries: Sequence[Entry], *, if_absent: bool = False) -> Written:
    """Write rows in their order, each ``BATCH`` of them all or none. A key that comes twice: the last one stands.

    Names and sizes of all are checked before the first is written.
    """
    for entry in entries:
        check_name("key", entry.key)
        stored_text(table, entry.key, entry.value)
    written = Written()
    now = store.now()
    live = [entry for entry in entries if entry.expires_at is None or entry.expires_at > now]
    written.expired = len(entries) - len(live)
    batch: list[tuple[str, Json]] = []
    for entry in live:
        if entry.expires_at is not None or len(batch) == BATCH:
            _write_batch(store, table, batch, if_absent, written)
        if entry.expires_at is None:
            batch.append((entry.key, entry.value))
            continue
        stored = store.set(table, entry.key, entry.value, ttl=entry.expires_at - now, if_absent=if_absent)
        written.created += stored.created
        written.updated += not stored.created and not if_absent
    _write_batch(store, table, batch, if_absent, written)
    return written


def _write_batch(
    store: DataStore, table: str, batch: list[tuple[str, Json]], if_absent: bool, written: Written
) -> None:
    if batch:
        created, updated = store.set_many(table, batch, if_absent=if_absent)
        written.created += created
        written.updated += updated
        batch.clear()
