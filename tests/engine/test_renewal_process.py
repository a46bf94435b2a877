"""The renewal process: a blocked interpreter keeps its claims, a stopped or dead one loses them. Real processes."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from flo.engine.app import open_store
from flo.engine.clock import SystemClock
from flo.engine.executions import ExecutionState
from flo.engine.jobs import Hold
from flo.engine.renewal import Renewer
from flo.engine.renewal_process import RenewalProcess, starter
from flo.engine.stores.filters import EVERY
from flo.engine.stores.store import Store
from flo.engine.upkeep import Lease, Rows, Turn

from .working import enqueued

WORKING = Path(__file__).with_name("working.py")
PATIENCE = 30.0


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    made = open_store(shared_url)
    made.migrate()
    yield made
    made.close()


class Heard:
    """What a renewal process reports."""

    def __init__(self) -> None:
        self.turns: queue.Queue[Turn] = queue.Queue()
        self.ends: queue.Queue[str] = queue.Queue()

    def process_turned(self, turn: Turn) -> None:
        self.turns.put(turn)

    def process_ended(self, why: str) -> None:
        self.ends.put(why)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def process(shared_url: str, heard: Heard) -> Iterator[RenewalProcess]:
    start = starter(shared_url)
    assert start is not None
    made = start(heard)
    assert isinstance(made, RenewalProcess)
    yield made
    made.close()


def held(store: Store, lease: float = 30) -> Hold:
    enqueued(store, "end")
    [delivery] = store.queue.claim(["default"], worker="me", lease=timedelta(seconds=lease), limit=1).deliveries
    return delivery.hold


def test_it_renews_a_lease_and_says_so_until_it_is_dropped(store: Store, process: RenewalProcess, heard: Heard) -> None:
    hold = held(store, 1)
    process.add({7: Lease(hold, timedelta(seconds=1))}, 0.0)
    for _ in range(6):  # longer than the lease
        assert heard.turns.get(timeout=PATIENCE) == Turn([7], [])
    assert store.queue.valid([hold]) == [hold]
    process.remove([7])
    process.add({8: Lease(held(store), timedelta(seconds=0.1))}, 0.0)
    while (turn := heard.turns.get(timeout=PATIENCE)).renewed == [7]:  # a turn that was under way
        pass
    assert turn == Turn([8], [])


def test_it_renews_rows_and_tells_those_that_are_lost(store: Store, process: RenewalProcess, heard: Heard) -> None:
    store.data.set("t", "k", {"status": "pending"})
    [row] = store.data.claim("t", EVERY, (), limit=1, holder="me", changes=())
    process.add({1: Rows("t", "me", {row.key: row.claim_count}, 0.05)}, 0.0)
    assert heard.turns.get(timeout=PATIENCE) == Turn([1], [])
    store.data.claim("t", EVERY, (), limit=1, holder="thief", changes=())
    while (turn := heard.turns.get(timeout=PATIENCE)) == Turn([1], []):
        pass
    assert turn == Turn([], [1])


def test_a_lease_that_is_lost_is_told(store: Store, process: RenewalProcess, heard: Heard) -> None:
    hold = held(store)
    store.executions.cancel(hold.execution_id)
    process.add({1: Lease(hold, timedelta(seconds=30))}, 0.0)
    assert heard.turns.get(timeout=PATIENCE) == Turn([], [1])


def test_the_password_is_on_no_command_line(process: RenewalProcess, postgres_server: str) -> None:
    process.wait(PATIENCE)  # a process that is being started has no command line yet
    assert psutil.Process(process.pid).cmdline()[1:] == ["-P", "-m", "flo.engine.renewal_process"]


def test_it_leaves_signals_to_its_owner(store: Store, process: RenewalProcess, heard: Heard) -> None:
    process.add({1: Lease(held(store), timedelta(seconds=0.1))}, 0.0)
    heard.turns.get(timeout=PATIENCE)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process.pid, number)
    for _ in range(5):
        assert heard.turns.get(timeout=PATIENCE) == Turn([1], [])


def test_it_is_waited_for_until_it_is_ready_or_has_ended(process: RenewalProcess, heard: Heard) -> None:
    process.wait(PATIENCE)
    assert heard.ends.empty()
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def test_its_death_is_told(process: RenewalProcess, heard: Heard) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert heard.ends.get(timeout=PATIENCE) == "signal 9"
    process.add({1: Rows("t", "me", {"k": 1}, 1)}, 0.0)
    process.remove([1])


def test_closing_it_is_no_death(process: RenewalProcess, heard: Heard) -> None:
    child = psutil.Process(process.pid)
    process.close()
    assert not child.is_running()
    assert heard.ends.empty()


def test_one_that_reads_no_more_is_given_up(
    process: RenewalProcess, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.renewal_process.SEND_SECONDS", 0.05)
    os.kill(process.pid, signal.SIGSTOP)
    process.add({1: Rows("t", "me", {f"key-{number}": 1 for number in range(200_000)}, 60)}, 0.0)
    assert heard.ends.get(timeout=PATIENCE) == "signal 9"


def test_a_claim_of_many_rows_goes_through_the_pipe(store: Store, process: RenewalProcess, heard: Heard) -> None:
    store.data.set("t", "last", {"status": "pending"})
    [row] = store.data.claim("t", EVERY, (), limit=1, holder="me", changes=())
    rows = {f"ключ-{number}": 1 for number in range(20_000)} | {row.key: row.claim_count}
    process.add({1: Rows("t", "me", rows, 60)}, 0.0)
    assert heard.turns.get(timeout=PATIENCE) == Turn([1], [])


def test_a_store_that_cannot_be_opened_is_told(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    start = starter("nonsense:")
    assert start is not None
    process = start(heard)
    assert heard.ends.get(timeout=PATIENCE) == "exit code 1"
    assert "the renewal process failed: InputInvalid: store: 'nonsense:' is no store" in caplog.text
    process.close()


def test_a_renewer_goes_on_by_its_thread_and_with_a_new_process(store: Store, shared_url: str) -> None:
    made: list[RenewalProcess] = []
    again = threading.Event()
    start = starter(shared_url)
    assert start is not None

    def start_watched(reports: Any) -> RenewalProcess:
        process = start(reports)
        assert isinstance(process, RenewalProcess)
        made.append(process)
        if len(made) == 2:
            again.set()
        return process

    renewer = Renewer(store, SystemClock(), start_watched)
    hold = held(store, 1)
    renewer.hold(hold, timedelta(seconds=1))
    os.kill(made[0].pid, signal.SIGKILL)
    assert again.wait(PATIENCE)
    assert store.queue.valid([hold]) == [hold]
    assert not store.queue.claim(["default"], worker="thief", lease=timedelta(seconds=1), limit=1).deliveries
    renewer.close()
    assert not any(psutil.pid_exists(process.pid) for process in made)


class Working:
    """A worker as a process of its own, and what it says."""

    def __init__(self, url: str, **settings: Any) -> None:
        command = [sys.executable, str(WORKING), url, json.dumps(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(json.loads(line))

    def heard(self, word: str) -> dict[str, Any]:
        while True:
            message = self.said.get(timeout=PATIENCE)
            if word in message:
                return message

    def child(self) -> psutil.Process:
        """Its renewal process."""
        [found] = psutil.Process(self.process.pid).children()
        return found

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def working(shared_url: str, store: Store) -> Iterator[Callable[..., Working]]:
    made: list[Working] = []

    def start(**settings: Any) -> Working:
        made.append(Working(shared_url, **settings))
        return made[-1]

    yield start
    for one in made:
        one.close()


Start = Callable[..., Working]


def test_a_body_that_blocks_the_interpreter_for_longer_than_its_lease_runs_once(working: Start, store: Store) -> None:
    """Case Q01, where no thread of the worker has its turn."""
    name = enqueued(store, "block", seconds=10)
    first = working(lease=3)
    assert first.heard("started")["fence"] == 1
    second = working(lease=3)
    second.heard("worker")
    assert first.heard("ended") == {"ended": name, "fence": 1}
    execution = store.executions.get(name)
    assert execution is not None
    assert (execution.state, execution.deliveries, execution.expiries) == (ExecutionState.SUCCESS, 1, 0)
    assert second.said.empty()


def test_a_worker_that_is_stopped_loses_its_lease_and_can_write_nothing_more(working: Start, store: Store) -> None:
    name = enqueued(store, "wait")
    first = working(lease=1)
    first.heard("started")
    os.kill(first.process.pid, signal.SIGSTOP)
    second = working(lease=1)
    assert second.heard("started") == {"started": name, "fence": 2}
    os.kill(first.process.pid, signal.SIGCONT)
    assert first.heard("stopped") == {"stopped": name, "reason": "lost"}
    assert first.heard("lost") == {"lost": name, "fence": 1}
    execution = store.executions.get(name)
    assert execution is not None
    assert (execution.state, execution.fence, execution.expiries) == (ExecutionState.RUNNING, 2, 1)


def test_a_worker_that_is_killed_takes_its_renewal_process_along(working: Start, store: Store) -> None:
    name = enqueued(store, "wait")
    first = working(lease=1)
    first.heard("started")
    child = first.child()
    os.kill(first.process.pid, signal.SIGKILL)
    child.wait(PATIENCE)
    second = working(lease=1)
    assert second.heard("started") == {"started": name, "fence": 2}


def test_a_worker_that_is_told_to_stop_gives_back_what_runs_and_another_one_runs_it(
    working: Start, store: Store
) -> None:
    name = enqueued(store, "wait")
    first = working(lease=30, grace=0)
    first.heard("started")
    child = first.child()
    second = working(lease=30)
    second.heard("worker")
    first.process.send_signal(signal.SIGTERM)
    assert first.heard("tally") == {"tally": {"pending": 1}}
    assert second.heard("started") == {"started": name, "fence": 2}
    assert first.process.wait(PATIENCE) == 0
    assert not child.is_running()


def test_many_workers_run_every_job_once(working: Start, store: Store) -> None:
    names = {enqueued(store, "end") for _ in range(200)}
    tallies = [one.heard("tally")["tally"] for one in [working(lease=30, drain=True, concurrency=4) for _ in range(3)]]
    assert sum(tally.get("success", 0) for tally in tallies) == 200
    executions = store.executions.list(limit=1000)
    assert {held.id for held in executions} == names
    assert all((held.deliveries, held.state) == (1, ExecutionState.SUCCESS) for held in executions)
