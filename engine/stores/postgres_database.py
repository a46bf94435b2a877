"""Statements on PostgreSQL: ``:name`` parameters, transactions, and another try after a conflict."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import psycopg

from flo.engine.clock import Clock
from flo.engine.errors import StoreUnavailable
from flo.engine.stores.database import DriverFailed, Execute, Values
from flo.engine.stores.postgres_connections import Address, Connection, Connections
from flo.engine.stores.postgres_errors import is_conflict, is_lost, store_error

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

_TRIES: Final = 10
_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.2
_FEW: Final = 4
"""So many rows are sent one by one: to set up a pipeline takes as long."""

_NONE: Final[Values] = MappingProxyType({})
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|::|:(?P<name>[a-z_]\w*)|%")


class PostgresDatabase:
    """Runs statements on PostgreSQL. A ``clock`` stands in for the server's; that is for tests only."""

    dialect = "postgresql"

    def __init__(self, address: Address, *, clock: Clock | None = None, connections: int = 32) -> None:
        self.url = address.shown
        self._clock = clock
        self._connections = Connections(address, connections)

    def read(self, sql: str, values: Values = _NONE) -> Rows:
        return self.run(sql, values, repeatable=True)

    def run(self, sql: str, values: Values = _NONE, *, repeatable: bool = False) -> Rows:
        """Run one statement that commits by itself. A ``repeatable`` one is sent again when its connection is lost."""
        return self._try(lambda connection: self._send(connection, sql, values), repeatable)

    def write(self, work: Callable[[Execute], T], *, vital: bool = False) -> T:
        def transaction(connection: Connection) -> T:
            with connection.transaction():
                try:
                    return work(_Transaction(self, connection))
                except DriverFailed as failed:
                    raise failed.error from None

        return self._try(transaction, repeatable=False)

    def now(self) -> datetime:
        if self._clock is not None:
            return self._clock.now()
        return self.instant(self.read("SELECT statement_timestamp()")[0][0])

    def instant(self, stored: object) -> datetime:
        return cast(datetime, stored).astimezone(UTC)

    def close(self) -> None:
        self._connections.close()

    def _try(self, work: Callable[[Connection], T], repeatable: bool) -> T:
        tries = 0
        while True:
            tries += 1
            with self._connections.lend() as connection:
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if is_lost(error, connection):
                        if not repeatable or tries > 1:
                            raise self._lost(error, repeatable) from error
                    elif not is_conflict(error) or tries == _TRIES:
                        raise store_error(error, self.url) from error
            time.sleep(random.random() * min(_FIRST_PAUSE_SECONDS * 2**tries, _LONGEST_PAUSE_SECONDS))

    def _lost(self, error: psycopg.Error, repeatable: bool) -> StoreUnavailable:
        doubt = "" if repeatable else "; whether the statement under way was applied is not known"
        reason = str(error).strip().split("\n", 1)[0]
        return StoreUnavailable(f"{self.url}: the connection was lost: {reason}{doubt}")

    def _send(self, connection: Connection, sql: str, values: Values) -> Rows:
        cursor = connection.execute(*self._bound(sql, values))
        result = cursor.pgresult
        return cursor.fetchall() if result is not None and result.nfields else []

    def _send_many(self, connection: Connection, sql: str, rows: Sequence[Values]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(self._bound(sql, rows[0])[0], [self._bound(sql, row)[1] or {} for row in rows])

    def _bound(self, sql: str, values: Values) -> tuple[bytes, Mapping[str, Any] | None]:
        """The statement and its values in the driver's form; without values it goes as it stands."""
        text, reads_clock = _driver_text(sql, self._clock is not None, bool(values))
        if reads_clock and self._clock is not None:
            return text, {**values, "now": self._clock.now()}
        return text, values or None


class _Transaction:
    """Runs statements in one transaction of one session."""

    def __init__(self, database: PostgresDatabase, connection: Connection) -> None:
        self._database, self._connection = database, connection

    def __call__(self, sql: str, values: Values = _NONE) -> Rows:
        return self._database._send(self._connection, sql, values)

    def many(self, sql: str, rows: Sequence[Values]) -> None:
        if len(rows) <= _FEW:
            for row in rows:
                self(sql, row)
        else:
            self._database._send_many(self._connection, sql, rows)


class Joined:
    """A database for use inside a transaction that is under way: all that it does belongs to that one, and is undone
    with it."""

    def __init__(self, database: PostgresDatabase, execute: Execute) -> None:
        self._database, self._execute = database, execute

    def read(self, sql: str, values: Values = _NONE) -> Rows:
        return self.run(sql, values)

    def run(self, sql: str, values: Values = _NONE, *, repeatable: bool = False) -> Rows:
        try:
            return self._execute(sql, values)
        except psycopg.Error as error:
            raise DriverFailed(error) from error

    def now(self) -> datetime:
        return self._database.instant(self.run("SELECT :now")[0][0])


@lru_cache(maxsize=1024)
def _driver_text(sql: str, clock_given: bool, with_values: bool) -> tuple[bytes, bool]:
    """Write ``:name`` as the driver does, and ``:now`` as the server's clock unless a clock is given. Says whether the
    statement looks at the clock."""
    reads_clock = False
    for found in _TOKEN.finditer(sql):
        reads_clock = reads_clock or found["name"] == "now"
    binds = with_values or (clock_given and reads_clock)
    if not binds and not reads_clock:
        return sql.encode(), False

    def token(found: re.Match[str]) -> str:
        name = found["name"]
        if name == "now" and not clock_given:
            return "statement_timestamp()"
        if name is None:
            return found[0].replace("%", "%%") if binds else found[0]
        return "%(now)s::timestamptz" if name == "now" else f"%({name})s"

    return _TOKEN.sub(token, sql).encode(), reads_clock
