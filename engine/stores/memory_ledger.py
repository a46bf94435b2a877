"""What the memory store keeps of executions and triggers, and transactions over it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from flo.engine.clock import Clock
from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord
from flo.engine.frozen import frozen
from flo.engine.jobs import Attempt, Limits, Wait
from flo.engine.stores.memory_due import DueOrder
from flo.engine.stores.memory_wakeups import Bell
from flo.engine.stores.standing import Standing
from flo.engine.triggers import Firing
from flo.engine.values import JsonObject

K = TypeVar("K")
V = TypeVar("V")

NO_QUEUE: Final = ""
"""The queue of an execution that no queue delivers, where queues are counted."""


@frozen
class KeptWait:
    """A wait as it is kept. ``taken``: the step has its answer."""

    wait: Wait
    root_id: str
    taken: bool = False


@frozen
class KeptSignal:
    """A signal as it is kept. ``taken_by`` is the path of the step that has it."""

    name: str
    payload: JsonObject
    taken_by: str | None = None


@dataclass(slots=True, eq=False)
class Kept:
    """An execution with everything of its own. Changed by the methods of ``Ledger`` alone, which can undo it."""

    row: Execution
    token: str | None = None
    identity: str | None = None
    variables: JsonObject = field(default_factory=dict)
    tolerated: int = 0
    effects: dict[tuple[str, str, int], JsonObject] = field(default_factory=dict)
    steps: dict[str, StepRecord] = field(default_factory=dict)
    iterations: dict[str, dict[int, str]] = field(default_factory=dict)
    """By the loop's path: the path of each iteration."""
    lines: dict[int, LogLine] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    waits: dict[str, KeptWait] = field(default_factory=dict)
    signals: dict[int, KeptSignal] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        return self.row.queue or NO_QUEUE

    @property
    def is_part(self) -> bool:
        """Whether it is a part of its parent: no queue delivers it, and its parent's owner holds it."""
        return self.row.queue is None and self.row.parent_id is not None


@frozen
class KeptFiring:
    """A firing as it is kept, and the execution whose end was seen, with its state then. ``number`` rises with what is
    written."""

    firing: Firing
    number: int
    subject: str | None = None
    state: ExecutionState | None = None


