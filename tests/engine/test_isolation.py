"""Isolated steps: a body in a process of its own does what it would do here, and its time is over when it is over."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import RunCancelled, StepFailed, StoreUnavailable, ValueRefused
from flo.engine.executions import ExecutionState
from flo.engine.isolation.output import MAX_LINE_BYTES, MAX_LINES
from flo.engine.isolation.steps import IsolatedSteps
from flo.engine.jobs import LeaseLost
from flo.engine.registry import load_source
from flo.engine.secrecy import Secret
from flo.engine.step import Engine, Outcome, RunReturned, StepCall, Suspended
from flo.engine.stores.memory import MemoryStore
from flo.testing import FrozenClock

from .isolating import PATIENCE, SOURCE, Gate, Given

TYPES = {found.name: found for found in load_source(SOURCE)}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)

Line = tuple[str, str, Any]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture(scope="module")
def warm() -> Iterator[IsolatedSteps]:
    """For what leaves its process as it was."""
    made = IsolatedSteps(lambda name: SOURCE)
    yield made
    made.close()


@pytest.fixture
def steps() -> Iterator[IsolatedSteps]:
    made = IsolatedSteps(lambda name: SOURCE)
    yield made
    made.close()


@pytest.fixture
def lines() -> list[Line]:
    return []


@pytest.fixture
def call(lines: list[Line]) -> StepCall:
    given = Given()
    return StepCall(
        step_id="step",
        path="each[3].step",
        execution_id="e-1",
        attempt=2,
        idempotency_key="e-1:each[3].step",
        store=MemoryStore(FrozenClock()).data,
        clock=SystemClock(),
        log=lambda level, message, data=None: lines.append((level, message, data)),
        cancelled=threading.Event(),
        deadline=None,
        secrets=given,
        engine=cast(Engine, given),
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies that hear nothing are ended at once."""
    monkeypatch.setattr("flo.engine.isolation.pool.GRACE_SECONDS", 0.0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies have all the time that they need to give way."""
    monkeypatch.setattr("flo.engine.isolation.pool.GRACE_SECONDS", PATIENCE)


class OwnClock(SystemClock):
    """A clock that is not the machine's, and goes as that does."""


def begin(steps: IsolatedSteps, name: str, call: StepCall, **given: Any) -> Future[Any]:
    """Run a body in another thread."""
    threads = ThreadPoolExecutor(1)
    future = threads.submit(steps.run, TYPES[name], call, given)
    threads.shutdown(wait=False)
    return future


def test_it_gives_what_the_body_gives_and_changes_nothing_here(warm: IsolatedSteps, call: StepCall) -> None:
    given = {"a": [1, 2.5, None, True, "ü\u2028", {"b": "x" * 100_000}]}
    first: Any = warm.run(TYPES["isolated.give"], call, given)
    assert first["given"] == given
    assert first["pid"] not in (None, psutil.Process().pid)
    again: Any = warm.run(TYPES["isolated.give"], call, {})
    assert (again["pid"], again["calls"]) == (first["pid"], first["calls"] + 1)
    assert sys.modules[TYPES["isolated.give"].body.__module__].calls == 0


def test_mebibytes_go_in_and_out(warm: IsolatedSteps, call: StepCall) -> None:
    given = {"text": "x" * (16 << 20)}
    result: Any = warm.run(TYPES["isolated.give"], call, given)
    assert result["given"] == given


RAISED: list[tuple[str, type[BaseException], dict[str, Any]]] = [
    ("failed", StepFailed, {"message": "no", "code": "no_luck", "retryable": False, "retry_after": 2.5}),
    ("own", StepFailed, {"message": "of its own", "code": "own", "retryable": False, "retry_after": 7}),
    ("refused", ValueRefused, {"place": "a[0]", "what": "a Python set", "code": "invalid_value"}),
    ("cancelled", RunCancelled, {"args": ("gave way",)}),
    ("returned", RunReturned, {"output": {"all": "done"}}),
    ("suspended", Suspended, {"until": NEW_YEAR}),
    ("lost", LeaseLost, {"execution_id": "e-1", "state": ExecutionState.RUNNING, "worker": "other", "fence": 3}),
    ("away", StoreUnavailable, {"args": ("the store is away",)}),
    ("mistake", StepFailed, {"message": "KeyError: 'missing'", "code": "step_error", "retryable": True}),
    ("exit", StepFailed, {"message": "SystemExit: 3", "code": "step_error"}),
    ("returned-lock", StepFailed, {"code": "invalid_output", "retryable": False}),
    ("lock", StepFailed, {"code": "invalid_output", "retryable": False}),
]


@pytest.mark.parametrize(("what", "kind", "fields"), RAISED, ids=[what for what, _, _ in RAISED])
def test_it_raises_what_the_body_raises(
    warm: IsolatedSteps, call: StepCall, what: str, kind: type[BaseException], fields: dict[str, Any]
) -> None:
    with pytest.raises(kind) as raised:
        warm.run(TYPES["isolated.raise"], call, {"what": what})
    assert type(raised.value) is kind
    assert {name: getattr(raised.value, name) for name in fields} == fields


def test_what_cannot_leave_the_process_is_named(warm: IsolatedSteps, call: StepCall) -> None:
    said = r"what the step gave cannot leave its process: .*pickle '_thread.lock'"
    with pytest.raises(StepFailed, match=said):
        warm.run(TYPES["isolated.raise"], call, {"what": "lock"})


def test_the_traceback_of_a_mistake_is_logged(warm: IsolatedSteps, call: StepCall, lines: list[Line]) -> None:
    with pytest.raises(StepFailed):
        warm.run(TYPES["isolated.raise"], call, {"what": "mistake"})
    [(level, message, _)] = lines
    assert level == "debug"
    assert message.startswith(f'Traceback (most recent call last):\n  File "{SOURCE}", line ')
    assert message.endswith("KeyError: 'missing'")


def test_a_bad_outcome_stays_one(warm: IsolatedSteps, call: StepCall) -> None:
    outcome = warm.run(TYPES["isolated.raise"], call, {"what": "outcome"})
    assert outcome == Outcome({"status": 500}, ["the server said 500"], ["slow"], retryable=False)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("exit", "its process ended with exit code 7"),
        ("kill", "its process was killed by SIGKILL"),
        ("segfault", "its process was killed by SIGSEGV"),
        ("close", "its process closed its connection"),
        ("garbage", "its process sent what is no message"),
    ],
)
def test_a_process_that_dies_fails_its_step_alone(
    warm: IsolatedSteps, call: StepCall, lines: list[Line], how: str, said: str
) -> None:
    with pytest.raises(StepFailed) as raised:
        warm.run(TYPES["isolated.die"], call, {"how": how})
    assert (raised.value.message, raised.value.code, raised.value.retryable) == (said, "process_died", True)
    assert lines[0] == ("info", "last words", None)
    assert any("Segmentation fault" in message for _, message, _ in lines) == (how == "segfault")
    assert warm.run(TYPES["isolated.give"], call, {})


