"""flo on rows of a table: claims, guarded updates, and the dispatcher recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

from benchmarks.contestant import Taken
from benchmarks.own.stepping import with_call
from benchmarks.tables import HOLDER, TABLE
from flo.engine import app
from flo.engine.step import Outcome, StepCall
from flo.engine.values import Json, JsonObject

RECIPE: Final = Path(__file__).resolve().parent.parent.parent / "recipes" / "async-queue-dispatcher.json"

_PENDING: Final[Json] = [{"field": "status", "operator": "equals", "value": "pending"}]
_OLDEST: Final[Json] = {"field": "createdAt", "direction": "asc"}
_DONE: Final[Json] = [{"field": "status", "operation": "set", "value": "done"}]
_MINE: Final[Json] = [{"field": "claimedBy", "operator": "equals", "value": HOLDER}]


class Contestant:
    """An engine over one database."""

    def __init__(self, url: str) -> None:
        self._engine = app.open(url)

    def claim(self, times: int, limit: int) -> Taken:
        """Claim through the step type, in one run."""
        body = self._engine.registry["data-store.atomic-claim"].body
        given: JsonObject = {"tableName": TABLE, "where": _PENDING, "orderBy": _OLDEST, "limit": limit}
        return with_call(self._engine, lambda call: _timed(lambda: _count(body(call, given), "count"), times))

    def update(self, times: int) -> Taken:
        """Guarded updates of claimed rows through the step type, in one run."""
        body = self._engine.registry["data-store.atomic-update"].body

        def work(call: StepCall) -> Taken:
            keys = iter(range(1, times + 1))

            def update() -> int:
                key = f"in_flight-{next(keys)}"
                return _count(body(call, {"tableName": TABLE, "key": key, "where": _MINE, "set": _DONE}), "updated")

            return _timed(update, times)

        return with_call(self._engine, work)

    def dispatch(self, limit: int) -> int:
        """Run the recipe until it finds nothing; gives how many rows it did."""
        workflow = self._engine.load(RECIPE)
        done = 0
        while True:
            loop = self._engine.run(workflow, {"limit": limit}).steps["process-each"]
            assert isinstance(loop, Mapping)
            if not (succeeded := _count(loop["output"], "succeeded")):  # type: ignore[arg-type]
                return done
            done += succeeded

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


def _timed(work: Callable[[], int], times: int) -> Taken:
    """Do something some times; gives the sum of what it gave."""
    began = monotonic()
    found = sum(work() for _ in range(times))
    return Taken(began, monotonic(), found)


def _count(output: JsonObject | Outcome, key: str) -> int:
    """A number, or a boolean as one, of a step's output."""
    held = output.get(key) if isinstance(output, Mapping) else None
    return held if isinstance(held, int) else 0
