"""Writes how a claim on an execution ended, also where its store is away for a moment."""

from __future__ import annotations

from collections.abc import Sequence

from flo.engine.clock import Clock
from flo.engine.errors import StoreError
from flo.engine.executions import Execution
from flo.engine.jobs import Conclusion, Ended, Ending, Entries, Hold, LeaseLost
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


def conclude_all(store: Store, clock: Clock, endings: Sequence[Ending]) -> Sequence[Execution | LeaseLost | StoreError]:
    """End executions, as ``QueueStore.conclude_many``. A store that cannot be reached is tried again. Raises
    ``StoreError``."""

    def once(doubt: bool) -> Sequence[Execution | LeaseLost | StoreError]:
        results = store.queue.conclude_many(endings)
        if not doubt:
            return results
        return [
            _earlier(store, ending) or result if isinstance(result, LeaseLost) else result
            for ending, result in zip(endings, results, strict=True)
        ]

    return patiently(clock, "write how runs ended", once)


def _earlier(store: Store, ending: Ending) -> Execution | None:
    """The execution, if an earlier try ended it."""
    found = store.executions.get(ending.hold.execution_id)
    return found if found is not None and _is_applied(found, ending.hold, ending.ended) else None


def _is_applied(found: Execution, hold: Hold, conclusion: Conclusion) -> bool:
    """Whether an earlier try ended the claim, and only its answer was lost."""
    match conclusion:
        case Ended(state=state):
            return found.fence == hold.fence and found.state is state
        case _:  # what came after may have moved it on already
            return found.fence > hold.fence or not found.state.final
