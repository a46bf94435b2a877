"""Steps and iterations that share a transaction: they run in it one after the other, and are committed at once.

This bets that all goes well. Where something fails, or wants what a transaction cannot wait for, all of it is undone as
if it had never begun, and each runs by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from flo.engine.bet import Bet
from flo.engine.errors import RunCancelled, StepFailed, StoreError
from flo.engine.events import Event
from flo.engine.executions import StepRecord
from flo.engine.jobs import LeaseLost
from flo.engine.journal import BATCH_CHARACTERS
from flo.engine.language.workflow import Block, Step
from flo.engine.run import Frame
from flo.engine.step import RunReturned
from flo.engine.stores.queueing import Owned
from flo.engine.values import Json
from flo.engine.writing import Apart

P = TypeVar("P")

MOST: Final = 100
"""So many iterations share a transaction at most."""

Item = tuple[int, Json]
"""One of a loop's items, and its index."""


class Shared(NamedTuple):
    """What became of a bet: the record of each piece, and of each step in it. Where it was lost there are none, and
    ``well`` pieces went well before one did not."""

    records: Sequence[StepRecord] = ()
    steps: Sequence[StepRecord] = ()
    well: int = 0


def can_share(frame: Frame, block: Block) -> bool:
    """Whether iterations of these steps may share a transaction, and any of them would make one."""
    if frame.run.again and any(step.branches or step.conditions for step in block.steps):
        return False  # what they decided before is read in a transaction of its own
    return frame.bet is None and block.shares and any(step.commits for step in block.steps)


def share_steps(frame: Frame, many: Sequence[Step], run_step: Callable[[Frame, Step], object]) -> int:
    """Run steps in one transaction. Gives how many of them have run; 0 where each has to run by itself. What they gave
    is seen once it is committed. Raises ``LeaseLost``."""
    scope = frame.scope.child({})

    def run(inside: Frame, step: Step) -> StepRecord:
        run_step(inside, step)
        record = scope.metas[step.id]
        assert isinstance(record, StepRecord)
        return record

    shared = share(replace(frame, scope=scope), many, run)
    if shared.records:
        for step_id in scope.metas:
            frame.scope.names.pop(step_id, None)  # of an earlier attempt at what is around the step
        frame.scope.names.update(scope.names)
        frame.scope.metas.update(scope.metas)
        frame.run.ended.update({record.step_id: record for record in shared.steps if record.path == record.step_id})
    return len(shared.records)


def share(frame: Frame, pieces: Sequence[P], run: Callable[[Frame, P], StepRecord]) -> Shared:
    """Run pieces of work in one transaction, in their order: the first ones, as many as it has time for. Raises
    ``LeaseLost``."""
    if frame.strand.journal.writing.is_apart:
        return Shared()
    records: list[StepRecord] = []
    steps: list[StepRecord] = []
    events: list[Event] = []
    good: list[Bet] = []

    def transaction(owned: Owned) -> None:
        bet = Bet(owned)
        aside = frame.strand.aside(bet)
        inside = replace(frame, strand=aside, bet=bet)
        with frame.run.bus.held() as held:
            for piece in pieces:
                records.append(run(inside, piece))
                if bet.is_over or aside.characters >= BATCH_CHARACTERS:
                    break
        good.append(bet)
        events.extend(held)
        steps.extend(frame.strand.record_aside(bet, aside))

    try:
        frame.strand.own_briefly(transaction)
    except LeaseLost:
        raise
    except (Apart, StepFailed, StoreError, RunCancelled, RunReturned) as lost:
        doubt = isinstance(lost, Apart) and lost.doubt
        if not (doubt and good and _is_stored(frame, records[-1])):  # it comes again where each runs by itself
            return Shared(well=0 if good else len(records))
    for act in good[0].afterwards:
        act()
    frame.run.renewer.settle()
    for event in events:
        frame.run.bus.announce(event)
    return Shared(records, steps)


def _is_stored(frame: Frame, last: StepRecord) -> bool:
    """Whether a transaction whose answer was lost had been committed."""
    past = frame.run.past
    if last.loop is not None and last.index is not None:
        stored = past.iterations(last.execution_id, last.loop, start=last.index, limit=1)
    else:
        stored = past.checkpoints(last.execution_id, frame.prefix)
    return any(held.path == last.path and held.started_at == last.started_at for held in stored)
