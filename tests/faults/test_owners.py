"""Owners that stall, that block, and that a poisonous execution takes along: real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flo.engine import app
from flo.engine.executions import DeadReason, ExecutionState
from flo.engine.jobs import MAX_EXPIRIES

from .conftest import STEP_TYPES, Launch, ended

LEASE = "1"


def test_a_stalled_owner_changes_nothing_and_the_new_owners_result_stands(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    steps = [
        {"stepId": "stall", "stepType": "fault.stall", "input": {"begun": str(begun), "go": str(go)}},
        {
            "stepId": "write",
            "stepType": "data-store.atomic-update",
            "input": {
                "tableName": "t",
                "key": "k",
                "upsert": True,
                "set": [{"field": "n", "operation": "increment", "value": 1}],
            },
        },
        {"stepId": "own", "stepType": "fault.count", "input": {"key": "own"}},
        {"stepId": "end", "stepType": "core.return", "input": {"n": "<< write.row.value.n >>"}},
    ]
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        execution_id = engine.enqueue({"steps": steps}).execution_id
        stalled = launch("worker", "--store", shared_url, "--drain", "--lease", LEASE, "--json")
        until(begun.exists)
        first = engine.executions.get(execution_id)
        assert first is not None
        os.kill(stalled.pid, signal.SIGSTOP)
        successor = launch("worker", "--store", shared_url, "--drain", "--lease", LEASE, "--json")
        until(lambda: _fence(engine, execution_id) > first.fence)
        go.touch()
        assert ended(successor) == 0
        after = engine.executions.get(execution_id)
        assert after is not None
        assert (after.state, after.output) == (ExecutionState.SUCCESS, {"n": 1})
        steps_after = [(step.path, step.started_at) for step in engine.executions.steps(execution_id)]
        os.kill(stalled.pid, signal.SIGCONT)
        out, said = stalled.communicate(timeout=60)
        assert stalled.returncode == 0, said
        assert json.loads(out) == {"lost": 1}
        assert engine.executions.get(execution_id) == after
        assert [(step.path, step.started_at) for step in engine.executions.steps(execution_id)] == steps_after
        assert _value(engine, "t", "k") == {"n": 1}
        assert _value(engine, "counts", "own") == {"n": 1}


def test_a_body_that_blocks_the_interpreter_longer_than_its_lease_runs_once(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        execution_id = engine.enqueue("fault.block", {"file": str(runs), "seconds": 4}).execution_id
        first = launch("worker", "--store", shared_url, "--drain", "--lease", "1.2", "--quiet")
        until(runs.exists)
        second = launch("worker", "--store", shared_url, "--drain", "--lease", "1.2", "--quiet")
        assert (ended(first), ended(second)) == (0, 0)
        execution = engine.executions.get(execution_id)
        assert execution is not None
        assert (execution.state, execution.fence, execution.expiries) == (ExecutionState.SUCCESS, 1, 0)
    assert runs.read_text(encoding="utf-8").split() == [execution_id]


def test_claimed_rows_of_a_body_that_blocks_the_interpreter_are_not_taken_for_stale(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    where = [{"field": "status", "operator": "equals", "value": "pending"}]
    claim = {"tableName": "q", "where": where, "renewEvery": "400ms"}
    work = {
        "steps": [
            {"stepId": "claim", "stepType": "data-store.atomic-claim", "input": claim},
            {"stepId": "block", "stepType": "fault.block", "input": {"file": str(runs), "seconds": 3}},
        ]
    }
    file = tmp_path / "work.json"
    file.write_text(json.dumps(work), encoding="utf-8")
    with app.open(shared_url) as engine:
        engine.data.set("q", "a", {"status": "pending"})
        running = launch("run", str(file), "--store", shared_url, "--quiet")
        until(runs.exists)
        oldest = 0.0
        while running.poll() is None:
            claimed: Any = _value(engine, "q", "a")
            age = engine.data.now().timestamp() - _seconds(claimed["claimedAt"])
            oldest = max(oldest, age)
            time.sleep(0.05)  # a reading every so often is what this test is about
        assert ended(running) == 0
        assert oldest < 2.0, "the claim was left alone for most of the time that the interpreter was blocked"


def test_one_poison_execution_in_ten_is_dead_with_its_reason_and_nine_are_done(shared_url: str, launch: Launch) -> None:
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        inputs: list[Any] = [{"poison": number == 3} for number in range(10)]
        enqueued = engine.enqueue_many("fault.die", inputs)
        for _ in range(MAX_EXPIRIES + 20):
            worker = launch("worker", "--store", shared_url, "--drain", "--lease", "1", "--quiet")
            if ended(worker) == 0:
                break
        states = [engine.executions.get(each.execution_id) for each in enqueued]
        assert [held.state for held in states if held and held.id != enqueued[3].execution_id] == (
            [ExecutionState.SUCCESS] * 9
        )
        poison = states[3]
        assert poison is not None
        assert (poison.state, poison.reason) == (ExecutionState.FAILED, DeadReason.POISON)
        assert poison.error is not None
        assert poison.error["code"] == "poison"
        assert poison.expiries == MAX_EXPIRIES + 1 or poison.expiries == MAX_EXPIRIES
        [dead] = engine.executions.list(dead=True)
        assert dead.id == poison.id


def test_a_process_that_is_killed_in_mid_run_shows_as_crashed_and_goes_on_where_it_was(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    steps = [
        {"stepId": "first", "stepType": "fault.count", "input": {"key": "first"}},
        {"stepId": "stall", "stepType": "fault.stall", "input": {"begun": str(begun), "go": str(go)}},
        {"stepId": "end", "stepType": "core.return", "input": {"done": True}},
    ]
    file = tmp_path / "work.json"
    file.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        running = launch("run", str(file), "--store", shared_url, "--quiet")
        until(begun.exists)
        running.kill()
        running.communicate()
        [execution] = engine.executions.list()
        assert execution.state is ExecutionState.RUNNING
        _let_the_lease_run_out(engine, execution.id)
        [buried] = engine.store.queue.bury()
        assert (buried.id, buried.state) == (execution.id, ExecutionState.FAILED)
        assert buried.error is not None
        assert buried.error["code"] == "crashed"
        go.touch()
        resumed = launch("executions", "resume", execution.id, "--store", shared_url)
        assert ended(resumed) == 0
        after = engine.executions.get(execution.id)
        assert after is not None
        assert (after.state, after.output) == (ExecutionState.SUCCESS, {"done": True})
        assert _value(engine, "counts", "first") == {"n": 1}


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def _fence(engine: app.Flo, execution_id: str) -> int:
    execution = engine.executions.get(execution_id)
    assert execution is not None
    return execution.fence


def _value(engine: app.Flo, table: str, key: str) -> Any:
    row = engine.data.get(table, key)
    assert row is not None
    return row.value


def _seconds(instant: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(instant).timestamp()


def _let_the_lease_run_out(engine: app.Flo, execution_id: str) -> None:
    """As if half a minute had passed: the owner is dead, and its lease in the past."""
    database: Any = engine.store
    database._database.write(
        lambda execute: execute("UPDATE executions SET due_at = created_at WHERE id = :id", {"id": execution_id})
    )
