"""Claims and when each is to be renewed: the turns of one thread, the same in a worker and in its renewal process."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from flo.engine.clock import Clock
from flo.engine.errors import FloError
from flo.engine.frozen import frozen
from flo.engine.jobs import Hold
from flo.engine.stores.base import DataStore
from flo.engine.stores.queueing import QueueStore

log = logging.getLogger("flo.renewal")

STANDBY: Final = 1.5
"""Where another process renews, a claim that it left alone for so many periods is renewed here: half of a lease."""

_SHARE: Final = 3
"""A lease is renewed every third of it."""

_RETRIES: Final = 10
"""A store that is away is tried again after a tenth of the lease, or of a row's period."""


class Renewed(Protocol):
    """The parts of a store that renew."""

    @property
    def data(self) -> DataStore: ...

    @property
    def queue(self) -> QueueStore: ...


@frozen
class Lease:
    """The claim of an owner on an execution, for ``length`` from each renewal on."""

    hold: Hold
    length: timedelta

    @property
    def period(self) -> float:
        """Seconds between two renewals."""
        return self.length.total_seconds() / _SHARE

    @property
    def pause(self) -> float:
        """Seconds until the next try, where the store is away."""
        return self.length.total_seconds() / _RETRIES


@frozen
class Rows:
    """Rows of one table that one execution claimed together (key: ``claimCount``)."""

    table: str
    holder: str
    rows: Mapping[str, int]
    every: float

    @property
    def period(self) -> float:
        return self.every

    @property
    def pause(self) -> float:
        return self.every / _RETRIES


Claim = Lease | Rows


@dataclass(slots=True, eq=False)
class _Kept:
    """A claim under its number, and when it is due. ``failing``: its last renewal could not be made."""

    number: int
    claim: Claim
    due: float
    failing: bool = False


@frozen
class Turn:
    """What came of one turn: the numbers of the claims that were renewed, and of those that are not held any more."""

    renewed: Sequence[int]
    lost: Sequence[int]


