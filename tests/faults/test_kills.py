"""Workers that are killed at each point at which they write: everything ends, and nothing is done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import ExecutionState, StepRecord, StepState
from flo.engine.jobs import JobOptions

from .conftest import STEP_TYPES, Launch, ended

LEASE = "3"
DRAIN = ("--drain", "--lease", LEASE, "--quiet", "--concurrency", "8")

POINTS = {
    "claim.committed": 2,
    "own.before-commit": 20,
    "own.committed": 20,
    "conclude.before-commit": 2,
    "conclude.committed": 2,
}
"""Each with a number of times that no worker comes by there for one execution; empty claims count, too."""


def five_steps(notes: Path, name: str) -> Any:
    """Five steps, each of its own kind: silent, transactional, acting outside, a loop, a decision."""

    def add(step_id: str) -> Any:
        return {
            "stepId": step_id,
            "stepType": "data-store.atomic-update",
            "input": {
                "tableName": "counts",
                "key": f"{name}-{step_id}",
                "upsert": True,
                "set": [{"field": "n", "operation": "increment", "value": 1}],
            },
        }

    return {
        "name": "five-steps",
        "steps": [
            {"stepId": "remember", "stepType": "core.set-variable", "input": {"at": "<< $util.now >>", "n": 1}},
            add("once"),
            {"stepId": "act", "stepType": "fault.note", "input": {"file": str(notes)}},
            {
                "stepId": "each",
                "stepType": "core.for-each",
                "input": {"items": [1, 2, 3], "steps": [add("in-loop"), {**add("own"), "stepType": "fault.count",
                          "input": {"key": f"{name}-own"}}]},
            },
            {
                "stepId": "decide",
                "stepType": "core.if",
                "input": {"condition": "<< once.row.value.n == 1 and $vars.n == 1 >>", "then": [add("then")]},
            },
            {"stepId": "end", "stepType": "core.return", "input": {"at": "<< $vars.at >>", "n": "<< each.count >>"}},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_any_write_leaves_work_that_is_finished_exactly_once(
    point: str, shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    """One execution, in a queue of its own, for each time at which its first worker is killed there."""
    trials = [Trial(f"{point}:{times}", f"queue-{times}", tmp_path) for times in range(1, POINTS[point] + 1)]
    with app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        for trial in trials:
            trial.enqueue(engine)
        workers = [launch("worker", "--store", shared_url, *trial.serves, FLO_FAULT=trial.fault) for trial in trials]
        killed = [ended(worker) == -9 for worker in workers]
        assert killed[0], "no worker came by this point"
        assert point == "claim.committed" or not killed[-1], "there are more of these writes than trials"
        for trial in trials:
            trial.look(engine)
        queues = [argument for trial in trials for argument in ("--queue", trial.queue)]
        assert ended(launch("worker", "--store", shared_url, *queues, *DRAIN)) == 0
        for trial in trials:
            trial.check(engine)


class Trial:
    """One execution whose worker is killed at one of its writes."""

    def __init__(self, fault: str, queue: str, folder: Path) -> None:
        self.fault, self.queue = fault, queue
        self.serves = ("--queue", queue, *DRAIN)
        self._notes = folder / f"notes-{queue}"
        self._before: dict[str, StepRecord] = {}

    def enqueue(self, engine: Flo) -> None:
        steps = five_steps(self._notes, self.queue)
        self._id = engine.enqueue(steps, options=JobOptions(queue=self.queue)).execution_id

    def look(self, engine: Flo) -> None:
        """See which steps are finished."""
        self._before = {step.path: step for step in engine.executions.steps(self._id)}

    def check(self, engine: Flo) -> None:
        execution = engine.executions.get(self._id)
        assert execution is not None
        assert execution.state is ExecutionState.SUCCESS, (self.fault, execution.error)
        assert [_count(engine, f"{self.queue}-{key}") for key in ("once", "in-loop", "own", "then")] == [1, 3, 3, 1]
        after = {step.path: step for step in engine.executions.steps(self._id)}
        again = [path for path, step in self._before.items() if after[path].started_at != step.started_at]
        assert again == [], f"{self.fault}: steps that had finished ran again"
        assert all(step.state is StepState.SUCCESS for step in after.values())
        noted = self._notes.read_text(encoding="utf-8").split()
        assert noted == ["act"] if "act" in self._before else noted in (["act"], ["act", "act"])
        remembered: Any = after["remember"].output
        assert execution.output == {"at": remembered["at"], "n": 3}


def _count(engine: Flo, key: str) -> int:
    row = engine.data.get("counts", key)
    value: Any = {"n": 0} if row is None else row.value
    return int(value["n"])
