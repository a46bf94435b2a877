"""Executions as jobs: the ``QueueStore`` of both SQL adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from flo.engine.errors import StoreError
from flo.engine.executions import Execution
from flo.engine.faults import reach
from flo.engine.jobs import (
    NOTHING,
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
)
from flo.engine.stores import (
    sql_adopting,
    sql_burying,
    sql_claims,
    sql_concluding,
    sql_enqueue,
    sql_holds,
    sql_starting,
)
from flo.engine.stores.base import DataStore
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.queueing import Owned, Wakeups
from flo.engine.stores.sql_deliveries import Definitions
from flo.engine.stores.sql_owned import SqlOwned
from flo.engine.stores.sql_queues import SqlQueues

T = TypeVar("T")

Enqueue = Callable[[Sequence[Request]], Sequence[Enqueued]]
Claim = Callable[[Definitions, Sequence[str], str, timedelta, int, int], Claimed]


class SqlQueue:
    """The ``QueueStore`` of both SQL adapters.

    ``data`` gives the rows inside a transaction that is under way. ``enqueue`` and ``claim`` are the dialect's own,
    where it has one.
    """

    def __init__(
        self,
        database: Database,
        *,
        data: Callable[[Execute], DataStore],
        wakeups: Callable[[Sequence[str]], Wakeups],
        enqueue: Enqueue | None = None,
        claim: Claim | None = None,
    ) -> None:
        self._database, self._data, self._wakeups = database, data, wakeups
        self._enqueue = enqueue or partial(sql_enqueue.enqueue, database)
        self._claim: Claim = claim or partial(sql_claims.claim, database)
        self._definitions = Definitions(database.dialect)
        self._queues = SqlQueues(database)

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        return self._enqueue(requests)

    def start(self, request: Request, *, worker: str, lease: timedelta) -> Delivery | Execution | None:
        return sql_starting.start(self._database, request, worker, lease)

    def adopt(self, parent: Hold, request: Request, *, lease: timedelta) -> Delivery | Execution:
        return sql_adopting.adopt(self._database, parent, request, lease)

    def claim(self, queues: Sequence[str], *, worker: str, lease: timedelta, limit: int, ahead: int = 0) -> Claimed:
        return self._claim(self._definitions, queues, worker, lease, limit, ahead)

    def take(self, execution_id: str, *, worker: str, lease: timedelta) -> Delivery | None:
        return sql_claims.take(self._database, execution_id, worker, lease)

    def bury(self, limit: int = 100) -> Sequence[Execution]:
        return sql_burying.bury(self._database, limit)

    def renew(self, holds: Sequence[Hold], *, lease: timedelta) -> Sequence[Hold]:
        return sql_holds.renew(self._database, holds, lease)

    def valid(self, holds: Sequence[Hold]) -> Sequence[Hold]:
        return sql_holds.valid(self._database, holds)

    def own(self, hold: Hold, work: Callable[[Owned], T], *, exclusive: bool = False, brief: bool = False) -> T:
        def transaction(execute: Execute) -> T:
            sql_holds.keep(self._database, execute, hold, alone=exclusive, brief=brief)
            result = work(SqlOwned(self._database, execute, hold.execution_id, self._data(execute)))
            reach("own.before-commit")
            return result

        result = self._database.write(transaction)
        reach("own.committed")
        return result

    def conclude(
        self, hold: Hold, conclusion: Conclusion, entries: Entries = NOTHING, *, of: Execution | None = None
    ) -> Execution:
        return sql_concluding.conclude(self._database, hold, conclusion, entries, of)

    def conclude_many(self, endings: Sequence[Ending]) -> Sequence[Execution | LeaseLost | StoreError]:
        return sql_concluding.conclude_many(self._database, endings)

    def queues(self) -> Sequence[QueueInfo]:
        return self._queues.queues()

    def pause(self, queue: str) -> None:
        self._queues.pause(queue)

    def unpause(self, queue: str) -> None:
        self._queues.unpause(queue)

    def limit(self, queue: str, limits: Limits) -> None:
        self._queues.limit(queue, limits)

    def idle(self, queues: Sequence[str]) -> bool:
        return self._queues.idle(queues)

    def wakeups(self, queues: Sequence[str]) -> Wakeups:
        return self._wakeups(queues)
