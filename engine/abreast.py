"""Pieces of work abreast in one thread: while one of them waits for an answer, the others go on.

Each runs in a greenlet: on a stack of its own, from one ``pass_on`` to the next. So what waits for a server on one
connection need not know of the others, and no two of them ever run at the same moment.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # only who waits for a server needs it at all
    from greenlet import greenlet

_of_thread: Final = threading.local()


class OthersFailed(BaseException):
    """Another one has failed, and who waits beside it ends there. Like an interrupt it is meant to get past code that
    handles exceptions of its own."""


class Crew:
    """Those who are abreast in a thread, as one of them sees them."""

    def __init__(self, others: Callable[[], object]) -> None:
        self._others = others
        self._shared: object = None
        self.failed = False

    def waits_for(self, shared: object) -> bool:
        """Whether the others may go on while one waits for ``shared``: for the first that one of them waits for, and
        for nothing else. Raises ``OthersFailed`` where one of them has failed."""
        if self.failed:
            raise OthersFailed
        self._shared = self._shared or shared
        return shared is self._shared

    def pass_on(self) -> None:
        """Let the others go on, until each has passed on. Raises ``OthersFailed`` where one of them has failed."""
        self._others()


def crew() -> Crew | None:
    """Those who are abreast in this thread; None where nobody is."""
    return getattr(_of_thread, "crew", None)


def abreast(work: Callable[[], bool], width: int) -> None:
    """Call ``work`` again and again until it gives False, ``width`` calls at a time where they pass on.

    Raises what the first one raised that failed. Those that had passed on end there, by ``OthersFailed``.
    """
    from greenlet import getcurrent, greenlet

    more = True

    def member() -> None:
        nonlocal more
        while more and work():
            pass
        more = False

    paused: deque[greenlet] = deque()
    _of_thread.crew = us = Crew(getcurrent().switch)
    try:
        while more or paused:
            if more and len(paused) < width:
                now = greenlet(member)
                now.gr_context = contextvars.copy_context()
            else:
                now = paused.popleft()
            now.switch()
            if not now.dead:
                paused.append(now)
    except BaseException:
        us.failed = True
        for left in paused:
            with suppress(BaseException):  # what the first one raised is what counts
                left.throw(OthersFailed)
        raise
    finally:
        _of_thread.crew = None
