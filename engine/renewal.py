"""Keeps the claims of live executions fresh: their leases, and the rows that they claimed."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

from flo.engine.clock import Clock
from flo.engine.jobs import Hold
from flo.engine.upkeep import Claim, Lease, Renewed, Rows, Turn, Upkeep

log = logging.getLogger("flo.renewal")

EAGER_SECONDS: Final = 10.0
"""A claim that is to be renewed more often than that has its renewal process at once."""

SETTLE_SECONDS: Final = 5.0

LAZY_SECONDS: Final = 2.0
"""What is held for so long has one too; runs that are shorter never pay for it."""

MAX_FAILURES: Final = 5
"""So many renewal processes in a row may end without having renewed anything; then the thread stays alone."""

_FIRST_PAUSE: Final = 1.0


class Deputy(Protocol):
    """A process that renews the same claims: it goes on while this one's interpreter is blocked by one of its
    threads."""

    def add(self, claims: Mapping[int, Claim], wait: float) -> None:
        """Renew claims, by their numbers, the first time in ``wait`` seconds. Never raises, and never waits long."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Renew these no more. Never raises."""

    def wait(self, seconds: float) -> None:
        """Wait until it is ready to renew, or has ended, or for so long."""

    def close(self) -> None:
        """End it."""


class Reports(Protocol):
    """What a deputy tells, from a thread of its own."""

    def process_turned(self, turn: Turn) -> None:
        """It has renewed claims, or found that they are lost."""

    def process_ended(self, why: str) -> None:
        """It is gone, unasked."""


StartDeputy = Callable[[Reports], Deputy]
"""Starts a renewal process. May raise ``OSError``."""


