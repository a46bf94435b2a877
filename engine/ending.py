"""Writes how a claim on an execution ended, also where its store is away for a moment."""

from __future__ import annotations

from flo.engine.clock import Clock
from flo.engine.executions import Execution
from flo.engine.jobs import Conclusion, Ended, Entries, Hold, LeaseLost
from flo.engine.patience import patiently
from flo.engine.stores.store import Store


def conclude(
    store: Store, clock: Clock, hold: Hold, conclusion: Conclusion, entries: Entries, of: Execution | None = None
) -> Execution:
    """End a claim, as ``QueueStore.conclude``; gives the execution as it stands then. A store that cannot be reached is
    tried again. Raises ``LeaseLost``, ``StoreError``."""

    def once(doubt: bool) -> Execution:
        try:
            return store.queue.conclude(hold, conclusion, entries, of=of)
        except LeaseLost:
            found = store.executions.get(hold.execution_id) if doubt else None
            if found is not None and _is_applied(found, hold, conclusion):
                return found
            raise

    return patiently(clock, "write how a run ended", once)


def _is_applied(found: Execution, hold: Hold, conclusion: Conclusion) -> bool:
    """Whether an earlier try ended the claim, and only its answer was lost."""
    match conclusion:
        case Ended(state=state):
            return found.fence == hold.fence and found.state is state
        case _:  # what came after may have moved it on already
            return found.fence > hold.fence or not found.state.final