class Ledger:
    """The executions and triggers of one store. Every change happens inside ``transaction``, which undoes it on an
    exception.

    The lock comes before that of ``MemoryData``; the bell's is the last.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.bell = Bell()
        self.kept: dict[str, Kept] = {}
        self.by_key: dict[str, str] = {}
        self.by_parent: dict[str, dict[str, Kept]] = {}
        self.by_concurrency_key: dict[str, dict[str, Kept]] = {}
        self.waiting_for: dict[str, dict[str, None]] = {}
        """By the execution that is waited for: the executions that wait, or waited, for its end."""
        self.unfinished: dict[str, dict[str, Kept]] = {}
        """By queue."""
        self.running: dict[str, Kept] = {}
        self.bounded: dict[str, Kept] = {}
        """Those unfinished ones that have a deadline."""
        self.keyed: set[str] = set()
        """The queues to which an execution with a concurrency key came once."""
        self.order = DueOrder(self._row)
        self.paused: set[str] = set()
        self.limits: dict[str, Limits] = {}
        self.triggers: dict[str, Standing] = {}
        self.firings: dict[tuple[str, str], KeptFiring] = {}
        """By trigger and slot."""
        self.numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._depth = 0
        self._undo: list[Callable[[], object]] = []
        self._told: set[str] = set()

    def now(self) -> datetime:
        return self.clock.now()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the lock; on an exception undo what was changed since, also inside another transaction. Those who
        listen are told once everything is done."""
        with self._lock:
            mark = len(self._undo)
            self._depth += 1
            try:
                yield
            except BaseException:
                while len(self._undo) > mark:
                    self._undo.pop()()
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    told, self._told = self._told, set()
                    self._undo.clear()
            if self._depth == 0 and told:
                self.bell.ring(told)

    def tell(self, *queues: str) -> None:
        """Tell those who listen to ``queues``, once the transaction is done."""
        self._told.update(queues)

    def tell_all(self) -> None:
        """Tell everybody: something may run now, wherever it waits."""
        self._told.update(self.unfinished)

    def insert(self, kept: Kept) -> None:
        """Keep one more execution."""
        self._enter(kept)
        self._undo.append(lambda: self._leave(kept))

    def remove(self, kept: Kept) -> None:
        """Forget an execution with everything of its own."""
        self._leave(kept)
        self._undo.append(lambda: self._enter(kept))

    def assign(self, kept: Kept, **changes: Any) -> None:
        """Change fields of ``kept``."""
        before = {name: getattr(kept, name) for name in changes}
        self._assign(kept, changes)
        self._undo.append(lambda: self._assign(kept, before))

    def put(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Change an entry of one of its mappings, in its place, or add it."""
        if key in mapping:
            before = mapping[key]
            self._undo.append(lambda: mapping.__setitem__(key, before))
        else:
            self._undo.append(lambda: mapping.pop(key))
        mapping[key] = value

    def put_all(self, mapping: dict[K, V], entries: dict[K, V]) -> None:
        """Change entries of one of its mappings, each in its place, or add them."""
        before = {key: mapping[key] for key in entries.keys() & mapping.keys()}

        def undo() -> None:
            for key in entries:
                if key not in before:
                    del mapping[key]
            mapping.update(before)

        self._undo.append(undo)
        mapping.update(entries)

    def drop(self, mapping: dict[K, V], key: K) -> V:
        """Remove an entry of one of its mappings; gives it."""
        before = mapping.pop(key)
        self._undo.append(lambda: mapping.__setitem__(key, before))
        return before

    def _row(self, execution_id: str) -> Execution | None:
        kept = self.kept.get(execution_id)
        return None if kept is None else kept.row

    def _assign(self, kept: Kept, changes: dict[str, Any]) -> None:
        moves = "row" in changes
        if moves:
            self._strike(kept)
        for name, value in changes.items():
            setattr(kept, name, value)
        if moves:
            self._list(kept)

    def _enter(self, kept: Kept) -> None:
        row = kept.row
        self.kept[row.id] = kept
        if row.key is not None:
            self.by_key[row.key] = row.id
        if row.parent_id is not None:
            self.by_parent.setdefault(row.parent_id, {})[row.id] = kept
        if row.concurrency_key is not None:
            self.by_concurrency_key.setdefault(row.concurrency_key, {})[row.id] = kept
            self.keyed.add(kept.queue)
        self._list(kept)

    def _leave(self, kept: Kept) -> None:
        row = kept.row
        self.kept.pop(row.id)
        if row.key is not None:
            self.by_key.pop(row.key)
        if row.parent_id is not None:
            _discard(self.by_parent, row.parent_id, row.id)
        if row.concurrency_key is not None:
            _discard(self.by_concurrency_key, row.concurrency_key, row.id)
        self._strike(kept)

    def _list(self, kept: Kept) -> None:
        """Note an execution among those of its state."""
        row = kept.row
        if not row.state.final:
            self.unfinished.setdefault(kept.queue, {})[row.id] = kept
            self.order.add(kept.queue, row)
            if row.deadline is not None:
                self.bounded[row.id] = kept
        if row.state is ExecutionState.RUNNING:
            self.running[row.id] = kept

    def _strike(self, kept: Kept) -> None:
        """Take it from there."""
        _discard(self.unfinished, kept.queue, kept.row.id)
        self.bounded.pop(kept.row.id, None)
        self.running.pop(kept.row.id, None)


def _discard(index: dict[str, dict[str, V]], name: str, execution_id: str) -> None:
    held = index.get(name)
    if held is not None:
        held.pop(execution_id, None)
        if not held:
            del index[name]
