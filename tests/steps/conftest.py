"""What the tests of step types share: a step call over an engine that answers as the test says, and a real engine with
its workers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.errors import FloError
from flo.engine.events import Event
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import Enqueued, JobOptions
from flo.engine.registry import Registry
from flo.engine.sealing import new_key
from flo.engine.step import Engine, Outcome, StepCall, Suspended
from flo.engine.stores.memory import MemoryStore
from flo.engine.values import JsonObject, dump
from flo.engine.vaults import Vaults
from flo.testing import FrozenClock

from .secret_cases import SECRET

REGISTRY = Registry.installed()


class AnsweringEngine:
    """Keeps what a step asked for. ``answers`` are given in turn: an object, nothing (the time is over), or an error.
    Without one the step has to wait. ``branches`` are the child lists, each with what it raises."""

    def __init__(self) -> None:
        self.answers: list[JsonObject | FloError | None] = []
        self.waits: list[tuple[str, str, datetime | None, JsonObject | None]] = []
        self.called: list[tuple[str | JsonObject, JsonObject]] = []
        self.jobs: list[tuple[str, JsonObject, JobOptions]] = []
        self.branches: dict[str, BaseException | None] = {}
        self.ran: list[str] = []

    def has_branch(self, branch: str) -> bool:
        return branch in self.branches

    def run_children(self, branch: str, *, shielded: bool = False) -> JsonObject:
        self.ran.append(branch)
        if (raised := self.branches[branch]) is not None:
            raise raised
        return {}

    def wait(
        self, kind: str, *, name: str = "", until: datetime | None = None, details: JsonObject | None = None
    ) -> JsonObject | None:
        self.waits.append((kind, name, until, details))
        if not self.answers:
            raise Suspended(until)
        answer = self.answers.pop(0)
        if isinstance(answer, FloError):
            raise answer
        return answer

    def run_workflow(self, target: str | JsonObject, initial: JsonObject) -> JsonObject:
        self.called.append((target, initial))
        return {"returned": True}

    def enqueue(self, target: str, initial: JsonObject, options: JobOptions) -> Enqueued:
        self.jobs.append((target, initial, options))
        return Enqueued("job-1", True, ExecutionState.PENDING)


Body = Callable[..., Any]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def answering() -> AnsweringEngine:
    return AnsweringEngine()


@pytest.fixture
def body(clock: FrozenClock, answering: AnsweringEngine) -> Body:
    """Run the body of a step type once, with this input."""

    def run(step_type: str, **given: Any) -> JsonObject | Outcome:
        call = StepCall(
            step_id="step",
            path="step",
            execution_id="execution-1",
            attempt=1,
            idempotency_key="execution-1:step",
            store=MemoryStore(clock).data,
            clock=clock,
            log=lambda level, message, data=None: None,
            cancelled=threading.Event(),
            deadline=None,
            secrets=Vaults().of("execution-1", None),
            engine=cast(Engine, answering),
        )
        return REGISTRY[step_type].body(call, given)

    return run


class Workplace:
    """An engine over a store whose clock the test moves. ``events`` is what it announced; ``listeners`` are told of it
    too."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FrozenClock(datetime.now(UTC))
        self.events: list[Event] = []
        self.listeners: list[Callable[[Event], object]] = []
        self.engine = app.open(url, clock=self.clock, listeners=[self._hear])

    def add(self, name: str, steps: Sequence[Any], **document: Any) -> None:
        """Store a workflow of these steps."""
        self.engine.add({"name": name, "steps": list(steps), **document})

    def enqueue(self, steps: Sequence[Any], given: Mapping[str, Any] | None = None, **document: Any) -> str:
        """Enqueue a workflow of these steps; gives the id of the execution."""
        return self.engine.enqueue({"steps": list(steps), **document}, given).execution_id

    def drain(self, concurrency: int = 1) -> None:
        """Let a worker run until nothing is due."""
        self.engine.worker(concurrency=concurrency).run(threading.Event(), drain=True)

    def get(self, execution_id: str) -> Execution:
        found = self.engine.executions.get(execution_id)
        assert found is not None
        return found

    def state(self, execution_id: str) -> str:
        return self.get(execution_id).state.value

    def children(self, execution_id: str) -> list[Execution]:
        """What an execution started, in the order in which it did."""
        return [*reversed(self.engine.executions.list(parent=execution_id, limit=10_000))]

    def count(self, key: str) -> int:
        """What steps of ``counting`` have counted."""
        row = self.engine.data.get("counts", key)
        return 0 if row is None else row.value["n"]  # type: ignore[index, call-overload, return-value]

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        for listener in tuple(self.listeners):
            listener(event)

    def reopen(self) -> Workplace:
        """Another engine over the same store, at the same time, as after a restart."""
        self.engine.close()
        again = Workplace(self.url)
        again.clock.time = self.clock.time
        return again


@pytest.fixture
def workplace(store_url: str) -> Iterator[Workplace]:
    made = Workplace(store_url)
    yield made
    made.engine.close()


@pytest.fixture
def shared_workplace(shared_url: str) -> Iterator[Workplace]:
    """Over a store that other processes can open."""
    made = Workplace(shared_url)
    yield made
    made.engine.close()


@pytest.fixture
def killed_after() -> Callable[[Workplace, str], None]:
    """Let a worker in a process of its own run, until it dies when the step of a path has ended."""

    def run(workplace: Workplace, path: str) -> None:
        script = Path(__file__).with_name("dying_worker.py")
        died = subprocess.run([sys.executable, script, workplace.url, path], capture_output=True, text=True)
        assert died.returncode == -signal.SIGKILL, died.stderr

    return run


@pytest.fixture(scope="module")
def engine() -> Iterator[Flo]:
    with app.open("memory:", clock=FrozenClock()) as opened:
        yield opened


Run = Callable[..., Any]


@pytest.fixture
def run(engine: Flo) -> Run:
    """Run a step of a type with this input, and an `initial`; gives what it gives, or its error."""

    def ran(step_type: str, given: Mapping[str, Any], initial: Any = None, **document: Any) -> Any:
        step = {"stepId": "a", "stepType": step_type, "input": given}
        held = engine.run({"steps": [step], **document}, initial).steps["a"]
        return held["output"] if held["error"] is None else held["error"]

    return ran


def same(found: Any, wanted: Any) -> None:
    """Equal with every type: ``1`` is not ``1.0`` here."""
    assert dump(found) == dump(wanted)


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLO_SECRET_API_KEY", SECRET)


@pytest.fixture
def master_key(monkeypatch: pytest.MonkeyPatch, secret: None) -> None:
    monkeypatch.setenv("FLO_MASTER_KEY", new_key())


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Two environments in a settings file."""
    file = tmp_path / "stages.json"
    file.write_text(dump({"environments": {"test": {"STAGE": "test"}, "live": {"STAGE": "live"}}}), encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("FLO_SETTINGS", str(file))
