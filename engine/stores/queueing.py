"""What every store promises about queues and the owners of executions. ``tests/stores`` holds each adapter to it.

An owner's every write names its ``Hold``. Where the hold is not valid any more (its lease ran out and another owner
has the execution, or it ended, or it was cancelled), the write raises ``LeaseLost`` and nothing is changed. A lease
that ran out without anybody taking the execution is still valid. Every instant here is of the store's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from flo.engine.errors import StoreError
from flo.engine.executions import Execution
from flo.engine.jobs import (
    Claimed,
    Conclusion,
    Delivery,
    Ending,
    Enqueued,
    Entries,
    Hold,
    LeaseLost,
    Limits,
    QueueInfo,
    Request,
    Wait,
)
from flo.engine.stores.base import DataStore
from flo.engine.values import JsonObject

T = TypeVar("T")


class Owned(Protocol):
    """One transaction of an owner. All of it commits together, or nothing does."""

    @property
    def pipelined(self) -> bool:
        """Whether more can be asked of it while it answers: who waits passes on to those abreast (``abreast.py``)."""

    @property
    def data(self) -> DataStore:
        """The rows, read and written inside this transaction."""

    def now(self) -> datetime:
        """The store's clock."""

    def record(self, entries: Entries) -> None:
        """Write records of steps, log lines, variables."""

    def effect(self, path: str, name: str, number: int) -> JsonObject | None:
        """What ``keep_effect`` kept of the step at ``path``, or None."""

    def keep_effect(self, path: str, name: str, number: int, result: JsonObject) -> None:
        """Keep the result of a write of the step at ``path``, so that the step, run again, does not make it again.
        Forgotten when the execution ends in a state that it cannot be resumed from."""

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        """As ``QueueStore.enqueue``, in this transaction."""

    def wait(self, wait: Wait) -> Wait:
        """Register that the execution waits at ``wait.path``, or give what was registered there before, with its
        answer if that came. The oldest signal of the name that nobody took answers a signal's wait, and is taken by it;
        the end of the execution ``wait.name`` (``{executionId status output error}``) answers that kind. Raises
        ``NotFound`` where the execution to wait for is not there."""


class Wakeups(Protocol):
    """Tells a worker that there may be something to claim. Used by one thread."""

    def wait(self, seconds: float) -> bool:
        """Wait until something may have come due (true), or so many seconds. What was published after the object was
        made, and after the last ``wait`` returned, is never missed. Never raises for a store that is away: it then
        waits the time out."""

    def wake(self) -> None:
        """End a ``wait`` that is under way, from any thread."""

    def close(self) -> None:
        """Give up what it holds."""


