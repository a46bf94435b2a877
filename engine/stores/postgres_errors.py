"""What PostgreSQL and its driver report, in our words."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors as pg
from psycopg.errors import Diagnostic

from flo.engine.errors import FilterInvalid, FloError, StepFailed, StoreError, StoreFull, StoreUnavailable
from flo.engine.stores.limits import value_too_large
from flo.engine.stores.sql_holds import lease_lost
from flo.engine.stores.sql_rows import read_json

_CHANGE_REFUSED: Final = "FL001"
"""The SQLSTATE with which the functions of schema ``flo`` refuse a change; the detail is its place."""

_VALUE_TOO_LARGE: Final = "FL002"
"""And a value that a change made too large; the message is its row's key, the detail its size."""

_CLAIM_LOST: Final = "FL003"
"""And the commit of an owner whose claim is lost; the message is its execution, the detail who has that now."""

_CONFLICTS: Final = (pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation)
"""What another session caused, and another try cures. A statement of ours breaks a unique key only in a race."""

_REMEDIES: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (pg.AdminShutdown, "the server was shut down or ended this session; try again"),
    (pg.CrashShutdown, "the server ended after a crash; try again"),
    (pg.LockNotAvailable, "another session holds a lock for too long; look for an open transaction with flo doctor"),
    (pg.QueryCanceled, "the statement was cancelled by the server's administrator or a timeout"),
    (pg.ReadOnlySqlTransaction, "the server only reads, it may be a replica; connect to the primary"),
    (pg.InsufficientPrivilege, "the user lacks a right in this database; grant it CREATE on the database"),
    (pg.UndefinedTable, "the schema is missing; run flo migrate"),
    (pg.InvalidSchemaName, "the schema is missing; run flo migrate"),
)

_NO_SESSION: Final = (
    ("password authentication failed", "the password is wrong; correct it in the URL, or set PGPASSWORD"),
    ("no password supplied", "the server wants a password; put it in the URL, or set PGPASSWORD"),
    ("no pg_hba.conf entry", "the server refuses this user, database or machine; see its pg_hba.conf"),
    ('role "', "there is no such user; create it with createuser, or correct the URL"),
    ('database "', "there is no such database; create it with createdb, or correct the URL"),
    ("connection refused", "connection refused; is PostgreSQL running there, and are host and port right?"),
    ("no such file or directory", "no server listens on this socket; is PostgreSQL running there?"),
    ("resolve host", "the host is unknown; correct its name"),
    ("timeout expired", "no answer within the time allowed; is the host right, and does a firewall stand between?"),
    ("too many clients", "no connection is left; raise the server's max_connections, or run fewer workers"),
    ("remaining connection slots", "no connection is left; raise the server's max_connections, or run fewer workers"),
    ("starting up", "the server is starting; try again"),
    ("shutting down", "the server is stopping; try again"),
)
"""What stands in the text of a failed connection, which carries no SQLSTATE."""


def is_conflict(error: psycopg.Error) -> bool:
    """Whether another try may succeed, since only another session stood in the way."""
    return isinstance(error, _CONFLICTS)


def is_lost(error: psycopg.Error, connection: psycopg.Connection[object]) -> bool:
    """Whether the connection is gone, and what became of the statement is unknown."""
    return connection.broken or connection.closed or isinstance(error, pg.AdminShutdown | pg.CrashShutdown)


def no_session(error: psycopg.Error, place: str) -> StoreUnavailable:
    """Give our error for a connection that failed. ``place`` is the URL without its password."""
    text = str(error).lower()
    remedy = next((remedy for found, remedy in _NO_SESSION if found in text), _reason(error))
    return StoreUnavailable(f"{place} cannot be reached: {remedy}")


def store_error(error: psycopg.Error, place: str) -> FloError:
    """Give our error for a driver's. ``place`` is the URL without its password."""
    if error.sqlstate == _CHANGE_REFUSED:
        return FilterInvalid(error.diag.message_detail or "set", error.diag.message_primary or "cannot be applied")
    if error.sqlstate == _VALUE_TOO_LARGE:
        return _too_large(error.diag)
    if error.sqlstate == _CLAIM_LOST:
        return lease_lost(error.diag.message_primary or "", **read_json(error.diag.message_detail))
    if isinstance(error, pg.DiskFull | pg.OutOfMemory | pg.ConfigurationLimitExceeded):
        return StoreFull(f"{place} is full: {_reason(error)}; free space on the server; nothing was changed")
    if isinstance(error, pg.ProgramLimitExceeded):
        return StepFailed(f"too large for PostgreSQL: {_reason(error)}", code="too_large", retryable=False)
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return StoreUnavailable(f"{place}: {remedy}")
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"{place} cannot be reached: {_reason(error)}")
    return StoreError(f"{place}: {_reason(error)}")


def _too_large(diagnosis: Diagnostic) -> StepFailed:
    size = int(diagnosis.message_detail or 0)
    return value_too_large(diagnosis.table_name or "", diagnosis.message_primary or "", size)


def _reason(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says."""
    text = error.diag.message_primary or str(error)
    return text.strip().split("\n", 1)[0] or type(error).__name__
