"""Schedulers as real processes, of which some are stopped and some are killed: every slot is fired once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.executions import ExecutionState
from flo.engine.triggers import Firing

from .conftest import STEP_TYPES, Launch
from .pulses import Pulses
from .scheduling import FileClock
from .test_restart import Server

SLOTS = 60
SECOND = timedelta(seconds=1)
PATIENCE = 240


def every(interval: str, pulses: Pulses) -> dict[str, Any]:
    """A workflow that counts its runs, and tells the test of each."""
    return {
        "name": "tick",
        "steps": [{"stepId": "a", "stepType": "fault.count", "input": {"key": "runs", "pulses": pulses.path}}],
        "triggers": [{"name": "t", "type": "schedule", "config": {"schedule": {"every": interval, "misfire": "all"}}}],
    }


def serve(launch: Launch, url: str) -> subprocess.Popen[str]:
    return launch("serve", "--store", url, "--lease", "3", "--concurrency", "2")


def stop_between_writes(process: subprocess.Popen[str], engine: app.Flo) -> None:
    """Stop a process where it keeps nobody from writing: one that is stopped in a transaction holds SQLite's lock."""
    while True:
        process.send_signal(signal.SIGSTOP)
        probe = threading.Thread(target=engine.data.set, args=("probe", "k", 1))
        probe.start()
        probe.join(5)
        if not probe.is_alive():
            return
        process.send_signal(signal.SIGCONT)
        probe.join()


def finish(engine: app.Flo, serving: list[subprocess.Popen[str]], url: str, launch: Launch) -> list[Firing]:
    """Fire nothing more, end the processes and run what is left; gives what became of the slots, in order."""
    engine.triggers.disable("tick/t")
    for process in serving:
        process.send_signal(signal.SIGTERM)
    for process in serving:
        process.communicate(timeout=60)
        assert process.returncode == 143
    assert launch("worker", "--store", url, "--drain", "--lease", "3").wait(60) == 0
    return list(reversed(engine.triggers.firings("tick/t", limit=1000)))


def check_each_once(engine: app.Flo, firings: list[Firing]) -> None:
    """Every second was a slot, every slot an execution, every execution ran once."""
    slots = [firing.scheduled_at for firing in firings if firing.scheduled_at is not None]
    assert len(slots) == len(firings)
    assert [later - earlier for earlier, later in pairwise(slots)] == [SECOND] * (len(slots) - 1)
    assert {firing.outcome for firing in firings} == {"fired"}
    executions = engine.executions.list(workflow="tick", limit=1000)
    assert sorted(one.id for one in executions) == sorted(str(firing.execution_id) for firing in firings)
    assert {one.state for one in executions} == {ExecutionState.SUCCESS}
    by_slot = sorted(datetime.fromisoformat(str(one.input["scheduledAt"])) for one in executions)
    assert by_slot == slots
    runs = engine.data.get("counts", "runs")
    assert runs is not None
    assert runs.value == {"n": len(slots)}


def test_three_servers_of_which_one_is_stopped_and_one_killed_fire_each_second_once(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    with Pulses(tmp_path / "pulses") as pulses, app.open(shared_url, steps=[str(STEP_TYPES)]) as engine:
        engine.add(every("1s", pulses))
        stopped, killed, steady = serving = [serve(launch, shared_url) for _ in range(3)]
        pulses.wait(SLOTS // 4)
        stop_between_writes(stopped, engine)
        pulses.wait(SLOTS // 4)
        killed.kill()
        pulses.wait(SLOTS // 4)
        stopped.send_signal(signal.SIGCONT)
        pulses.wait(SLOTS // 4 + 2)  # what the killed one ran may have been heard of twice
        serving.remove(killed)
        firings = finish(engine, [stopped, steady], shared_url, launch)
        assert len(firings) >= SLOTS
        check_each_once(engine, firings)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_schedules_go_on_by_themselves_when_the_database_restarts(
    server: Server, launch: Launch, tmp_path: Path
) -> None:
    with Pulses(tmp_path / "pulses") as pulses, app.open(server.url, steps=[str(STEP_TYPES)]) as engine:
        engine.add(every("1s", pulses))
        serving = [serve(launch, server.url) for _ in range(2)]
        for _ in range(2):
            pulses.wait(4)
            server.restart()
        pulses.wait(4)
        check_each_once(engine, finish(engine, serving, server.url, launch))


class Stoppable:
    """A scheduler in a process of its own, whose clock stands in a file."""

    def __init__(self, url: str, folder: Path) -> None:
        self.clock = FileClock(folder / "clock")
        self.clock.set("12:00:30")
        self.engine = app.open(url, clock=self.clock)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("scheduling.py")), url, str(folder / "clock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        self._watchdog = threading.Timer(PATIENCE, self._process.kill)  # a line that never comes ends the test
        self._watchdog.start()

    def at(self, moment: str, lines: int) -> set[str]:
        """Move the clock, let the scheduler look, and hear so many lines."""
        self.clock.set(moment)
        self.engine.triggers.enable("look")  # whatever is changed wakes it
        self.engine.triggers.disable("look")
        assert self._process.stdout is not None
        return {self._process.stdout.readline().strip() for _ in range(lines)}

    def sleep_until(self, moment: str, lines: int) -> list[str]:
        """Stop the process, move the clock, let it go on, and hear so many lines."""
        self._process.send_signal(signal.SIGSTOP)
        self.clock.set(moment)
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdout is not None
        return [self._process.stdout.readline().strip() for _ in range(lines)]

    def close(self) -> None:
        self._watchdog.cancel()
        self._process.communicate("\n", timeout=60)
        self.engine.close()


def test_a_process_that_slept_catches_up_as_misfire_says_and_sees_what_was_changed_elsewhere(
    shared_url: str, tmp_path: Path
) -> None:
    scheduler = Stoppable(shared_url, tmp_path)
    try:
        schedules = {misfire: {"cron": "* * * * *", "misfire": misfire} for misfire in ("once", "skip", "all")}
        document: dict[str, Any] = {
            "name": "f",
            "steps": [],
            "triggers": [
                *({"name": name, "type": "schedule", "config": {"schedule": held}} for name, held in schedules.items()),
                {"name": "look", "type": "manual", "enabled": False},
            ],
        }
        scheduler.engine.add(document)
        assert scheduler.at("12:01:00", 3) == {f"f/{name} fired 12:01:00" for name in schedules}
        lines = scheduler.sleep_until("12:11:30", 13)
        assert [line for line in lines if "f/once" in line] == ["f/once skipped 12:10:00", "f/once fired 12:11:00"]
        assert [line for line in lines if "f/skip" in line] == ["f/skip skipped 12:11:00"]
        assert [line for line in lines if "f/all" in line] == [f"f/all fired 12:{m:02}:00" for m in range(2, 12)]
        assert scheduler.at("12:12:00", 3) == {f"f/{name} fired 12:12:00" for name in schedules}
        scheduler.clock.set("12:12:59")
        scheduler.engine.triggers.disable("all")
        schedules["once"]["cron"] = "14 * * * *"
        scheduler.engine.add(document)
        assert scheduler.at("12:13:00", 1) == {"f/skip fired 12:13:00"}
        assert scheduler.at("12:14:00", 2) == {"f/skip fired 12:14:00", "f/once fired 12:14:00"}
        slots = [str(one.input["scheduledAt"])[14:16] for one in scheduler.engine.executions.list(limit=1000)]
        assert len(slots) == 3 + 1 + 10 + 3 + 1 + 2
        assert slots.count("13") == 1
    finally:
        scheduler.close()
