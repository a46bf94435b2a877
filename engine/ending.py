"""Writes how a claim on an execution ended, also where its store is away for a moment."""

from __future__ import annotations

import logging
import random
import threading
from typing import Final

from flo.engine.clock import Clock
from flo.engine.errors import StoreUnavailable
from flo.engine.executions import Execution
from flo.engine.jobs import Conclusion, Ended, Entries, Hold, LeaseLost
from flo.engine.stores.store import Store

log = logging.getLogger("flo.ending")

END_SECONDS: Final = 30.0
"""A server restarts within so long. An execution whose end is not written is delivered again."""

_PAUSE_SECONDS: Final = 0.5


def conclude(
    store: Store, clock: Clock, hold: Hold, conclusion: Conclusion, entries: Entries, of: Execution | None = None
) -> Execution:
    """End a claim, as ``QueueStore.conclude``; gives the execution as it stands then. A store that cannot be reached is
    tried again for ``END_SECONDS``. Raises ``LeaseLost``, ``StoreError``."""
    deadline = clock.monotonic() + END_SECONDS
    doubt = False
    while True:
        try:
            return store.queue.conclude(hold, conclusion, entries, of=of)
        except LeaseLost:
            found = store.executions.get(hold.execution_id) if doubt else None
            if found is not None and _is_applied(found, hold, conclusion):
                return found
            raise
        except StoreUnavailable as unavailable:
            if clock.monotonic() >= deadline:
                raise
            if not doubt:
                log.warning("cannot write yet how the run ended, trying for %d s: %s", END_SECONDS, unavailable)
            doubt = True
        clock.wait(threading.Event(), _PAUSE_SECONDS * (0.5 + random.random()))


def _is_applied(found: Execution, hold: Hold, conclusion: Conclusion) -> bool:
    """Whether an earlier try ended the claim, and only its answer was lost."""
    match conclusion:
        case Ended(state=state):
            return found.fence == hold.fence and found.state is state
        case _:  # what came after may have moved it on already
            return found.fence > hold.fence or not found.state.final