class QueueStore(Protocol):
    """Executions as jobs: how they come into a queue, to an owner, and to their end."""

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        """Store executions as ``pending``, all or none, at most ``MAX_BATCH``; gives what became of each, in order.

        The insert is the publish: what returned is claimable when it is due, and workers are told once. A request
        whose ``key`` is stored already gives that execution, if its ``identity`` is the same; else ``KeyConflict``, and
        nothing of the batch is stored. Of any number of concurrent calls with one key exactly one says ``created``. A
        request ``when_full="reject"`` whose concurrency key has its limit of unfinished executions is stored as
        ``rejected``.
        """

    def start(self, request: Request, *, worker: str, lease: timedelta) -> Delivery | Execution | None:
        """Store an execution that no queue delivers (``request.queue`` is None) as ``running``, held by ``worker``.

        Where its concurrency key is full: the ``rejected`` execution for ``when_full="reject"``, else None and nothing
        is stored. Concurrent calls never exceed the limit; an execution whose lease ran out does not count.
        """

    def adopt(self, parent: Hold, request: Request, *, lease: timedelta) -> Delivery | Execution:
        """Give the child execution of ``parent`` at ``request.parent_path``, held by the parent's worker: a new one, or
        the one that an earlier owner of the parent left unfinished; or the child itself, if it has ended. One that
        failed, or ended with its parent, goes on where the parent was resumed, or is tried again, after that. A request
        for a child that is there takes its input and definition as they are stored."""

    def claim(self, queues: Sequence[str], *, worker: str, lease: timedelta, limit: int, ahead: int = 0) -> Claimed:
        """Take up to ``limit`` due executions of ``queues`` for ``worker``, and hold each for ``lease``; and up to
        ``ahead`` more, for a worker that will have run the first ones in a moment, where no queue of these has limits
        or concurrency keys: what waits in a worker would take the place of what could run.

        Due are: ``pending`` and ``retrying`` ones whose ``run_at`` has come, ``suspended`` ones whose time has come or
        whose wait was answered, and ``running`` ones whose lease ran out (that counts in ``expiries``). In the order of
        priority (higher first), ``run_at``, creation. No two owners hold one execution; concurrent claims take disjoint
        ones and do not wait for one another, save for queues with limits or concurrency keys. Paused queues give
        nothing. At most as many run as the limits of the queue, and of each concurrency key, allow; a ``running`` one
        whose lease ran out does not count. An execution that is past its deadline, or past ``MAX_EXPIRIES``, is not
        given: ``bury`` ends it.
        """

    def take(self, execution_id: str, *, worker: str, lease: timedelta) -> Delivery | None:
        """Claim one execution that no queue delivers: ``pending`` (it was resumed), ``suspended`` and due, or with a
        lease that ran out. None, where it is not to be had now. Raises ``NotFound``."""

    def bury(self, limit: int = 100) -> Sequence[Execution]:
        """End up to ``limit`` executions that nobody will: what is past its ``deadline`` (``timed_out``), what was
        lost more than ``MAX_EXPIRIES`` times (``failed``, reason ``poison``), and what no queue delivers and whose
        owner is gone (``failed``, code ``crashed``; a child stays for its parent to adopt). Gives them as they are
        then."""

    def renew(self, holds: Sequence[Hold], *, lease: timedelta) -> Sequence[Hold]:
        """Let leases last ``lease`` from now. Gives those that are valid; the others are lost."""

    def valid(self, holds: Sequence[Hold]) -> Sequence[Hold]:
        """Those that are valid. Only reads."""

    def own(self, hold: Hold, work: Callable[[Owned], T], *, exclusive: bool = False, brief: bool = False) -> T:
        """Run ``work`` in one transaction of the owner, and give what it returns. Raises ``LeaseLost``. What ``work``
        raises is raised, its changes undone. It may be run again after a conflict between writers.

        Strands of one execution may do so side by side; an ``exclusive`` one alone, which it has to be to record
        ``variables`` or ``tolerated``, to wait or to enqueue. A ``brief`` one, which may hold locks that others
        wait for, raises ``StoreUnavailable`` rather than wait for one itself. A log line that is recorded again is left
        as it was."""

    def conclude(
        self, hold: Hold, conclusion: Conclusion, entries: Entries = ..., *, of: Execution | None = None
    ) -> Execution:
        """End a claim, and write the last entries with it, in one transaction; gives the execution as it is then. Its
        definition and input are not read where the caller gives the one that has them, ``of``: they may be large.

        ``Ended``: the final state, who waits for it woken; its effects are forgotten, unless it can be resumed, and its
        unfinished parts end with it. ``Again``, ``Released``: due after the delay. ``Parked``: suspended; due at once
        where one of the waits of it, or of its children, can be answered already, or one of these was cancelled since
        the claim. Raises ``LeaseLost``. Where there is no space for the entries, ``Ended`` of an execution is written
        without them.
        """

    def conclude_many(self, endings: Sequence[Ending]) -> Sequence[Execution | LeaseLost | StoreError]:
        """End executions, each with its last entries as ``conclude`` would, in one transaction; at most ``MAX_BATCH``.
        Gives for each, in order, the execution as it is then, or what ``conclude`` would have raised: of that one
        nothing is written, and the others are. Where the store refuses something, they are written one by one. Raises
        ``StoreUnavailable``; then nobody knows whether they were written.
        """

    def queues(self) -> Sequence[QueueInfo]:
        """How every queue stands that has executions, is paused or has limits; by name."""

    def pause(self, queue: str) -> None:
        """Give nothing of ``queue`` to anybody until ``unpause``. What runs goes on."""

    def unpause(self, queue: str) -> None:
        """Give again."""

    def limit(self, queue: str, limits: Limits) -> None:
        """Replace the bounds of a queue. They hold for claims from then on."""

    def idle(self, queues: Sequence[str]) -> bool:
        """Whether nothing of ``queues`` is due or runs now, paused queues left aside."""

    def wakeups(self, queues: Sequence[str]) -> Wakeups:
        """Listen for what comes due in ``queues`` by the act of somebody: enqueued, released, answered, resumed, given
        free. What comes due by time alone is told by ``Claimed.next_due``."""
