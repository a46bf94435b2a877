"""Keeps the claims of live executions fresh, from a thread that their work cannot starve."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from flo.engine.clock import Clock
from flo.engine.errors import FloError
from flo.engine.stores.base import DataStore

log = logging.getLogger("flo.renewal")


@dataclass(slots=True, eq=False)
class _Held:
    """Rows of one table that one execution claimed together, and when they are due to be renewed."""

    table: str
    holder: str
    rows: dict[str, int]
    every: float
    due: float


class Renewer:
    """Renews ``claimedAt`` of claimed rows while their execution lives.

    The thread starts with the first claim and sleeps until the next one is due. A row that its holder lost, finished or
    released is dropped at the next turn. A store that cannot be reached is tried again at the next turn.
    """

    def __init__(self, data: DataStore, clock: Clock) -> None:
        self._data, self._clock = data, clock
        self._held: dict[str, list[_Held]] = {}
        self._waits_for = math.inf
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def keep(self, table: str, rows: Mapping[str, int], *, holder: str, every: float) -> None:
        """Renew ``rows`` (key: ``claimCount`` of the claim) every so many seconds until they are let go."""
        if not rows:
            return
        due = self._clock.monotonic() + every
        with self._changed:
            self._held.setdefault(holder, []).append(_Held(table, holder, dict(rows), every, due))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="flo-renewer", daemon=True)
                self._thread.start()
            if due < self._waits_for:
                self._waits_for = due
                self._changed.notify()

    def let_go(self, holder: str) -> None:
        """Stop renewing what ``holder`` claimed: its execution has ended."""
        with self._changed:
            self._held.pop(holder, None)

    def renew_due(self) -> None:
        """Renew what is due by the clock now, the rows of one table and holder in one statement."""
        now = self._clock.monotonic()
        with self._changed:
            for holder in self._held:
                self._held[holder] = _merged(self._held[holder], now)
            due = [held for batches in self._held.values() for held in batches if held.due <= now]
        for held in due:
            try:
                kept = set(self._data.renew(held.table, held.rows, holder=held.holder))
            except FloError as error:
                log.warning("cannot renew claims of %s in %s: %s", held.holder, held.table, error)
                kept = set(held.rows)
            with self._changed:
                held.rows = {key: count for key, count in held.rows.items() if key in kept}
                held.due = now + held.every
                if not held.rows and held in (batches := self._held.get(held.holder, [])):
                    batches.remove(held)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                dues = (held.due for batches in self._held.values() for held in batches)
                self._waits_for = min(dues, default=math.inf)
                wait = self._waits_for - self._clock.monotonic()
                if wait > 0:
                    self._changed.wait(None if wait == math.inf else wait)
                    continue
            self.renew_due()


def _merged(batches: list[_Held], now: float) -> list[_Held]:
    """What one holder has, that which is due together put together. Of one key the newest claim stands."""
    together: dict[tuple[str, float], _Held] = {}
    later: list[_Held] = []
    for held in batches:
        if held.due > now:
            later.append(held)
            continue
        first = together.setdefault((held.table, held.every), held)
        if first is not held:
            first.rows |= held.rows
    return [*together.values(), *later]
