"""Takes away what is over: expired rows, old executions and firings, a bounded number at a time, beside other work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from flo.engine.clock import Clock
from flo.engine.errors import FloError, StoreError
from flo.engine.jobs import Retention
from flo.engine.requests import Requests
from flo.engine.stores.store import Store
from flo.engine.values import JsonObject

log = logging.getLogger("flo.housekeeping")

SWEEP_SECONDS: Final = 60.0
SWEEP_ROWS: Final = 1_000
SWEEP_EXECUTIONS: Final = 500
SWEEP_FIRINGS: Final = 10_000

_BATCH: Final = 100
_FIRINGS_BATCH: Final = 1_000


class Housekeeper:
    """Removes rows that have expired, executions past their retention, and what triggers did that long ago.

    Expired rows are invisible already; this gives their space back. What ``options.retention`` of a stored workflow
    says holds for its executions, the usual ``Retention`` for all others.
    """

    def __init__(self, store: Store, requests: Requests, clock: Clock) -> None:
        self._store, self._requests, self._clock = store, requests, clock
        self._due = clock.monotonic()
        self._lock = threading.Lock()

    def sweep(self) -> None:
        """Remove some, if ``SWEEP_SECONDS`` have passed since this process last did. Where it fails, the next time
        tries again."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._due:
                return
            self._due = now + SWEEP_SECONDS
        try:
            self._store.data.remove_expired(SWEEP_ROWS)
            self._forget_firings(Retention())
            removed = self._prune(Retention(), SWEEP_EXECUTIONS)
            if removed:
                log.info("removed %d executions past their retention", removed)
        except StoreError as error:
            log.warning("cannot remove what is over: %s", error)

    def prune(self, retention: Retention | None = None, *, workflow: str | None = None) -> int:
        """Remove every execution past its retention; gives how many. ``retention`` replaces the usual one; with
        ``workflow`` only that workflow's executions are looked at."""
        if workflow is not None:
            wanted = retention or self._own_retentions().get(workflow, Retention())
            return self._remove(wanted, None, workflow=workflow)
        return self._prune(retention or Retention(), None)

    def _forget_firings(self, usual: Retention) -> None:
        """Remove some of what became of slots, as long ago, and as many, as is usual for executions."""
        assert usual.age is not None, "what is usual has both bounds"
        assert usual.count is not None, "what is usual has both bounds"
        before = self._store.data.now() - usual.age
        for _ in range(SWEEP_FIRINGS // _FIRINGS_BATCH):
            if self._store.triggers.prune(before, keep=usual.count, limit=_FIRINGS_BATCH) < _FIRINGS_BATCH:
                return

    def _prune(self, usual: Retention, most: int | None) -> int:
        own = self._own_retentions()
        removed = self._remove(usual, most, apart=tuple(own))
        for name, retention in own.items():
            removed += self._remove(retention, None if most is None else max(most - removed, 0), workflow=name)
        return removed

    def _remove(
        self, retention: Retention, most: int | None, *, workflow: str | None = None, apart: tuple[str, ...] = ()
    ) -> int:
        removed = 0
        while most is None or removed < most:
            limit = _BATCH if most is None else min(_BATCH, most - removed)
            count = self._store.executions.prune(retention, workflow=workflow, apart=apart, limit=limit)
            removed += count
            if count < limit:
                break
        return removed

    def _own_retentions(self) -> Mapping[str, Retention]:
        """The workflows that say themselves how long their executions are kept."""
        found: dict[str, Retention] = {}
        for stored in self._store.workflows.list():
            if '"retention"' not in stored.document:
                continue
            try:
                workflow = self._requests.compiled(stored.document, stored.digest, f"workflow {stored.name!r}")
            except FloError:  # a step type that is not there: its executions are kept as usual
                continue
            if workflow.options.retention is not None:
                found[stored.name] = _retention(workflow.options.retention)
        return found


def _retention(options: JsonObject) -> Retention:
    """Read ``options.retention``: ``days`` and ``count``; what it leaves out is as usual."""
    days, count, usual = options.get("days"), options.get("count"), Retention()
    return Retention(
        timedelta(days=days) if isinstance(days, int | float) else usual.age,
        count if isinstance(count, int) else usual.count,
    )
