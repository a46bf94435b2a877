"""A store that is away for a moment is tried again: a server restarts within that, and nothing is lost meanwhile."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from flo.engine.clock import Clock
from flo.engine.errors import StoreClosed, StoreUnavailable

log = logging.getLogger("flo.patience")

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0

_PAUSE_SECONDS: Final = 0.5


def patiently(clock: Clock, what: str, work: Callable[[bool], T]) -> T:
    """Give what ``work`` gives, which is tried for ``PATIENCE_SECONDS`` while the store cannot be reached.

    It is told whether an earlier try may have been applied, and only its answer lost. Raises the last
    ``StoreUnavailable``; ``what`` could not be done is logged once.
    """
    deadline = clock.monotonic() + PATIENCE_SECONDS
    doubt = False
    while True:
        try:
            return work(doubt)
        except StoreClosed:
            raise
        except StoreUnavailable as away:
            if clock.monotonic() >= deadline:
                raise
            if not doubt:
                log.warning("cannot %s yet, trying for %d s: %s", what, PATIENCE_SECONDS, away)
            doubt = True
        clock.wait(threading.Event(), _PAUSE_SECONDS * (0.5 + random.random()))
