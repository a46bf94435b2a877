"""Writes down what the owner of an execution did: in order, in batches, and together with what it wrote to tables.

What one strand of an execution has committed implies everything that it did before: a batch takes all that waits. So an
execution that is delivered again finds the past whole, up to some instant, in each of its strands.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from flo.engine.bet import Bet
from flo.engine.clock import Clock
from flo.engine.errors import StoreUnavailable
from flo.engine.executions import LogLine, StepRecord, StepState
from flo.engine.jobs import Entries, Hold, LeaseLost
from flo.engine.patience import patiently
from flo.engine.stores.queueing import Owned, QueueStore
from flo.engine.values import Json, JsonObject, dump
from flo.engine.writing import Apart, InHand, Write, Writing, decision

T = TypeVar("T")

BATCH: Final = 200
BATCH_CHARACTERS: Final = 4 * 1024 * 1024
BATCH_SECONDS: Final = 0.5
MAX_MESSAGE: Final = 64 * 1024

_WORTH_REMOVING: Final = 4 * 1024
"""An output that its iteration's record repeats is removed if it has more characters."""

_ENDED: Final = (StepState.SUCCESS, StepState.SKIPPED)
"""What ended so never runs again."""


class State(Protocol):
    """What a run has besides records: its variables, and how many failures it tolerated."""

    def __call__(self) -> tuple[JsonObject, int]: ...


class Journal:
    """What the strands of one execution share: the claim, the numbers of log lines, and whether it is over."""

    def __init__(
        self, queue: QueueStore, hold: Hold, clock: Clock, *, last_line: int, on_lost: Callable[[LeaseLost], None]
    ) -> None:
        self.hold, self.clock = hold, clock
        self.sealed = False
        self.on_lost = on_lost
        self.writing = Writing(queue, hold, clock)
        self._numbers = itertools.count(last_line + 1)

    def number(self) -> int:
        """The number of the next log line."""
        return next(self._numbers)

    def seal(self) -> None:
        """Take nothing more: what a step that was given up may still say comes too late."""
        self.sealed = True