class Renewer:
    """Renews claims while their executions live: leases every third, rows as often as they ask for.

    By a thread, and where ``start`` is given by a process, which a blocked interpreter cannot stop. While that lives
    the thread stands by. A claim that is lost is dropped, and whoever holds it told where ``hold`` was given a call
    for that.
    """

    def __init__(self, store: Renewed, clock: Clock, start: StartDeputy | None = None) -> None:
        self._clock, self._start = clock, start
        self._upkeep = Upkeep(store, clock, after=self._turned)
        self._numbers = itertools.count(1)
        self._claims: dict[int, Claim] = {}
        self._leases: dict[str, int] = {}
        """By token."""
        self._rows: dict[str, list[int]] = {}
        """By holder."""
        self._calls: dict[int, Callable[[], None]] = {}
        self._deputy: Deputy | None = None
        self._planned = self._closed = self._unsettled = False
        self._failures = 0
        self._not_before = 0.0
        self._lock = threading.RLock()

    def hold(self, hold: Hold, lease: timedelta, on_lost: Callable[[], None] | None = None) -> None:
        """Renew a lease until it is dropped. ``on_lost`` is called once, from a thread, if it is found to be lost. What
        is held already stays as it is."""
        self.hold_all({hold: on_lost}, lease)

    def hold_all(self, holds: Mapping[Hold, Callable[[], None] | None], lease: timedelta) -> None:
        """As ``hold``, for claims that were made together, each with its call."""
        with self._lock:
            claims: dict[int, Claim] = {}
            for hold, on_lost in holds.items():
                if hold.token in self._leases:
                    continue
                number = next(self._numbers)
                self._leases[hold.token] = number
                if on_lost is not None:
                    self._calls[number] = on_lost
                claims[number] = Lease(hold, lease)
            if claims:
                self._add(claims)

    def drop(self, *holds: Hold) -> None:
        """Stop renewing leases: their claims have ended. What is not held is no mistake."""
        with self._lock:
            found = (self._leases.pop(hold.token, None) for hold in holds)
            if numbers := [number for number in found if number is not None]:
                self._forget(numbers)

    def keep(self, table: str, rows: Mapping[str, int], *, holder: str, every: float) -> None:
        """Renew ``rows`` (key: ``claimCount`` of the claim) every so many seconds until they are let go."""
        if not rows:
            return
        with self._lock:
            number = next(self._numbers)
            self._rows.setdefault(holder, []).append(number)
            self._add({number: Rows(table, holder, dict(rows), every)})

    def let_go(self, holder: str) -> None:
        """Stop renewing what ``holder`` claimed: its execution has ended."""
        if holder not in self._rows:  # which is what most of them have
            return
        with self._lock:
            if numbers := self._rows.pop(holder, None):
                self._forget(numbers)

    def settle(self) -> None:
        """Wait, for ``SETTLE_SECONDS`` at most, until a process that was started for a claim that is renewed often is
        ready: what comes after the claim may block the interpreter at once."""
        if not self._unsettled:
            return
        self._unsettled = False
        with self._lock:
            deputy = self._deputy
        if deputy is not None:
            deputy.wait(SETTLE_SECONDS)

    def renew_due(self) -> None:
        """Renew what is due by the clock now, and start the process if that is."""
        self._upkeep.take_turn()

    def start_process(self, patience: float = 0.0) -> None:
        """Start the renewal process now, if there is none and there can be one. Waits up to ``patience`` seconds until
        it is ready: a claim that is made then is safe from the first moment."""
        self._start_process()
        with self._lock:
            deputy = self._deputy
        if deputy is not None:
            deputy.wait(patience)

    def process_turned(self, turn: Turn) -> None:
        """Take note of what the renewal process did."""
        if turn.renewed:
            with self._lock:
                self._failures = 0
            self._upkeep.renewed_elsewhere(turn.renewed)
        self._turned(turn)

    def process_ended(self, why: str) -> None:
        """Renew by the thread, and start another process after a pause."""
        with self._lock:
            if self._closed or self._deputy is None:
                return
            self._deputy = None
            self._upkeep.take_over()
            self._failed(why)

    def close(self) -> None:
        """End the thread and the process."""
        with self._lock:
            self._closed = True
            deputy, self._deputy = self._deputy, None
        if deputy is not None:
            deputy.close()
        self._upkeep.close()

    def _add(self, claims: Mapping[int, Claim]) -> None:
        """Renew claims of one kind and period."""
        period = next(iter(claims.values())).period
        if self._deputy is None:
            self._plan(period)
        self._claims.update(claims)
        self._upkeep.add(claims)
        if self._deputy is not None:
            self._deputy.add(claims, period)

    def _plan(self, period: float) -> None:
        """Have a process started when it is worth its price: at once for what is renewed often, for the thread may
        never have its turn again; else when something has been held for a while."""
        if self._start is None or self._closed or self._failures >= MAX_FAILURES:
            return
        now = self._clock.monotonic()
        if period < EAGER_SECONDS and now >= self._not_before:
            self._start_process()
            self._unsettled = True
        elif not self._planned:
            self._start_at(max(now + LAZY_SECONDS, self._not_before))

    def _start_process(self) -> None:
        with self._lock:
            if self._deputy is not None or self._start is None or self._closed:
                return
            try:
                deputy = self._start(self)
            except OSError as error:
                self._failed(f"it cannot be started: {error}")
                return
            self._deputy = deputy
            self._upkeep.stand_by()
            if self._claims:  # how long ago they were renewed is not known here
                deputy.add(self._claims, 0.0)

    def _start_at(self, due: float) -> None:
        self._planned = True
        self._upkeep.call_at(due, self._start_if_needed)

    def _start_if_needed(self) -> None:
        with self._lock:
            self._planned = False
            if self._claims:
                self._start_process()

    def _forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._claims.pop(number, None)
            self._calls.pop(number, None)
        self._upkeep.remove(numbers)
        if self._deputy is not None:
            self._deputy.remove(numbers)

    def _turned(self, turn: Turn) -> None:
        """Forget what is lost, and tell who holds it."""
        if not turn.lost:
            return
        lost = set(turn.lost)
        with self._lock:
            calls = [self._calls[number] for number in turn.lost if number in self._calls]
            self._leases = {token: number for token, number in self._leases.items() if number not in lost}
            for holder, numbers in list(self._rows.items()):
                self._rows[holder] = [number for number in numbers if number not in lost]
                if not self._rows[holder]:
                    del self._rows[holder]
            self._forget(turn.lost)
        for call in calls:
            call()

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            log.warning("the renewal process ended (%s): claims are renewed by a thread from now on", why)
            return
        log.warning("the renewal process ended (%s): another one will be started", why)
        self._not_before = self._clock.monotonic() + _FIRST_PAUSE * 2.0 ** (self._failures - 1)
        self._start_at(self._not_before)
