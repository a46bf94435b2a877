"""What every store promises. ``tests/stores`` holds each adapter to these docstrings.

A store is safe to use from many threads at once. Every method commits what it did before it returns, or raises and did
nothing. Conflicts that a database reports between writers (deadlock, serialization failure, busy) are retried inside, a
bounded number of times with jitter; callers never see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, Protocol

from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord, StepState
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.jobs import Attempt, Enqueued, Request, Retention, Wait
from flo.engine.stores.changes import Change
from flo.engine.stores.filters import Condition
from flo.engine.stores.ordering import Order
from flo.engine.triggers import WantedTrigger
from flo.engine.values import Json, JsonObject

_written: Final = lru_cache(1024)(write_instant)
"""What is claimed is written twice, for its claim and for the step; and all of one claim were changed at one time."""


@frozen
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
            "createdAt": _written(self.created_at),
            "updatedAt": _written(self.updated_at),
            "expiresAt": None if self.expires_at is None else _written(self.expires_at),
            "claimCount": self.claim_count,
        }


@frozen
class Stored:
    """What ``set`` left: the row as it is now, and whether this call created it."""

    row: Row
    created: bool


@frozen
class Page:
    """Rows in order, and the cursor that continues after them (None: there are no more)."""

    rows: Sequence[Row]
    next_cursor: str | None


@frozen
class Updated:
    """What ``update`` did. ``row`` is the row afterwards, or the row that the guard refused; ``reason`` why nothing
    changed."""

    updated: bool
    row: Row | None
    reason: Literal["not-found", "guard"] | None = None


@frozen
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


@frozen
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

    def save(
        self,
        name: str,
        document: str,
        *,
        pinned_id: str | None = None,
        triggers: Sequence[WantedTrigger] | None = None,
    ) -> StoredWorkflow:
        """Store a document under ``name``: version 1, or one higher than the newest. The newest stored again unchanged
        (the same digest) makes no new version. ``pinned_id`` keeps the workflow's identity through a rename: the
        workflow that has this id gets the new name. Concurrent calls give distinct versions.

        ``triggers`` are those that the document declares, None where that is not known; in the same transaction they
        are brought in step: added, removed, changed. One that stays as it is keeps its revision; one whose ``timing``
        stays keeps ``anchor`` and ``cursor``, else both are now. Whether it is on changes only where the document says
        so anew. One of the same name that a person added is declared from then on; those of other names stay."""

    def get(self, name: str, version: int | None = None) -> StoredWorkflow | None:
        """The newest version of ``name`` (or of the workflow whose id is ``name``), or the one asked for."""

    def list(self) -> Sequence[StoredWorkflow]:
        """The newest version of each, by name."""


class ExecutionStore(Protocol):
    """Executions as people look at them and act on them: each a row, with the records of its steps and its log lines.
    What the owner of an execution writes goes through ``QueueStore``."""

    def create(self, execution: Execution) -> None:
        """Store an execution that nobody will run: one that was ``rejected``, or history that comes from elsewhere."""

    def get(self, execution_id: str) -> Execution | None:
        """One execution, by its id or by a prefix of it that only one has."""

    def list(
        self,
        *,
        state: ExecutionState | None = None,
        workflow: str | None = None,
        queue: str | None = None,
        parent: str | None = None,
        dead: bool = False,
        limit: int = 50,
    ) -> Sequence[Execution]:
        """Executions, newest first: those without a parent, or the children of ``parent``; of a ``queue``, and ``dead``
        letters that were not replayed, also the jobs that others have enqueued."""

    def steps(self, execution_id: str) -> Sequence[StepRecord]:
        """The records of an execution's steps, in the order in which they were stored first."""

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        """The records of the iterations ``start`` to before ``start + limit`` of the loop whose path is ``loop``, by
        index. Uses an index: a page costs the same at any ``start``."""

    def lines(self, execution_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        """Log lines in the order of their numbers, those numbered above ``after``."""

    def attempts(self, execution_id: str) -> Sequence[Attempt]:
        """The claims of an execution that did not end it, by their number."""

    def waits(self, execution_id: str) -> Sequence[Wait]:
        """What an execution waits for, or waited for, in the order in which it was registered."""

    def checkpoints(self, execution_id: str, prefix: str) -> Sequence[StepRecord]:
        """The records of the steps whose path is ``prefix`` and a name: those of one frame, without iterations."""

    def iteration_states(self, execution_id: str, loop: str) -> Mapping[int, StepState]:
        """How the iterations of a loop ended, by index. Reads no outputs."""

    def begun(self, execution_id: str, loop: str) -> Set[int]:
        """The iterations of a loop in which at least one step has a record. Reads no outputs."""

    def failures(self, execution_id: str, *, limit: int = 1000) -> Sequence[StepRecord]:
        """The first records of steps that failed, iterations left out, in the order in which they were stored."""

    def cancel(self, execution_id: str) -> Sequence[str]:
        """Move an execution to ``cancelled``, and everything unfinished that it started, down to any depth, in one
        transaction; gives the ids of what was moved. Holds on them are lost at once. Raises ``NotFound``,
        ``IllegalMove`` where it has ended."""

    def resume(self, execution_id: str) -> Execution:
        """Move a ``failed`` or ``timed_out`` execution to ``pending``, due now, for a new attempt that goes on after
        the last finished step; its ``expiries`` start anew, its deadline is lifted, and it is no dead letter any more.
        What failed below it is resumed when it comes there. Raises ``NotFound``, ``IllegalMove``, and ``InputInvalid``
        for a part of another execution, which that one resumes."""

    def signal(self, execution_id: str, name: str, payload: JsonObject) -> None:
        """Leave a signal for an execution; one that waits for it is due at once. A signal that nobody waits for yet is
        kept. Raises ``NotFound``, ``IllegalMove`` where it has ended."""

    def decide(self, execution_id: str, path: str, decision: JsonObject) -> None:
        """Answer the approval at ``path`` with ``{approved actor reason at}``; the execution is due at once. Raises
        ``NotFound`` where no approval waits there, ``InputInvalid`` where it was decided already."""

    def replay_dead(self, execution_id: str, request: Request) -> Enqueued:
        """Enqueue ``request`` for a dead letter, once: the dead letter remembers its ``replayed_as``. Replayed already:
        gives that execution, ``created`` false. Raises ``NotFound`` where it is no dead letter."""

    def purge_dead(self, *, queue: str | None = None, before: datetime | None = None, limit: int = 1000) -> int:
        """Remove up to ``limit`` dead letters with everything of theirs, the oldest first; gives how many."""

    def prune(
        self, retention: Retention, *, workflow: str | None = None, apart: Sequence[str] = (), limit: int = 100
    ) -> int:
        """Remove up to ``limit`` ended executions that are older, or more, than ``retention`` allows, the oldest first;
        gives how many. Counts those of ``workflow``, or all but those of the workflows ``apart``.

        Each transaction removes a bounded number of rows, so that nobody waits for it long, and memory is bounded
        whatever their size. What is not final is never touched, nor a part of something that is not; dead letters that
        were not replayed count like the others.
        """
