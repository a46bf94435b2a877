"""What SQLite and its driver report, in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flo.engine.errors import FloError, StepFailed, StoreError, StoreFull, StoreUnavailable

LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})

_UNAVAILABLE: Final = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; is the folder there, and may this user write in it?",
    sqlite3.SQLITE_PERM: "cannot be opened: the file's permissions forbid it",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only for this user",
    sqlite3.SQLITE_NOTADB: "is no SQLite database; name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a copy, or save what can be read with sqlite3's .recover",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
    sqlite3.SQLITE_PROTOCOL: "is locked by other processes in a way that did not clear; try again",
}


def primary_code(error: sqlite3.Error) -> int:
    """The SQLite result code of an error, without its extension; 0 where the driver itself complains."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def store_error(error: sqlite3.Error, place: str) -> FloError:
    """Give our error for a driver's. ``place`` is the store's URL."""
    code = primary_code(error)
    if code in LOCKED:
        return locked(place)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"{place}: the disk is full; free some space and try again; nothing was changed")
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"{place} {_UNAVAILABLE[code]}")
    if code == sqlite3.SQLITE_TOOBIG:
        return StepFailed(f"too large for SQLite: {error}", code="too_large", retryable=False)
    if "no such table" in str(error) or "no such column" in str(error):
        return StoreUnavailable(f"{place}: the schema is missing or out of date; run flo migrate")
    return StoreError(f"{place}: {error}")


def locked(place: str) -> StoreUnavailable:
    """Our error for a lock that another process does not let go."""
    return StoreUnavailable(
        f"{place} is locked by another process for too long; look for one that is stopped, or has a transaction open"
    )


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise our errors for the driver's."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, place) from error
