"""The executions that a worker has: those that run, each in a thread, those that wait for one, and those that end."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from flo.engine.cancellation import Cancellation
from flo.engine.clock import Clock
from flo.engine.errors import StoreError
from flo.engine.events import Bus, ClaimEnded
from flo.engine.executions import Execution, ExecutionState
from flo.engine.frozen import frozen
from flo.engine.jobs import Delivery, Hold
from flo.engine.lifecycle import Told
from flo.engine.pace import Pace
from flo.engine.renewal import Renewer
from flo.engine.values import JsonObject

log = logging.getLogger("flo.worker")

LOST: Final = "lost"
GIVEN_BACK: Final = ExecutionState.PENDING.value

MOST_ENDING: Final = 500
"""Nothing more is claimed while so many ends wait to be written."""

IDLE_SECONDS: Final = 5.0
"""A thread that has had nothing to run for so long ends."""

_DROP_TOGETHER: Final = 50


class Deliver(Protocol):
    """Runs what a worker has claimed."""

    def deliver(self, delivery: Delivery, cancellation: Cancellation, told: Told) -> None:
        """Run a delivery until its work ends, and have it written how: ``told`` hears of it. May raise what
        ``told.failed`` would be called with."""


@frozen
class Tally:
    """How many claims of a worker ended in each state: final ones, ``retrying``, ``suspended``, ``pending`` (given
    back), and ``lost`` to another owner or a cancellation."""

    counts: Mapping[str, int]

    def as_json(self) -> JsonObject:
        """The counts that are not zero, by state."""
        return dict(self.counts)


class _Slot:
    """One execution of the worker, and what is told of it."""

    def __init__(self, slots: Slots, delivery: Delivery, now: float) -> None:
        self.slots, self.delivery = slots, delivery
        self.cancellation = Cancellation()
        self.since = now
        """When it came, or began to run; on the machine's clock."""
        self.begun = 0.0
        """When it began to run, on the engine's clock."""
        self.stuck = False

    def ended(self, execution: Execution | None) -> None:
        self.slots._end(self, execution)

    def failed(self, error: BaseException) -> None:
        name = self.delivery.execution.id
        if isinstance(error, StoreError):
            said = "how execution %s ended cannot be written, it is delivered again when its lease runs out: %s"
            log.warning(said, name, error)
        else:  # a mistake of the engine must not cost the worker its slot
            log.error("execution %s: its worker failed", name, exc_info=error)
        self.slots._end(self, None)

    def given_up(self) -> None:
        self.slots._replace_thread(self)