class Strand:
    """One sequence of work in an execution, and what it did that is not stored yet.

    Used by one thread at a time; work that runs at the same time gets a strand of its own by ``fork``.
    """

    def __init__(self, journal: Journal, state: State) -> None:
        self.journal, self._state = journal, state
        self._steps: list[tuple[StepRecord, int]] = []
        self._lines: list[LogLine] = []
        self._covered: list[str] = []
        self._last: list[StepRecord] = []
        """Records of what a return cut short: stored with the end of the run, for until then it has to return again."""
        self._decisions: dict[tuple[str, str], Json] = {}
        """By the path of a step that has not ended, or failed, and the condition that it asked."""
        self._characters = 0
        self._state_changed = False
        self._large: dict[str, list[str]] = {}
        """By iteration: paths of its steps whose large outputs are stored."""
        self._with: dict[int, Entries] = {}
        """By the transaction: records of what runs in it."""
        self._flushed_at = journal.clock.monotonic()
        self._lock = threading.RLock()
        self._in_hand: dict[Write[Any], InHand] = {}
        """What transactions that are under way write. A step that was given up may be in one for long."""
        self._beside: list[Strand] = []

    def step(self, record: StepRecord, characters: int) -> None:
        """Take the record of a step whose output has so many characters as JSON."""
        with self._lock:
            if self.journal.sealed:
                return
            self._steps.append((record, characters))
            if self._decisions and record.state in _ENDED:
                self._decisions = {held: value for held, value in self._decisions.items() if held[0] != record.path}
            self._characters += characters
            due = self._is_due()
        if due:
            self.flush()

    def iteration(self, record: StepRecord, characters: int) -> None:
        """Take the record of an iteration, which holds the outputs of its steps: they need not be stored twice, unless
        it may go on."""
        inside, ended = f"{record.path}.", record.state in _ENDED
        with self._lock:
            for at in range(len(self._steps) - 1, -1, -1) if ended else ():
                step, _ = self._steps[at]
                if not step.path.startswith(inside):
                    break
                self._steps[at] = step.without_output(), 0
            large = self._large.pop(inside, ())
            if ended:
                self._covered.extend(large)
        self.step(record, characters)

    def cut_short(self, record: StepRecord) -> None:
        """Take the record of a step, or an iteration, that the run's return ended."""
        with self._lock:
            self._last.append(record)

    def line(self, line: LogLine) -> None:
        """Take a log line."""
        with self._lock:
            if self.journal.sealed:
                return
            self._lines.append(line.numbered(self.journal.number()))
            self._characters += len(line.message) + (0 if line.data is None else len(dump(line.data)))
            due = self._is_due()
        if due:
            self.flush()

    def decide(self, path: str, name: str, value: Json) -> None:
        """Take down what the step at ``path`` decided: by a condition, or by what it took as its input. Its children
        follow from it: where something of them is stored before it ends, this is too, and is not decided anew."""
        with self._lock:
            self._decisions[path, name] = value

    def decided(self, path: str, name: str) -> Json:
        """What a step decided in an earlier delivery; None if nothing is kept."""
        kept = self.own(lambda owned: owned.effect(path, decision(name), 0))
        return None if kept is None else kept["value"]

    def state_changed(self) -> None:
        """Variables, or the count of tolerated failures, have changed."""
        with self._lock:
            self._state_changed = True

    def fork(self) -> Strand:
        """A strand for work beside this one. What was done so far is stored first, and what was decided: what the other
        strand stores follows from it."""
        if self.waiting() or self._decisions:
            self.own(lambda owned: None)
        beside = Strand(self.journal, self._state)
        with self._lock:
            self._beside.append(beside)
        return beside

    def join(self, ended: Strand) -> None:
        """Take over what a strand that has ended did not store."""
        with self._lock, ended._lock:
            ended._gather()
            self._beside = [beside for beside in self._beside if beside is not ended]
            self._steps += ended._steps
            self._lines += ended._lines
            self._covered += ended._covered
            self._characters += ended._characters
            self._last += ended._last
            self._state_changed |= ended._state_changed
            self._decisions |= ended._decisions
            for inside, paths in ended._large.items():
                self._large.setdefault(inside, []).extend(paths)

    def flush(self) -> None:
        """Store all that was taken before. Raises ``LeaseLost``, ``StoreError``."""
        if self.waiting():
            self.own(lambda owned: None)

    def keep_decisions(self) -> None:
        """At the end of a claim, store what was decided, if something that may follow from it is to be stored. Raises
        ``LeaseLost``, ``StoreError``."""
        with self._lock:
            self._gather()
            decided = bool(self._decisions)
        if decided:
            self.flush()

    @property
    def characters(self) -> int:
        """How many characters has, about, what is not stored yet."""
        return self._characters

    def waiting(self) -> bool:
        """Whether there is something to store."""
        return bool(self._steps or self._lines or self._covered or self._state_changed)

    def own(
        self,
        work: Callable[[Owned], T],
        *,
        exclusive: bool = False,
        alone: bool = False,
        applied: Callable[[], T | None] = lambda: None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> T:
        """Run ``work`` in one transaction with what was taken before, and with what other strands write at the same
        moment, unless it is to be ``alone``: it may wait for something. Where it is not ``wanted`` any more by the time
        that the others are done, it is run again, to find that out itself.

        A store that is away is tried again. Whether a transaction whose answer was lost had been committed,
        ``applied`` tells: it gives what ``work`` gave then. Raises ``LeaseLost``, ``StoreError``.
        """

        def once(doubt: bool) -> T:
            if doubt and (result := applied()) is not None:
                return result
            write = Write(self, work, exclusive=exclusive, wanted=wanted)
            if alone or self._in_hand:  # of a step that was given up, and may hang
                return self.journal.writing.make(write)
            try:
                return self.journal.writing.join(write)
            except Apart as apart:
                if apart.doubt and (result := applied()) is not None:
                    return result
            return self.journal.writing.make(Write(self, work, exclusive=exclusive, wanted=wanted))

        try:
            return patiently(self.journal.clock, "write what a run did", once)
        except LeaseLost as lost:
            self.journal.on_lost(lost)
            raise

    def own_briefly(self, work: Callable[[Owned], T]) -> T:
        """Run ``work`` in one transaction with what was taken before, but rather not at all than wait for what others
        have locked, or for a store that is away. Raises ``Apart``, ``LeaseLost``, ``StoreError``."""
        try:
            return self.journal.writing.make(Write(self, work, brief=True))
        except StoreUnavailable:
            self.journal.writing.come_apart()
            raise Apart(doubt=True) from None
        except LeaseLost as lost:
            self.journal.on_lost(lost)
            raise

    def record_in(self, owned: Owned, record: StepRecord, characters: int) -> None:
        """Store the record of a step with the transaction that is under way."""
        with self._lock:
            self._with[id(owned)] = Entries((record,))
            self._note_large(record, characters)

    def aside(self, bet: Bet) -> Strand:
        """A strand for what happens in a bet: ``record_aside`` stores it, or it never was."""
        return _Aside(self.journal, self._state, bet)

    def record_aside(self, bet: Bet, aside: Strand) -> Sequence[StepRecord]:
        """Store what happened aside with its transaction, and give the records of its steps. Raises ``Apart`` where the
        bet is lost, or the execution was over meanwhile: then not all of it was taken down."""
        if bet.is_lost or self.journal.sealed:
            raise bet.lose()
        entries = aside.take(returned=False)
        with self._lock:
            self._with[id(bet.owned)] = entries
            for record in entries.steps:
                self._note_large(record, record.characters)
        return entries.steps

    def take(self, *, returned: bool) -> Entries:
        """Give all that is not stored yet, for whoever writes it with the end of the claim: also what was cut short,
        where the run has ``returned``."""
        with self._lock:
            self._gather()
            entries = self._take()
            return replace(entries, steps=(*entries.steps, *self._last)) if returned and self._last else entries

    def prepare(self) -> bool:
        """Take over what others were given and do not come to store. Gives whether variables wait to be stored."""
        with self._lock:
            self._take_from_hands()
            return self._state_changed

    def give(self, write: Write[Any]) -> InHand:
        """Give all that is not stored yet, for a write to store it."""
        with self._lock:
            in_hand = self._in_hand[write] = InHand(self._take(), self._decisions)
            self._decisions = {}
            return in_hand

    def stored(self, write: Write[Any]) -> None:
        """What a write was given is stored."""
        with self._lock:
            self._in_hand.pop(write, None)

    def take_back(self, write: Write[Any]) -> None:
        """What a write was given goes with the next one, unless somebody took it over."""
        with self._lock:
            if (in_hand := self._in_hand.pop(write, None)) is not None:
                self._put_back(in_hand)

    def records_with(self, owned: Owned) -> Entries | None:
        """Records of what has just run in a transaction."""
        with self._lock:
            return self._with.pop(id(owned), None)

    def _gather(self) -> None:
        """Take over from what does not come to its end: steps that were given up, and strands beside them."""
        for beside in tuple(self._beside):
            self.join(beside)
        self._take_from_hands()

    def _take_from_hands(self) -> None:
        """Take over what other threads are about to write: it is older, and may be written twice."""
        while self._in_hand:
            self._put_back(self._in_hand.popitem()[1])

    def _take(self) -> Entries:
        variables, tolerated = self._state() if self._state_changed else (None, None)
        steps = tuple(step for step, _ in self._steps)
        entries = Entries(steps, tuple(self._lines), tuple(self._covered), variables, tolerated)
        for step, characters in self._steps:
            self._note_large(step, characters)
        self._steps, self._lines, self._covered, self._characters = [], [], [], 0
        self._state_changed = False
        self._flushed_at = self.journal.clock.monotonic()
        return entries

    def _note_large(self, step: StepRecord, characters: int) -> None:
        """Remember an output that its iteration's record will repeat."""
        if characters <= _WORTH_REMOVING or step.index is not None:
            return
        if (end := step.path.rfind("].")) >= 0:
            self._large.setdefault(step.path[: end + 2], []).append(step.path)

    def _put_back(self, in_hand: InHand) -> None:
        entries = in_hand.entries
        self._steps = [*((step, 0) for step in entries.steps), *self._steps]
        self._lines = [*entries.lines, *self._lines]
        self._covered = [*entries.covered, *self._covered]
        self._state_changed |= entries.variables is not None
        self._decisions = {**in_hand.decisions, **self._decisions}

    def _is_due(self) -> bool:
        """Whether so much waits, or for so long, that it is to be stored; not from inside a transaction."""
        due = (
            len(self._steps) + len(self._lines) >= BATCH
            or self._characters >= BATCH_CHARACTERS
            or self.journal.clock.monotonic() - self._flushed_at >= BATCH_SECONDS
        )
        return due and not self.journal.writing.inside


class _Aside(Strand):
    """Stores nothing itself: what wants a transaction of its own, or a strand beside, loses the bet."""

    def __init__(self, journal: Journal, state: State, bet: Bet) -> None:
        super().__init__(journal, state)
        self._bet = bet

    def own(self, work: Callable[[Owned], T], **how: Any) -> T:
        raise self._bet.lose()

    def own_briefly(self, work: Callable[[Owned], T]) -> T:
        raise self._bet.lose()

    def fork(self) -> Strand:
        raise self._bet.lose()

    def flush(self) -> None:
        raise self._bet.lose()

    def _is_due(self) -> bool:
        """All of it goes with the transaction."""
        return False
