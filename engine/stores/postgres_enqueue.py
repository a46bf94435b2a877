"""Requests into a queue of PostgreSQL: one statement that commits by itself, where nothing has to be looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flo.engine.executions import ExecutionState
from flo.engine.faults import reach
from flo.engine.jobs import Enqueued, Request
from flo.engine.stores import sql_enqueue
from flo.engine.stores.arrivals import check_batch
from flo.engine.stores.postgres_database import PostgresDatabase
from flo.engine.stores.sql_inserting import INSERT, as_json, row_of
from flo.engine.stores.sql_queues import CHANNEL
from flo.engine.stores.sql_rows import DEFINE

_ENQUEUE: Final = f"""
WITH defined AS ({DEFINE}), made AS ({INSERT})
SELECT pg_notify('{CHANNEL}', :queue)
"""
"""Nobody waits for what it stores, but for a definition that is new."""


def enqueue(database: PostgresDatabase, requests: Sequence[Request]) -> Sequence[Enqueued]:
    """As ``QueueStore.enqueue``."""
    check_batch(requests)
    if requests and all(_is_plain(request, requests[0]) for request in requests):
        rows, *more = as_json(list(map(row_of, requests)))
        if not more:
            first = requests[0]
            values = {"digest": first.digest, "document": first.definition, "queue": first.queue, "rows": rows}
            database.run(_ENQUEUE, values)
            reach("enqueue.committed")
            return [Enqueued(request.id, True, ExecutionState.PENDING) for request in requests]
    return sql_enqueue.enqueue(database, requests)


def _is_plain(request: Request, first: Request) -> bool:
    """Whether a request can be stored as it is, together with the first one."""
    return (
        request.digest == first.digest
        and request.queue == first.queue
        and bool(request.queue)
        and request.key is None
        and request.concurrency_key is None
        and request.parent_id is None
        and request.delay is None
    )
