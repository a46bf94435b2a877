"""What a process does again and again beside its work, through times in which the store is away."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from flo.engine.errors import StoreError
from flo.engine.stores.queueing import Wakeups

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class Outage:
    """Whether the store is away for ``who`` (a worker, a scheduler): told once, at its beginning and at its end."""

    def __init__(self, who: str) -> None:
        self._who, self._log = who, logging.getLogger(f"flo.{who}")
        self._failing: set[str] = set()

    def failed(self, chore: str, error: StoreError) -> None:
        """A chore met the store away."""
        if not self._failing:
            self._log.warning("the %s cannot %s, trying again: %s", self._who, chore, error)
        self._failing.add(chore)

    def went_well(self, chore: str) -> None:
        """A chore was done."""
        if self._failing:
            self._failing.discard(chore)
            if not self._failing:
                self._log.warning("the %s can %s again", self._who, chore)


class Chore:
    """Something that is done again and again; ``work`` says in how many seconds the next time is.

    A store that is away delays it, by pauses that grow and differ between workers.
    """

    def __init__(self, name: str, work: Callable[[], float], outage: Outage) -> None:
        self._name, self._work, self._outage = name, work, outage
        self._due = -math.inf
        self._failures = 0

    def attempt(self) -> bool:
        """Do it, if it is due; says whether that went well."""
        if self.wait() > 0:
            return False
        try:
            pause = self._work()
        except StoreError as error:
            self._outage.failed(self._name, error)
            longest = min(_FIRST_PAUSE * 2.0 ** min(self._failures, 10), _LONGEST_PAUSE)
            self._failures += 1
            self._due = time.monotonic() + longest * random.uniform(0.5, 1.0)
            return False
        self._outage.went_well(self._name)
        self._failures = 0
        self._due = time.monotonic() + pause
        return True

    def hasten(self, due: float = -math.inf) -> None:
        """Let it be due now, or at ``due`` on the machine's clock if that is later, unless the store is away."""
        if not self._failures:
            self._due = min(self._due, due)

    def wait(self) -> float:
        """Seconds until it is due."""
        return max(0.0, self._due - time.monotonic())


def listen(who: str, wakeups: Callable[[], Wakeups], stop: threading.Event) -> Wakeups | None:
    """Listen for what a store tells, as soon as it can be reached; None where ``stop`` was set before."""
    found: list[Wakeups] = []

    def attempt() -> float:
        found.append(wakeups())
        return 0.0

    listening = Chore("listen to the store", attempt, Outage(who))
    while not found and not stop.is_set():
        listening.attempt()
        if not found:
            stop.wait(listening.wait())
    return found[0] if found else None


def around(seconds: float) -> float:
    """A fifth more or less, so that processes do not act in step."""
    return seconds * random.uniform(0.8, 1.2)


def start_thread(name: str, work: Callable[[], None]) -> None:
    """Do something in a thread that does not keep the process."""
    threading.Thread(target=work, name=name, daemon=True).start()


def hand_on(stop: threading.Event, over: threading.Event, wake: Callable[[], None]) -> None:
    """Wake somebody when he shall stop. The event is the caller's and may never be set; ``over`` ends this."""
    while not stop.wait(1.0):
        if over.is_set():
            return
    if not over.is_set():
        wake()
