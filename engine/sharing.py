"""Steps and iterations that share a transaction: they run in it one after the other, and are committed at once.

This bets that all goes well. Where something fails, or wants what a transaction cannot wait for, all of it is undone as
if it had never begun, and each runs by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, TypeVar

from flo.engine.events import Event
from flo.engine.executions import StepRecord
from flo.engine.jobs import LeaseLost
from flo.engine.journal import BATCH_CHARACTERS
from flo.engine.language.workflow import Block, Step
from flo.engine.run import Frame, Run
from flo.engine.stores.queueing import Owned
from flo.engine.values import Json
from flo.engine.writing import Apart

P = TypeVar("P")

MOST: Final = 100
"""So many iterations share a transaction at most."""

MOST_SECONDS: Final = 0.02
"""Nothing more begins in it after so long, of the machine's own time: others wait for what it has locked."""

Item = tuple[int, Json]
"""One of a loop's items, and its index."""


def can_share(run: Run, block: Block) -> bool:
    """Whether iterations of these steps may share a transaction, and any of them would make one."""
    if run.again and any(step.branches or step.conditions for step in block.steps):
        return False  # what they decided before is read in a transaction of its own
    return block.joins and any(step.commits for step in block.steps)


def sharers(frame: Frame, steps: Iterable[Step]) -> Sequence[Step]:
    """The first of these steps that may share a transaction; none where they would not make several."""
    if frame.within is not None or frame.run.again:
        return ()
    many = list(takewhile(lambda step: step.joins, steps))
    return many if sum(step.commits for step in many) > 1 else ()


def share_steps(frame: Frame, many: Sequence[Step], run_step: Callable[[Frame, Step], object]) -> int:
    """Run steps in one transaction. Gives how many of them have run; 0 where each has to run by itself. Raises
    ``LeaseLost``."""

    def run(inside: Frame, step: Step) -> StepRecord:
        run_step(inside, step)
        record = inside.scope.metas[step.id]
        assert isinstance(record, StepRecord)
        return record

    records = share(frame, many, run)
    if not records:
        for step_id in _ids(many):
            for seen in (frame.scope.names, frame.scope.metas, frame.run.ended):
                seen.pop(step_id, None)
    return len(records)


def share(frame: Frame, pieces: Sequence[P], run: Callable[[Frame, P], StepRecord]) -> Sequence[StepRecord]:
    """Run pieces of work in one transaction, in their order; gives the records of those that it had time for, the first
    ones. None of them has run where it gives none. Raises ``LeaseLost``."""
    records: list[StepRecord] = []
    events: list[Event] = []

    def transaction(owned: Owned) -> None:
        nonlocal events
        records.clear()  # the store may have begun again
        aside = frame.strand.aside()
        inside = replace(frame, strand=aside, within=owned)
        until = time.monotonic() + MOST_SECONDS
        with frame.run.bus.held() as events:
            for piece in pieces:
                records.append(run(inside, piece))
                if time.monotonic() >= until or aside.characters >= BATCH_CHARACTERS:
                    break
        frame.strand.record_aside(owned, aside)

    try:
        frame.strand.own_briefly(transaction)
    except LeaseLost:
        raise
    except Apart as apart:
        if not apart.doubt or not _is_stored(frame, records):
            return ()
    except Exception:  # it comes again, and to its place, where each runs by itself
        return ()
    frame.run.renewer.settle()
    for event in events:
        frame.run.bus.announce(event)
    return records


def _is_stored(frame: Frame, records: Sequence[StepRecord]) -> bool:
    """Whether a transaction whose answer was lost had been committed."""
    if not records:
        return False
    last, past = records[-1], frame.run.past
    if last.loop is not None and last.index is not None:
        stored = past.iterations(last.execution_id, last.loop, start=last.index, limit=1)
    else:
        stored = past.checkpoints(last.execution_id, frame.prefix)
    return any(held.path == last.path and held.started_at == last.started_at for held in stored)


def _ids(steps: Iterable[Step]) -> Iterator[str]:
    """The ids of steps, and of their children."""
    for step in steps:
        yield step.id
        for block in step.branches.values():
            yield from _ids(block.steps)
