"""How a run ends while its store is away, and what becomes of claims that end too late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.ending import END_SECONDS
from flo.engine.errors import StoreUnavailable
from flo.engine.executions import ExecutionState, IllegalMove
from flo.engine.stores.memory import MemoryStore
from flo.engine.values import JsonObject

SAY: Any = {"steps": [{"stepId": "a", "stepType": "core.log", "input": {"message": "a"}}]}


class Over:
    """A part of a store, some of whose operations do something else first."""

    def __init__(self, part: Any, **replaced: Any) -> None:
        self._part = part
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


@pytest.fixture
def engine_over(bench: Any) -> Iterator[Callable[..., Flo]]:
    opened: list[Flo] = []

    def make(**parts: Any) -> Flo:
        held: MemoryStore = bench.engine.store
        store: Any = SimpleNamespace(
            **{"data": held.data, "workflows": held.workflows, "executions": held.executions, **parts},
            url=held.url,
            close=held.close,
        )
        opened.append(Flo(store, bench.engine.registry, bench.clock))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def away(executions: Any, times: float, *, applied: bool = False) -> Over:
    """Executions whose store is not there so many times when a run ends; ``applied``: only its answer is lost."""
    left = [times]

    def move(*given: Any, **named: Any) -> None:
        if left[0] <= 0:
            return executions.move(*given, **named)  # type: ignore[no-any-return]
        left[0] -= 1
        if applied:
            executions.move(*given, **named)
        raise StoreUnavailable("gone for a moment")

    return Over(executions, move=move)


def test_a_run_whose_store_restarts_when_it_ends_is_ended_all_the_same(
    bench: Any, engine_over: Callable[..., Flo]
) -> None:
    engine = engine_over(executions=away(bench.engine.store.executions, 3))
    result = engine.run(SAY)
    assert result.state is ExecutionState.SUCCESS
    assert bench.engine.store.executions.get(result.execution_id).state is ExecutionState.SUCCESS


def test_an_end_whose_answer_was_lost_is_not_taken_for_a_conflict(bench: Any, engine_over: Callable[..., Flo]) -> None:
    engine = engine_over(executions=away(bench.engine.store.executions, 1, applied=True))
    assert engine.run(SAY).state is ExecutionState.SUCCESS


def test_another_end_that_was_written_first_is_a_conflict_also_after_a_lost_answer(
    bench: Any, engine_over: Callable[..., Flo]
) -> None:
    executions = bench.engine.store.executions
    lost = [True]

    def move(execution_id: str, *given: Any, **named: Any) -> None:
        if lost.pop() if lost else False:
            executions.move(execution_id, ExecutionState.CANCELLED)
            raise StoreUnavailable("gone for a moment")
        executions.move(execution_id, *given, **named)

    with pytest.raises(IllegalMove, match="cancelled"):
        engine_over(executions=Over(executions, move=move)).run(SAY)


def test_a_store_that_stays_away_is_told_after_a_while(bench: Any, engine_over: Callable[..., Flo]) -> None:
    before = bench.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        engine_over(executions=away(bench.engine.store.executions, float("inf"))).run(SAY)
    assert END_SECONDS <= bench.clock.monotonic() - before <= END_SECONDS + 2


def test_a_claim_that_was_given_up_is_left_to_the_recovery(bench: Any, engine_over: Callable[..., Flo]) -> None:
    data = bench.engine.store.data
    data.set("q", "a", {"status": "pending"})
    given_up, claimant = threading.Event(), []

    def claim(*given: Any, **named: Any) -> Any:
        claimant.append(threading.current_thread())
        given_up.wait(30)
        return data.claim(*given, **named)

    engine = engine_over(data=Over(data, claim=claim))
    where = [{"field": "status", "operator": "equals", "value": "pending"}]
    step: JsonObject = {
        "stepId": "c",
        "stepType": "data-store.atomic-claim",
        "input": {"tableName": "q", "where": where, "renewEvery": "1s"},
        "timeoutMilliseconds": 20,
    }
    assert engine.run({"steps": [step]}).state is ExecutionState.FAILED
    given_up.set()
    claimant[0].join(30)
    claimed = data.get("q", "a").value
    assert claimed["status"] == "in_flight"
    bench.clock.wait(threading.Event(), 100)
    engine._renewer.renew_due()
    assert data.get("q", "a").value == claimed
