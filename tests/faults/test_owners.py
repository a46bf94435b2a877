"""Owners that stall, that block, and that a poisonous execution takes along: real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.executions import DeadReason, ExecutionState
from flo.engine.jobs import MAX_EXPIRIES

from .conftest import STEP_TYPES, Launch, ended
from .pulses import Barrier, Pulses

LEASE = "1"

RECOVERY = {
    "steps": [
        {
            "stepId": "stale",
            "stepType": "data-store.atomic-claim",
            "input": {
                "tableName": "q",
                "where": [
                    {"field": "status", "operator": "equals", "value": "in_flight"},
                    {"field": "claimedAt", "operator": "olderThan", "value": "3s"},
                ],
                "renewEvery": False,
            },
        },
        {"stepId": "end", "stepType": "core.return", "input": {"count": "<< stale.count >>"}},
    ]
}

Pipes = tuple[Pulses, Barrier]


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Pipes]:
    with Pulses(tmp_path / "begun") as begun, Barrier(tmp_path / "go") as go:
        yield begun, go


def test_a_stalled_owner_changes_nothing_and_the_new_owners_result_stands(
    shared_url: str, launch: Launch, pipes: Pipes
) -> None:
    begun, go = pipes
    steps = [
        {"stepId": "stall", "stepType": "fault.stall", "input": {"begun": begun.path, "go": go.path}},
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
        begun.wait()
        first = engine.executions.get(execution_id)
        assert first is not None
        os.kill(stalled.pid, signal.SIGSTOP)
        successor = launch("worker", "--store", shared_url, "--drain", "--lease", LEASE, "--json")
        begun.wait()
        taken = engine.executions.get(execution_id)
        assert taken is not None
        assert taken.fence > first.fence
        go.open()
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
    shared_url: str, launch: Launch, tmp_path: Path, pipes: Pipes
) -> None:
    runs, (begun, _) = tmp_path / "runs", pipes
    given: Any = {"file": str(runs), "begun": begun.path, "seconds": 4}
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        execution_id = engine.enqueue("fault.block", given).execution_id
        first = launch("worker", "--store", shared_url, "--drain", "--lease", "1.2", "--quiet")
        begun.wait()
        second = launch("worker", "--store", shared_url, "--drain", "--lease", "1.2", "--quiet")
        assert (ended(first), ended(second)) == (0, 0)
        execution = engine.executions.get(execution_id)
        assert execution is not None
        assert (execution.state, execution.fence, execution.expiries) == (ExecutionState.SUCCESS, 1, 0)
    assert runs.read_text(encoding="utf-8").split() == [execution_id]


def test_claimed_rows_of_a_body_that_blocks_the_interpreter_are_not_taken_for_stale(
    shared_url: str, launch: Launch, tmp_path: Path, pipes: Pipes
) -> None:
    runs, (begun, _) = tmp_path / "runs", pipes
    where = [{"field": "status", "operator": "equals", "value": "pending"}]
    claim = {"tableName": "q", "where": where, "renewEvery": "400ms"}
    work = {
        "steps": [
            {"stepId": "claim", "stepType": "data-store.atomic-claim", "input": claim},
            {
                "stepId": "block",
                "stepType": "fault.block",
                "input": {"file": str(runs), "begun": begun.path, "seconds": 5},
            },
            {
                "stepId": "done",
                "stepType": "data-store.atomic-update",
                "input": {
                    "tableName": "q",
                    "key": "a",
                    "where": [{"field": "claimedBy", "operator": "equals", "value": "<< $execution.id >>"}],
                    "set": [{"field": "status", "operation": "set", "value": "done"}],
                },
            },
        ]
    }
    file = tmp_path / "work.json"
    file.write_text(json.dumps(work), encoding="utf-8")
    with app.open(shared_url) as engine:
        engine.data.set("q", "a", {"status": "pending"})
        running = launch("run", str(file), "--store", shared_url, "--quiet")
        begun.wait()
        stale = tmp_path / "stale.json"
        stale.write_text(json.dumps(RECOVERY), encoding="utf-8")
        recovered = 0
        while running.poll() is None:  # one after the other, as a schedule would start them
            out, said = launch("run", str(stale), "--store", shared_url, "--quiet").communicate(timeout=60)
            recovered += json.loads(out)["count"] if out else pytest.fail(said)
        assert ended(running) == 0
        assert recovered == 0
        assert _value(engine, "q", "a")["status"] == "done"
    assert len(runs.read_text(encoding="utf-8").split()) == 1


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
    shared_url: str, launch: Launch, tmp_path: Path, pipes: Pipes
) -> None:
    begun, go = pipes
    steps = [
        {"stepId": "first", "stepType": "fault.count", "input": {"key": "first"}},
        {"stepId": "stall", "stepType": "fault.stall", "input": {"begun": begun.path, "go": go.path}},
        {"stepId": "end", "stepType": "core.return", "input": {"done": True}},
    ]
    file = tmp_path / "work.json"
    file.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        running = launch("run", str(file), "--store", shared_url, "--quiet")
        begun.wait()
        running.kill()
        running.communicate()
        [execution] = engine.executions.list()
        assert execution.state is ExecutionState.RUNNING
        _let_the_lease_run_out(engine, execution.id)
        [buried] = engine.store.queue.bury()
        assert (buried.id, buried.state) == (execution.id, ExecutionState.FAILED)
        assert buried.error is not None
        assert buried.error["code"] == "crashed"
        go.open()
        resumed = launch("executions", "resume", execution.id, "--store", shared_url)
        assert ended(resumed) == 0
        after = engine.executions.get(execution.id)
        assert after is not None
        assert (after.state, after.output) == (ExecutionState.SUCCESS, {"done": True})
        assert _value(engine, "counts", "first") == {"n": 1}


def _value(engine: app.Flo, table: str, key: str) -> Any:
    row = engine.data.get(table, key)
    assert row is not None
    return row.value


def _let_the_lease_run_out(engine: app.Flo, execution_id: str) -> None:
    """As if half a minute had passed: the owner is dead, and its lease in the past."""
    database: Any = engine.store
    database._database.write(
        lambda execute: execute("UPDATE executions SET due_at = created_at WHERE id = :id", {"id": execution_id})
    )
