"""Steps of one execution write together, those of strands that run at one moment, or of iterations that share a
transaction: whoever is killed, locked out or too late, each write is made once."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import ExecutionState
from flo.engine.jobs import JobOptions

from .conftest import Launch, ended

DRAIN = ("--drain", "--lease", "3", "--quiet")


def each(items: list[str], table: str, **fields: Any) -> Any:
    """Add one to the row of each item, five of them at a moment."""
    add = {
        "stepId": "add",
        "stepType": "data-store.atomic-update",
        "input": {
            "tableName": table,
            "key": "<< $item >>",
            "upsert": True,
            "set": [{"field": "n", "operation": "increment", "value": 1}],
        },
        **fields,
    }
    say = {"stepId": "say", "stepType": "core.log", "input": {"message": "at << $item >>"}}
    loop = {"items": items, "concurrency": 5, "continueOnError": True, "steps": [say, add]}
    return {"steps": [{"stepId": "each", "stepType": "core.for-each", "input": loop}]}


def counts(engine: Flo, table: str, items: list[str]) -> list[int]:
    rows = (engine.data.get(table, str(item)) for item in items)
    return [0 if row is None else row.value["n"] for row in rows]  # type: ignore[call-overload, index, misc]


STRANDS = {"timeoutMilliseconds": 60_000}
"""A step that can be given up does not share a transaction: iterations run in threads, whose writes join."""


@pytest.mark.parametrize("point", ["own.before-commit", "own.committed"])
@pytest.mark.parametrize(("fields", "count"), [({}, 300), (STRANDS, 20)], ids=["iterations", "strands"])
def test_a_worker_killed_while_many_write_together_leaves_work_that_is_done_exactly_once(
    fields: dict[str, Any], count: int, point: str, shared_url: str, launch: Launch
) -> None:
    items, trials = [str(number) for number in range(count)], range(2, 6)
    with app.open(shared_url) as engine:
        names = [
            engine.enqueue(each(items, f"t{times}", **fields), options=JobOptions(queue=f"q{times}")).execution_id
            for times in trials
        ]
        workers = [
            launch("worker", "--store", shared_url, "--queue", f"q{times}", *DRAIN, FLO_FAULT=f"{point}:{times}")
            for times in trials
        ]
        assert -9 in [ended(worker) for worker in workers], "no worker came by this point"
        queues = [argument for times in trials for argument in ("--queue", f"q{times}")]
        assert ended(launch("worker", "--store", shared_url, *queues, *DRAIN)) == 0
        for times, name in zip(trials, names, strict=True):
            execution = engine.executions.get(name)
            assert execution is not None
            assert execution.state is ExecutionState.SUCCESS
            assert counts(engine, f"t{times}", items) == [1] * count, f"{point}:{times}"
            lines = [line.message for line in engine.executions.lines(name, limit=1000)]
            assert {line for line in lines if line.startswith("at ")} == {f"at {item}" for item in items}


@pytest.mark.parametrize("fields", [{}, STRANDS], ids=["iterations", "strands"])
def test_processes_that_change_the_same_rows_in_opposite_orders_do_not_stand_in_each_others_way(
    fields: dict[str, Any], shared_url: str, launch: Launch
) -> None:
    items = [str(number) for number in range(30)]
    with app.open(shared_url) as engine:
        names = [
            engine.enqueue(each(order, "t", **fields), options=JobOptions(queue=f"q{at}")).execution_id
            for at, order in enumerate([items, items[::-1]] * 2)
        ]
        workers = [launch("worker", "--store", shared_url, "--queue", f"q{at}", *DRAIN) for at in range(4)]
        assert [ended(worker) for worker in workers] == [0] * 4
        for name in names:
            execution = engine.executions.get(name)
            assert execution is not None
            assert execution.state is ExecutionState.SUCCESS
            failed = [step.error for step in engine.executions.steps(name) if step.error is not None]
            assert failed == []
        assert counts(engine, "t", items) == [4] * 30


def test_a_step_that_is_too_late_in_a_transaction_with_others_takes_only_itself_out(postgres_url: str) -> None:
    """Another session has its row locked for longer than its timeout."""
    items = [str(number) for number in range(5)]
    with app.open(postgres_url) as engine:
        for item in items:
            engine.data.set("t", item, {"n": 0})
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM flo.rows WHERE key = '3' FOR UPDATE")
            result = engine.run(each(items, "t", timeoutMilliseconds=1500))
            loop: Any = result.steps["each"]
            assert (loop["output"]["succeeded"], loop["output"]["failed"]) == (4, 1)
        assert counts(engine, "t", items) == [1, 1, 1, 0, 1]
        assert engine.data.set("t", "3", {"n": 7}).row.value == {"n": 7}
