"""A workbench: an engine over a memory store, a clock that the test moves, and step types to break things with."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flo.engine import bet
from flo.engine.app import Flo
from flo.engine.attended import RunResult
from flo.engine.environments.keyring import Keyring
from flo.engine.errors import RunCancelled, StepFailed
from flo.engine.events import Event
from flo.engine.executions import LogLine
from flo.engine.opening import open_keyring, open_store
from flo.engine.registry import Registry
from flo.engine.sealing import KEY_VARIABLE
from flo.engine.step import Outcome, StepCall, StepType, step_type
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.store import Store
from flo.engine.values import JsonObject
from flo.testing import FrozenClock

from .delivering import House
from .environment_world import OLD, World
from .shops import Make, Shop

OBJECT: JsonObject = {"type": "object"}


class Workbench:
    """Runs lists of steps, and keeps what happened."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.events: list[Event] = []
        self.started: Counter[str] = Counter()
        self.keys: list[str] = []
        self.entered = threading.Event()
        self.released = threading.Event()
        self.late: list[str] = []
        self.running = 0
        self.most_running = 0
        self._lock = threading.Lock()
        installed = Registry.installed()
        registry = Registry([*(installed[name] for name in installed), *self._step_types()])
        self.engine = Flo(MemoryStore(self.clock), registry, self.clock, [self.events.append])

    def run(self, steps: Sequence[Any], given: JsonObject | None = None, **document: Any) -> RunResult:
        """Run a document of these steps; ``document`` has its other fields."""
        return self.engine.run({"steps": list(steps), **document}, given)

    def lines(self, result: RunResult) -> Sequence[LogLine]:
        return self.engine.executions.lines(result.execution_id, limit=100_000)

    def messages(self, result: RunResult, level: str = "info") -> list[str]:
        return [line.message for line in self.lines(result) if line.level == level]

    def _step_types(self) -> list[StepType]:
        @step_type("test.echo", schema=OBJECT, output=OBJECT, example={})
        def echo(call: StepCall, input: JsonObject) -> JsonObject:
            """Give the input back."""
            with self._lock:
                self.started[call.step_id] += 1
                self.keys.append(call.idempotency_key)
            return input

        @step_type("test.flaky", schema=OBJECT, output=OBJECT, example={})
        def flaky(call: StepCall, input: JsonObject) -> JsonObject:
            """Fail so many times, then succeed."""
            self.started[call.step_id] += 1
            self.keys.append(call.idempotency_key)
            if call.attempt <= int(str(input.get("times", 0))):
                raise StepFailed("not yet", code=str(input.get("code", "flaky")))
            return {"attempt": call.attempt}

        @step_type("test.once-broken", schema=OBJECT, output=OBJECT, example={})
        def once_broken(call: StepCall, input: JsonObject) -> JsonObject:
            """Fail the first time that it is called."""
            self.started[call.step_id] += 1
            if self.started[call.step_id] == 1:
                raise StepFailed("broken")
            return {}

        @step_type("test.hang", schema=OBJECT, output=OBJECT, example={})
        def hang(call: StepCall, input: JsonObject) -> JsonObject:
            """Do not end before it is asked to stop."""
            self.entered.set()
            call.cancelled.wait(30)
            if input.get("stubborn"):
                self.released.wait(30)
            self.late.append(call.path)
            if input.get("polite", True):
                raise RunCancelled("gave way")
            return {"late": True}

        @step_type("test.operational", schema=OBJECT, output=OBJECT, example={})
        def operational(call: StepCall, input: JsonObject) -> Outcome:
            """Run, with a bad outcome."""
            return Outcome({"status": 500}, operational_errors=["the server said 500"])

        @step_type("test.python", schema=OBJECT, output=OBJECT, example={})
        def python(call: StepCall, input: JsonObject) -> JsonObject:
            """Give what no store can hold."""
            given: dict[str, Any] = {
                "nan": {"a": [float("nan")]},
                "bytes": {"b": b""},
                "none": None,
                "raise": None,
                "huge": {"x": "x" * (65 << 20)},
                "digits": {"a": 10**4300},
            }
            if input["what"] == "exit":
                raise SystemExit(3)
            if input["what"] == "raise":
                raise KeyError("x" * 10_000_000)
            return given[str(input["what"])]  # type: ignore[no-any-return]

        @step_type("test.busy", schema=OBJECT, output=OBJECT, example={})
        def busy(call: StepCall, input: JsonObject) -> JsonObject:
            """Count how many of these run at a moment; none ends before as many run as `together` says."""
            with self._lock:
                self.running += 1
                self.most_running = max(self.most_running, self.running)
                if self.running >= int(str(input.get("together", 1))):
                    self.entered.set()
            self.entered.wait(10)
            with self._lock:
                self.running -= 1
            return {}

        says_joins = step_type("test.says-joins", schema=OBJECT, output=OBJECT, example={}, joins=True)(echo.body)
        return [echo, flaky, once_broken, hang, operational, python, busy, says_joins]


@pytest.fixture
def bench() -> Iterator[Workbench]:
    made = Workbench()
    yield made
    made.engine.close()


@pytest.fixture
def engine_over(bench: Workbench) -> Iterator[Callable[..., Flo]]:
    """Make an engine over the bench's store, parts of which are replaced by others."""
    opened: list[Flo] = []

    def make(**parts: Any) -> Flo:
        held = bench.engine.store
        names = ("data", "workflows", "executions", "queue", "triggers", "url", "close")
        whole = {name: getattr(held, name) for name in names}
        store: Any = SimpleNamespace(**{**whole, **parts})
        opened.append(Flo(store, bench.engine.registry, bench.clock))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


@pytest.fixture
def house(store_url: str) -> Iterator[House]:
    """A store of each kind, and owners of its executions."""
    made = House(f"{store_url}?synchronous=OFF" if store_url.startswith("sqlite:") else store_url)
    yield made
    made.close()


@pytest.fixture
def tens(monkeypatch: pytest.MonkeyPatch, unhurried: None) -> None:
    """Ten iterations share a transaction."""
    monkeypatch.setattr("flo.engine.loop.MOST", 10)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, iterations share a transaction."""
    monkeypatch.setattr(bet, "MOST_SECONDS", 60.0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url, None if store_url.startswith("postgres") else FrozenClock())
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def keyring(store_url: str) -> Keyring:
    return open_keyring(store_url, {KEY_VARIABLE: OLD} if store_url.startswith("postgres") else {})


@pytest.fixture
def shop() -> Iterator[Make]:
    """Makes workers, which are stopped when the test ends."""
    made: list[Shop] = []

    def make(store: Store, **settings: Any) -> Shop:
        made.append(Shop(store, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
