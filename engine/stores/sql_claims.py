"""Claims that count what runs, in SQL that both dialects accept, and what every claim has in common.

Who claims from a queue with limits or concurrency keys locks the row of the queue, so that such claims take turns; with
keys, which count over all queues, they also take turns with ``start``. Statements after the locks see what those before
have claimed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from flo.engine.errors import NotFound
from flo.engine.executions import ExecutionState
from flo.engine.faults import reach
from flo.engine.frozen import frozen
from flo.engine.jobs import LEASE, MAX_EXPIRIES, Claimed, Delivery, Limits
from flo.engine.stores.arrivals import new_token
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.gates import Gates
from flo.engine.stores.sql_deliveries import (
    CLAIMED,
    Definitions,
    Query,
    Row,
    claimed_ones,
    deliveries_of,
    last_lines,
)
from flo.engine.stores.sql_enqueue import lock_keys
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_rows import NO_QUEUE

CLAIMABLE: Final = (
    "e.due_at IS NOT NULL AND e.due_at <= :now AND (e.deadline IS NULL OR e.deadline > :now)"
    f" AND (e.state <> 'running' OR e.expiries < {MAX_EXPIRIES})"
)
IN_ORDER: Final = "e.priority DESC, e.run_at, e.created_at, e.id"
GATED: Final = (
    "(q.keyed OR q.max_running IS NOT NULL OR q.max_running_per_key IS NOT NULL OR q.starts_per_key IS NOT NULL)"
)
NEXT_DUE: Final = (
    "SELECT e.due_at FROM executions e WHERE e.queue = {queue} AND e.finished_at IS NULL AND e.due_at > :now"
    " ORDER BY e.due_at LIMIT 1"
)
_KEEP_EXPIRED: Final = """
INSERT INTO execution_attempts (execution_id, fence, worker, claimed_at, ended_at, outcome)
SELECT e.id, e.fence, e.worker, e.claimed_at, :now, 'expired' FROM executions e WHERE e.id {ids}
ON CONFLICT (execution_id, fence) DO NOTHING
"""
_DELIVER: Final = f"""
UPDATE executions SET state = 'running', lease_token = :token || '-' || id, fence = fence + 1,
    deliveries = deliveries + 1, expiries = expiries + CASE WHEN state = 'running' THEN 1 ELSE 0 END,
    worker = :worker, claimed_at = :at, due_at = :until, started_at = coalesce(started_at, :at)
WHERE id {{ids}} RETURNING {CLAIMED}
"""
"""Every claim has a secret of its own, and so every execution of it a token."""

_QUEUES: Final = (
    "SELECT q.name, q.paused, q.keyed, q.max_running, q.max_running_per_key, q.starts_per_key, q.per_key_seconds"
    " FROM queues q WHERE q.name {names} ORDER BY q.name"
)
_FROM: Final = {"sqlite": "executions AS e INDEXED BY executions_to_claim", "postgresql": "executions AS e"}
_PAGE: Final = f"""
SELECT e.id, e.queue, e.concurrency_key, e.concurrency_limit, e.priority, e.run_at, e.created_at, e.state, :now
FROM {{table}} WHERE e.queue = :queue AND {CLAIMABLE}{{after}}{{passed}}
ORDER BY {IN_ORDER} LIMIT :limit
"""
_AFTER: Final = (
    " AND e.priority <= :priority"
    " AND (e.priority < :priority OR (e.run_at, e.created_at, e.id) > (:run_at, :created_at, :id))"
)
_PASSED: Final = (
    " AND (e.concurrency_key IS NULL OR NOT (coalesce(e.concurrency_limit, -1) || ':' || e.concurrency_key) {passed})"
)
_LOCK: Final = {"sqlite": "", "postgresql": " FOR UPDATE"}
_TO_TAKE: Final = (
    "SELECT e.id, e.queue, e.concurrency_key, e.concurrency_limit, e.state FROM executions e"
    f" WHERE e.id = :id AND e.queue = '' AND e.parent_id IS NULL AND {CLAIMABLE}"
)
_SKIP_LOCKED: Final = {"sqlite": "", "postgresql": " FOR UPDATE OF e SKIP LOCKED"}
STILL_DUE: Final = f"""
WITH picked AS MATERIALIZED (
    SELECT id, state, due_at, deadline, expiries FROM executions WHERE id = ANY (:ids::text[]) FOR UPDATE SKIP LOCKED
)
SELECT e.id, e.state FROM picked e WHERE {CLAIMABLE}
"""
"""Whether it is due is asked apart: a plan that was made while there was little would take the index of claims, and
later walk through all that waits."""

_IS_DUE: Final = {
    "sqlite": "executions AS e INDEXED BY executions_next_due",
    "postgresql": "executions AS e",
}

_RUNNING: Final = """
SELECT e.queue, e.concurrency_key, count(*) FROM executions e
WHERE e.queue {queues} AND e.state = 'running' AND e.due_at > :now GROUP BY e.queue, e.concurrency_key
"""
_RUNNING_OF_KEYS: Final = """
SELECT e.queue, e.concurrency_key, count(*) FROM executions e
WHERE e.concurrency_key IS NOT NULL AND e.finished_at IS NULL AND e.state = 'running' AND e.concurrency_key {keys}
  AND e.due_at > :now
