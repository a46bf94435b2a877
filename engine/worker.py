"""Takes executions from queues and runs them, many at once, until it is asked to stop."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from flo.engine.chores import Chore, Outage, around, hand_on, listen, start_thread
from flo.engine.clock import Clock
from flo.engine.errors import StoreError
from flo.engine.events import Bus
from flo.engine.jobs import LEASE, Delivery, Hold, LeaseLost, Released, owner_id
from flo.engine.renewal import Renewer
from flo.engine.slots import GIVEN_BACK, LOST, Deliver, Slots, Tally
from flo.engine.stores.queueing import Wakeups
from flo.engine.stores.store import Store

log = logging.getLogger("flo.worker")

POLL_SECONDS: Final = 5.0
"""A worker that nothing wakes looks so often for what is due."""

BURY_SECONDS: Final = 5.0
CHECK_SECONDS: Final = 0.5
"""How often a worker asks which of its claims are valid: a cancellation reaches what runs within that."""

DRAIN_SECONDS: Final = 1.0
"""How often a worker that drains asks whether others are done, too."""

RELEASE_SECONDS: Final = 2.0
"""What is asked to give its execution back has so long, before the worker does it."""

WRITING_SECONDS: Final = 35.0
"""What has ended has so long to be written: a store that is away is tried for 30 s."""

READY_SECONDS: Final = 5.0
"""Under a short lease nothing is claimed before the renewal process is ready, or for so long: it takes a second to
start, and a body may block the interpreter at once."""

SUSPECT: Final = 3
"""An execution that lost so many workers runs alone in its next one: if it is what kills them, those that run beside it
must not be lost so often that they are taken for the culprit."""

HOUSEKEEPING_SECONDS: Final = 60.0

_BURY_LIMIT: Final = 100
_SHORTEST_WAIT: Final = 0.01
_SPACING: Final = 0.02
"""On SQLite a worker is woken by every change of the file, its own checkpoints too."""


def _nothing() -> None:
    pass


class Worker:
    """Runs what ``queues`` deliver, ``concurrency`` executions at once, each held for ``lease`` and renewed.

    ``housekeeper`` is called about once a minute, in a thread of its own.
    """

    def __init__(
        self,
        store: Store,
        runner: Deliver,
        renewer: Renewer,
        clock: Clock,
        bus: Bus,
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int = 4,
        lease: timedelta = LEASE,
        grace_seconds: float = 10.0,
        housekeeper: Callable[[], None] = _nothing,
    ) -> None:
        self.id = owner_id()
        self.queues, self.concurrency, self.lease = tuple(queues), concurrency, lease
        self._store, self._runner, self._renewer, self._clock, self._bus = store, runner, renewer, clock, bus
        self._grace_seconds, self._housekeeper = grace_seconds, housekeeper

    def run(self, stop: threading.Event, *, drain: bool = False, now: threading.Event | None = None) -> Tally:
        """Work until ``stop`` is set, or under ``drain`` until nothing is due or running in the queues.

        Then nothing is claimed any more; what runs has the grace period to end, cut short by ``now``, and is given back
        after it. A store that is away is waited for.
        """
        over = threading.Event()
        wakeups = listen("worker", lambda: self._store.queue.wakeups(self.queues), stop)
        if wakeups is None:
            return Tally({})
        slots = self._slots(wakeups)
        shift = _Shift(self, self._store, slots, wakeups)
        start_thread("flo-worker-stop", lambda: hand_on(stop, over, shift.wake))
        start_thread("flo-housekeeping", lambda: self._keep_house(over))
        self._renewer.start_process(READY_SECONDS if self.lease.total_seconds() < LEASE.total_seconds() else 0.0)
        grace = 0.0
        try:
            shift.work(stop, drain=drain)
            grace = self._grace_seconds
        finally:
            over.set()
            shift.wind_down(grace, now)
            slots.close()
            wakeups.close()
        return slots.tally()

    def _slots(self, wakeups: Wakeups) -> Slots:
        return Slots(
            self._runner,
            self._renewer,
            self._clock,
            self._bus,
            size=self.concurrency,
            lease=self.lease,
            wanting=wakeups.wake,
        )

    def _keep_house(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                self._housekeeper()
            except StoreError as error:
                if over.is_set():  # the store was closed
                    return
                log.warning("cannot tidy the store up: %s", error)
            over.wait(around(HOUSEKEEPING_SECONDS))


class _Shift:
    """One run of a worker: what it does in turn, in one thread."""

    def __init__(self, worker: Worker, store: Store, slots: Slots, wakeups: Wakeups) -> None:
        self._worker, self._store, self._slots, self._wakeups = worker, store, slots, wakeups
        outage = Outage("worker")
        self._claiming = Chore("claim executions", self._claim, outage)
        self._burying = Chore("end what nobody will", self._bury, outage)
        self._checking = Chore("ask for its claims", self._check, outage)
        self._asking = Chore("ask whether its queues are empty", self._ask, outage)
        self._suspect: Delivery | None = None
        """It waits until nothing else runs."""
        self._alone = False
        self._wary = False
        """A suspect one was among the last that were claimed: there may be more, and only one runs at a time."""
        self._given_ahead = False
        """The last claim gave more than there were places: queues whose claims are counted never do."""
        self._drained = False
        self._empty_claims = 0
        self._claimed_at = -math.inf

    def work(self, stop: threading.Event, *, drain: bool) -> None:
        """Claim and run, until ``stop`` or, under ``drain``, the end of the work."""
        while not stop.is_set():
            self._burying.attempt()
            if self._slots.busy:
                self._checking.attempt()
            if any(self._slots.room()) and not stop.is_set():
                self._claiming.attempt()
            if drain and not self._slots.busy and self._suspect is None:
                self._asking.attempt()
                if self._drained:
                    return
            self._sleep(drain)

    def wake(self) -> None:
        """End the sleep, from any thread."""
        self._slots.wake()
        self._wakeups.wake()

    def wind_down(self, grace: float, now: threading.Event | None) -> None:
        """Let what runs end for ``grace`` seconds, and give the rest back."""
        suspect = [] if self._suspect is None else [self._suspect.hold]
        self._give_all_back([*self._slots.withdraw(), *suspect])
        deadline = time.monotonic() + grace
        while self._slots.busy and (left := deadline - time.monotonic()) > 0 and not (now and now.is_set()):
            self._checking.attempt()
            self._slots.wait_idle(min(left, CHECK_SECONDS), now)
        self._slots.release()
        self._slots.wait_idle(RELEASE_SECONDS)
        for hold in self._give_all_back(self._slots.abandon()):
            log.warning("execution %s hangs: it was given back, and what it does is not stored", hold.execution_id)
        self._slots.wait_idle(WRITING_SECONDS)

    def _give_all_back(self, holds: Sequence[Hold]) -> Sequence[Hold]:
        """Give executions back; gives the claims of those that were. A store that is away is asked once: it would keep
        everybody waiting."""
        given: list[Hold] = []
        for at, hold in enumerate(holds):
            try:
                self._store.queue.conclude(hold, Released())
                given.append(hold)
                self._slots.count(GIVEN_BACK)
            except LeaseLost:
                self._slots.count(LOST)
            except StoreError as error:
                left = holds[at:]
                log.warning("%d executions cannot be given back, their leases run out: %s", len(left), error)
                for _ in left:
                    self._slots.count(LOST)
                break
        return given

    def _sleep(self, drain: bool) -> None:
        """Sleep until there is something to do. With every slot taken nothing that comes due is of interest."""
        chores = [self._burying, *([self._checking] if self._slots.busy else [])]
        if not any(self._slots.room()):
            self._slots.wait(min(chore.wait() for chore in chores))
            return
        chores += [self._claiming, *([self._asking] if drain and not self._slots.busy else [])]
        if self._wakeups.wait(min(chore.wait() for chore in chores)):
            self._claiming.hasten(self._claimed_at + _SPACING)

    def _claim(self) -> float:
        if self._runs_alone():
            return CHECK_SECONDS
        worker, (free, ahead) = self._worker, self._slots.room()
        if not (free or ahead):  # what waits has not been begun as fast as it was thought
            return 0.0
        if not free and not self._given_ahead:
            return around(POLL_SECONDS)
        if self._wary:
            free, ahead = min(free, 1), 0
        self._claimed_at = time.monotonic()
        claimed = self._store.queue.claim(worker.queues, worker=worker.id, lease=worker.lease, limit=free, ahead=ahead)
        self._given_ahead = len(claimed.deliveries) > free
        self._begin(claimed.deliveries)
        if claimed.deliveries:
            self._asking.hasten()
        if len(claimed.deliveries) >= max(free, 1):
            return 0.0
        pause = around(POLL_SECONDS)
        if claimed.next_due is None:
            return pause
        # what is due and yet not given (a full limit, an end that is to be written) must not be asked for all the time
        self._empty_claims = 0 if claimed.deliveries else self._empty_claims + 1
        shortest = _SHORTEST_WAIT * 2.0 ** min(self._empty_claims, 10)
        return min(pause, max(shortest, (claimed.next_due - self._store.data.now()).total_seconds()))

    def _begin(self, deliveries: Sequence[Delivery]) -> None:
        """Run deliveries; a suspect one when it can be alone, and one of those at a time."""
        self._slots.start([delivery for delivery in deliveries if delivery.execution.expiries < SUSPECT])
        suspects = [delivery for delivery in deliveries if delivery.execution.expiries >= SUSPECT]
        if deliveries:
            self._wary = bool(suspects)
        if suspects and self._suspect is None:
            self._suspect = suspects.pop(0)
            self._slots.renew(self._suspect)
        self._give_all_back([suspect.hold for suspect in suspects])

    def _runs_alone(self) -> bool:
        """Whether nothing is to be claimed, since a suspect execution runs alone, or waits for that."""
        if self._slots.busy:
            return self._alone or self._suspect is not None
        self._alone = self._suspect is not None
        if self._suspect is not None:
            suspect, self._suspect = self._suspect, None
            log.warning(
                "execution %s has lost %d workers: it runs alone", suspect.execution.id, suspect.execution.expiries
            )
            self._slots.start([suspect])
        return self._alone

    def _bury(self) -> float:
        ended = self._store.queue.bury(_BURY_LIMIT)
        for execution in ended:
            why = execution.reason or (execution.error or {}).get("message", "")
            name = execution.workflow or execution.handler or "a workflow without a name"
            log.warning("execution %s of %s was ended: %s, %s", execution.id, name, execution.state, why)
        return 0.0 if len(ended) >= _BURY_LIMIT else around(BURY_SECONDS)

    def _check(self) -> float:
        """Find out which claims are not valid any more: taken over, or cancelled from elsewhere. What has waited for
        long, since others took longer than those before, is given back for others to run."""
        holds = self._slots.holds()
        valid = {hold.token for hold in self._store.queue.valid(holds)} if holds else set()
        self._slots.lose([hold for hold in holds if hold.token not in valid])
        self._give_all_back(self._slots.withdraw(CHECK_SECONDS))  # only now: the store is there
        return CHECK_SECONDS

    def _ask(self) -> float:
        while self._bury() == 0.0:
            pass
        self._drained = self._store.queue.idle(self._worker.queues)
        if not self._drained:
            self._claiming.hasten()
        return around(DRAIN_SECONDS)
