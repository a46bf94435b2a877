"""What SIGINT and SIGTERM do to a run: real processes, real signals, waited for on what they say."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.stores.filters import EVERY

STEPS = """
import os

from flo.engine.errors import RunCancelled
from flo.engine.step import step_type

ANY = {"type": "object"}

@step_type("test.watch", schema=ANY, output=ANY, example={})
def watch(call, input):
    call.log("info", "watching")
    call.cancelled.wait()
    raise RunCancelled("stopped")

@step_type("test.hang", schema=ANY, output=ANY, example={})
def hang(call, input):
    call.log("info", "hanging")
    reading, _ = os.pipe()
    os.read(reading, 1)
"""

Started = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def step_file(folder: Path) -> None:
    folder.joinpath("waiting.py").write_text(STEPS)


def read_until(process: subprocess.Popen[bytes], word: str, times: int = 1) -> list[str]:
    """Lines of standard error up to the one in which a word has come so many times."""
    assert process.stderr is not None
    lines: list[str] = []
    while sum(word in line for line in lines) < times:
        line = process.stderr.readline().decode()
        assert line, lines
        lines.append(line)
    return lines


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_run_and_leaves_rows_in_flight(
    number: signal.Signals, code: int, started: Started, save: Any, shared_url: str
) -> None:
    with app.open(shared_url) as engine:
        engine.data.set_many("ops", [(f"k{index}", {"status": "pending"}) for index in range(8)])
    where = [{"field": "status", "operator": "equals", "value": "pending"}]
    file = save(
        [
            {
                "stepId": "drain",
                "stepType": "data-store.atomic-claim",
                "input": {"tableName": "ops", "where": where, "limit": 5},
            },
            {
                "stepId": "each",
                "stepType": "core.for-each",
                "input": {
                    "items": "<< drain.claimed >>",
                    "concurrency": 5,
                    "steps": [{"stepId": "work", "stepType": "test.watch", "input": {}}],
                },
            },
            {"stepId": "after", "stepType": "core.log", "input": {"message": "never said"}},
        ]
    )
    process = started(["run", file, "--store", shared_url, "--steps", "waiting.py", "--json"])
    read_until(process, "watching", times=5)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    result = json.loads(out)
    assert (result["status"], result["success"]) == ("cancelled", False)
    assert b"never said" not in err
    assert b"Traceback" not in err
    with app.open(shared_url) as engine:
        execution = engine.executions.get(result["executionId"])
        assert execution is not None
        assert execution.state == "cancelled"
        rows = engine.data.query("ops", EVERY, limit=100).rows
        claimed = [row for row in rows if row.value["status"] == "in_flight"]  # type: ignore[call-overload,index]
        assert len(claimed) == 5
        assert {row.value["claimedBy"] for row in claimed} == {execution.id}  # type: ignore[call-overload,index]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_at_once(number: signal.Signals, code: int, started: Started, save: Any) -> None:
    file = save([{"stepId": "work", "stepType": "test.hang", "input": {}}])
    process = started(["run", file, "--steps", "waiting.py"])
    read_until(process, "hanging")
    process.send_signal(number)
    read_until(process, "a second signal ends at once")
    process.send_signal(number)
    assert process.wait(timeout=30) == code


def test_a_run_past_its_timeout_ends_with_124_though_a_step_hangs(started: Started, save: Any) -> None:
    file = save([{"stepId": "work", "stepType": "test.hang", "input": {}}])
    process = started(["run", file, "--steps", "waiting.py", "--timeout", "300ms", "--json"])
    out, err = process.communicate(timeout=20)
    assert process.returncode == 124, err
    assert json.loads(out)["status"] == "timed_out"
    assert err.decode().splitlines()[-1] == "error: the run timed out: the run is over its timeout"
