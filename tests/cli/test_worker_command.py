"""``flo worker``: what it runs, what it says, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.executions import ExecutionState

Save = Callable[..., str]
Started = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]

LOG = {"stepId": "a", "stepType": "core.log", "input": {"message": "hello"}}
FAIL = {"stepId": "a", "stepType": "core.fail", "input": {"message": "boom"}}

STEPS = """
import os
import sys

from flo.engine.errors import RunCancelled
from flo.engine.step import step_type

ANY = {"type": "object"}

@step_type("test.watch", schema=ANY, output=ANY, example={})
def watch(call, input):
    print("begun", file=sys.__stdout__, flush=True)
    call.cancelled.wait()
    raise RunCancelled("stopped")

@step_type("test.hang", schema=ANY, output=ANY, example={})
def hang(call, input):
    print("begun", file=sys.__stdout__, flush=True)
    reading, _ = os.pipe()
    os.read(reading, 1)
"""


@pytest.fixture(autouse=True)
def step_file(folder: Path) -> None:
    folder.joinpath("waiting.py").write_text(STEPS)


def enqueued(flo: Any, *arguments: str) -> str:
    answer = flo("enqueue", *arguments, "--json")
    assert answer.code == 0, answer.err
    name: str = answer.json["executionId"]
    return name


def state_of(execution_id: str, url: str | None = None) -> ExecutionState:
    with app.open(url) as engine:
        found = engine.executions.get(execution_id)
    assert found is not None
    return found.state


def test_a_drain_runs_what_is_due_says_a_line_for_each_and_ends_with_0(flo: Any, save: Save) -> None:
    good = enqueued(flo, save({"name": "good", "steps": [LOG]}))
    bad = enqueued(flo, save({"name": "bad", "steps": [FAIL]}))
    job = enqueued(flo, "core.log", "--input", '{"message": "x"}')
    answer = flo("worker", "--drain")
    assert (answer.code, answer.out) == (0, "")
    assert re.search(r"^worker \S+ serves default, 4 at once$", answer.err, re.MULTILINE)
    assert re.search(rf"^success  {good}  good  \d+\.\d\d s$", answer.err, re.MULTILINE)
    assert re.search(rf"^failed  {bad}  bad  \d+\.\d\d s  boom$", answer.err, re.MULTILINE)
    assert re.search(rf"^success  {job}  core.log  \d+\.\d\d s$", answer.err, re.MULTILINE)


def test_json_is_the_tally_and_quiet_says_nothing(flo: Any, save: Save) -> None:
    file = save([LOG])
    for _ in range(3):
        enqueued(flo, file)
    answer = flo("worker", "--drain", "--json", "--quiet")
    assert (answer.code, answer.json, answer.err) == (0, {"success": 3}, "")
    assert flo("worker", "--drain", "--json").json == {}


def test_only_the_queues_that_are_named_are_served(flo: Any, save: Save) -> None:
    file = save([LOG])
    names = {queue: enqueued(flo, file, "--queue", queue) for queue in ("a", "b", "c")}
    assert flo("worker", "--drain", "--queue", "a", "--queue", "c", "--json").json == {"success": 2}
    states = {queue: state_of(name) for queue, name in names.items()}
    assert states == {"a": "success", "b": "pending", "c": "success"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--store", "memory:"], "a worker on memory: has nothing to do"),
        (["--concurrency", "0"], "0 is not in the range"),
        (["--lease", "0.5"], "'0.5' is too short: it is renewed every third of it"),
        (["--lease", "soon"], "'soon' is no duration above zero"),
        (["--grace", "soon"], "'soon' is no duration"),
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], said: str, flo: Any) -> None:
    answer = flo("worker", "--drain", *options)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


def test_a_memory_store_of_the_environment_is_refused_too(flo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLO_STORE", "memory:")
    assert flo("worker", "--drain").code == 1


def test_a_store_that_cannot_be_reached_at_the_start_ends_it_with_2(flo: Any) -> None:
    answer = flo("worker", "--drain", "--store", "postgresql://nobody@127.0.0.1:1/nothing")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")


def begun(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_gives_back_what_runs(
    number: signal.Signals, code: int, flo: Any, started: Started, save: Save, shared_url: str
) -> None:
    file = save([{"stepId": "work", "stepType": "test.watch", "input": {}}])
    name = enqueued(flo, file, "--store", shared_url, "--steps", "waiting.py")
    process = started(["worker", "--store", shared_url, "--steps", "waiting.py", "--grace", "0", "--json"])
    begun(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert json.loads(out) == {"pending": 1}
    assert f"pending  {name}" in err.decode()
    assert b"Traceback" not in err
    assert state_of(name, shared_url) is ExecutionState.PENDING


def test_a_second_signal_ends_at_once(flo: Any, started: Started, save: Save) -> None:
    file = save([{"stepId": "work", "stepType": "test.hang", "input": {}}])
    name = enqueued(flo, file, "--steps", "waiting.py")
    process = started(["worker", "--steps", "waiting.py", "--grace", "1h"])
    begun(process)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while b"a second signal ends at once" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert state_of(name) is ExecutionState.RUNNING


def test_a_cancellation_from_another_process_stops_a_step_that_runs(
    flo: Any, started: Started, save: Save, shared_url: str
) -> None:
    """Case R03: in another process, and while the step runs."""
    file = save([{"stepId": "work", "stepType": "test.watch", "input": {}}])
    name = enqueued(flo, file, "--store", shared_url, "--steps", "waiting.py")
    process = started(["worker", "--store", shared_url, "--steps", "waiting.py", "--drain", "--json"])
    begun(process)
    with app.open(shared_url) as engine:
        engine.executions.cancel(name)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out) == {"lost": 1}
    assert state_of(name, shared_url) is ExecutionState.CANCELLED
