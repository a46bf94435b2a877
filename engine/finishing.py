"""Writes how executions ended: all that ended meanwhile in one transaction, and at once where nothing is written."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from flo.engine.clock import Clock
from flo.engine.ending import conclude_all
from flo.engine.errors import StoreError, worded
from flo.engine.executions import Execution
from flo.engine.jobs import Ending, LeaseLost
from flo.engine.stores.store import Store

log = logging.getLogger("flo.finisher")

TOGETHER: Final = 200
"""So many ends are written at most in one transaction, and those with so many characters of records:"""
TOGETHER_CHARACTERS: Final = 4 * 1024 * 1024

_IDLE_SECONDS: Final = 1.0

Then = Callable[[Execution | LeaseLost | StoreError], None]
"""Told once how it went: the execution as it stands then, or why its end is not written."""


class Finisher:
    """Takes the ends of executions from any thread, and writes them in one of its own.

    It never waits for more to come: what ends while it writes goes together in the next transaction. The thread is
    there while there is something to write. What is not written when the process dies runs again: its claim runs out.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._ready: deque[tuple[Ending, int, Then]] = deque()
        self._changed = threading.Condition()
        self._running = self._idle = False

    def put(self, ending: Ending, characters: int, then: Then) -> None:
        """Write an end, whose records have so many ``characters``; ``then`` is called in the finisher's thread, and
        must be quick."""
        with self._changed:
            self._ready.append((ending, characters, then))
            if self._idle:
                self._changed.notify()
            elif not self._running:
                threading.Thread(target=self._serve, name="flo-finisher", daemon=True).start()
                self._running = True  # only now: there may be no more threads to be had

    def _serve(self) -> None:
        while batch := self._take():
            endings = [ending for ending, _ in batch]
            results: Sequence[Execution | LeaseLost | StoreError]
            try:
                results = conclude_all(self._store, self._clock, endings)
            except StoreError as away:
                results = [away] * len(batch)
            except Exception as mistake:  # of the engine; the claims run out
                log.exception("how %d executions ended cannot be written", len(batch))
                results = [StoreError(worded(mistake))] * len(batch)
            for (ending, then), result in zip(batch, results, strict=True):
                try:
                    then(result)
                except BaseException:  # what listens to the end of one must not keep the others from being told
                    log.exception("execution %s: its end was not taken note of", ending.hold.execution_id)

    def _take(self) -> list[tuple[Ending, Then]]:
        """What is ready, as much as goes together; nothing, and the thread ends, where nothing came for a while."""
        with self._changed:
            while not self._ready:
                self._idle = True
                came = self._changed.wait(_IDLE_SECONDS)
                self._idle = False
                if not came and not self._ready:
                    self._running = False
                    return []
            taken: list[tuple[Ending, Then]] = []
            size = 0
            while self._ready and len(taken) < TOGETHER:
                if taken and size + self._ready[0][1] > TOGETHER_CHARACTERS:
                    break
                ending, characters, then = self._ready.popleft()
                taken.append((ending, then))
                size += characters
            return taken
