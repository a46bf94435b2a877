"""Many workers, random failures, random kills: each execution ends in one state, and each effect is made once."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import ExecutionState
from flo.engine.stores.filters import EVERY, parse_where

from .conftest import STEP_TYPES, Launch, ended
from .pulses import Pulses

EXECUTIONS = 20_000 if "FLO_TEST_FULL" in os.environ else 500

WORKERS = 8
KILLS = EXECUTIONS // 40
LEASE = 2.0
COUNTERS = 7


def work(pulses: Pulses) -> Any:
    """Two writes in a transaction with their step, one by a step type's own hand that may fail afterwards."""

    def add(step_id: str, key: str) -> Any:
        return {
            "stepId": step_id,
            "stepType": "data-store.atomic-update",
            "input": {
                "tableName": "counts",
                "key": key,
                "upsert": True,
                "set": [{"field": "n", "operation": "increment", "value": 1}],
            },
        }

    return {
        "name": "storm",
        "options": {"retry": {"maxAttempts": 50, "delaySeconds": 0.05}},
        "steps": [
            add("first", "first-<< initial.n | modulo: 7 >>"),
            {
                "stepId": "own",
                "stepType": "fault.count",
                "input": {"key": "own-<< initial.n >>", "chance": 0.3, "pulses": pulses.path},
            },
            add("last", "last-<< initial.n | modulo: 7 >>"),
        ],
    }


def test_a_storm_of_kills_and_failures_loses_nothing_and_does_nothing_twice(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    chance = random.Random(7)
    with Pulses(tmp_path / "pulses") as pulses, app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        workflow = engine.load(work(pulses))
        numbers = range(EXECUTIONS)
        for start in range(0, EXECUTIONS, 1000):
            engine.enqueue_many(workflow, [{"n": n} for n in numbers[start : start + 1000]])

        def start_worker() -> Any:
            return launch(
                "worker", "--store", shared_url, "--drain", "--lease", str(LEASE), "--concurrency", "4", "--quiet"
            )

        workers = [start_worker() for _ in range(WORKERS)]
        killed = 0
        for _ in range(KILLS):
            pulses.wait(chance.randint(1, 50))  # so much of the work, and the next one dies
            victim = chance.randrange(WORKERS)
            if workers[victim].poll() is None:
                workers[victim].kill()
                killed += 1
            workers[victim].communicate()
            workers[victim] = start_worker()
        assert killed > KILLS // 2
        codes = [ended(worker, within=900) for worker in workers]
        assert codes == [0] * WORKERS
        _check(engine)


def _check(engine: Flo) -> None:
    info = next(info for info in engine.store.queue.queues() if info.name == "default")
    assert (info.due, info.running, info.later, info.suspended) == (0, 0, 0, 0)
    success = engine.executions.list(state=ExecutionState.SUCCESS, limit=100_000)
    dead = engine.executions.list(dead=True, limit=100_000)
    assert len(success) + len(dead) == EXECUTIONS
    assert not dead, [(held.reason, held.error) for held in dead[:3]]
    counts: dict[str, int] = {}
    cursor = None
    while True:
        page = engine.data.query("counts", EVERY, limit=1000, cursor=cursor)
        for row in page.rows:
            value: Any = row.value
            counts[row.key] = value["n"]
        if (cursor := page.next_cursor) is None:
            break
    for name in ("first", "last"):
        assert [counts[f"{name}-{at}"] for at in range(COUNTERS)] == [
            len(range(at, EXECUTIONS, COUNTERS)) for at in range(COUNTERS)
        ]
    assert all(counts[f"own-{n}"] == 1 for n in range(EXECUTIONS))
    assert engine.data.count("counts", parse_where([])) == EXECUTIONS + 2 * COUNTERS
