"""A cancel in the midst of a loop of writes: once it has returned, nothing that runs anywhere is stored any more."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import LEASE
from flo.engine.stores.filters import EVERY

from .conftest import Launch
from .pulses import Barrier, Pulses

GATES = str(Path(__file__).with_name("gate_step_types.py"))
WRITES = 1000
LAST = 800
"""No iteration of this index or a higher one comes by the gate, so that no loop ends before it is cancelled."""

BEFORE = 50
"""So many rows are written before somebody cancels."""

CONCURRENCY = 4

TABLES = ("written", "inner", "job")


class Scene:
    """A run whose loop writes rows, in parts of it too, beside a job that it enqueued and that writes its own."""

    def __init__(self, engine: Flo, folder: Path) -> None:
        self.engine, self._folder = engine, folder
        self._begun = {name: Pulses(folder / f"begun-{name}") for name in ("run", "job")}
        self._open = Barrier(folder / "open")
        engine.add({"name": "job", "steps": [self._loop([self._gate("job", "<< $index >>"), _set("job", "$index")])]})

    def document(self) -> Any:
        part = {"steps": [self._gate("run", "<< initial.number >>"), _set("inner", "initial.number")]}
        child = {
            "stepId": "child",
            "stepType": "core.sub-workflow",
            "input": {"workflow": part, "inputs": {"number": "<< $index >>"}},
        }
        return {
            "name": "cancelled",
            "steps": [
                {
                    "stepId": "later",
                    "stepType": "queue.enqueue",
                    "input": {"handler": "core.log", "input": {"message": "never"}, "queue": "jobs", "delay": "1h"},
                },
                {"stepId": "job", "stepType": "queue.enqueue", "input": {"workflow": "job", "queue": "jobs"}},
                self._loop([child, _set("written", "$index")]),
                {"stepId": "after", "stepType": "data-store.set", "input": {"tableName": "t", "key": "k", "value": 1}},
            ],
        }

    def file(self) -> str:
        path = self._folder / "cancelled.json"
        path.write_text(json.dumps(self.document()), encoding="utf-8")
        return str(path)

    def root(self) -> str:
        """Wait until everything is under way; gives the id of the run."""
        for begun in self._begun.values():  # what came by the gate before the last few has written its rows
            begun.wait(BEFORE + 2 * CONCURRENCY)
        [root] = [held.id for held in self.engine.executions.list() if held.workflow == "cancelled"]
        return root

    def rows(self) -> dict[str, int]:
        return {table: self.engine.data.count(table, EVERY) for table in TABLES}

    def open_the_gates(self) -> None:
        self._open.open()

    def stored(self, root: str) -> tuple[dict[str, int], list[Execution], list[int]]:
        """All that an owner of any of the executions could change."""
        look = self.engine.executions
        run = look.get(root)
        assert run is not None
        executions = [run, *sorted(look.list(parent=root, limit=2 * WRITES), key=lambda held: held.id)]
        records = [len(look.steps(held.id)) + len(look.lines(held.id)) for held in executions]
        return self.rows(), executions, records

    def check_cancelled(self, root: str, cancelled: Sequence[str]) -> None:
        """The run, its jobs, and the part of it that stands at the gate were cancelled, and nothing that had ended."""
        look = self.engine.executions
        parts = look.list(parent=root, limit=2 * WRITES)
        assert {held.id for held in parts if held.state is ExecutionState.CANCELLED} | {root} == set(cancelled)
        assert {held.state for held in parts} <= {ExecutionState.CANCELLED, ExecutionState.SUCCESS}
        [first] = [held for held in parts if held.input == {"number": 0}]
        jobs = [held for held in parts if held.queue == "jobs"]
        assert {held.id for held in (first, *jobs)} <= set(cancelled)
        assert len(jobs) == 2
        rows = self.rows()
        assert all(BEFORE <= rows[table] < WRITES for table in TABLES)
        assert self.engine.data.get("t", "k") is None

    def check_nobody_goes_on(self) -> None:
        claimed = self.engine.store.queue.claim(["default", "jobs"], worker="w", lease=LEASE, limit=10)
        assert list(claimed.deliveries) == []
        assert list(self.engine.store.queue.bury()) == []

    def _gate(self, name: str, number: str) -> Any:
        files = {"begun": self._begun[name].path, "open": self._open.path}
        return {"stepId": "gate", "stepType": "gate.pass", "input": {"number": number, "last": LAST, **files}}

    def _loop(self, steps: list[Any]) -> Any:
        given = {"items": list(range(WRITES)), "concurrency": CONCURRENCY, "steps": steps}
        return {"stepId": "each", "stepType": "core.for-each", "input": given}


def _set(table: str, number: str) -> Any:
    key = f"k-<< {number} >>"
    return {"stepId": "set", "stepType": "data-store.set", "input": {"tableName": table, "key": key, "value": 1}}


def fast(url: str) -> str:
    return f"{url}?synchronous=OFF" if url.startswith("sqlite:") else url


def cancelled_by_command(launch: Launch, url: str, root: str) -> list[str]:
    """Cancel from another process; gives the ids of what was cancelled."""
    process = launch("executions", "cancel", root, "--store", url, "--json")
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    ids: list[str] = json.loads(out)["cancelled"]
    return ids


def code_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """How a process ended, and what it printed."""
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


def test_a_run_of_this_process_stores_nothing_after_its_cancel(store_url: str, tmp_path: Path) -> None:
    with app.open(fast(store_url), steps=[GATES]) as engine:
        scene = Scene(engine, tmp_path)
        results: list[Any] = []
        stop = threading.Event()
        running = threading.Thread(target=lambda: results.append(engine.run(scene.document())), daemon=True)
        worker = threading.Thread(target=lambda: results.append(engine.worker(["jobs"]).run(stop)), daemon=True)
        running.start()
        worker.start()
        root = scene.root()
        cancelled = engine.cancel(root)
        before = scene.stored(root)
        scene.open_the_gates()
        running.join()
        stop.set()
        worker.join()
        assert scene.stored(root) == before
        scene.check_cancelled(root, cancelled)
        scene.check_nobody_goes_on()
        assert results[0].state is ExecutionState.CANCELLED
        assert results[1].as_json() == {"lost": 1}


def test_a_worker_stores_nothing_after_a_cancel_by_another_process(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    url = fast(shared_url)
    with app.open(url, steps=[GATES]) as engine:
        scene = Scene(engine, tmp_path)
        engine.enqueue(scene.document())
        queues = ("--queue", "default", "--queue", "jobs")
        worker = launch("worker", "--store", url, "--steps", GATES, *queues, "--drain", "--quiet", "--json")
        root = scene.root()
        cancelled = cancelled_by_command(launch, url, root)
        before = scene.stored(root)
        scene.open_the_gates()
        code, out = code_of(worker)
        assert (code, json.loads(out)) == (0, {"lost": 2})
        assert scene.stored(root) == before
        scene.check_cancelled(root, cancelled)
        scene.check_nobody_goes_on()


def test_a_run_of_the_foreground_stores_nothing_after_a_cancel_by_another_process(
    shared_url: str, launch: Launch, tmp_path: Path
) -> None:
    url = fast(shared_url)
    with app.open(url, steps=[GATES]) as engine:
        scene = Scene(engine, tmp_path)
        running = launch("run", scene.file(), "--store", url, "--steps", GATES, "--quiet", "--json")
        worker = launch("worker", "--store", url, "--steps", GATES, "--queue", "jobs", "--quiet", "--json")
        root = scene.root()
        cancelled = cancelled_by_command(launch, url, root)
        before = scene.stored(root)
        scene.open_the_gates()
        code, out = code_of(running)
        assert (code, json.loads(out)["status"]) == (130, "cancelled")
        worker.terminate()
        assert code_of(worker) == (143, '{"lost":1}\n')
        assert scene.stored(root) == before
        scene.check_cancelled(root, cancelled)
        scene.check_nobody_goes_on()
