"""Writes how an execution ended, also where its store is away for a moment."""

from __future__ import annotations

import logging
import threading
from typing import Final

from flo.engine.clock import Clock
from flo.engine.errors import StoreUnavailable
from flo.engine.executions import ExecutionState, IllegalMove
from flo.engine.stores.base import ExecutionStore
from flo.engine.values import Json, JsonObject

log = logging.getLogger("flo.ending")

END_SECONDS: Final = 10.0
"""A server restarts within so long. An execution whose end is not written looks alive for ever."""

_PAUSE_SECONDS: Final = 0.5


def write_end(
    executions: ExecutionStore,
    clock: Clock,
    execution_id: str,
    state: ExecutionState,
    *,
    output: Json,
    error: JsonObject | None,
) -> None:
    """Move an execution to its final state. A store that cannot be reached is tried again for ``END_SECONDS``."""
    deadline = clock.monotonic() + END_SECONDS
    lost = False
    while True:
        try:
            executions.move(execution_id, state, output=output, error=error)
            return
        except IllegalMove as refused:
            if lost and refused.current is state:  # an earlier try was applied, and only its answer lost
                return
            raise
        except StoreUnavailable as unavailable:
            if clock.monotonic() >= deadline:
                raise
            if not lost:
                log.warning("cannot write yet how the run ended, trying for %d s: %s", END_SECONDS, unavailable)
            lost = True
        clock.wait(threading.Event(), _PAUSE_SECONDS)
