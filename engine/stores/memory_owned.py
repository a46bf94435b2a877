"""What the owner of an execution writes to the memory store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Final

from flo.engine.errors import NotFound
from flo.engine.executions import LogLine, StepRecord
from flo.engine.jobs import Enqueued, Entries, Request, Wait
from flo.engine.stores.base import DataStore
from flo.engine.stores.memory_copies import copied_error, copied_line, copied_object, copied_wait, kept_step
from flo.engine.stores.memory_endings import answer_of, find, oldest_signal
from flo.engine.stores.memory_enqueue import enqueue
from flo.engine.stores.memory_ledger import Kept, KeptWait, Ledger
from flo.engine.values import JsonObject

_EXECUTION: Final = attrgetter("execution_id")


class MemoryOwned:
    """The ``Owned`` of the memory store: for use inside a transaction of the ledger and the rows."""

    pipelined = False

    def __init__(self, ledger: Ledger, kept: Kept, data: DataStore) -> None:
        self._ledger, self._kept = ledger, kept
        self.data: DataStore = data

    def now(self) -> datetime:
        return self._ledger.now()

    def record(self, entries: Entries) -> None:
        record(self._ledger, self._kept, entries)

    def effect(self, path: str, name: str, number: int) -> JsonObject | None:
        return copied_error(self._kept.effects.get((path, name, number)))

    def keep_effect(self, path: str, name: str, number: int, result: JsonObject) -> None:
        self._ledger.put(self._kept.effects, (path, name, number), copied_object(result))

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Enqueued]:
        return enqueue(self._ledger, requests)

    def wait(self, wait: Wait) -> Wait:
        ledger, kept = self._ledger, self._kept
        waiting = kept.waits.get(wait.path)
        if waiting is None:
            if wait.kind == "execution":
                find(ledger, wait.name)
            waiting = KeptWait(replace(copied_wait(wait), answer=None), kept.row.root_id or kept.row.id)
            ledger.put(kept.waits, wait.path, waiting)
            if wait.kind == "execution":
                ledger.put(ledger.waiting_for.setdefault(wait.name, {}), kept.row.id, None)
        if not waiting.taken:
            waiting = _answered(ledger, kept, waiting)
            ledger.put(kept.waits, wait.path, waiting)
        return copied_wait(waiting.wait)


def record(ledger: Ledger, kept: Kept, entries: Entries) -> None:
    """Write records of steps, log lines and variables of one execution."""
    for execution_id, steps in groupby(entries.steps, _EXECUTION):
        _record_steps(ledger, _of(ledger, kept, execution_id), steps)
    for execution_id, lines in groupby(entries.lines, _EXECUTION):
        _record_lines(ledger, _of(ledger, kept, execution_id), lines)
    for path in entries.covered:
        if (covered := kept.steps.get(path)) is not None:
            ledger.put(kept.steps, path, covered.without_output())
    if entries.variables is not None:
        ledger.assign(kept, variables=copied_object(entries.variables))
    if entries.tolerated is not None:
        ledger.assign(kept, tolerated=entries.tolerated)


def _record_steps(ledger: Ledger, of: Kept, steps: Iterable[StepRecord]) -> None:
    held = [kept_step(step) for step in steps]
    ledger.put_all(of.steps, {step.path: step for step in held})
    iterations: dict[str, dict[int, str]] = {}
    for step in held:
        if step.loop is not None and step.index is not None:
            iterations.setdefault(step.loop, {})[step.index] = step.path
    for loop, paths in iterations.items():
        ledger.put_all(of.iterations.setdefault(loop, {}), paths)


def _record_lines(ledger: Ledger, of: Kept, lines: Iterable[LogLine]) -> None:
    fresh: dict[int, LogLine] = {}
    for line in lines:
        number = line.number or max((*of.lines, *fresh), default=0) + 1
        if number not in of.lines:
            fresh.setdefault(number, copied_line(line if line.number else line.numbered(number)))
    ledger.put_all(of.lines, fresh)


def _of(ledger: Ledger, kept: Kept, execution_id: str) -> Kept:
    return kept if execution_id == kept.row.id else find(ledger, execution_id)


def _answered(ledger: Ledger, kept: Kept, waiting: KeptWait) -> KeptWait:
    """The wait with its answer, if that came; it is over too once its time has passed."""
    wait = waiting.wait
    answer = wait.answer
    if wait.kind == "signal" and (number := oldest_signal(kept, wait.name)) is not None:
        signal = kept.signals[number]
        ledger.put(kept.signals, number, replace(signal, taken_by=wait.path))
        answer = signal.payload
    elif wait.kind == "execution":
        target = ledger.kept.get(wait.name)
        if target is None:
            raise NotFound("execution", wait.name)
        answer = answer_of(target.row) if target.row.state.final else None
    over = wait.until is not None and wait.until <= ledger.now()
    return replace(waiting, wait=replace(wait, answer=answer), taken=answer is not None or over)
