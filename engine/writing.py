"""The transactions of one execution: what its strands want to write at one moment becomes one of them.

Each write does its work in turn, and all that waited in the strands is stored with it. Where one fails, none was made,
and each is made alone: so nobody's write is lost by another's failure, and work may run twice, as stores demand anyway.
"""

from __future__ import annotations

import contextvars
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from flo.engine.clock import Clock
from flo.engine.errors import StoreUnavailable
from flo.engine.frozen import frozen
from flo.engine.jobs import Entries, Hold
from flo.engine.joining import Joining
from flo.engine.stores.database import DriverFailed
from flo.engine.stores.queueing import Owned, QueueStore
from flo.engine.values import Json

T = TypeVar("T")

APART_SECONDS: Final = 1.0
"""So long each write is made alone, after several could not be made together."""


@frozen
class InHand:
    """What a strand gave away to be stored: what it did, and what was decided, by path and name."""

    entries: Entries
    decisions: Mapping[tuple[str, str], Json]


class Source(Protocol):
    """A strand: what waits in it to be stored, and the record of the step that writes."""

    def prepare(self) -> bool:
        """Gather what waits. Gives whether variables are among it."""

    def give(self, write: Write[Any]) -> InHand:
        """Give what waits, for a write to store it."""

    def stored(self, write: Write[Any]) -> None:
        """What was given is stored."""

    def take_back(self, write: Write[Any]) -> None:
        """What was given is not stored: it goes with the next write."""

    def records_with(self, owned: Owned) -> Entries | None:
        """Records of what has just run in this transaction."""


class Apart(Exception):
    """What was to be written together cannot be, and was undone. ``doubt``: whether it was is not known."""

    def __init__(self, *, doubt: bool) -> None:
        self.doubt = doubt
        super().__init__("each has to be made alone")


class Write(Generic[T]):
    """What one strand writes: what waits in it, and ``work``; and what became of that. A ``brief`` one rather comes
    apart than waits for what others have locked."""

    def __init__(
        self,
        source: Source,
        work: Callable[[Owned], T],
        *,
        exclusive: bool = False,
        brief: bool = False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self.source, self.exclusive, self.brief, self.wanted = source, exclusive, brief, wanted
        self.result: T
        self.failed: BaseException | None = None
        self._work = work
        self._thread, self._context = threading.get_ident(), contextvars.copy_context()
        self._in_hand = InHand(Entries(), {})

    def take(self) -> None:
        """Take what waits in the strand."""
        self._in_hand = self.source.give(self)

    def run(self, owned: Owned) -> Entries:
        """Do the work, in the context of whoever asked for it. Gives what is to be recorded."""
        for (path, name), value in self._in_hand.decisions.items():
            owned.keep_effect(path, decision(name), 0, {"value": value})
        mine = threading.get_ident() == self._thread
        self.result = self._work(owned) if mine else self._context.run(self._work, owned)
        waiting, made = self._in_hand.entries, self.source.records_with(owned)
        return waiting if made is None else _merged((waiting, made))


class Writing:
    """Makes the writes of one execution."""

    def __init__(self, queue: QueueStore, hold: Hold, clock: Clock) -> None:
        self._queue, self._hold, self._clock = queue, hold, clock
        self._joining: Joining[Write[Any]] = Joining()
        self._apart_until = -math.inf
        self._threads: set[int] = set()
        self._state_is_written = threading.Lock()
        """Held while variables are written, so that the newer ones come later."""

    @property
    def inside(self) -> bool:
        """Whether this thread is in a transaction."""
        return threading.get_ident() in self._threads

    def join(self, write: Write[T]) -> T:
        """Make a write together with those that come at the same time. Raises ``Apart`` where that cannot be."""
        if self.inside or self.is_apart:
            return self.make(write)
        self._joining.do(write, self._make_together)
        if write.failed is not None:
            raise write.failed
        return write.result

    @property
    def is_apart(self) -> bool:
        """Whether others stood in the way a moment ago: each write is better made alone."""
        return self._clock.monotonic() < self._apart_until

    def come_apart(self) -> None:
        """Others stand in the way."""
        self._apart_until = self._clock.monotonic() + APART_SECONDS

    def make(self, write: Write[T]) -> T:
        """Make a write in a transaction of its own."""
        self._transaction((write,))
        return write.result

    def _make_together(self, writes: Sequence[Write[Any]]) -> None:
        failed: BaseException
        try:
            self._transaction(writes)
            return
        except BaseException as error:
            failed = error
        first, *others = writes
        if others:
            self.come_apart()
            interrupted = not isinstance(failed, Exception | DriverFailed)  # maybe after the commit
            doubt = interrupted or isinstance(failed, StoreUnavailable)
            for write in others:
                write.failed = Apart(doubt=doubt)
            if not interrupted:
                failed = Apart(doubt=doubt)
        first.failed = failed

    def _transaction(self, writes: Sequence[Write[Any]]) -> None:
        changes_state = [write.source.prepare() for write in writes]  # each of them
        if any(changes_state):
            with self._state_is_written:
                self._commit(writes, exclusive=True)
        else:
            self._commit(writes, exclusive=any(write.exclusive for write in writes))

    def _commit(self, writes: Sequence[Write[Any]], *, exclusive: bool) -> None:
        tries = 0
        brief = len(writes) > 1 or writes[0].brief

        def transaction(owned: Owned) -> None:
            nonlocal tries
            tries += 1
            if tries > 1 and brief:  # another session stood in the way of one of them
                self.come_apart()
                raise Apart(doubt=False)
            thread = threading.get_ident()  # the store's, maybe
            self._threads.add(thread)
            try:
                entries = _merged([write.run(owned) for write in writes])
            finally:
                self._threads.discard(thread)
            if len(writes) > 1 and not all(write.wanted() for write in writes):  # given up, while others ran
                raise Apart(doubt=False)
            if entries:
                owned.record(entries)

        for write in writes:
            write.take()
        try:
            self._queue.own(self._hold, transaction, exclusive=exclusive, brief=brief)
        except BaseException:
            for write in reversed(writes):
                write.source.take_back(write)
            raise
        for write in writes:
            write.source.stored(write)


def decision(name: str) -> str:
    """The name under which a step's decision is kept."""
    return f"decided:{name}"


def _merged(parts: Sequence[Entries]) -> Entries:
    """All of them as one; the last variables are the newest."""
    if len(parts) == 1:
        return parts[0]
    variables = tolerated = None
    for part in parts:
        if part.variables is not None:
            variables, tolerated = part.variables, part.tolerated
    return Entries(
        [step for part in parts for step in part.steps],
        [line for part in parts for line in part.lines],
        [path for part in parts for path in part.covered],
        variables,
        tolerated,
    )
