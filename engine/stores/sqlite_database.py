"""Statements on SQLite: readers side by side, one writer a process, ``:name`` parameters."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from flo.engine.clock import Clock
from flo.engine.errors import StoreClosed, StoreFull
from flo.engine.instants import write_instant
from flo.engine.stores.database import DriverFailed, Values
from flo.engine.stores.sqlite_errors import translated
from flo.engine.stores.sqlite_files import open_reader
from flo.engine.stores.sqlite_reserve import Reserve
from flo.engine.stores.sqlite_writer import Writer

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

_NONE: Final[Values] = MappingProxyType({})
_KEPT_READERS: Final = 8


class Transaction:
    """Runs statements on one connection, at one instant."""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self._connection = connection
        self._now = write_instant(now)
        self.now = now

    def at(self, now: datetime) -> Transaction:
        """The same at a later instant."""
        return Transaction(self._connection, now)

    def __call__(self, sql: str, values: Values = _NONE) -> Rows:
        return self._connection.execute(sql, self._bound(values)).fetchall()

    def many(self, sql: str, rows: Sequence[Values]) -> None:
        self._connection.executemany(sql, map(self._bound, rows))

    def later(self, sql: str, values: Values = _NONE, then: Callable[[Rows], object] | None = None) -> None:
        rows = self(sql, values)
        if then is not None:
            then(rows)

    @contextmanager
    def stream(self, sql: str, values: Values) -> Iterator[Iterator[tuple[Any, ...]]]:
        """Run a query and read its rows one by one, as many as are wanted."""
        cursor = self._connection.execute(sql, self._bound(values))
        try:
            yield cursor
        finally:
            cursor.close()

    def changes(self, sql: str, values: Values) -> int:
        """Run a statement and give how many rows it changed."""
        return self._connection.execute(sql, self._bound(values)).rowcount

    def _bound(self, values: Values) -> dict[str, object]:
        bound = {**values, "now": self._now}
        for name, held in values.items():
            if held.__class__ is datetime:
                bound[name] = write_instant(held)
        return bound


class _Connections:
    """The connections of one process: its writer, and readers that nobody uses at the moment."""

    def __init__(self, path: Path, place: str, synchronous: str) -> None:
        self.writer = Writer(path, place, synchronous)
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return open_reader(self._path)

    def give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            keep = not self._closed and len(self._idle) < _KEPT_READERS
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def close(self) -> None:
        self.writer.close()
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class SqliteDatabase:
    """Runs statements on a SQLite file that is there. A forked child gets connections of its own, and leaves its
    parent's alone, as SQLite demands."""

    dialect = "sqlite"

    def __init__(self, path: Path, clock: Clock, *, url: str, synchronous: str) -> None:
        self.url = url
        self._path, self._clock, self._synchronous = path, clock, synchronous
        self._connections = {os.getpid(): _Connections(path, url, synchronous)}
        self._reserve = Reserve(path)
        self._reserve.fill()
        self._closed = False

    def read(self, sql: str, values: Values = _NONE) -> Rows:
        with self.reading() as transaction:
            return transaction(sql, values)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Lend a connection that reads; each statement sees what is committed when it starts."""
        connections = self._mine()
        with translated(self.url):
            connection = connections.take()
            try:
                yield Transaction(connection, self.now())
            finally:
                connections.give_back(connection)

    def write(self, work: Callable[[Transaction], T], *, vital: bool = False) -> T:
        writer = self._mine().writer

        def transaction(connection: sqlite3.Connection) -> T:
            try:
                return work(Transaction(connection, self.now()))
            except DriverFailed as failed:
                raise failed.error from None

        try:
            return writer.run(transaction)
        except StoreFull:
            if not vital:
                raise
        with self._reserve.spent():
            return writer.run(transaction)

    def now(self) -> datetime:
        return self._clock.now()

    def instant(self, stored: object) -> datetime:
        assert isinstance(stored, str)
        return datetime.fromisoformat(stored)

    def close(self) -> None:
        """End the writer and close what is open. Closing twice does nothing."""
        self._closed = True
        mine = self._connections.pop(os.getpid(), None)
        if mine is not None:
            mine.close()

    def _mine(self) -> _Connections:
        if self._closed:
            raise StoreClosed(f"{self.url} is closed")
        process = os.getpid()
        mine = self._connections.get(process)
        if mine is None:  # setdefault is one step, so that two threads agree
            mine = self._connections.setdefault(process, _Connections(self._path, self.url, self._synchronous))
        return mine


class Joined:
    """A database for use inside a transaction that is under way: all that it does belongs to that one, and is undone
    with it. What it does happens when it is done, and not when that transaction began."""

    def __init__(self, database: SqliteDatabase, transaction: Transaction) -> None:
        self._database, self._transaction = database, transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        try:
            yield self._transaction.at(self.now())
        except sqlite3.Error as error:
            raise DriverFailed(error) from error

    def read(self, sql: str, values: Values = _NONE) -> Rows:
        with self.reading() as transaction:
            return transaction(sql, values)

    def write(self, work: Callable[[Transaction], T]) -> T:
        with self.reading() as transaction:
            return work(transaction)

    def now(self) -> datetime:
        return self._database.now()
