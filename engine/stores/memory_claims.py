"""Who gets which execution of the memory store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from flo.engine.executions import ExecutionState, changed
from flo.engine.jobs import LEASE, MAX_EXPIRIES, Claimed, Delivery, Hold
from flo.engine.stores.arrivals import new_token
from flo.engine.stores.gates import Gates
from flo.engine.stores.memory_copies import copied_execution, copied_object
from flo.engine.stores.memory_endings import keep_attempt
from flo.engine.stores.memory_ledger import NO_QUEUE, Kept, Ledger


def claim(ledger: Ledger, queues: Sequence[str], worker: str, lease: timedelta, limit: int, ahead: int) -> Claimed:
    """As ``QueueStore.claim``."""
    now = ledger.now()
    asked = set(queues) - {NO_QUEUE}
    open_queues = asked - ledger.paused
    gates = None
    if not asked.isdisjoint(ledger.keyed) or not asked.isdisjoint(ledger.limits):
        gates, ahead = gates_for(ledger, _with_a_rate(ledger, open_queues), now), 0
    deliveries: list[Delivery] = []
    left: list[Kept] = []
    looks: list[datetime] = []
    for row in ledger.order.due(open_queues, now):
        kept = ledger.kept[row.id]
        if not is_claimable(kept, now):
            left.append(kept)
        elif len(deliveries) >= limit + ahead:
            left.append(kept)
            if gates is None or not gates.full(kept.queue, row.concurrency_key, row.concurrency_limit):
                looks.append(now)
                break
        elif gates is None or gates.admits(kept.queue, row.concurrency_key, row.concurrency_limit):
            deliveries.append(deliver(ledger, kept, worker, lease, now))
        else:
            left.append(kept)
            looks.append(now + LEASE)  # of a place that a lost owner leaves nobody tells
            if gates.too_fast(kept.queue, row.concurrency_key):
                looks.extend(_end_of_window(ledger, kept, now))
    if (later := ledger.order.next(open_queues, now)) is not None:
        looks.append(later)
    for kept in left:
        ledger.order.add(kept.queue, kept.row)
    return Claimed(deliveries, min(looks, default=None))


def deliver(ledger: Ledger, kept: Kept, worker: str, lease: timedelta, now: datetime) -> Delivery:
    """Give an execution to its next owner, whatever claim is on it. A part's worker is not lost: its parent's is."""
    row = kept.row
    begun = row.deliveries > 0
    lost = row.state is ExecutionState.RUNNING
    if lost:
        keep_attempt(ledger, kept, "expired", now)
    hold, until = Hold(row.id, new_token(), row.fence + 1, worker), now + lease
    row = changed(
        row,
        state=ExecutionState.RUNNING,
        started_at=row.started_at or now,
        claimed_at=now,
        due_at=until,
        lease_until=until,
        worker=worker,
        fence=hold.fence,
        deliveries=row.deliveries + 1,
        expiries=row.expiries + (lost and not kept.is_part),
    )
    ledger.assign(kept, row=row, token=hold.token)
    return Delivery(
        copied_execution(row),
        hold,
        copied_object(kept.variables),
        kept.tolerated,
        max(kept.lines, default=0),
        begun,
    )


def is_claimable(kept: Kept, now: datetime) -> bool:
    """Whether somebody may take an unfinished execution now, as far as it alone tells."""
    row = kept.row
    if row.due_at is None or row.due_at > now or (row.deadline is not None and row.deadline <= now):
        return False
    return row.state is not ExecutionState.RUNNING or row.expiries < MAX_EXPIRIES


def is_live(kept: Kept, now: datetime) -> bool:
    """Whether somebody holds the execution, and its lease has not run out."""
    row = kept.row
    return row.state is ExecutionState.RUNNING and row.due_at is not None and row.due_at > now


def gates_for(ledger: Ledger, candidates: Iterable[Kept], now: datetime) -> Gates:
    """The gates that ``candidates`` have to pass."""
    running = Counter((kept.queue, kept.row.concurrency_key) for kept in ledger.running.values() if is_live(kept, now))
    starts: dict[tuple[str, str], int] = {}
    for kept in candidates:
        key = kept.row.concurrency_key
        if key is not None and (kept.queue, key) not in starts:
            starts[kept.queue, key] = len(_recent_starts(ledger, kept, now))
    return Gates(ledger.limits, running, starts)


def is_idle(ledger: Ledger, queues: Collection[str]) -> bool:
    """Whether nothing is due or runs in those of ``queues`` that are not paused."""
    now = ledger.now()
    return not any(
        kept.row.state is ExecutionState.RUNNING or (kept.row.due_at is not None and kept.row.due_at <= now)
        for queue in set(queues) - ledger.paused - {NO_QUEUE}
        for kept in ledger.unfinished.get(queue, {}).values()
    )


def _with_a_rate(ledger: Ledger, queues: Iterable[str]) -> Iterator[Kept]:
    """What waits in those of ``queues`` that bound how often a key starts."""
    for queue in queues:
        if queue in ledger.limits and ledger.limits[queue].starts_per_key is not None:
            yield from ledger.unfinished.get(queue, {}).values()


def _recent_starts(ledger: Ledger, kept: Kept, now: datetime) -> list[datetime]:
    """When the claims of the queue and key of ``kept`` were made, as far as its rate counts them."""
    seconds = ledger.limits[kept.queue].per_key_seconds if kept.queue in ledger.limits else None
    if seconds is None or kept.row.concurrency_key is None:
        return []
    after = now - timedelta(seconds=seconds)
    of_key = ledger.by_concurrency_key.get(kept.row.concurrency_key, {}).values()
    claims = [claimed_at for one in of_key if one.queue == kept.queue for claimed_at in _claims(one)]
    return [claimed_at for claimed_at in claims if claimed_at is not None and claimed_at > after]


def _claims(kept: Kept) -> Iterator[datetime | None]:
    """When each claim of an execution was made."""
    yield kept.row.claimed_at
    for fence, attempt in kept.attempts.items():
        if fence < kept.row.fence:  # that of the newest claim repeats it
            yield attempt.claimed_at


def _end_of_window(ledger: Ledger, kept: Kept, now: datetime) -> list[datetime]:
    """When the rate of a key lets the next one through."""
    bounds = ledger.limits[kept.queue]
    starts = sorted(_recent_starts(ledger, kept, now))
    if bounds.per_key_seconds is None or bounds.starts_per_key is None or len(starts) < bounds.starts_per_key:
        return []
    # so many of the oldest have to leave the window that one more fits
    leaving = starts[len(starts) - bounds.starts_per_key] if bounds.starts_per_key else starts[-1]
    return [leaving + timedelta(seconds=bounds.per_key_seconds)]
