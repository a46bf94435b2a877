"""Claims on PostgreSQL: one statement that commits by itself, where nothing has to be counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final

from flo.engine.faults import reach
from flo.engine.jobs import Claimed, Delivery
from flo.engine.stores import sql_claims
from flo.engine.stores.postgres_database import PostgresDatabase
from flo.engine.stores.sql_claims import (
    CLAIMABLE,
    GATED,
    IN_ORDER,
    LAST_LINES,
    NEXT_DUE,
    delivery_of,
    distinct,
)
from flo.engine.stores.sql_lists import one_of
from flo.engine.stores.sql_rows import CHANGED

_SOON: Final = timedelta(seconds=1)
_LAST_LINES: Final = LAST_LINES.format(ids=one_of("postgresql", "ids"))

_OPEN: Final = "NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = a.name AND q.paused)"
_ANY_GATED: Final = f"EXISTS (SELECT 1 FROM queues q WHERE q.name = ANY (:queues::text[]) AND {GATED})"

_CLAIM: Final = f"""
WITH asked AS MATERIALIZED (
    SELECT a.name FROM unnest(:queues::text[]) AS a (name) WHERE {_OPEN} AND NOT {_ANY_GATED}
), picked AS MATERIALIZED (
    SELECT c.* FROM asked CROSS JOIN LATERAL (
        SELECT e.id, e.priority, e.run_at, e.created_at, e.state, e.fence, e.worker, e.claimed_at FROM executions e
        WHERE e.queue = asked.name AND {CLAIMABLE}
        ORDER BY {IN_ORDER} LIMIT {{limit}} FOR UPDATE OF e SKIP LOCKED
    ) AS c
    ORDER BY c.priority DESC, c.run_at, c.created_at, c.id LIMIT {{limit}}
), expired AS (
    INSERT INTO execution_attempts (execution_id, fence, worker, claimed_at, ended_at, outcome)
    SELECT id, fence, worker, claimed_at, :now, 'expired' FROM picked WHERE state = 'running'
    ON CONFLICT (execution_id, fence) DO NOTHING
)
UPDATE executions SET state = 'running', lease_token = gen_random_uuid()::text, fence = fence + 1,
    deliveries = deliveries + 1, expiries = expiries + CASE WHEN state = 'running' THEN 1 ELSE 0 END,
    worker = :claimant, claimed_at = :now, due_at = :now + :lease::interval, started_at = coalesce(started_at, :now)
FROM (SELECT id AS picked FROM picked) AS p WHERE executions.id = p.picked
RETURNING {CHANGED}, lease_token, variables, tolerated
"""
"""The limit is written out, so that a plan made for every claim knows how few rows there are to join. A queue whose
claims have to count, stored a moment ago, is seen together with what was stored in it: nothing is given then."""

OUTLOOK: Final = f"""
SELECT :now, {_ANY_GATED}, min(n.due_at), bool_or(EXISTS (
    SELECT 1 FROM executions e WHERE e.queue = a.name AND e.finished_at IS NULL AND {CLAIMABLE}
)) FROM unnest(:queues::text[]) AS a (name) LEFT JOIN LATERAL ({NEXT_DUE.format(queue="a.name")}) AS n ON true
WHERE {_OPEN}
"""


def claim(database: PostgresDatabase, queues: Sequence[str], worker: str, lease: timedelta, limit: int) -> Claimed:
    """As ``QueueStore.claim``."""
    names = list(distinct(queues))
    if not names or limit < 1:
        return Claimed((), None)
    values = {"queues": names, "claimant": worker, "lease": lease}
    rows = database.run(claim_statement(limit), values)
    if rows:
        reach("claim.committed")
    begun = [row[0] for row in rows if row[25] > 1]
    # only now: an earlier owner may have written a line until its row was locked
    last_lines = dict(database.read(_LAST_LINES, {"ids": begun})) if begun else dict[str, int]()
    deliveries = sorted((delivery_of(database, row, worker, last_lines.get(row[0], 0)) for row in rows), key=_order)
    if len(deliveries) == limit:
        return Claimed(deliveries, deliveries[0].execution.claimed_at)
    now, gated, next_due, left = database.read(OUTLOOK, {"queues": names})[0]
    if gated and not deliveries:
        return sql_claims.claim(database, names, worker, lease, limit)
    times = [database.instant(next_due)] if next_due is not None else []
    if left:  # another claim had it locked; where that did not take it, nobody would tell
        times.append(database.instant(now) + _SOON)
    return Claimed(deliveries, min(times, default=None))


@lru_cache(maxsize=128)
def claim_statement(limit: int) -> str:
    """The one statement of a claim on queues without limits and keys."""
    return _CLAIM.format(limit=f"{limit:d}")


def _order(delivery: Delivery) -> tuple[object, ...]:
    execution = delivery.execution
    return (-execution.priority, execution.run_at or execution.created_at, execution.created_at, execution.id)
