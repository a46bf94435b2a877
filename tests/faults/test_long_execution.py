"""A long loop whose worker is killed on its way: the next one goes on where it was, and reads little to do so."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.events import Event, StepStarted
from flo.engine.executions import ExecutionState, StepRecord
from flo.engine.sharing import MOST
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.values import Json

from .conftest import Launch, ended

ITERATIONS = 60_000 if "FLO_TEST_FULL" in os.environ else 1_500
"""``python -m benchmarks resume`` takes 60,000, and measures how long it takes to go on."""

COMMITS = ITERATIONS // MOST // 2
"""After so many the first worker is killed: half way, if each has all the iterations that it may have."""
LEASE = 2
STATEMENTS = 10
"""As many as an execution with one loop needs to go on, however long the loop is."""

WORK: Any = {
    "name": "long",
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
                        "stepType": "data-store.atomic-update",
                        "input": {
                            "tableName": "written",
                            "key": "k-<< $index >>",
                            "upsert": True,
                            "set": [{"field": "n", "operation": "increment", "value": 1}],
                        },
                    },
                ],
            },
        },
        {"stepId": "end", "stepType": "core.return", "input": {"count": "<< each.count >>"}},
    ],
}
ONCE = parse_where([{"field": "n", "operator": "equals", "value": 1}])


class Reading:
    """What the thread of an execution asks its store, up to the first step that it starts."""

    def __init__(self, engine: Flo, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, int, int]] = []
        """The statements, each with its rows and the characters of their texts."""
        self.started: Counter[str] = Counter()
        """The steps inside the loop that were started, by path."""
        database: Any = engine.store._database  # type: ignore[attr-defined]
        read, write = database.read, database.write

        def seen(execute: Callable[..., Any]) -> Callable[..., Any]:
            def execute_and_see(sql: str, *values: Any) -> Any:
                rows = execute(sql, *values)
                if not self.started and threading.current_thread().name.startswith(("flo-slot", "flo-run")):
                    texts = sum(len(text) for row in rows for text in row if isinstance(text, str))
                    self.asked.append((sql, len(rows), texts))
                return rows

            return execute_and_see

        class Seen:
            def __init__(self, execute: Any) -> None:
                self.many = execute.many
                self._execute = execute
                self._seen = seen(execute)

            def __call__(self, *given: Any) -> Any:
                return self._seen(*given)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._execute, name)

        monkeypatch.setattr(database, "read", seen(read))
        monkeypatch.setattr(database, "write", lambda work, **how: write(lambda tx: work(Seen(tx)), **how))
        engine.bus.subscribe(self._listen)

    def _listen(self, event: Event) -> None:
        if isinstance(event, StepStarted) and event.path.startswith("each["):
            self.started[event.path] += 1


def test_a_long_loop_goes_on_where_its_killed_worker_was(
    shared_url: str, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{shared_url}?synchronous=OFF" if shared_url.startswith("sqlite:") else shared_url
    with app.open(url) as engine:
        items: list[Json] = list(range(ITERATIONS))
        execution_id = engine.enqueue(WORK, {"items": items}).execution_id
        fault = f"own.committed:{COMMITS}"
        first = launch("worker", "--store", url, "--drain", "--quiet", "--lease", str(LEASE), FLO_FAULT=fault)
        assert ended(first, within=600) == -9
        before = {step.path: step for step in engine.executions.steps(execution_id)}
        finished = sum(step.index is not None for step in before.values())
        assert COMMITS <= finished < ITERATIONS, "it was not killed in the midst of its work"

        reading = Reading(engine, monkeypatch)
        engine.worker(concurrency=1, lease=timedelta(seconds=LEASE)).run(threading.Event(), drain=True)

        execution = engine.executions.get(execution_id)
        assert execution is not None
        assert (execution.state, execution.output) == (ExecutionState.SUCCESS, {"count": ITERATIONS}), execution.error
        assert (execution.deliveries, execution.expiries) == (2, 1)
        assert engine.data.count("written", ONCE) == engine.data.count("written", EVERY) == ITERATIONS
        after = {step.path: step for step in engine.executions.steps(execution_id)}
        assert len(after) == ITERATIONS * 4 + 2
        check_that_nothing_ran_again(before, after, reading.started)
        check_that_little_was_read(reading.asked, finished)


def check_that_nothing_ran_again(
    before: dict[str, StepRecord], after: dict[str, StepRecord], started: Counter[str]
) -> None:
    steps = {f"each[{index}].{name}" for index in range(ITERATIONS) for name in ("look", "weigh", "write")}
    assert started == Counter(steps - before.keys())
    assert all(after[path] == step for path, step in before.items())


def check_that_little_was_read(asked: list[tuple[str, int, int]], finished: int) -> None:
    """A number of statements that does not grow with what was done; of each iteration no more than how it stands."""
    assert 0 < len(asked) <= STATEMENTS, [sql for sql, _, _ in asked]
    assert sum(rows for _, rows, _ in asked) <= 2 * (finished + 1) + STATEMENTS
    assert sum(texts for _, _, texts in asked) <= 10 * finished + 10_000, "outputs were read, too"
