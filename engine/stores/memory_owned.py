"""What the owner of an execution writes to the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from flo.engine.errors import NotFound
from flo.engine.jobs import Enqueued, Entries, Request, Wait
from flo.engine.stores.base import DataStore
from flo.engine.stores.memory_copies import copied_error, copied_line, copied_object, copied_step, copied_wait
from flo.engine.stores.memory_endings import answer_of, find, oldest_signal
from flo.engine.stores.memory_enqueue import enqueue
from flo.engine.stores.memory_ledger import Kept, KeptWait, Ledger
from flo.engine.values import JsonObject


class MemoryOwned:
    """The ``Owned`` of the memory store: for use inside a transaction of the ledger and the rows."""

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
    for step in entries.steps:
        of = _of(ledger, kept, step.execution_id)
        copy = copied_step(step)
        ledger.put(of.steps, copy.path, copy)
        if copy.loop is not None and copy.index is not None:
            ledger.put(of.iterations.setdefault(copy.loop, {}), copy.index, copy.path)
    for line in entries.lines:
        of = _of(ledger, kept, line.execution_id)
        number = line.number or max(of.lines, default=0) + 1
        if number not in of.lines:
            ledger.put(of.lines, number, replace(copied_line(line), number=number))
    for path in entries.covered:
        if (covered := kept.steps.get(path)) is not None:
            ledger.put(kept.steps, path, replace(covered, output=None))
    if entries.variables is not None:
        ledger.assign(kept, variables=copied_object(entries.variables))
    if entries.tolerated is not None:
        ledger.assign(kept, tolerated=entries.tolerated)


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
