"""What the memory store forgets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from flo.engine.jobs import Retention
from flo.engine.stores.memory_endings import below
from flo.engine.stores.memory_ledger import Kept, Ledger


def purge_dead(ledger: Ledger, queue: str | None, before: datetime | None, limit: int) -> int:
    """Remove the oldest dead letters, with their parts."""
    dead = [
        kept
        for kept in ledger.kept.values()
        if kept.row.reason is not None
        and (queue is None or kept.row.queue == queue)
        and (before is None or _end_of(kept) < before)
    ]
    oldest = sorted(dead, key=_by_end)[:limit]
    for kept in oldest:
        for part in below(ledger, kept, parts_only=True):
            if part.row.state.final:
                ledger.remove(part)
        ledger.remove(kept)
    return len(oldest)


def prune(ledger: Ledger, retention: Retention, workflow: str | None, apart: Sequence[str], limit: int) -> int:
    """Remove the oldest of what has ended and is past its retention."""
    ended = [kept for kept in ledger.kept.values() if kept.row.state.final and _counts(kept, workflow, apart)]
    ended.sort(key=_by_end)
    surplus = 0 if retention.count is None else max(len(ended) - retention.count, 0)
    before = None if retention.age is None else ledger.now() - retention.age
    past = [kept for at, kept in enumerate(ended) if at < surplus or (before is not None and _end_of(kept) < before)]
    removed = 0
    for kept in past:
        if removed >= limit:
            break
        if not _is_part_of_unfinished(ledger, kept):
            ledger.remove(kept)
            removed += 1
    return removed


def _counts(kept: Kept, workflow: str | None, apart: Sequence[str]) -> bool:
    return kept.row.workflow not in apart if workflow is None else kept.row.workflow == workflow


def _is_part_of_unfinished(ledger: Ledger, kept: Kept) -> bool:
    """Whether something above it still runs, or waits: it may yet ask how this one ended."""
    above = kept.row.parent_id
    while above is not None and (parent := ledger.kept.get(above)) is not None:
        if not parent.row.state.final:
            return True
        above = parent.row.parent_id
    return False


def _by_end(kept: Kept) -> tuple[datetime, str]:
    return _end_of(kept), kept.row.id


def _end_of(kept: Kept) -> datetime:
    return kept.row.finished_at or kept.row.created_at
