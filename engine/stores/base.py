"""What every store promises. ``tests/stores`` holds each adapter to these docstrings.

A store is safe to use from many threads at once. Every method commits what it did before it returns, or raises and did
nothing. Conflicts that a database reports between writers (deadlock, serialization failure, busy) are retried inside, a
bounded number of times with jitter; callers never see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord
from flo.engine.instants import write_instant
from flo.engine.stores.changes import Change
from flo.engine.stores.filters import Condition
from flo.engine.stores.ordering import Order
from flo.engine.values import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table. ``value`` is any JSON; instants are aware UTC."""

    key: str
    value: Json
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    claim_count: int = 0

    def as_json(self) -> JsonObject:
        """The row as steps and the command show it: ``key value createdAt updatedAt expiresAt claimCount``."""
        return {
            "key": self.key,
            "value": self.value,
            "createdAt": write_instant(self.created_at),
            "updatedAt": write_instant(self.updated_at),
            "expiresAt": None if self.expires_at is None else write_instant(self.expires_at),
            "claimCount": self.claim_count,
        }


@dataclass(frozen=True, slots=True)
class Stored:
    """What ``set`` left: the row as it is now, and whether this call created it."""

    row: Row
    created: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in order, and the cursor that continues after them (None: there are no more)."""

    rows: Sequence[Row]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Updated:
    """What ``update`` did. ``row`` is the row afterwards, or the row that the guard refused; ``reason`` why nothing
    changed."""

    updated: bool
    row: Row | None
    reason: Literal["not-found", "guard"] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table and how many live rows it has."""

    name: str
    rows: int


