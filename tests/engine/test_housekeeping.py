"""What is over is taken away when runs end, in small numbers, and never at a run's cost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.errors import StoreUnavailable
from flo.engine.executions import ExecutionState
from flo.engine.housekeeping import SWEEP_EXECUTIONS, SWEEP_ROWS, SWEEP_SECONDS, Housekeeper
from flo.engine.jobs import Retention
from flo.engine.requests import Requests
from flo.engine.values import dump

from .delivering import Over

RUN = {"steps": [{"stepId": "a", "stepType": "test.echo", "input": {}}]}


def housekeeper(bench: Any) -> Housekeeper:
    store = bench.engine.store
    return Housekeeper(store, Requests(bench.engine.registry, store.workflows, bench.clock), bench.clock)


def ids(bench: Any) -> set[str]:
    return {execution.id for execution in bench.engine.executions.list(limit=10_000)}


def test_a_run_takes_expired_rows_away_but_not_more_often_than_once_a_minute(bench: Any) -> None:
    data = bench.engine.data
    bench.engine.run(RUN)
    data.set("t", "k", {}, ttl=timedelta(seconds=1))
    bench.clock.forward(timedelta(seconds=30))
    bench.engine.run(RUN)
    assert data.remove_expired() == 1, "it was taken away too soon"
    data.set("t", "k", {}, ttl=timedelta(seconds=1))
    bench.clock.forward(timedelta(seconds=31))
    bench.engine.run(RUN)
    assert data.remove_expired() == 0


def test_a_store_that_cannot_be_reached_costs_nothing_but_a_warning(
    bench: Any, engine_over: Callable[..., Flo], caplog: pytest.LogCaptureFixture
) -> None:
    def remove_expired(limit: int = SWEEP_ROWS) -> int:
        raise StoreUnavailable("gone")

    engine = engine_over(data=Over(bench.engine.data, remove_expired=remove_expired))
    assert engine.run(RUN).state is ExecutionState.SUCCESS
    assert "cannot remove what is over: gone" in caplog.text


def test_no_sweep_takes_more_than_its_bound(bench: Any) -> None:
    data, keeper = bench.engine.data, housekeeper(bench)
    for at in range(SWEEP_ROWS + 5):
        data.set("t", str(at), {}, ttl=timedelta(seconds=1))
    bench.clock.forward(timedelta(minutes=5))
    keeper.sweep()
    assert data.remove_expired() == 5


def test_a_sweep_removes_executions_past_the_usual_retention(bench: Any) -> None:
    old = bench.run([]).execution_id
    bench.clock.forward(timedelta(days=14, seconds=1))
    young = bench.run([]).execution_id
    assert ids(bench) == {young}
    assert old != young


def test_a_sweep_removes_no_more_executions_than_its_bound(bench: Any) -> None:
    for _ in range(SWEEP_EXECUTIONS + 5):
        bench.run([])
    keeper = housekeeper(bench)
    bench.clock.forward(timedelta(days=15))
    keeper.sweep()
    assert len(ids(bench)) == 5
    keeper.sweep()
    assert len(ids(bench)) == 5, "the next one came too soon"
    bench.clock.wait(threading.Event(), SWEEP_SECONDS)
    keeper.sweep()
    assert ids(bench) == set()


def test_a_stored_workflow_says_itself_how_long_its_executions_are_kept(bench: Any) -> None:
    bench.engine.add({"name": "brief", "steps": [], "options": {"retention": {"count": 2}}})
    bench.engine.add({"name": "long", "steps": [], "options": {"retention": {"days": 100}}})
    bench.engine.add({"name": "usual", "steps": []})
    kept = {bench.engine.run("long").execution_id}
    gone = {bench.engine.run("usual").execution_id, bench.engine.run("brief").execution_id}
    bench.clock.forward(timedelta(days=20))
    kept |= {bench.engine.run(name).execution_id for name in ("usual", "brief", "brief")}
    housekeeper(bench).sweep()
    assert ids(bench) == kept
    assert not gone & kept


def test_what_runs_waits_or_is_to_be_tried_again_is_kept_whatever_its_age(bench: Any) -> None:
    engine = bench.engine
    waiting = engine.enqueue(RUN).execution_id
    bench.clock.forward(timedelta(days=100))
    housekeeper(bench).sweep()
    assert ids(bench) == {waiting}


def test_a_retention_that_is_asked_for_replaces_the_usual_one_but_not_that_of_a_workflow(bench: Any) -> None:
    bench.engine.add({"name": "long", "steps": [], "options": {"retention": {"days": 100}}})
    long = bench.engine.run("long").execution_id
    for _ in range(3):
        bench.run([])
    bench.clock.forward(timedelta(days=2))
    assert bench.engine.prune(Retention(timedelta(days=1), None)) == 3
    assert ids(bench) == {long}
    assert bench.engine.prune(Retention(timedelta(days=1), None), workflow="long") == 1


def test_executions_of_a_workflow_whose_step_types_are_not_there_are_kept_as_usual(bench: Any) -> None:
    steps = [{"stepId": "a", "stepType": "alien.step"}]
    document = dump({"name": "alien", "steps": steps, "options": {"retention": {"days": 99}}})
    bench.engine.workflows.save("alien", document)
    bench.run([], name="alien")
    bench.clock.forward(timedelta(days=15))
    housekeeper(bench).sweep()
    assert ids(bench) == set()


def test_what_became_of_slots_is_forgotten_with_its_time(bench: Any) -> None:
    engine = bench.engine
    engine.add({**RUN, "name": "flow", "triggers": [{"name": "t", "type": "manual"}]})
    engine.triggers.fire("flow/t")
    housekeeper(bench).sweep()
    assert len(engine.triggers.firings("flow/t")) == 1
    bench.clock.forward(timedelta(days=13))
    engine.triggers.fire("flow/t")
    keeper = housekeeper(bench)
    bench.clock.forward(timedelta(days=2))
    keeper.sweep()
    assert len(engine.triggers.firings("flow/t")) == 1