class Slots:
    """Up to ``size`` executions that run at once, and more that wait for a place where executions are short.

    The leases of all of them are renewed until their claims have ended; each end is announced. ``wanting`` is called
    when there is room for more. Threads are daemons: one that hangs does not keep the process.
    """

    def __init__(
        self,
        runner: Deliver,
        renewer: Renewer,
        clock: Clock,
        bus: Bus,
        *,
        size: int,
        lease: timedelta,
        wanting: Callable[[], None],
    ) -> None:
        self._runner, self._renewer, self._clock, self._bus = runner, renewer, clock, bus
        self._size, self._lease, self._wanting = size, lease, wanting
        self._pace = Pace(size)
        self._taken: dict[str, _Slot] = {}
        """All of them, by the claim's token."""
        self._waiting: deque[_Slot] = deque()
        self._running: dict[str, _Slot] = {}
        self._threads = self._idle = 0
        self._over: list[Hold] = []
        """Claims that have ended, whose leases are not renewed soon."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._changed, self._work = threading.Condition(self._lock), threading.Condition(self._lock)
        self._woken = self._told = self._closed = False

    @property
    def busy(self) -> bool:
        """Whether it has any."""
        return bool(self._taken)

    def room(self) -> tuple[int, int]:
        """How many more can be started, and how many more can wait for a place. Whoever asks is told of room that comes
        after that."""
        with self._lock:
            self._told = False
            return self._room()

    def start(self, deliveries: Sequence[Delivery]) -> None:
        """Run deliveries, in order, as soon as there are places."""
        now = time.monotonic()
        slots = [_Slot(self, delivery, now) for delivery in deliveries]
        with self._lock:
            self._taken.update((slot.delivery.hold.token, slot) for slot in slots)
        on_lost = {slot.delivery.hold: partial(slot.cancellation.cancel, "lost") for slot in slots}
        self._renewer.hold_all(on_lost, self._lease)
        with self._lock:
            self._waiting.extend(slots)
            self._work.notify(len(slots))
            self._see_to_threads()

    def renew(self, delivery: Delivery) -> None:
        """Renew the lease of a delivery that is to run later."""
        self._renewer.hold(delivery.hold, self._lease)

    def holds(self) -> Sequence[Hold]:
        """The claims of what runs, or waits for a place."""
        with self._lock:
            return [slot.delivery.hold for slot in (*self._running.values(), *self._waiting)]

    def lose(self, holds: Sequence[Hold]) -> None:
        """Stop those whose claims are not valid any more."""
        with self._lock:
            lost = [self._taken[hold.token] for hold in holds if hold.token in self._taken]
        for slot in lost:
            slot.cancellation.cancel("lost")

    def release(self) -> None:
        """Ask all to stop and to give their executions back."""
        with self._lock:
            slots = tuple(self._running.values())
        for slot in slots:
            slot.cancellation.cancel("released")

    def withdraw(self, seconds: float = 0.0) -> Sequence[Hold]:
        """Take out what has waited for a place for so long. Gives the claims, which are the caller's to end."""
        since = time.monotonic() - seconds
        with self._lock:
            slots = [slot for slot in self._waiting if slot.since <= since]
            for slot in slots:
                self._waiting.remove(slot)
                del self._taken[slot.delivery.hold.token]
            self._changed.notify_all()
        return self._dropped(slots)

    def abandon(self) -> Sequence[Hold]:
        """Leave what still runs to itself: what it does later is not counted. Gives the claims, which are the caller's
        to end. What has ended, and is being written, stays."""
        with self._lock:
            running = list(self._running.values())  # some of them have ended a moment ago
            slots = [slot for slot in running if self._taken.pop(slot.delivery.hold.token, None) is not None]
            self._changed.notify_all()
        return self._dropped(slots)

    def close(self) -> None:
        """Let the threads end that run nothing."""
        with self._lock:
            self._closed = True
            self._work.notify_all()

    def count(self, outcome: str) -> None:
        """Add one to the tally."""
        with self._lock:
            self._counts[outcome] += 1

    def tally(self) -> Tally:
        with self._lock:
            return Tally(dict(self._counts))

    def wait(self, seconds: float) -> None:
        """Wait until there is room for more, ``wake`` is called, or so many seconds have passed."""
        with self._lock:
            if not self._woken:
                self._changed.wait(seconds)
            self._woken = False

    def wait_idle(self, seconds: float, enough: threading.Event | None = None) -> None:
        """Wait until it has none, ``enough`` is set, or so many seconds of the machine's time have passed."""
        deadline = time.monotonic() + seconds
        with self._lock:
            while self._taken and (left := deadline - time.monotonic()) > 0:
                if enough is not None and enough.is_set():
                    return
                self._changed.wait(left if enough is None else min(left, 0.1))

    def wake(self) -> None:
        """End a ``wait``, the next one if none is under way."""
        with self._lock:
            self._woken = True
            self._changed.notify_all()

    def _room(self) -> tuple[int, int]:
        free = max(self._size - len(self._running) - len(self._waiting), 0)
        ending = len(self._taken) - len(self._running) - len(self._waiting)
        if ending >= MOST_ENDING:
            return 0, 0
        wanted = self._pace.wanted([slot.since for slot in self._running.values()])
        if not free and 2 * len(self._waiting) > wanted:  # few claims that take many each
            return 0, 0
        return free, max(wanted - len(self._waiting) - free, 0)

    def _see_to_threads(self) -> None:
        """Start a thread if something waits that no thread will take. Each that takes something looks after the
        next."""
        if len(self._waiting) > self._idle and self._threads < self._size:
            thread = threading.Thread(target=self._serve, name=f"flo-slot-{self._threads + 1}", daemon=True)
            with suppress(RuntimeError):  # no more threads to be had: those that are there take it
                thread.start()
                self._threads += 1

    def _serve(self) -> None:
        """Run what waits, one after the other."""
        slot = self._next()
        while slot is not None:
            try:
                self._runner.deliver(slot.delivery, slot.cancellation, slot)
            except BaseException as error:
                slot.failed(error)
            slot = self._next(slot)

    def _next(self, ran: _Slot | None = None) -> _Slot | None:
        """The next one to run, for a thread that has done with ``ran``; None where the thread is not needed any
        more."""
        with self._lock:
            now = time.monotonic()
            if ran is not None:
                if ran.stuck:
                    return None
                del self._running[ran.delivery.hold.token]
                self._pace.ran(now - ran.since)
            if not self._waiting:
                self._want_more()
                if not self._comes():
                    return None
                now = time.monotonic()
            slot = self._waiting.popleft()
            self._running[slot.delivery.hold.token] = slot
            slot.since, slot.begun = now, self._clock.monotonic()
            self._see_to_threads()
            self._want_more()
            return slot

    def _comes(self) -> bool:
        """Wait until there is something to run; gives False, and the thread counts no more, where it is not needed."""
        self._idle += 1
        try:
            while not self._waiting:
                if self._closed or not (self._work.wait(IDLE_SECONDS) or self._waiting):
                    self._threads -= 1
                    return False
            return True
        finally:
            self._idle -= 1

    def _replace_thread(self, slot: _Slot) -> None:
        """Its thread may hang for ever: another one takes the place."""
        with self._lock:
            if self._running.pop(slot.delivery.hold.token, None) is not None:
                slot.stuck = True
                self._threads -= 1
                self._see_to_threads()
                self._want_more()

    def _want_more(self) -> None:
        """Let the worker know if there is room, once until it asks how much."""
        if not self._told and any(self._room()):
            self._told = True
            self._wanting()
            self._woken = True
            self._changed.notify_all()

    def _end(self, slot: _Slot, execution: Execution | None) -> None:
        hold = slot.delivery.hold
        with self._lock:
            if hold.token not in self._taken:  # abandoned
                return
            over = self._renewals_to_end(hold)
        try:
            duration = (self._clock.monotonic() - slot.begun) * 1000
            self._bus.announce(ClaimEnded(execution or slot.delivery.execution, duration, lost=execution is None))
        finally:
            if over:
                self._renewer.drop(*over)
            with self._lock:
                if self._taken.pop(hold.token, None) is not None:
                    self._counts[LOST if execution is None else execution.state.value] += 1
                if not self._taken:
                    self._wanting()  # under the lock: whoever waits for the end may close what this wakes
                    self._woken = True
                    self._changed.notify_all()
                else:
                    self._want_more()

    def _renewals_to_end(self, hold: Hold) -> Sequence[Hold]:
        """The leases that are to be renewed no more: several at once, for none is due soon."""
        self._over.append(hold)
        if len(self._over) < _DROP_TOGETHER and len(self._taken) > len(self._over):
            return ()
        over, self._over = self._over, []
        return over

    def _dropped(self, slots: Sequence[_Slot]) -> Sequence[Hold]:
        holds = [slot.delivery.hold for slot in slots]
        with self._lock:
            over, self._over = self._over, []
        self._renewer.drop(*holds, *over)
        return holds