def test_a_source_that_cannot_be_imported_there_is_named(call: StepCall, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('only here')")
    steps = IsolatedSteps(lambda name: str(broken))
    with pytest.raises(StepFailed, match=f"ImportError: {broken} cannot be imported .*: RuntimeError: only here"):
        steps.run(TYPES["isolated.give"], call, {})
    steps.close()


def test_a_type_that_its_source_has_not_is_named(warm: IsolatedSteps, call: StepCall) -> None:
    with pytest.raises(StepFailed, match=f"{SOURCE} has no step type 'isolated.gone'"):
        warm.run(replace(TYPES["isolated.give"], name="isolated.gone"), call, {})


UNGUARDED = """
from flo.engine.app import open
from flo.engine.step import step_type

@step_type("unguarded.give", schema={}, output={}, example={}, isolated=True)
def give(call, input):
    return {"error": result.error}

with open("memory:", steps=["unguarded"]) as engine:
    result = engine.run({"steps": [{"stepId": "s", "stepType": "unguarded.give"}]})
"""


def test_a_module_that_runs_its_own_type_while_it_is_imported_starts_no_chain_of_processes(
    call: StepCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unguarded.py").write_text(UNGUARDED)
    monkeypatch.syspath_prepend(tmp_path)
    steps = IsolatedSteps(lambda name: "unguarded")
    bounded = replace(call, deadline=call.clock.monotonic() + PATIENCE)
    given: Any = steps.run(replace(TYPES["isolated.give"], name="unguarded.give"), bounded, {})
    assert given["error"]["message"] == (
        "started while its own module is imported; guard that code with `if __name__ == '__main__'`"
    )
    steps.close()


def test_lines_come_in_order_with_those_of_programs(warm: IsolatedSteps, call: StepCall, lines: list[Line]) -> None:
    warm.run(TYPES["isolated.speak"], call, {})
    assert [line for line in lines if line[1] != "aside"] == [
        ("info", "first", {"n": 1}),
        ("warn", "second", None),
        ("info", "from a program", None),
        ("info", "without an end", None),
    ]
    assert ("warn", "aside", None) in lines


def test_a_step_that_writes_without_measure_is_cut(warm: IsolatedSteps, call: StepCall, lines: list[Line]) -> None:
    warm.run(TYPES["isolated.write"], call, {"count": 2 * MAX_LINES, "length": 2 * MAX_LINE_BYTES})
    *logged, last = lines
    assert logged == [("info", "x" * MAX_LINE_BYTES + "…", None)] * MAX_LINES
    assert last == ("warn", "the step wrote more than 1,000 lines; the rest is not logged", None)


def test_the_call_has_all_its_fields(warm: IsolatedSteps, call: StepCall) -> None:
    clock = FrozenClock()
    given: Any = warm.run(TYPES["isolated.fields"], replace(call, clock=clock, deadline=90.0), {})
    assert given == {
        "names": ["step", "each[3].step", "e-1", 2, "e-1:each[3].step"],
        "left": 90.0,
        "clock": "IsolatedClock",
        "now": "2026-01-01T00:00:00+00:00",
        "waited": [False, False],
        "passed": 10.0,
    }
    assert clock.time == NEW_YEAR + timedelta(seconds=10)


@pytest.mark.parametrize("other", [False, True], ids=["that", "something else"])
def test_a_body_hears_that_it_is_cancelled_while_it_waits_for(
    warm: IsolatedSteps, call: StepCall, gate: Gate, patient: None, other: bool
) -> None:
    own = replace(call, clock=OwnClock())
    running = begin(warm, "isolated.polite", own, gate=gate.path, other=other)
    gate.come()
    call.cancelled.set()
    with pytest.raises(RunCancelled, match="gave way"):
        running.result(PATIENCE)


def test_a_body_that_gives_way_when_its_time_is_over_has_timed_out(
    warm: IsolatedSteps, call: StepCall, gate: Gate, patient: None
) -> None:
    late = replace(call, clock=FrozenClock(), deadline=60.0)
    with pytest.raises(StepFailed, match="over its timeout; it gave way") as raised:
        warm.run(TYPES["isolated.polite"], late, {"gate": gate.path})
    assert raised.value.code == "timeout"


def test_secrets_are_had_when_asked_for_and_keep_their_mark(warm: IsolatedSteps, call: StepCall) -> None:
    given: Any = warm.run(TYPES["isolated.secrets"], call, {"secret": Secret("x")})
    assert given == {
        "token": "s3cret",
        "length": 6,
        "input": "Secret",
        "connection": {"url": "https://crm.example", "password": "pa55"},
        "default": "none",
        "unknown": "unknown_secret",
    }
    assert [type(given["token"]), type(given["connection"]["password"])] == [Secret, Secret]


def test_it_asks_the_engine_in_the_thread_of_the_step(warm: IsolatedSteps, call: StepCall) -> None:
    given = warm.run(TYPES["isolated.ask"], call, {})
    assert given == {
        "wait": {"answer": threading.current_thread().name},
        "workflow": {"ran": ["other", {"n": 1}]},
        "job": {"executionId": "job-3", "created": True, "status": "pending"},
        **dict.fromkeys(("children", "branch", "holds", "loop", "parallel", "rule"), "not_supported"),
        "lock": "invalid_value",
    }
    until = NEW_YEAR
    waited = ("signal", {"name": "go", "until": until, "details": {"d": 1}})
    assert cast(Given, call.engine).asked == [{"a": 1}, ("t", {"k": 1}, 2.0), waited]


def test_rows_are_the_same_as_from_here(warm: IsolatedSteps, call: StepCall) -> None:
    there = warm.run(TYPES["isolated.rows"], call, {})
    here = TYPES["isolated.rows"].body(replace(call, store=MemoryStore(FrozenClock()).data), {})
    assert there == here
    assert there["found"][-1][:3] == ["FilterInvalid", "invalid_filter", False]  # type: ignore[index]


def test_threads_of_a_body_ask_at_once(warm: IsolatedSteps, call: StepCall) -> None:
    assert warm.run(TYPES["isolated.threads"], call, {}) == {"done": [0, 1, 2, 3]}
    assert len(call.store.tables()) == 1


def test_an_error_of_the_log_ends_the_process(warm: IsolatedSteps, call: StepCall) -> None:
    def log(level: str, message: str, data: Any = None) -> None:
        raise StoreUnavailable("the store is away")

    with pytest.raises(StoreUnavailable):
        warm.run(TYPES["isolated.write"], replace(call, log=log), {"count": 1, "length": 1})


@pytest.mark.parametrize("what", ["thread", "process"])
def test_a_process_in_which_something_goes_on_is_not_used_again(warm: IsolatedSteps, call: StepCall, what: str) -> None:
    first: Any = warm.run(TYPES["isolated.leave"], call, {"what": what})
    assert not psutil.pid_exists(first["pid"])
    second: Any = warm.run(TYPES["isolated.give"], call, {})
    assert second["pid"] != first["pid"]


def test_a_body_that_forks_ends_once(warm: IsolatedSteps, call: StepCall) -> None:
    first: Any = warm.run(TYPES["isolated.leave"], call, {"what": "fork"})
    second: Any = warm.run(TYPES["isolated.give"], call, {})
    assert second["pid"] == first["pid"]


def test_calls_at_once_have_a_process_each_and_some_are_kept(
    steps: IsolatedSteps, call: StepCall, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.isolation.pool.MAX_IDLE", 1)
    running = [begin(steps, "isolated.meet", call, gate=gate.path) for _ in range(2)]
    came = [gate.come() for _ in range(2)]
    processes = [psutil.Process(pid) for _, pid in came]
    for connection, _ in came:
        connection.sendall(b"g")
    assert {future.result(PATIENCE)["pid"] for future in running} == {process.pid for process in processes}
    assert sum(process.is_running() for process in processes) == 1
    monkeypatch.setattr("flo.engine.isolation.pool.IDLE_SECONDS", 0.0)
    assert steps.run(TYPES["isolated.give"], call, {})
    assert psutil.wait_procs(processes, PATIENCE)[1] == []


@pytest.mark.parametrize("how", ["hear nothing", "block", "haunt"])
def test_its_time_ends_it_with_all_that_it_started(
    warm: IsolatedSteps, call: StepCall, gate: Gate, impatient: None, how: str
) -> None:
    """Also where the body keeps the interpreter's lock, or left behind who cannot be ended."""
    clock = FrozenClock()
    running = begin(warm, "isolated.hang", replace(call, clock=clock, deadline=5.0), gate=gate.path, how=how)
    connection, _ = gate.come()
    clock.forward(timedelta(seconds=5))
    assert connection.recv(1) == b""
    with pytest.raises(StepFailed, match="over its timeout; its process was ended") as raised:
        running.result(PATIENCE)
    assert raised.value.code == "timeout"


def test_closing_ends_every_process(call: StepCall, gate: Gate) -> None:
    steps = IsolatedSteps(lambda name: SOURCE)
    kept: Any = steps.run(TYPES["isolated.give"], call, {})
    running = [begin(steps, "isolated.hang", call, gate=gate.path) for _ in range(2)]
    came = [gate.come() for _ in range(2)]
    steps.close()
    assert not [pid for _, pid in came if psutil.pid_exists(pid)]
    assert [connection.recv(1) for connection, _ in came] == [b"", b""]
    for future in running:
        with pytest.raises(RunCancelled, match="the engine was closed"):
            future.result(PATIENCE)
    assert kept["pid"] in [pid for _, pid in came]
    with pytest.raises(RunCancelled, match="the engine was closed"):
        steps.run(TYPES["isolated.give"], call, {})
