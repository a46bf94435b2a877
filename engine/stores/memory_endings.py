"""How claims and executions of the memory store end, and whom that wakes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from flo.engine.errors import NotFound
from flo.engine.executions import MOVES, RESUMABLE, DeadReason, Execution, ExecutionState, IllegalMove, changed
from flo.engine.jobs import Again, Attempt, Conclusion, Ended, Hold, LeaseLost, Parked, Released
from flo.engine.stores.memory_copies import copied, copied_error
from flo.engine.stores.memory_ledger import NO_QUEUE, Kept, KeptFiring, KeptWait, Ledger
from flo.engine.stores.standing import SCHEDULERS
from flo.engine.triggers import Firing
from flo.engine.values import Json, JsonObject

_PARENT_ENDED: Final[JsonObject] = {"code": "parent_ended", "message": "what it was a part of has ended"}


def find(ledger: Ledger, execution_id: str) -> Kept:
    """An execution by its whole id. Raises ``NotFound``."""
    kept = ledger.kept.get(execution_id)
    if kept is None:
        raise NotFound("execution", execution_id)
    return kept


def held(ledger: Ledger, hold: Hold) -> Kept:
    """The execution of a claim that is valid. Raises ``LeaseLost``."""
    kept = ledger.kept.get(hold.execution_id)
    if kept is None:
        raise LeaseLost(hold.execution_id, None)
    if kept.row.state is not ExecutionState.RUNNING or kept.token != hold.token:
        raise LeaseLost(hold.execution_id, kept.row.state, kept.row.worker, kept.row.fence)
    return kept


def conclude(ledger: Ledger, kept: Kept, conclusion: Conclusion) -> None:
    """End the claim on ``kept`` as its owner says. Raises ``IllegalMove``."""
    now = ledger.now()
    match conclusion:
        case Ended(state, output, error, reason):
            check_move(kept.row, state)
            if not state.final:
                raise IllegalMove(kept.row.id, kept.row.state, state)
            end(ledger, kept, state, now, output=copied(output), error=copied_error(error), reason=reason)
            see_end(ledger, kept, now)
        case Again(delay, error):
            keep_attempt(ledger, kept, "retrying", now, error)
            due = now + delay
            row = changed(kept.row, attempt=kept.row.attempt + 1, error=copied_error(error), run_at=due)
            _give_back(ledger, kept, row, ExecutionState.RETRYING, due)
        case Released(delay):
            keep_attempt(ledger, kept, "released", now)
            due = now + delay
            _give_back(ledger, kept, changed(kept.row, run_at=due), ExecutionState.PENDING, due)
        case Parked(until):
            keep_attempt(ledger, kept, "suspended", now)
            _give_back(ledger, kept, kept.row, ExecutionState.SUSPENDED, _end_of_wait(ledger, kept, until, now))


def end(
    ledger: Ledger,
    kept: Kept,
    state: ExecutionState,
    now: datetime,
    *,
    output: Json = None,
    error: JsonObject | None = None,
    reason: DeadReason | None = None,
) -> None:
    """Bring an execution to a final state: its effects are forgotten, unless it can be resumed; its unfinished parts
    end with it, who waits for it is woken, its place is free."""
    row = changed(
        kept.row,
        state=state,
        output=output,
        error=error,
        reason=reason,
        finished_at=now,
        due_at=None,
        lease_until=None,
    )
    ledger.assign(kept, row=row, token=None)
    if state not in RESUMABLE and not is_over_with_parent(row):
        ledger.assign(kept, effects={})
    for waiting in ledger.waiting_for.get(row.id, ()):
        waiter = ledger.kept.get(waiting)
        if waiter is not None and any(_waits_for(one, row.id) for one in waiter.waits.values()):
            wake_root(ledger, waiter, now)
    for part in below(ledger, kept, parts_only=True):
        if not part.row.state.final:
            end(ledger, part, ExecutionState.CANCELLED, now, error=_PARENT_ENDED)
    if kept.is_part:
        wake_root(ledger, kept, now)
    _tell_of_free_place(ledger, kept)


def see_end(ledger: Ledger, kept: Kept, now: datetime) -> None:
    """Let the end of an execution be a slot, which is due, of each trigger that waits for it. Not for parts that only
    ended with what they are a part of."""
    row = kept.row
    for standing in ledger.triggers.values():
        trigger, slot = standing.trigger, f"{row.id}:{row.attempt}"
        awaits = trigger.kind == "event" and trigger.enabled and trigger.awaits == row.workflow is not None
        if awaits and row.state in standing.states and (trigger.id, slot) not in ledger.firings:
            firing = Firing(trigger.id, slot, "due", now)
            ledger.put(ledger.firings, (trigger.id, slot), KeptFiring(firing, next(ledger.numbers), row.id, row.state))
            ledger.tell(SCHEDULERS)


def is_over_with_parent(row: Execution) -> bool:
    """Whether an execution was cancelled since what it was a part of had ended."""
    return row.state is ExecutionState.CANCELLED and (row.error or {}).get("code") == _PARENT_ENDED["code"]


def below(ledger: Ledger, kept: Kept, *, parts_only: bool = False) -> Sequence[Kept]:
    """What an execution started, down to any depth, what is deeper later; ``parts_only``: what no queue delivers."""
    found: list[Kept] = []
    level = [kept]
    while level:
        children = [child for one in level for child in ledger.by_parent.get(one.row.id, {}).values()]
        level = [child for child in children if child.is_part or not parts_only]
        found += level
    return found


def wake_root(ledger: Ledger, kept: Kept, now: datetime) -> None:
    """Make the execution that is claimed for ``kept`` due, if it is suspended."""
    root = ledger.kept.get(kept.row.root_id or kept.row.id)
    if root is not None and root.row.state is ExecutionState.SUSPENDED:
        ledger.assign(root, row=changed(root.row, due_at=now))
        ledger.tell(root.queue)


def keep_attempt(ledger: Ledger, kept: Kept, outcome: str, now: datetime, error: JsonObject | None = None) -> None:
    """Keep the newest claim of an execution, which did not end it. What is kept of a claim stays."""
    row = kept.row
    if row.fence not in kept.attempts:
        attempt = Attempt(row.fence, row.worker, row.claimed_at, now, outcome, copied_error(error))
        ledger.put(kept.attempts, row.fence, attempt)


def reopen(ledger: Ledger, kept: Kept, now: datetime) -> None:
    """Move an execution that has ended to ``pending``, due now, for a new attempt that goes on where it stood."""
    row = kept.row
    keep_attempt(ledger, kept, row.state.value, row.finished_at or now, row.error)
    row = changed(
        row,
        state=ExecutionState.PENDING,
        attempt=row.attempt + 1,
        expiries=0,
        deadline=None,
        reason=None,
        replayed_as=None,
        run_at=now,
        due_at=now,
        finished_at=None,
        output=None,
        error=None,
        worker=None,
    )
    ledger.assign(kept, row=row)
    ledger.tell(kept.queue)


def check_move(row: Execution, to: ExecutionState) -> None:
    """Raise ``IllegalMove`` where the table has no such move."""
    if to not in MOVES[row.state]:
        raise IllegalMove(row.id, row.state, to)


def answer_of(row: Execution) -> JsonObject:
    """What a wait for the end of an execution is answered with."""
    return {"executionId": row.id, "status": row.state.value, "output": row.output, "error": row.error}


def oldest_signal(kept: Kept, name: str) -> int | None:
    """The number of the oldest signal of ``name`` that nobody took."""
    untaken = (number for number, one in kept.signals.items() if one.name == name and one.taken_by is None)
    return next(untaken, None)


def _give_back(ledger: Ledger, kept: Kept, row: Execution, state: ExecutionState, due: datetime | None) -> None:
    """Let go of a claim that does not end its execution."""
    check_move(kept.row, state)
    ledger.assign(kept, row=changed(row, state=state, due_at=due, worker=None, lease_until=None), token=None)
    ledger.tell(kept.queue)
    _tell_of_free_place(ledger, kept)


def _tell_of_free_place(ledger: Ledger, kept: Kept) -> None:
    """Wake those who may have found a limit reached: that of the queue, or of a key, which holds over all queues."""
    if kept.row.concurrency_key is not None:
        ledger.tell_all()
    elif kept.queue != NO_QUEUE and kept.queue in ledger.limits:
        ledger.tell(kept.queue)


def _end_of_wait(ledger: Ledger, kept: Kept, until: datetime | None, now: datetime) -> datetime | None:
    """When an execution that waits is due. A part is never claimed: its root is due for it."""
    if kept.is_part:
        return None
    tree = [kept, *below(ledger, kept, parts_only=True)]
    if any(_can_be_answered(ledger, one, wait) for one in tree for wait in one.waits.values()):
        return now
    return now if any(_was_cancelled_since(kept.row.claimed_at, part.row) for part in tree[1:]) else until


def _was_cancelled_since(claimed_at: datetime | None, part: Execution) -> bool:
    """Whether a part was cancelled under the owner of the whole, who may not have seen it."""
    if part.state is not ExecutionState.CANCELLED or claimed_at is None or part.finished_at is None:
        return False
    return part.finished_at >= claimed_at


def _can_be_answered(ledger: Ledger, kept: Kept, waiting: KeptWait) -> bool:
    if waiting.taken:
        return False
    wait = waiting.wait
    match wait.kind:
        case "signal":
            return oldest_signal(kept, wait.name) is not None
        case "execution":
            target = ledger.kept.get(wait.name)
            return target is None or target.row.state.final
        case _:
            return wait.answer is not None


def _waits_for(waiting: KeptWait, execution_id: str) -> bool:
    return waiting.wait.kind == "execution" and waiting.wait.name == execution_id and not waiting.taken
