"""The executions that a worker runs at the moment, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from flo.engine.cancellation import Cancellation
from flo.engine.clock import Clock
from flo.engine.errors import StoreError
from flo.engine.events import Bus, ClaimEnded
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import Delivery, Hold
from flo.engine.renewal import Renewer
from flo.engine.values import JsonObject

log = logging.getLogger("flo.worker")

LOST: Final = "lost"
GIVEN_BACK: Final = ExecutionState.PENDING.value


class Deliver(Protocol):
    """Runs what a worker has claimed."""

    def deliver(self, delivery: Delivery, cancellation: Cancellation) -> Execution | None:
        """Run a delivery until its claim ends, and write how; gives the execution as it then stands, None where the
        claim was lost. Returns though a body hangs that was given up. Raises ``StoreError`` where the end could not be
        written."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many claims of a worker ended in each state: final ones, ``retrying``, ``suspended``, ``pending`` (given
    back), and ``lost`` to another owner or a cancellation."""

    counts: Mapping[str, int]

    def as_json(self) -> JsonObject:
        """The counts that are not zero, by state."""
        return dict(self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """One execution that runs, since ``started`` on the clock."""

    delivery: Delivery
    cancellation: Cancellation
    started: float


class Slots:
    """Up to ``size`` executions that run at once. Their leases are renewed until their claims have ended; each end is
    announced, and then ``freed`` called. Threads are daemons: one that hangs does not keep the process."""

    def __init__(
        self,
        runner: Deliver,
        renewer: Renewer,
        clock: Clock,
        bus: Bus,
        *,
        size: int,
        lease: timedelta,
        freed: Callable[[], None],
    ) -> None:
        self._runner, self._renewer, self._clock, self._bus = runner, renewer, clock, bus
        self._size, self._lease, self._freed = size, lease, freed
        self._taken: dict[str, _Slot] = {}
        """By the claim's token."""
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._woken = False

    @property
    def free(self) -> int:
        """How many more can be started."""
        with self._changed:
            return self._size - len(self._taken)

    @property
    def busy(self) -> bool:
        """Whether any is taken."""
        return bool(self._taken)

    def start(self, delivery: Delivery) -> None:
        """Run a delivery in a thread."""
        slot = _Slot(delivery, Cancellation(), self._clock.monotonic())
        with self._changed:
            self._taken[delivery.hold.token] = slot
        self._renewer.hold(delivery.hold, self._lease, lambda: slot.cancellation.cancel("lost"))
        name = f"flo-execution-{delivery.execution.id}"
        threading.Thread(target=self._serve, args=(slot,), name=name, daemon=True).start()

    def renew(self, delivery: Delivery) -> None:
        """Renew the lease of a delivery that is to run later."""
        self._renewer.hold(delivery.hold, self._lease)

    def holds(self) -> Sequence[Hold]:
        """The claims of what runs."""
        with self._changed:
            return [slot.delivery.hold for slot in self._taken.values()]

    def lose(self, holds: Sequence[Hold]) -> None:
        """Stop those whose claims are not valid any more."""
        with self._changed:
            lost = [self._taken[hold.token] for hold in holds if hold.token in self._taken]
        for slot in lost:
            slot.cancellation.cancel("lost")

    def release(self) -> None:
        """Ask all to stop and to give their executions back."""
        with self._changed:
            slots = tuple(self._taken.values())
        for slot in slots:
            slot.cancellation.cancel("released")

    def abandon(self) -> Sequence[Hold]:
        """Leave what still runs to itself: its slot is free, its lease is not renewed, what it does later is not
        counted. Gives the claims, which are the caller's to end."""
        with self._changed:
            holds = [slot.delivery.hold for slot in self._taken.values()]
            self._taken.clear()
        for hold in holds:
            self._renewer.drop(hold)
        return holds

    def count(self, outcome: str) -> None:
        """Add one to the tally."""
        with self._changed:
            self._counts[outcome] += 1

    def tally(self) -> Tally:
        with self._changed:
            return Tally(dict(self._counts))

    def wait(self, seconds: float) -> None:
        """Wait until a slot comes free, ``wake`` is called, or so many seconds have passed."""
        with self._changed:
            if not self._woken:
                self._changed.wait(seconds)
            self._woken = False

    def wait_idle(self, seconds: float, enough: threading.Event | None = None) -> None:
        """Wait until none is taken, ``enough`` is set, or so many seconds of the machine's time have passed."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._taken and (left := deadline - time.monotonic()) > 0:
                if enough is not None and enough.is_set():
                    return
                self._changed.wait(left if enough is None else min(left, 0.1))

    def wake(self) -> None:
        """End a ``wait``, the next one if none is under way."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def _serve(self, slot: _Slot) -> None:
        execution: Execution | None = None
        hold = slot.delivery.hold
        try:
            execution = self._runner.deliver(slot.delivery, slot.cancellation)
        except StoreError as error:
            log.warning(
                "how execution %s ended cannot be written, it is delivered again when its lease runs out: %s",
                hold.execution_id,
                error,
            )
        except BaseException:  # a mistake of the engine must not cost the worker its slot
            log.exception("execution %s: its worker failed", hold.execution_id)
        finally:
            self._renewer.drop(hold)
            self._end(slot, execution)

    def _end(self, slot: _Slot, execution: Execution | None) -> None:
        hold = slot.delivery.hold
        with self._changed:
            if hold.token not in self._taken:  # abandoned
                return
        try:
            shown = execution or slot.delivery.execution
            duration = (self._clock.monotonic() - slot.started) * 1000
            self._bus.announce(ClaimEnded(shown, duration, lost=execution is None))
        finally:
            with self._changed:
                if self._taken.pop(hold.token, None) is not None:
                    self._counts[LOST if execution is None else execution.state.value] += 1
                self._freed()  # under the lock: whoever waits for the slot may close what this wakes
                self._woken = True
                self._changed.notify_all()
