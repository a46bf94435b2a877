"""Joins work that comes together: who finds nobody at it leads, and takes along what waits by then.

Nobody waits for others to come. Who comes while another one leads is either taken along by the next leader, or is it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

P = TypeVar("P")

MOST: Final = 100
"""So many pieces are done together."""

PATIENCE_SECONDS: Final = 1.0
"""Who has waited so long without being taken along leads beside the one who does not come to an end."""


class _Place(Generic[P]):
    """A piece of work in the line. ``turn`` is free once it is done, or leads."""

    def __init__(self, piece: P) -> None:
        self.piece = piece
        self.taken = self.done = False
        self.turn = threading.Lock()
        self.turn.acquire()


class Joining(Generic[P]):
    """Does pieces of work, many of them at once where they come at once: by one thread at a time, but for those that do
    not come to an end."""

    def __init__(self) -> None:
        self._waiting: deque[_Place[P]] = deque()
        self._leader: _Place[P] | None = None
        self._lock = threading.Lock()

    def do(self, piece: P, together: Callable[[Sequence[P]], None]) -> None:
        """Have a piece of work done, by this thread or by another one. ``together`` does several, and must not
        raise."""
        place = _Place(piece)
        with self._lock:
            leads = self._leader is None
            if leads:
                self._leader = place
            else:
                self._waiting.append(place)
        if leads or self._comes_to_lead(place):
            self._lead(place, together)

    def _lead(self, place: _Place[P], together: Callable[[Sequence[P]], None]) -> None:
        taken = [place]
        try:
            with self._lock:
                while self._waiting and len(taken) < MOST:
                    taken.append(self._waiting.popleft())
                for each in taken:
                    each.taken = True
            together([each.piece for each in taken])
        finally:
            for each in taken:
                each.done = True
            self._hand_over(place)
            for each in taken[1:]:
                each.turn.release()

    def _comes_to_lead(self, place: _Place[P]) -> bool:
        """Wait until the work is done, or is to be done by this thread."""
        try:
            if not place.turn.acquire(timeout=PATIENCE_SECONDS) and not self._leads_instead(place):
                place.turn.acquire()
        except BaseException:  # interrupted
            self._leave(place)
            raise
        return not place.done

    def _leads_instead(self, place: _Place[P]) -> bool:
        """Lead in the place of one who does not come to an end, unless the work is in its hands."""
        with self._lock:
            if place.taken:
                return False
            if self._leader is not place:
                self._waiting.remove(place)
                self._leader = place
            return True

    def _leave(self, place: _Place[P]) -> None:
        with self._lock:
            if place in self._waiting:
                self._waiting.remove(place)
        if not place.taken:
            self._hand_over(place)

    def _hand_over(self, place: _Place[P]) -> None:
        """Let the next one lead, if ``place`` still did."""
        with self._lock:
            if self._leader is not place:
                return
            self._leader = self._waiting.popleft() if self._waiting else None
            if self._leader is not None:
                self._leader.turn.release()
