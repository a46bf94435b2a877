"""Isolated steps in runs: their timeouts, retries, cancellation and loops. Real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from flo.engine import app
from flo.engine.executions import ExecutionState

from .isolating import PATIENCE, SOURCE, Gate


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def engine(store_url: str) -> Iterator[app.Flo]:
    with app.open(store_url, steps=[SOURCE]) as made:
        yield made


@pytest.fixture(scope="module")
def memory() -> Iterator[app.Flo]:
    with app.open("memory:", steps=[SOURCE]) as made:
        yield made


def step(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"stepId": name, "stepType": kind, **more}


def test_an_attempt_after_the_death_of_the_process_writes_nothing_twice(engine: app.Flo) -> None:
    result = engine.run({"steps": [step("count", "isolated.count", retry={"maxAttempts": 2, "delaySeconds": 0})]})
    assert result.state is ExecutionState.SUCCESS, result.error
    [record] = engine.executions.steps(result.execution_id)
    assert record.output == {"row": {"n": 1}, "attempt": 2}
    row = engine.data.get("counts", "k")
    assert row is not None
    assert row.value == {"n": 1}


def test_a_timeout_ends_an_isolated_body_and_leaves_another_one_alone(memory: app.Flo, gate: Gate) -> None:
    isolated = step("i", "isolated.hang", input={"gate": gate.path}, timeoutMilliseconds=1000, continueOnError=True)
    shared = step("s", "shared.hang", input={"gate": gate.path}, timeoutMilliseconds=20)
    result = memory.run({"steps": [step("warm", "isolated.give"), isolated, step("p", "shared.present"), shared]})
    _, ended_one, after, given_up = memory.executions.steps(result.execution_id)
    assert [record.error and record.error["code"] for record in (ended_one, given_up)] == ["timeout", "timeout"]
    assert after.output == {"present": False}
    ended, going_on = gate.come()[0], gate.come()[0]
    assert ended.recv(1) == b""
    going_on.sendall(b"g")
    assert going_on.recv(1) == b""  # it has ended by itself
    lines = memory.executions.lines(result.execution_id)
    assert "late" not in [line.message for line in lines]


def test_an_attempt_begins_when_the_process_of_the_one_before_is_gone(memory: app.Flo, gate: Gate) -> None:
    retry = {"maxAttempts": 2, "delaySeconds": 0}
    once = step("o", "isolated.hang-once", input={"gate": gate.path}, timeoutMilliseconds=3000, retry=retry)
    result = memory.run({"steps": [step("warm", "isolated.give"), once]})
    assert result.state is ExecutionState.SUCCESS, result.error
    _, record = memory.executions.steps(result.execution_id)
    assert (record.attempts, record.output) == (2, {"present": False})


def test_a_body_that_gives_way_has_its_second_and_the_next_step_waits_for_it(memory: app.Flo, gate: Gate) -> None:
    polite = step("p", "isolated.polite", input={"gate": gate.path}, timeoutMilliseconds=1000, continueOnError=True)
    result = memory.run({"steps": [step("warm", "isolated.give"), polite]})
    connection, _ = gate.come()
    connection.setblocking(False)
    assert connection.recv(4) == b"tidy"
    [error] = [record.error for record in memory.executions.steps(result.execution_id) if record.error]
    assert error["code"] == "timeout"


def test_a_run_that_is_cancelled_ends_the_process(memory: app.Flo, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flo.engine.isolation.pool.GRACE_SECONDS", 0.0)
    cancelled = threading.Event()
    document = {"steps": [step("i", "isolated.hang", input={"gate": gate.path})]}
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(memory.run, document, cancelled=cancelled)
        connection, _ = gate.come()
        cancelled.set()
        assert connection.recv(1) == b""
        assert running.result(PATIENCE).state is ExecutionState.CANCELLED


def test_what_is_no_json_is_refused_by_its_place(memory: app.Flo) -> None:
    result = memory.run({"steps": [step("i", "isolated.raise", input={"what": "nan"})]})
    assert result.error is not None
    said = result.error["code"], result.error["message"]
    assert said == (
        "invalid_value",
        "output.a[0]: nan cannot be stored as JSON",
    )


def test_iterations_at_once_have_a_process_each(memory: app.Flo, gate: Gate) -> None:
    inner = step("meet", "isolated.meet", input={"gate": gate.path})
    loop = step("l", "core.for-each", input={"items": [*range(4)], "concurrency": 4, "steps": [inner]})
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(memory.run, {"steps": [loop]})
        came = [gate.come() for _ in range(4)]
        for connection, _ in came:
            connection.sendall(b"g")
        result = running.result(PATIENCE)
    assert result.state is ExecutionState.SUCCESS
    records = memory.executions.iterations(result.execution_id, "l", start=0, limit=4)
    assert len(records) == 4
    assert len({pid for _, pid in came}) == 4


def test_an_engine_that_is_killed_takes_its_processes_along(gate: Gate) -> None:
    engine = subprocess.Popen([sys.executable, SOURCE, gate.path])
    try:
        connection, pid = gate.come()
        assert psutil.Process(pid).ppid() == engine.pid
    finally:
        engine.kill()
    assert connection.recv(1) == b""
    assert engine.wait(PATIENCE) == -signal.SIGKILL