class Upkeep:
    """Renews numbered claims when they are due, from a thread that starts with the first one.

    ``after`` is told, outside of any lock, what came of each turn; a claim that is lost is forgotten before. A turn for
    which ``allowed`` says no is put off. A store that cannot be reached is tried again soon, and told once.
    """

    def __init__(
        self,
        store: Renewed,
        clock: Clock,
        *,
        after: Callable[[Turn], None],
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._clock, self._after, self._allowed = store, clock, after, allowed
        self._kept: dict[int, _Kept] = {}
        self._alarm: tuple[float, Callable[[], None]] | None = None
        self._lag = 1.0
        self._waits_for = math.inf
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, claims: Mapping[int, Claim], *, due: float | None = None) -> None:
        """Renew claims, by their numbers, from now on. ``due`` is on ``clock.monotonic()``; without it, each is due
        after its period."""
        with self._changed:
            now = self._clock.monotonic()
            for number, claim in claims.items():
                self._kept[number] = _Kept(number, claim, now + claim.period * self._lag if due is None else due)
            self._wake(min((self._kept[number].due for number in claims), default=math.inf))

    def remove(self, numbers: Iterable[int]) -> None:
        """Renew these no more."""
        with self._changed:
            for number in numbers:
                self._kept.pop(number, None)

    def call_at(self, due: float, act: Callable[[], None]) -> None:
        """Call ``act`` from the thread at a time on ``clock.monotonic()``, once; an earlier wish is replaced."""
        with self._changed:
            self._alarm = (due, act)
            self._wake(due)

    def stand_by(self) -> None:
        """Leave it to another process: renew here only what that was not heard to renew in time."""
        with self._changed:
            self._lag = STANDBY

    def take_over(self) -> None:
        """Renew everything here again, beginning now."""
        with self._changed:
            self._lag = 1.0
            now = self._clock.monotonic()
            for kept in self._kept.values():
                kept.due = now
            self._wake(now)

    def renewed_elsewhere(self, numbers: Iterable[int]) -> None:
        """These were renewed just now."""
        with self._changed:
            now = self._clock.monotonic()
            for number in numbers:
                if (kept := self._kept.get(number)) is not None:
                    kept.due = now + kept.claim.period * self._lag

    def take_turn(self) -> None:
        """Do what is due by the clock now."""
        act: Callable[[], None] | None = None
        with self._changed:
            if self._alarm is not None and self._alarm[0] <= self._clock.monotonic():
                act, self._alarm = self._alarm[1], None
        if act is not None:
            act()
        self.renew_due()

    def renew_due(self) -> None:
        """Renew what is due by the clock now, and what is due soon: leases of one length in one call, the rows of one
        table and holder in one call."""
        now = self._clock.monotonic()
        due = self._due(now)
        if not due:
            return
        if not self._allowed():
            with self._changed:
                for kept in due:
                    kept.due = now + kept.claim.pause
            return
        renewed: list[int] = []
        lost: list[int] = []
        for group in _grouped(due):
            valid = self._renew(group)
            if valid is None:
                self._settle(group, now, failing=True)
                continue
            self._settle(valid, now, failing=False)
            held = {kept.number for kept in valid}
            renewed += held
            lost += [kept.number for kept in group if kept.number not in held]
        self.remove(lost)
        self._after(Turn(renewed, lost))

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _due(self, now: float) -> list[_Kept]:
        with self._changed:
            if not any(kept.due <= now for kept in self._kept.values()):
                return []
            return [kept for kept in self._kept.values() if kept.due <= now + kept.claim.pause]

    def _renew(self, group: Sequence[_Kept]) -> Sequence[_Kept] | None:
        """Renew claims of one kind in one call; gives those that are held, None where that cannot be known now."""
        first = group[0].claim
        try:
            if isinstance(first, Lease):
                return _renew_leases(self._store.queue, group, first.length)
            return _renew_rows(self._store.data, group, first.table, first.holder)
        except FloError as error:
            if not all(kept.failing for kept in group):
                what = "leases" if isinstance(first, Lease) else f"claims of {first.holder} in {first.table}"
                log.warning("cannot renew %s, trying again: %s", what, error)
            return None

    def _settle(self, group: Sequence[_Kept], now: float, *, failing: bool) -> None:
        with self._changed:
            for kept in group:
                kept.failing = failing
                kept.due = now + (kept.claim.pause if failing else kept.claim.period * self._lag)

    def _wake(self, due: float) -> None:
        """Let the thread know, with the lock held, that something is due then."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="flo-renewer", daemon=True)
            self._thread.start()
        if due < self._waits_for:
            self._waits_for = due
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                alarm = math.inf if self._alarm is None else self._alarm[0]
                self._waits_for = min(alarm, *(kept.due for kept in self._kept.values()), math.inf)
                wait = self._waits_for - self._clock.monotonic()
                if wait > 0:
                    self._changed.wait(None if wait == math.inf else wait)
                    continue
            self.take_turn()


def _grouped(due: Sequence[_Kept]) -> Iterable[Sequence[_Kept]]:
    groups: dict[object, list[_Kept]] = {}
    for kept in due:
        claim = kept.claim
        kind = claim.length if isinstance(claim, Lease) else (claim.table, claim.holder)
        groups.setdefault(kind, []).append(kept)
    return groups.values()


def _renew_leases(queue: QueueStore, group: Sequence[_Kept], length: timedelta) -> Sequence[_Kept]:
    holds = {kept.claim.hold.token: kept for kept in group if isinstance(kept.claim, Lease)}
    valid = queue.renew([kept.claim.hold for kept in group if isinstance(kept.claim, Lease)], lease=length)
    return [holds[hold.token] for hold in valid]


def _renew_rows(data: DataStore, group: Sequence[_Kept], table: str, holder: str) -> Sequence[_Kept]:
    """Renew the rows of several claims. Of one key the newest claim stands; a row that is not held is forgotten."""
    together: dict[str, int] = {}
    for kept in group:
        if isinstance(kept.claim, Rows):
            together.update(kept.claim.rows)
    held: Set[str] = set(data.renew(table, together, holder=holder))
    valid: list[_Kept] = []
    for kept in group:
        if isinstance(claim := kept.claim, Rows):
            rows = {key: count for key, count in claim.rows.items() if key in held and together[key] == count}
            kept.claim = Rows(table, holder, rows, claim.every)
            if rows:
                valid.append(kept)
    return valid
