"""Iterations of a loop that share a transaction: they run in it one after the other, and are committed at once.

This bets that all goes well. Where something fails, or wants what a transaction cannot wait for, all of it is undone as
if it had never begun, and each iteration runs by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from flo.engine.events import Event
from flo.engine.executions import StepRecord
from flo.engine.jobs import LeaseLost
from flo.engine.journal import BATCH_CHARACTERS
from flo.engine.language.workflow import Block, Step
from flo.engine.run import Frame, Run
from flo.engine.step import Types
from flo.engine.stores.queueing import Owned
from flo.engine.values import Json
from flo.engine.writing import Apart

MOST: Final = 100
"""So many iterations share a transaction at most."""

MOST_SECONDS: Final = 0.02
"""No further one begins in it after so long, of the machine's own time: others wait for what it has locked."""

Item = tuple[int, Json]
"""One of a loop's items, and its index."""


def can_share(run: Run, block: Block, types: Types) -> bool:
    """Whether iterations of these steps may share a transaction: all that they wait for is the store."""

    def waits_for_nothing(step: Step) -> bool:
        if step.branches and run.again:  # what it decided before is read in a transaction of its own
            return False
        return types[step.type].joins and step.timeout_ms is None and all(map(plain, step.branches.values()))

    def plain(block: Block) -> bool:
        return block.plain and all(map(waits_for_nothing, block.steps))

    return plain(block)


def share(
    frame: Frame, taken: Sequence[Item], iterate: Callable[[Frame, int, Json], StepRecord]
) -> Sequence[StepRecord]:
    """Run iterations in one transaction, in their order; gives the records of those that it had time for, the first
    ones. None of them has run where it gives none. Raises ``LeaseLost``."""
    run = frame.run
    records: list[StepRecord] = []
    events: list[Event] = []

    def transaction(owned: Owned) -> None:
        nonlocal events
        records.clear()  # the store may have begun again
        aside = frame.strand.aside()
        inside = replace(frame, strand=aside, within=owned)
        until = time.monotonic() + MOST_SECONDS
        with run.bus.held() as events:
            for index, item in taken:
                records.append(iterate(inside, index, item))
                if time.monotonic() >= until or aside.characters >= BATCH_CHARACTERS:
                    break
        frame.strand.record_aside(owned, aside)

    try:
        frame.strand.own_briefly(transaction)
    except LeaseLost:
        raise
    except Apart as apart:
        if not apart.doubt or not _is_stored(run, records):
            return ()
    except Exception:  # it comes again, and to its place, where each iteration runs by itself
        return ()
    run.renewer.settle()
    for event in events:
        run.bus.announce(event)
    return records


def _is_stored(run: Run, records: Sequence[StepRecord]) -> bool:
    """Whether a transaction whose answer was lost had been committed."""
    if not records:
        return False
    last = records[-1]
    assert last.loop is not None
    assert last.index is not None
    stored = run.past.iterations(run.execution.id, last.loop, start=last.index, limit=1)
    return any(held.index == last.index and held.started_at == last.started_at for held in stored)
