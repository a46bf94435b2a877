"""Executions of the memory store that nobody will end any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from flo.engine.executions import DeadReason, Execution, ExecutionState
from flo.engine.instants import write_instant
from flo.engine.jobs import MAX_EXPIRIES
from flo.engine.stores.memory_claims import is_live
from flo.engine.stores.memory_endings import end, see_end
from flo.engine.stores.memory_ledger import NO_QUEUE, Kept, Ledger
from flo.engine.values import JsonObject


def bury(ledger: Ledger, limit: int) -> Sequence[Kept]:
    """End up to ``limit`` executions, what is longest past its time first."""
    now = ledger.now()
    buried: list[Kept] = []

    def end_those(
        candidates: Mapping[str, Kept],
        doomed: Callable[[Kept, datetime], datetime | None],
        state: ExecutionState,
        error: Callable[[Execution], JsonObject],
        reason: DeadReason | None = None,
    ) -> None:
        found = sorted((since, kept.row.id) for kept in candidates.values() if (since := doomed(kept, now)) is not None)
        for _, execution_id in found[: limit - len(buried)]:
            kept = ledger.kept[execution_id]
            if not kept.row.state.final:  # else what it is a part of has taken it along
                end(ledger, kept, state, now, error=error(kept.row), reason=reason)
                see_end(ledger, kept, now)
                buried.append(kept)

    end_those(ledger.bounded, _late_since, ExecutionState.TIMED_OUT, _late)
    end_those(ledger.running, _poisonous_since, ExecutionState.FAILED, _poisonous, DeadReason.POISON)
    end_those(ledger.running, _crashed_since, ExecutionState.FAILED, _crashed)
    return buried


def _late_since(kept: Kept, now: datetime) -> datetime | None:
    deadline = kept.row.deadline
    return deadline if deadline is not None and deadline <= now else None


def _late(row: Execution) -> JsonObject:
    deadline = "" if row.deadline is None else write_instant(row.deadline)
    return {"code": "timeout", "message": f"it is past its deadline, {deadline}"}


def _poisonous_since(kept: Kept, now: datetime) -> datetime | None:
    is_poison = kept.queue != NO_QUEUE and kept.row.expiries >= MAX_EXPIRIES
    return kept.row.due_at if is_poison and _is_lost(kept, now) else None


def _poisonous(row: Execution) -> JsonObject:
    return {"code": "poison", "message": f"its worker was lost {row.expiries + 1} times"}


def _crashed_since(kept: Kept, now: datetime) -> datetime | None:
    return kept.row.due_at if kept.queue == NO_QUEUE and not kept.is_part and _is_lost(kept, now) else None


def _crashed(row: Execution) -> JsonObject:
    since = "" if row.due_at is None else write_instant(row.due_at)
    message = f"the process that ran it (worker {row.worker!r}) was not heard of since {since}"
    return {"code": "crashed", "message": message}


def _is_lost(kept: Kept, now: datetime) -> bool:
    """Whether a lease ran out."""
    return kept.row.state is ExecutionState.RUNNING and not is_live(kept, now)
