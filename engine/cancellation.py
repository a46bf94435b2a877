"""A request to stop, and how it reaches everything that was started under it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from flo.engine.errors import RunCancelled

Reason = Literal["cancelled", "timed_out", "released", "lost"]
"""Why work is to stop: somebody wants it to, its time is over, its worker stops, or another one has it."""


class Cancellation:
    """A request to stop. Cancelling one cancels those made from it, never the one around.

    ``event`` is set once the request was made; a step that takes long watches it.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason: Reason = "cancelled"
        self._inner: list[Cancellation] = []
        self._told: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def tell(self, told: Callable[[], object]) -> None:
        """Call ``told`` once the request is made: at once, if it was made."""
        with self._lock:
            self._told.append(told)
            made = self.event.is_set()
        if made:
            told()

    def hush(self) -> None:
        """Call nobody any more: the work has ended, and what was to be told of a request goes with it."""
        with self._lock:
            self._told = []

    def inner(self) -> Cancellation:
        """A cancellation of its own for a part of the work, also cancelled by this one."""
        made = Cancellation()
        with self._lock:
            self._inner = [held for held in self._inner if not held.event.is_set()]
            self._inner.append(made)
            if self.event.is_set():
                made.cancel(self.reason)
        return made

    def release(self, inner: Cancellation) -> None:
        """Forget a part whose work has ended."""
        with self._lock:
            if inner in self._inner:
                self._inner.remove(inner)

    def cancel(self, reason: Reason = "cancelled") -> None:
        """Ask everything under this to stop. The first reason stands."""
        with self._lock:
            if self.event.is_set():  # whoever comes later sees to it that it is told
                return
            self.reason = reason
            self.event.set()
            inner, told = tuple(self._inner), tuple(self._told)
        for held in inner:
            held.cancel(reason)
        for tell in told:
            tell()

    @property
    def elsewhere(self) -> bool:
        """Whether the work stops here only to go on with another owner: nothing is cleaned up then."""
        return self.event.is_set() and self.reason in ("released", "lost")

    def check(self) -> None:
        """Raise ``RunCancelled`` if the request was made."""
        if self.event.is_set():
            raise RunCancelled(self.reason.replace("_", " "))
