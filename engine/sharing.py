"""Steps and iterations that share a transaction: they run in it, in one thread, and are committed at once.

This bets that all goes well. Where something fails, or wants what a transaction cannot wait for, all of it is undone as
if it had never begun, and each runs by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from flo.engine.abreast import abreast
from flo.engine.bet import Bet
from flo.engine.errors import RunCancelled, StepFailed, StoreError
from flo.engine.events import Event
from flo.engine.executions import StepRecord
from flo.engine.jobs import LeaseLost
from flo.engine.journal import BATCH_CHARACTERS, Strand
from flo.engine.language.workflow import Block, Step
from flo.engine.run import Frame
from flo.engine.step import RunReturned
from flo.engine.stores.queueing import Owned
from flo.engine.values import Json
from flo.engine.writing import Apart

P = TypeVar("P")

MOST: Final = 100
"""So many iterations share a transaction at most."""

MOST_ABREAST: Final = 8
"""So many iterations are under way in it at a time: more of them would all end late."""

Item = tuple[int, Json]
"""One of a loop's items, and its index."""


class Shared(NamedTuple):
    """What became of a bet, if one was ``made``: the record of each piece, and of each step in it. Where it was lost
    there are none, and ``well`` pieces had begun before the first one that did not go well. ``late`` says that it took
    too long."""

    records: Sequence[StepRecord] = ()
    steps: Sequence[StepRecord] = ()
    well: int = 0
    made: bool = True
    late: bool = False


NOT_MADE: Final = Shared(made=False)


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


def share(frame: Frame, pieces: Sequence[P], run: Callable[[Frame, P], StepRecord], width: int = 1) -> Shared:
    """Run pieces of work in one transaction: the first ones, as many as it has time for. They begin in their order, and
    up to ``width`` of them are under way where they can wait for the store abreast. Raises ``LeaseLost``."""
    if frame.strand.journal.writing.is_apart:
        return NOT_MADE
    work = _Pieces(frame, pieces, run, width)
    try:
        frame.strand.own_briefly(work.run_all)
    except LeaseLost:
        raise
    except (Apart, StepFailed, StoreError, RunCancelled, RunReturned) as lost:
        doubt = isinstance(lost, Apart) and lost.doubt
        if not (doubt and work.won and _is_stored(frame, work.records[-1])):  # each says again what was wrong with it
            return Shared(well=0 if work.won else work.failed_at or 0, late=work.late)
    for act in work.afterwards:
        act()
    frame.run.renewer.settle()
    for event in work.events:
        frame.run.bus.announce(event)
    return Shared(work.records, work.steps)


class _Pieces(Generic[P]):
    """Pieces of work that run in one transaction, and what became of them by the time of its commit. ``failed_at`` is
    the place of the first one that did not go well."""

    def __init__(self, frame: Frame, pieces: Sequence[P], run: Callable[[Frame, P], StepRecord], width: int) -> None:
        self._frame, self._pieces, self._run, self._width = frame, pieces, run, width
        self._ended: list[StepRecord | None] = []
        self.failed_at: int | None = None
        self.won = self.late = False
        self.records: Sequence[StepRecord] = ()
        self.steps: Sequence[StepRecord] = ()
        self.events: Sequence[Event] = ()
        self.afterwards: Sequence[Callable[[], object]] = ()

    def run_all(self, owned: Owned) -> None:
        """Run as many as there is time for, and store what happened. Raises ``Apart``, and what a piece raised."""
        bet = Bet(owned)
        aside = self._frame.strand.aside(bet)
        inside = replace(self._frame, strand=aside, bet=bet)
        with self._frame.run.bus.held() as held:
            try:
                if self._width > 1 and owned.pipelined:
                    abreast(lambda: self._run_beside(inside, bet), self._width)
                else:
                    while self._is_next(bet, aside):
                        self._run_next(inside)
            finally:
                self.late = bet.is_late
        self.records = [record for record in self._ended if record is not None]
        self.events, self.afterwards, self.won = held, bet.afterwards, True
        self.steps = self._frame.strand.record_aside(bet, aside)

    def _is_next(self, bet: Bet, aside: Strand) -> bool:
        """Whether there is another piece, and time for it."""
        begun = len(self._ended)
        return not begun or (begun < len(self._pieces) and not bet.is_over and aside.characters < BATCH_CHARACTERS)

    def _run_beside(self, inside: Frame, bet: Bet) -> bool:
        """Run the next piece, if there is one, in a strand of its own: others are under way."""
        if not self._is_next(bet, inside.strand):
            return False
        beside = self._frame.strand.aside(bet)
        self._run_next(replace(inside, strand=beside))
        inside.strand.join(beside)
        return True

    def _run_next(self, inside: Frame) -> None:
        at = len(self._ended)
        self._ended.append(None)
        try:
            self._ended[at] = self._run(inside, self._pieces[at])
        except BaseException:
            self.failed_at = at if self.failed_at is None else self.failed_at
            raise


def _is_stored(frame: Frame, last: StepRecord) -> bool:
    """Whether a transaction whose answer was lost had been committed."""
    past = frame.run.past
    if last.loop is not None and last.index is not None:
        stored = past.iterations(last.execution_id, last.loop, start=last.index, limit=1)
    else:
        stored = past.checkpoints(last.execution_id, frame.prefix)
    return any(held.path == last.path and held.started_at == last.started_at for held in stored)
