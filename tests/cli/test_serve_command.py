"""``flo serve``: a scheduler and a worker in one process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from flo.engine import app
from flo.engine.commands.services import Lines
from flo.engine.events import TriggerFired
from flo.engine.triggers import Firing, Trigger

Started = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]

LOG = {"stepId": "a", "stepType": "core.log", "input": {"message": "hello"}}


@pytest.fixture
def serving(started: Started) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start ``flo serve``; one that does not say what is waited for is killed at last."""
    watchdogs: list[threading.Timer] = []

    def serve(*options: str) -> subprocess.Popen[bytes]:
        process = started(["serve", *options])
        watchdogs.append(threading.Timer(60, process.kill))
        watchdogs[-1].start()
        return process

    yield serve
    for watchdog in watchdogs:
        watchdog.cancel()


def every_second(name: str, **config: Any) -> dict[str, Any]:
    trigger = {"type": "schedule", "config": {"schedule": {"every": "1s", "misfire": "all", **config}}}
    return {"name": name, "steps": [LOG], "triggers": [trigger]}


def line_with(process: subprocess.Popen[bytes], pattern: str) -> re.Match[str]:
    """The first line of standard error from here on that fits."""
    assert process.stderr is not None
    while line := process.stderr.readline().decode():
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"no line fits {pattern!r}")


def test_it_fires_runs_what_it_fired_and_loses_nothing_when_it_is_stopped(
    flo: Any, serving: Any, save: Any, shared_url: str
) -> None:
    flo("add", save(every_second("tick")), "--store", shared_url)
    process = serving("--store", shared_url, "--json")
    assert line_with(process, r"^serving: (.*)$")[1].startswith("scheduler of 1 trigger; worker ")
    fired = line_with(process, r"^fired  tick/schedule  for (\S+)  execution (\S+)$")
    assert line_with(process, rf"^success  {fired[2]}  tick  ")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert b"Traceback" not in err
    with app.open(shared_url) as engine:
        slots = engine.triggers.firings("tick", limit=1000)
        executions = {held.id: held.state.value for held in engine.executions.list(limit=1000)}
    assert fired[1] in {held.as_json()["slot"] for held in slots}
    assert {held.execution_id for held in slots} == set(executions)
    states = list(executions.values())
    assert set(states) <= {"success", "pending"}
    assert json.loads(out)["success"] == states.count("success")


def test_a_scheduler_alone_runs_nothing(flo: Any, serving: Any, save: Any) -> None:
    flo("add", save(every_second("good")))
    bad = every_second("bad", initialData={"at": '<< initial.day | date_sub: "1d" >>'})
    flo("add", save({**bad, "initial": {"day": "no day"}}))
    process = serving("--only", "scheduler", "--json")
    assert process.stderr.readline() == b"serving: scheduler of 2 triggers\n"
    assert line_with(process, r"^failed  bad/schedule  for \S+  .*no day")
    fired = line_with(process, r"^fired  good/schedule  for \S+  execution (\S+)$")[1]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)) == (130, {}), err
    assert flo("executions", "show", fired, "--json").json["status"] == "pending"


def test_quiet_tells_only_the_fires_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    trigger = Trigger("1", "2", "report", "nightly", "schedule", {}, True, True, 1, now, now, None, now, now)
    boom = {"code": "refused", "message": "boom"}
    for quiet in (True, False):
        say = Lines(quiet)
        say(TriggerFired(trigger, Firing("1", "s", "fired", now, now, "e1")))
        say(TriggerFired(trigger, Firing("1", "s", "skipped", now, now, reason="overlap")))
        say(TriggerFired(trigger, Firing("1", "s", "failed", now, error=boom)))
        fired, skipped, failed = (
            "fired  report/nightly  for 2027-01-01T00:00:00.000000Z  execution e1",
            "skipped  report/nightly  for 2027-01-01T00:00:00.000000Z  overlap",
            "failed  report/nightly  for s  boom",
        )
        told = capsys.readouterr()
        assert (told.out, told.err.splitlines()) == ("", [failed] if quiet else [fired, skipped, failed])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--store", "memory:"], "nothing can be served on memory:"),
        (["--only", "api"], "'scheduler', 'worker'"),
        (["--lease", "0.5"], "'0.5' is too short"),
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], said: str, flo: Any) -> None:
    answer = flo("serve", *options)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


def test_a_store_that_cannot_be_reached_at_the_start_ends_it_with_2(flo: Any) -> None:
    answer = flo("serve", "--store", "postgresql://nobody@127.0.0.1:1/nothing")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