GROUP BY e.queue, e.concurrency_key
"""
_STARTS: Final = """
SELECT e.concurrency_key, e.claimed_at FROM executions e
WHERE e.concurrency_key {keys} AND e.claimed_at > :since AND e.queue = :queue
UNION ALL
SELECT e.concurrency_key, a.claimed_at FROM executions e JOIN execution_attempts a ON a.execution_id = e.id
WHERE e.concurrency_key {keys} AND e.claimed_at > :since AND e.queue = :queue
  AND a.claimed_at > :since AND a.fence < e.fence
"""

_PAGE_ROWS: Final = 100


@frozen
class Settings:
    """Those of the queues of a claim that are not paused, in order, and their limits. ``keyed``: keys count."""

    open: tuple[str, ...]
    limits: Mapping[str, Limits]
    keyed: bool

    @property
    def gated(self) -> bool:
        return self.keyed or bool(self.limits)


def claim(
    database: Database,
    definitions: Definitions,
    queues: Iterable[str],
    worker: str,
    lease: timedelta,
    limit: int,
    ahead: int = 0,
) -> Claimed:
    """As ``QueueStore.claim``."""
    names = distinct(queues)
    if not names or limit + ahead < 1:
        return Claimed((), None)
    if database.dialect == "sqlite":  # only readers, where there is nothing to be had: they keep nobody waiting
        open_queues = _settings(database, database.read, names, locked=False).open
        if not any(_anything_due(database, queue) for queue in open_queues):
            return Claimed((), next_due(database, database.read, open_queues))

    def work(execute: Execute) -> tuple[list[Row], Mapping[str, int], Mapping[str, str], datetime | None]:
        settings = _settings(database, execute, names, locked=True)
        if settings.keyed:
            lock_keys(execute, database)
        wanted = limit if settings.gated else limit + ahead
        rows, looks = _take(database, execute, settings, worker, lease, wanted)
        if len(rows) < wanted and (later := next_due(database, execute, settings.open)) is not None:
            looks.append(later)
        return rows, last_lines(database, execute, rows), definitions.of(execute, rows), min(looks, default=None)

    rows, lines, documents, look = database.write(work)
    if rows:
        reach("claim.committed")
    return Claimed(claimed_ones(database, rows, worker, documents, lines), look)


def take(database: Database, execution_id: str, worker: str, lease: timedelta) -> Delivery | None:
    """As ``QueueStore.take``."""

    def work(execute: Execute) -> Delivery | None:
        rows = execute("SELECT concurrency_key FROM executions WHERE id = :id", {"id": execution_id})
        if not rows:
            raise NotFound("execution", execution_id)
        if rows[0][0] is not None:
            lock_keys(execute, database)
        found = execute(f"{_TO_TAKE}{_SKIP_LOCKED[database.dialect]}", {"id": execution_id})
        if not found:
            return None
        _, queue, key, key_limit, state = found[0]
        now = clock(database, execute)
        gates = _gates(database, execute, Settings((), {}, keyed=True), found, now, [])
        if not gates.admits(queue, key, key_limit):
            return None
        _deliver(database, execute, {execution_id: state}, worker, lease, now)
        return deliveries_of(database, execute, [execution_id], worker)[0]

    taken = database.write(work)
    if taken is not None:
        reach("claim.committed")
    return taken


def distinct(queues: Iterable[str]) -> tuple[str, ...]:
    """The names of queues, each once; what no queue delivers is in none."""
    return tuple(name for name in dict.fromkeys(queues) if name != NO_QUEUE)


def page_statement(dialect: str, *, after: bool = False, passed: bool = False) -> str:
    """The query for the candidates of one queue, in order: those behind a place, those that are not like some."""
    return _PAGE.format(
        table=_FROM[dialect],
        after=_AFTER if after else "",
        passed=_PASSED.format(passed=one_of(dialect, "passed")) if passed else "",
    )


def due_statement(dialect: str) -> str:
    """The query whether anything of a queue can be claimed."""
    return f"SELECT 1 FROM {_IS_DUE[dialect]} WHERE e.queue = :queue AND e.finished_at IS NULL AND {CLAIMABLE} LIMIT 1"


def next_due_statement() -> str:
    """The query for when the next of a queue comes due by time."""
    return NEXT_DUE.format(queue=":queue")


def next_due(database: Database, execute: Query, queues: Iterable[str]) -> datetime | None:
    """When the next of ``queues`` comes due by time."""
    rows = [row for queue in queues for row in execute(next_due_statement(), {"queue": queue})]
    return min((database.instant(row[0]) for row in rows), default=None)


def _anything_due(database: Database, queue: str) -> bool:
    return bool(database.read(due_statement(database.dialect), {"queue": queue}))


def _settings(database: Database, execute: Query, names: Sequence[str], *, locked: bool) -> Settings:
    sql = _QUEUES.format(names=one_of(database.dialect, "names")) + (_LOCK[database.dialect] if locked else "")
    rows = execute(sql, {"names": listed(database.dialect, names)})
    paused = {row[0] for row in rows if row[1]}
    limits = {row[0]: Limits(*row[3:7]) for row in rows if Limits(*row[3:7]) != Limits()}
    return Settings(tuple(name for name in names if name not in paused), limits, any(row[2] for row in rows))


def _take(
    database: Database, execute: Execute, settings: Settings, worker: str, lease: timedelta, limit: int
) -> tuple[list[Row], list[datetime]]:
    """Claim in order, page by page, past what the gates hold back; gives the rows, and when to look for more."""
    size = max(_PAGE_ROWS, 2 * limit) if settings.gated else limit
    taken: list[Row] = []
    looks: list[datetime] = []
    passed: dict[str, set[str]] = {queue: set() for queue in settings.open}
    after: Row | None = None
    while passed and len(taken) < limit and (page := _page(database, execute, passed, after, size)):
        now = database.instant(max(row[-1] for row in page))
        gates = _gates(database, execute, settings, page, now, looks) if settings.gated else None
        admitted: dict[str, str] = {}
        for execution_id, queue, key, key_limit, *_, state, _ in page:
            if len(taken) + len(admitted) == limit:
                break
            if gates is None or gates.admits(queue, key, key_limit):
                admitted[execution_id] = state
                continue
            looks.append(now + LEASE)  # a place may become free of which nobody tells
            if gates.full(queue, None, None):
                passed.pop(queue, None)
            elif queue in passed:
                passed[queue].add(f"{-1 if key_limit is None else key_limit}:{key}")
        taken += _deliver(database, execute, _still_due(database, execute, admitted), worker, lease, now)
        if len(taken) == limit:
            looks.append(now)
        if len(page) < size:
            break
        after = page[-1]
    return taken, looks


def _page(
    database: Database, execute: Execute, passed: Mapping[str, set[str]], after: Row | None, size: int
) -> list[Row]:
    """The next candidates of all queues, in order; none that is like those ``passed``."""
    rows: list[Row] = []
    place: dict[str, object] = {}
    if after is not None:
        place = {"id": after[0], "priority": after[4], "run_at": after[5], "created_at": after[6]}
    for queue, keys in passed.items():
        sql = page_statement(database.dialect, after=bool(place), passed=bool(keys))
        values = {"queue": queue, "limit": size, **place}
        if keys:
            values["passed"] = listed(database.dialect, keys)
        rows += execute(sql, values)
    if len(passed) > 1:
        rows.sort(key=lambda row: (-row[4], row[5], row[6], row[0]))
    return rows[:size]


def _still_due(database: Database, execute: Execute, admitted: Mapping[str, str]) -> Mapping[str, str]:
    """Lock what was picked, in its order and with its state; what somebody has locked or changed in between is left
    out."""
    if database.dialect == "sqlite" or not admitted:
        return admitted
    states = dict(execute(STILL_DUE, {"ids": listed(database.dialect, admitted)}))
    return {execution_id: states[execution_id] for execution_id in admitted if execution_id in states}


def _deliver(
    database: Database, execute: Execute, due: Mapping[str, str], worker: str, lease: timedelta, now: datetime
) -> list[Row]:
    """Write the claims of executions that are locked, by id and state; gives their rows."""
    if not due:
        return []
    dialect = database.dialect
    matching = one_of(dialect, "ids")
    if lost := [execution_id for execution_id, state in due.items() if state == ExecutionState.RUNNING]:
        execute.later(_KEEP_EXPIRED.format(ids=matching), {"ids": listed(dialect, lost)})
    values = {"token": new_token(), "worker": worker, "at": now, "until": now + lease, "ids": listed(dialect, due)}
    rows = {row[0]: row for row in execute(_DELIVER.format(ids=matching), values)}
    return [rows[execution_id] for execution_id in due]


def _gates(
    database: Database, execute: Execute, settings: Settings, page: Sequence[Row], now: datetime, looks: list[datetime]
) -> Gates:
    """The gates for the candidates of a page, by what runs now. Adds to ``looks`` when a rate lets the next through."""
    running: dict[tuple[str, str | None], int] = {}
    bounded = [queue for queue, limits in settings.limits.items() if limits.running is not None]
    if bounded:
        matching, values = one_of(database.dialect, "queues"), {"queues": listed(database.dialect, bounded)}
        running |= {(row[0], row[1]): row[2] for row in execute(_RUNNING.format(queues=matching), values)}
    keys = {row[2] for row in page if row[2] is not None}
    if keys:
        matching, values = one_of(database.dialect, "keys"), {"keys": listed(database.dialect, keys)}
        running |= {(row[0], row[1]): row[2] for row in execute(_RUNNING_OF_KEYS.format(keys=matching), values)}
    starts: dict[tuple[str, str], int] = {}
    for queue in {row[1] for row in page if row[2] is not None}:
        limits = settings.limits.get(queue, Limits())
        for key, claims in _recent_claims(database, execute, limits, queue, keys, now).items():
            starts[queue, key] = len(claims)
            looks += _opening(limits, claims)
    return Gates(settings.limits, running, starts)


def _recent_claims(
    database: Database, execute: Execute, limits: Limits, queue: str, keys: Iterable[str], now: datetime
) -> Mapping[str, list[datetime]]:
    """The claims that the rate of a queue counts, by key, the oldest first."""
    if limits.starts_per_key is None or limits.per_key_seconds is None:
        return {}
    values = {"queue": queue, "since": now - timedelta(seconds=limits.per_key_seconds)}
    sql = _STARTS.format(keys=one_of(database.dialect, "keys"))
    claims: defaultdict[str, list[datetime]] = defaultdict(list)
    for key, claimed_at in sorted(execute(sql, {**values, "keys": listed(database.dialect, keys)})):
        claims[key].append(database.instant(claimed_at))
    return claims


def _opening(limits: Limits, claims: Sequence[datetime]) -> list[datetime]:
    """When a rate that is reached lets the next one through: so many of the oldest have to be past that one fits."""
    if not limits.starts_per_key or limits.per_key_seconds is None or len(claims) < limits.starts_per_key:
        return []
    return [claims[len(claims) - limits.starts_per_key] + timedelta(seconds=limits.per_key_seconds)]
