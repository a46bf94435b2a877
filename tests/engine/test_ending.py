"""How a claim ends while its store is away, and what becomes of writes that come too late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.ending import conclude
from flo.engine.errors import StoreFull, StoreUnavailable
from flo.engine.executions import ExecutionState
from flo.engine.jobs import NOTHING, Again, Conclusion, Delivery, Ended, LeaseLost, Parked, Released
from flo.engine.patience import PATIENCE_SECONDS
from flo.engine.values import JsonObject

from .delivering import Over

SAY: Any = {"steps": [{"stepId": "a", "stepType": "core.log", "input": {"message": "a"}}]}
ENDED = Ended(ExecutionState.SUCCESS)
SHORT = timedelta(seconds=5)


def away(queue: Any, times: float, *, applied: bool = False) -> Over:
    """A queue whose store is not there so many times when a claim ends; ``applied``: only its answer is lost."""
    left = [times]

    def conclude(*given: Any, **named: Any) -> Any:
        if left[0] <= 0:
            return queue.conclude(*given, **named)
        left[0] -= 1
        if applied:
            queue.conclude(*given, **named)
        raise StoreUnavailable("gone for a moment")

    return Over(queue, conclude=conclude)


def claimed(bench: Any, worker: str = "w") -> Delivery:
    """The one execution of the queue, for ``worker``; it is enqueued if there is none."""
    queue = bench.engine.store.queue
    if not bench.engine.executions.list():
        bench.engine.enqueue(SAY)
    [delivery] = queue.claim(["default"], worker=worker, lease=SHORT, limit=1).deliveries
    found: Delivery = delivery
    return found


def test_a_run_whose_store_restarts_when_it_ends_is_ended_all_the_same(
    bench: Any, engine_over: Callable[..., Flo]
) -> None:
    engine = engine_over(queue=away(bench.engine.store.queue, 3))
    result = engine.run(SAY)
    assert result.state is ExecutionState.SUCCESS
    assert bench.engine.store.executions.get(result.execution_id).state is ExecutionState.SUCCESS
    assert bench.messages(result) == ["a"]


def test_an_end_whose_answer_was_lost_is_not_taken_for_a_conflict(bench: Any, engine_over: Callable[..., Flo]) -> None:
    engine = engine_over(queue=away(bench.engine.store.queue, 1, applied=True))
    assert engine.run(SAY).state is ExecutionState.SUCCESS


@pytest.mark.parametrize(
    ("conclusion", "state"),
    [
        (ENDED, ExecutionState.SUCCESS),
        (Again(timedelta(seconds=1), {"code": "busy"}), ExecutionState.RETRYING),
        (Released(), ExecutionState.PENDING),
        (Parked(), ExecutionState.SUSPENDED),
    ],
)
def test_every_end_of_a_claim_whose_answer_was_lost_is_found_written(
    bench: Any, engine_over: Callable[..., Flo], conclusion: Conclusion, state: ExecutionState
) -> None:
    delivery = claimed(bench)
    store = engine_over(queue=away(bench.engine.store.queue, 1, applied=True)).store
    assert conclude(store, bench.clock, delivery.hold, conclusion, NOTHING).state is state
    assert len(bench.engine.executions.attempts(delivery.execution.id)) == (conclusion is not ENDED)


def test_another_end_that_was_written_first_stands_also_after_a_lost_answer(
    bench: Any, engine_over: Callable[..., Flo]
) -> None:
    store = bench.engine.store
    lost = [True]

    def conclude_late(hold: Any, *given: Any, **named: Any) -> Any:
        if lost.pop() if lost else False:
            store.executions.cancel(hold.execution_id)
            raise StoreUnavailable("gone for a moment")
        return store.queue.conclude(hold, *given, **named)

    engine = engine_over(queue=Over(store.queue, conclude=conclude_late))
    result = engine.run(SAY)
    assert result.state is ExecutionState.CANCELLED
    assert store.executions.get(result.execution_id).state is ExecutionState.CANCELLED
    lost.append(True)
    with pytest.raises(LeaseLost, match="cancelled"):
        conclude(engine.store, bench.clock, claimed_anew(bench).hold, ENDED, NOTHING)


def claimed_anew(bench: Any) -> Delivery:
    bench.engine.enqueue(SAY)
    return claimed(bench)


def test_an_end_that_was_not_written_before_another_owner_came_is_lost(
    bench: Any, engine_over: Callable[..., Flo]
) -> None:
    first = claimed(bench)
    store = bench.engine.store

    def conclude_late(*given: Any, **named: Any) -> Any:
        if not took:
            bench.clock.forward(SHORT)
            took.append(claimed(bench, "other"))
            raise StoreUnavailable("gone for a moment")
        return store.queue.conclude(*given, **named)

    took: list[Delivery] = []
    engine = engine_over(queue=Over(store.queue, conclude=conclude_late))
    with pytest.raises(LeaseLost, match="worker 'other' holds it, by claim 2"):
        conclude(engine.store, bench.clock, first.hold, ENDED, NOTHING)
    assert store.queue.valid([took[0].hold]) == [took[0].hold]


def test_a_store_that_stays_away_is_told_after_a_while(bench: Any, engine_over: Callable[..., Flo]) -> None:
    before = bench.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        engine_over(queue=away(bench.engine.store.queue, float("inf"))).run(SAY)
    assert PATIENCE_SECONDS <= bench.clock.monotonic() - before <= PATIENCE_SECONDS + 2


def test_a_store_without_space_is_not_tried_again(bench: Any, engine_over: Callable[..., Flo]) -> None:
    asked = []

    def conclude_full(*given: Any, **named: Any) -> Any:
        asked.append(given)
        raise StoreFull("no space")

    with pytest.raises(StoreFull):
        engine_over(queue=Over(bench.engine.store.queue, conclude=conclude_full)).run(SAY)
    assert len(asked) == 1


@pytest.fixture
def late(bench: Any, engine_over: Callable[..., Flo]) -> Iterator[Any]:
    """An engine whose step ``c`` comes to its transaction only once it is let, and a way to let it."""
    bench.engine.data.set("q", "a", {"status": "pending"})
    queue = bench.engine.store.queue
    let, claimants = threading.Event(), []

    def own(*given: Any, **named: Any) -> Any:
        if threading.current_thread().name == "flo-step-c":
            claimants.append(threading.current_thread())
            let.wait(30)
        return queue.own(*given, **named)

    def finish() -> None:
        let.set()
        for claimant in claimants:
            claimant.join(30)

    yield engine_over(queue=Over(queue, own=own)), finish
    finish()


CLAIM: JsonObject = {
    "stepId": "c",
    "stepType": "data-store.atomic-claim",
    "input": {
        "tableName": "q",
        "where": [{"field": "status", "operator": "equals", "value": "pending"}],
        "renewEvery": "1s",
    },
    "timeoutMilliseconds": 20,
}


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_claim_that_was_given_up_takes_nothing_when_it_comes_too_late(bench: Any, late: Any, tolerant: bool) -> None:
    engine, finish = late
    after = {"stepId": "h", "stepType": "test.hang"}
    if tolerant:  # the run goes on meanwhile, and its claim on the execution is valid
        threading.Thread(target=lambda: (bench.entered.wait(30), finish(), bench.released.set())).start()
        step = {**CLAIM, "continueOnError": True}
        result = engine.run({"steps": [step, {**after, "timeoutMilliseconds": 500, "continueOnError": True}]})
        assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    else:
        result = engine.run({"steps": [CLAIM]})
        assert result.state is ExecutionState.FAILED
        finish()
    assert result.steps["c"]["error"]["code"] == "timeout"
    row = bench.engine.data.get("q", "a")
    assert (row.value, row.claim_count) == ({"status": "pending"}, 0)


def test_what_a_step_that_was_given_up_had_in_hand_is_recorded_all_the_same(bench: Any, late: Any) -> None:
    engine, finish = late
    say = {"stepId": "say", "stepType": "core.log", "input": {"message": "before"}}
    result = engine.run({"steps": [say, CLAIM]})
    finish()
    assert [record.path for record in bench.engine.executions.steps(result.execution_id)] == ["say", "c"]
    assert bench.messages(result) == ["before"]


@pytest.mark.parametrize("applied", [False, True])
def test_a_part_that_is_started_while_the_store_is_away_is_started_once(
    bench: Any, engine_over: Callable[..., Flo], applied: bool
) -> None:
    store, away = bench.engine.store, [True, True]

    def adopt(*given: Any, **named: Any) -> Any:
        if not away or not away.pop():
            return store.queue.adopt(*given, **named)
        if applied:
            store.queue.adopt(*given, **named)
        raise StoreUnavailable("gone for a moment")

    part: JsonObject = {"steps": [{"stepId": "end", "stepType": "core.return", "input": {"n": 1}}]}
    call = {"stepId": "call", "stepType": "core.sub-workflow", "input": {"workflow": part}}
    result = engine_over(queue=Over(store.queue, adopt=adopt)).run({"steps": [call]})
    assert result.state is ExecutionState.SUCCESS
    assert result.steps["call"]["output"] == {"n": 1}
    assert len(store.executions.list(parent=result.execution_id)) == 1