class DataStore(Protocol):
    """Rows of JSON in named tables. A table appears with its first row; reading one that is not there finds nothing.

    Expired rows are invisible to every method at once. Rows keep their insertion order, which breaks every tie. Table
    names and keys are text of 1 to 512 characters; values are checked with ``values.plain`` before they arrive here,
    and one over 16 MiB as JSON raises ``StepFailed`` with code ``too_large``, naming size and limit.
    """

    def now(self) -> datetime:
        """The clock that decides here: the database server's on PostgreSQL, else the one given. Aware, UTC."""

    def set(
        self,
        table: str,
        key: str,
        value: Json,
        *,
        ttl: timedelta | None = None,
        if_absent: bool = False,
    ) -> Stored:
        """Write one row. Over an existing key: the whole value is replaced, ``createdAt`` and the place in the
        insertion order stay, ``expiresAt`` is set anew (None without ``ttl``) and ``claimCount`` is 0. With
        ``if_absent`` an existing row is left as it is and given back. Of any number of concurrent calls for one absent
        key exactly one says ``created``.
        """

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        """Write rows as ``set`` does, all or none. Gives how many were created and how many updated. A key given
        twice: the last value stands, in the first one's place. Rows are locked in the order of their keys."""

    def get(self, table: str, key: str) -> Row | None:
        """Read one row."""

    def query(
        self,
        table: str,
        where: Condition,
        order: Order = (),
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page:
        """Read up to ``limit`` rows that match, in ``order``, ties and no order at all by insertion. ``cursor`` is a
        ``next_cursor`` of a query with the same order, else ``FilterInvalid``; it continues after the last row of that
        page, also when rows were added or removed in between."""

    def count(self, table: str, where: Condition) -> int:
        """Count the rows that match."""

    def delete(self, table: str, where: Condition) -> int:
        """Remove the rows that match; gives how many."""

    def claim(
        self,
        table: str,
        where: Condition,
        order: Order,
        *,
        limit: int,
        holder: str,
        changes: Sequence[Change],
    ) -> Sequence[Row]:
        """Take up to ``limit`` rows that match, in ``order``, for ``holder``: ``status = "in_flight"``, ``claimedAt``
        = now, ``claimedBy`` = ``holder``, then ``changes``, and ``claimCount`` one higher, all in one statement. Gives
        the rows as they are afterwards, in ``order``. Concurrent claims get disjoint rows and do not wait for one
        another (on SQLite: they take turns); a row that another one changed in between is judged as it is then. Rows
        whose value is no object are never claimed. A change that cannot be applied to a row fails the whole claim with
        ``FilterInvalid``, nothing is claimed."""

    def update(
        self,
        table: str,
        key: str,
        where: Condition,
        changes: Sequence[Change],
        *,
        upsert: bool = False,
    ) -> Updated:
        """Apply ``changes``, all or none, to the row of ``key`` if it matches ``where``, in one statement. With
        ``upsert`` a missing row is made from an empty object, without looking at ``where``. A change that cannot be
        applied (increment of text) raises ``FilterInvalid`` that names it, and nothing is changed. ``claimCount`` and
        ``createdAt`` stay."""

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        """Set ``claimedAt`` to now for the rows of ``held`` (key: the ``claimCount`` of the claim) that ``holder``
        still has: ``claimedBy`` is ``holder``, ``claimCount`` is unchanged, ``status`` is ``in_flight``. Gives the
        keys that were renewed."""

    def remove_expired(self, limit: int = 1000) -> int:
        """Remove up to ``limit`` rows whose ``expiresAt`` has passed; gives how many."""

    def tables(self) -> Sequence[Table]:
        """The tables that have live rows, by name."""


@dataclass(frozen=True, slots=True)
class StoredWorkflow:
    """One stored version of a workflow. ``document`` is the JSON text as it was added; ``digest`` its SHA-256 in
    hex."""

    id: str
    name: str
    version: int
    digest: str
    document: str
    created_at: datetime


class WorkflowStore(Protocol):
    """Workflows by name, each with its versions."""

    def save(self, name: str, document: str, *, pinned_id: str | None = None) -> StoredWorkflow:
        """Store a document under ``name``: version 1, or one higher than the newest. The newest stored again unchanged
        (the same digest) makes no new version. ``pinned_id`` keeps the workflow's identity through a rename: the
        workflow that has this id gets the new name. Concurrent calls give distinct versions."""

    def get(self, name: str, version: int | None = None) -> StoredWorkflow | None:
        """The newest version of ``name`` (or of the workflow whose id is ``name``), or the one asked for."""

    def list(self) -> Sequence[StoredWorkflow]:
        """The newest version of each, by name."""


class ExecutionStore(Protocol):
    """Executions: each a row, with the records of its steps and its log lines."""

    def create(self, execution: Execution) -> None:
        """Store a new execution."""

    def move(
        self,
        execution_id: str,
        to: ExecutionState,
        *,
        output: Json = None,
        error: JsonObject | None = None,
    ) -> None:
        """Move to another state, if ``executions.MOVES`` allows it from the state that the row has now; else raise
        ``IllegalMove``, nothing changed. Sets ``started_at`` at the first ``running``, ``finished_at`` at a final
        state, by ``DataStore.now``."""

    def record(self, steps: Sequence[StepRecord], lines: Sequence[LogLine]) -> None:
        """Store records of steps (one of the same execution and path is replaced) and append log lines, in one
        transaction. ``StepRecord.output`` is any JSON; ``LogLine.number`` is ignored and given here, rising."""

    def get(self, execution_id: str) -> Execution | None:
        """One execution, by its id or by a prefix of it that only one has."""

    def list(
        self,
        *,
        state: ExecutionState | None = None,
        workflow: str | None = None,
        limit: int = 50,
    ) -> Sequence[Execution]:
        """Executions, newest first."""

    def steps(self, execution_id: str) -> Sequence[StepRecord]:
        """The records of an execution's steps, in the order in which they were stored first."""

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        """The records of the iterations ``start`` to before ``start + limit`` of the loop whose path is ``loop``, by
        index. Uses an index: a page costs the same at any ``start``."""

    def lines(self, execution_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        """Log lines in the order they were written, those numbered above ``after``."""


class Store(Protocol):
    """The whole port, and the life of its connections. Opening one migrates nothing."""

    @property
    def url(self) -> str:
        """The URL as given, without its password."""

    @property
    def data(self) -> DataStore: ...

    @property
    def workflows(self) -> WorkflowStore: ...

    @property
    def executions(self) -> ExecutionStore: ...

    def migrate(self) -> int:
        """Bring the schema up to date under a lock; gives how many steps it took. Raises ``StoreTooNew``. Any number of
        processes may do it at once: each step is applied once, the rest wait."""

    def schema_version(self) -> int:
        """The newest migration that was applied; 0 for an empty store."""

    def vitals(self) -> JsonObject:
        """Facts for ``flo doctor``: adapter, server and schema version, sizes, and what the adapter finds worth
        knowing."""

    def close(self) -> None:
        """Give connections back. Closing twice does nothing."""
