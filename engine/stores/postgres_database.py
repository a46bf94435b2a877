"""Statements on PostgreSQL: ``:name`` parameters, transactions, and another try after a conflict."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar, cast

import psycopg

from flo.engine.clock import Clock
from flo.engine.errors import StoreUnavailable
from flo.engine.stores.database import DriverFailed, Execute, Values
from flo.engine.stores.postgres_connections import Address, Connections
from flo.engine.stores.postgres_errors import is_conflict, is_lost, store_error
from flo.engine.stores.postgres_session import Rows, Session, Statement

T = TypeVar("T")

_TRIES: Final = 10
_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.2
_BEGIN: Final = Statement(b"BEGIN")
_COMMIT: Final = Statement(b"COMMIT")
_ROLLBACK: Final = Statement(b"ROLLBACK")

_NONE: Final[Values] = MappingProxyType({})
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|::|:(?P<name>[a-z_]\w*)")


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

        def alone(session: Session) -> Rows:
            rows: Rows = []
            session.send(*self._bound(sql, values), rows.extend)
            session.sync()
            return rows

        return self._try(alone, repeatable)

    def write(self, work: Callable[[Execute], T], *, vital: bool = False) -> T:
        def transaction(session: Session) -> T:
            execute = _Transaction(self, session)
            try:
                result = work(execute)
                execute.commit()
            except BaseException as error:
                execute.undo()
                if isinstance(error, DriverFailed):
                    raise error.error from None
                raise
            return result

        return self._try(transaction, repeatable=False)

    def now(self) -> datetime:
        if self._clock is not None:
            return self._clock.now()
        return self.instant(self.read("SELECT statement_timestamp()")[0][0])

    def instant(self, stored: object) -> datetime:
        return cast(datetime, stored).astimezone(UTC)

    def close(self) -> None:
        self._connections.close()

    def _try(self, work: Callable[[Session], T], repeatable: bool) -> T:
        tries = 0
        while True:
            tries += 1
            with self._connections.lend() as session:
                try:
                    return work(session)
                except psycopg.Error as error:
                    if is_lost(error, session.connection):
                        if not repeatable or tries > 1:
                            raise self._lost(error, repeatable) from error
                    elif not is_conflict(error) or tries == _TRIES:
                        raise store_error(error, self.url) from error
            time.sleep(random.random() * min(_FIRST_PAUSE_SECONDS * 2**tries, _LONGEST_PAUSE_SECONDS))

    def _lost(self, error: psycopg.Error, repeatable: bool) -> StoreUnavailable:
        doubt = "" if repeatable else "; whether the statement under way was applied is not known"
        reason = str(error).strip().split("\n", 1)[0]
        return StoreUnavailable(f"{self.url}: the connection was lost: {reason}{doubt}")

    def _bound(self, sql: str, values: Values) -> tuple[Statement, Values]:
        """The statement and its values in the driver's form; without values it goes as it stands."""
        statement = _statement(sql, self._clock is not None, bool(values))
        if self._clock is not None and "now" in statement.names:
            return statement, {**values, "now": self._clock.now()}
        return statement, values


class _Transaction:
    """Runs statements in one transaction of one session.

    Its beginning goes out with its first statement, and its end with all whose answers nobody waited for.
    """

    def __init__(self, database: PostgresDatabase, session: Session) -> None:
        self._database, self._session = database, session
        self._failure: Exception | None = None
        session.send(_BEGIN, _NONE)

    def __call__(self, sql: str, values: Values = _NONE) -> Rows:
        try:
            return self._session.ask(*self._database._bound(sql, values))
        except Exception as error:
            self._failure = self._failure or error
            raise

    def later(self, sql: str, values: Values = _NONE, then: Callable[[Rows], object] | None = None) -> None:
        self._session.send(*self._database._bound(sql, values), then)

    def many(self, sql: str, rows: Sequence[Values]) -> None:
        for row in rows:
            self.later(sql, row)

    def commit(self) -> None:
        """Commit. What failed before fails this, whatever was made of it meanwhile."""
        if self._failure is not None:
            raise self._failure
        self._session.send(_COMMIT, _NONE)
        self._session.sync()

    def undo(self) -> None:
        """Undo all of it. A session that came to harm has no transaction any more."""
        with suppress(Exception):  # what made it necessary is raised, not what else comes to light
            self._session.send(_ROLLBACK, _NONE)
            self._session.sync()


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
def _statement(sql: str, clock_given: bool, with_values: bool) -> Statement:
    """Write ``:name`` as the server does, and ``:now`` as its clock unless a clock is given."""
    names: dict[str, int] = {}

    def token(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or not (with_values or name == "now"):
            return found[0]
        if name == "now" and not clock_given:
            return "statement_timestamp()"
        number = names.setdefault(name, len(names) + 1)
        return f"${number}::timestamptz" if name == "now" else f"${number}"

    text = _TOKEN.sub(token, sql)
    return Statement(text.encode(), tuple(names))
