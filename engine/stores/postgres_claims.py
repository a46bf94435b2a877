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
from flo.engine.stores.sql_claims import CLAIMABLE, GATED, IN_ORDER, NEXT_DUE, distinct
from flo.engine.stores.sql_deliveries import CLAIMED, Definitions, claimed_ones, last_lines

_SOON: Final = timedelta(seconds=1)

_OPEN: Final = "NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = a.name AND q.paused)"
_ANY_GATED: Final = f"EXISTS (SELECT 1 FROM queues q WHERE q.name = ANY (:queues::text[]) AND {GATED})"

_CLAIM: Final = f"""
WITH asked AS MATERIALIZED (
    SELECT a.name FROM unnest(:queues::text[]) AS a (name) WHERE {_OPEN} AND NOT {_ANY_GATED}
), picked AS MATERIALIZED (
    SELECT p.* FROM (
        SELECT c.* FROM asked CROSS JOIN LATERAL (
            SELECT e.id, e.priority, e.run_at, e.created_at, e.state, e.fence, e.worker, e.claimed_at FROM executions e
            WHERE e.queue = asked.name AND {CLAIMABLE}
            ORDER BY {IN_ORDER} LIMIT :limit FOR UPDATE OF e SKIP LOCKED
        ) AS c
        ORDER BY c.priority DESC, c.run_at, c.created_at, c.id LIMIT :limit
    ) AS p LIMIT {{bound}}
), expired AS (
    INSERT INTO execution_attempts (execution_id, fence, worker, claimed_at, ended_at, outcome)
    SELECT id, fence, worker, claimed_at, :now, 'expired' FROM picked WHERE state = 'running'
    ON CONFLICT (execution_id, fence) DO NOTHING
)
UPDATE executions SET state = 'running', lease_token = gen_random_uuid()::text, fence = fence + 1,
    deliveries = deliveries + 1, expiries = expiries + CASE WHEN state = 'running' THEN 1 ELSE 0 END,
    worker = :claimant, claimed_at = :now, due_at = :now + :lease::interval, started_at = coalesce(started_at, :now)
FROM (SELECT id AS picked FROM picked) AS p WHERE executions.id = p.picked
RETURNING {CLAIMED}
"""
"""A bound is written out beside the limit, so that a plan made for every claim knows how few rows there are to join. A
queue whose claims have to count, stored a moment ago, is seen together with what was stored in it: nothing is given
then."""

OUTLOOK: Final = f"""
SELECT :now, {_ANY_GATED}, min(n.due_at), bool_or(EXISTS (
    SELECT 1 FROM executions e WHERE e.queue = a.name AND e.finished_at IS NULL AND {CLAIMABLE}
)) FROM unnest(:queues::text[]) AS a (name) LEFT JOIN LATERAL ({NEXT_DUE.format(queue="a.name")}) AS n ON true
WHERE {_OPEN}
"""


def claim(
    database: PostgresDatabase,
    definitions: Definitions,
    queues: Sequence[str],
    worker: str,
    lease: timedelta,
    limit: int,
    ahead: int,
) -> Claimed:
    """As ``QueueStore.claim``."""
    names, wanted = list(distinct(queues)), limit + ahead
    if not names or wanted < 1:
        return Claimed((), None)
    values = {"queues": names, "claimant": worker, "lease": lease, "limit": wanted}
    rows = database.run(claim_statement(wanted), values)
    if rows:
        reach("claim.committed")
    # only now: an earlier owner may have written a line until its row was locked
    lines, documents = last_lines(database, database.read, rows), definitions.of(database.read, rows)
    deliveries = sorted(claimed_ones(database, rows, worker, documents, lines), key=_order)
    if len(deliveries) == wanted:
        return Claimed(deliveries, deliveries[0].execution.claimed_at)
    now, gated, next_due, left = database.read(OUTLOOK, {"queues": names})[0]
    if gated and not deliveries:
        return sql_claims.claim(database, definitions, names, worker, lease, limit)
    times = [database.instant(next_due)] if next_due is not None else []
    if left:  # another claim had it locked; where that did not take it, nobody would tell
        times.append(database.instant(now) + _SOON)
    return Claimed(deliveries, min(times, default=None))


def claim_statement(limit: int) -> str:
    """The one statement of a claim on queues without limits and keys, which few texts serve."""
    return _statement(1 if limit == 1 else 10 ** len(str(limit - 1)))


@lru_cache(maxsize=16)
def _statement(bound: int) -> str:
    return _CLAIM.format(bound=bound)


def _order(delivery: Delivery) -> tuple[object, ...]:
    execution = delivery.execution
    return (-execution.priority, execution.run_at or execution.created_at, execution.created_at, execution.id)
