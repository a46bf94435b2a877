"""Going on after a kill: from the next worker's claim to the end of its first iteration."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.contestants import child_environment
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import Ground
from benchmarks.lines import Against, Line, compared
from benchmarks.measuring import Sample, Series
from flo.engine import app
from flo.engine.events import Event, LoopAdvanced
from flo.engine.values import Json, JsonObject

AT_START: Final = "when the loop began"

_LOOP: Final[JsonObject] = {
    "steps": [
        {
            "stepId": "each",
            "stepType": "core.for-each",
            "input": {
                "items": "<< initial.items >>",
                "steps": [
                    {"stepId": "look", "stepType": "core.if", "input": {"condition": "<< $item >= 0 >>"}},
                    {"stepId": "weigh", "stepType": "core.if", "input": {"condition": "<< look.conditionResult >>"}},
                    {
                        "stepId": "write",
                        "stepType": "data-store.set",
                        "input": {"tableName": "items", "key": "item-<< $index >>", "value": "<< $item >>"},
                    },
                ],
            },
        }
    ]
}


def resume_lines(ground: Ground) -> Iterator[Line]:
    """Kill the worker of a long loop half way, and see when the next one has done its first iteration."""
    iterations = ground.sizes.resumed
    for store in (SQLITE, POSTGRES):
        with ground.server.fresh(store) as url:
            items: list[Json] = list(range(iterations))
            with app.open(url) as engine:
                execution_id = engine.enqueue(_LOOP, {"items": items}).execution_id
            at_start = _to_next_iteration(url, execution_id)
            _work_and_die(url, f"item-{iterations // 2}")
            at_half = _to_next_iteration(url, execution_id)
        what = f"go on half way in a loop of {iterations:,}, after a kill"
        yield from compared(what, store, Series([Sample(at_half)]), [(Against(AT_START), Series([Sample(at_start)]))])


def _to_next_iteration(url: str, execution_id: str) -> float:
    """Let a worker claim an execution, do one iteration of its loop, and give it back; gives the seconds from its claim
    to the end of the iteration."""
    stop = threading.Event()
    ended: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, LoopAdvanced) and not ended:
            ended.append(time.time())
            stop.set()

    with app.open(url, listeners=[listen]) as engine:
        engine.worker(concurrency=1, grace_seconds=0.0).run(stop)
        execution = engine.executions.get(execution_id)
    if execution is None or execution.claimed_at is None:
        raise AssertionError("nothing was claimed")
    return ended[0] - execution.claimed_at.timestamp()


def _work_and_die(url: str, key: str) -> None:
    """Let a worker of another process work until a row is there, and kill it."""
    command = [sys.executable, "-m", "flo.cli", "worker", "--store", url, "--lease", "2", "--quiet"]
    worker = subprocess.Popen(command, env=child_environment())
    with app.open(url) as engine:
        while engine.data.get("items", key) is None:
            if worker.poll() is not None:
                raise AssertionError(f"the worker ended with {worker.returncode}")
            time.sleep(0.05)
    worker.kill()
    worker.wait()
