"""Step types that run in processes of their own, and do there what no step should; as a program, their engine.

Where the input has a ``gate``, the path of a socket, the body connects to it, and says its pid; the test that listens
sees when everybody who has the connection is gone.

``isolated_types.py GATE`` runs one that holds its interpreter's lock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from flo.engine.errors import RunCancelled, StepFailed, StoreUnavailable, ValueRefused
from flo.engine.executions import ExecutionState
from flo.engine.jobs import JobOptions, LeaseLost
from flo.engine.step import Outcome, RunReturned, StepCall, Suspended, step_type
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.values import JsonObject

OBJECT: JsonObject = {"type": "object"}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
calls = 0
left: list[Any] = []


class OwnFailure(StepFailed):
    """An error of a class that only this module has, with what no other process can have."""

    def __init__(self) -> None:
        super().__init__("of its own", code="own", retryable=False, retry_after=7)
        self.lock = threading.Lock()


def connect(given: JsonObject) -> socket.socket:
    """Come to the gate, and say who comes."""
    gate = socket.socket(socket.AF_UNIX)
    gate.connect(str(given["gate"]))
    gate.sendall(f"{os.getpid()}\n".encode())
    return gate


def isolated(name: str) -> Callable[[Callable[[StepCall, Any], Any]], Any]:
    return step_type(name, schema=OBJECT, output=OBJECT, example={}, isolated=True)


@isolated("isolated.give")
def give(call: StepCall, input: Any) -> Any:
    """Give the input back, and who did."""
    global calls
    calls += 1
    return {"given": input, "pid": os.getpid(), "calls": calls}


@isolated("isolated.raise")
def fail(call: StepCall, input: Any) -> Any:
    """Raise something, or give what is no JSON."""
    match input["what"]:
        case "failed":
            raise StepFailed("no", code="no_luck", retryable=False, retry_after=2.5)
        case "own":
            raise OwnFailure
        case "refused":
            raise ValueRefused("a[0]", "a Python set")
        case "cancelled":
            raise RunCancelled("gave way")
        case "returned":
            raise RunReturned({"all": "done"})
        case "returned-lock":
            raise RunReturned({"lock": threading.Lock()})  # type: ignore[dict-item]
        case "suspended":
            raise Suspended(NEW_YEAR)
        case "lost":
            raise LeaseLost("e-1", ExecutionState.RUNNING, "other", 3)
        case "away":
            raise StoreUnavailable("the store is away")
        case "mistake":
            raise KeyError("missing")
        case "exit":
            sys.exit(3)
        case "outcome":
            return Outcome({"status": 500}, ["the server said 500"], ["slow"], retryable=False)
        case "nan":
            return {"a": [float("nan")]}
        case "lock":
            return {"a": threading.Lock()}
    raise AssertionError(input)


@isolated("isolated.die")
def die(call: StepCall, input: Any) -> Any:
    """End the process, or what joins it to its engine."""
    sys.stdout.write("last words\n")
    match input["how"]:
        case "exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "close":
            os.closerange(3, 64)
        case "garbage":
            for descriptor in range(3, 64):
                if _is_socket(descriptor):
                    os.write(descriptor, b"this is no frame at all")
    time.sleep(60)


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def hang(call: StepCall, input: Any) -> Any:
    """Hear nothing, with a process that was started here, until the gate says something."""
    call.store.set("hung", "pid", {"pid": os.getpid()})
    gate = connect(input)
    subprocess.Popen(["sleep", "60"], pass_fds=(gate.fileno(),))
    match input.get("how"):
        case "block":
            ctypes.PyDLL(None).sleep(60)
        case "haunt":
            _haunt(gate)
    return {"heard": gate.recv(1).decode()}


def _haunt(gate: socket.socket) -> None:
    """Leave a process that has left the group, holds the engine's socket open, and writes until nobody reads."""
    if os.fork() == 0:
        gate.close()
        os.setsid()
        while True:
            os.write(1, b"boo\n")
            time.sleep(0.02)


isolated_hang = isolated("isolated.hang")(hang)


@step_type("shared.hang", schema=OBJECT, output=OBJECT, example={})
def shared_hang(call: StepCall, input: Any) -> Any:
    """Hear nothing in the engine's own process until the gate says something."""
    gate = connect(input)
    heard = gate.recv(1).decode()
    call.log("info", "late")
    gate.close()
    return {"heard": heard}


@isolated("isolated.meet")
def meet(call: StepCall, input: Any) -> Any:
    """Wait at the gate until it says something."""
    with connect(input) as gate:
        return {"heard": gate.recv(1).decode(), "pid": os.getpid()}


@isolated("isolated.polite")
def polite(call: StepCall, input: Any) -> Any:
    """Give way when asked to: while it waits for that, or for something else by the clock of the call."""
    event = threading.Event() if input.get("other") else call.cancelled
    with connect(input) as gate:
        call.clock.wait(event, 60)
        gate.sendall(b"tidy")
    raise RunCancelled("gave way")


@isolated("isolated.hang-once")
def hang_once(call: StepCall, input: Any) -> Any:
    """Hang at the first attempt; say at the next one whether that process is there."""
    return hang(call, input) if call.attempt == 1 else present(call, input)


def present(call: StepCall, input: Any) -> Any:
    """Say whether the process that hung is there."""
    row = call.store.get("hung", "pid")
    assert row is not None
    assert isinstance(row.value, dict)
    try:
        os.kill(int(str(row.value["pid"])), 0)
    except ProcessLookupError:
        return {"present": False}
    return {"present": True}


shared_present = step_type("shared.present", schema=OBJECT, output=OBJECT, example={})(present)


@isolated("isolated.write")
def write(call: StepCall, input: Any) -> Any:
    """Write lines."""
    for _ in range(input["count"]):
        sys.stdout.write("x" * input["length"] + "\n")
    return {}


@isolated("isolated.speak")
def speak(call: StepCall, input: Any) -> Any:
    """Log, and write to where programs write."""
    call.log("info", "first", {"n": 1})
    call.log("warn", "second")
    subprocess.run(["sh", "-c", "printf 'from a program\\n\\nwithout an end'; echo aside >&2"], check=True)
    sys.stdin.read()
    return {}


@isolated("isolated.leave")
def leave(call: StepCall, input: Any) -> Any:
    """Leave something behind that goes on, or twice the body."""
    match input["what"]:
        case "thread":
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        case "process":
            left.append(subprocess.Popen(["sleep", "60"]))
        case "fork":
            if (forked := os.fork()) == 0:
                raise RuntimeError("in the fork")
            os.waitpid(forked, 0)
    return {"pid": os.getpid()}


@isolated("isolated.fields")
def fields(call: StepCall, input: Any) -> Any:
    """Say what the call is."""
    before = call.clock.now(), call.clock.monotonic()
    waited = [call.clock.wait(event, 5) for event in (threading.Event(), call.cancelled)]
    return {
        "names": [call.step_id, call.path, call.execution_id, call.attempt, call.idempotency_key],
        "left": None if call.deadline is None else call.deadline - before[1],
        "clock": type(call.clock).__name__,
        "now": before[0].isoformat(),
        "waited": waited,
        "passed": (call.clock.now() - before[0]).total_seconds(),
    }


@isolated("isolated.secrets")
def secrets(call: StepCall, input: Any) -> Any:
    """Give secrets back, as they are and as text made of one."""
    token = call.secrets["TOKEN"]
    return {
        "token": token,
        "length": len(str(token)),
        "input": type(input["secret"]).__name__,
        "connection": call.secrets.connection("crm"),
        "default": call.secrets.get("NONE", "none"),
        "unknown": _code(lambda: call.secrets["TOKENS"]),
    }


@isolated("isolated.ask")
def ask(call: StepCall, input: Any) -> Any:
    """Ask for everything that an engine may be asked for."""
    engine = call.engine
    engine.set_variables({"a": 1})
    engine.keep_claimed("t", {"k": 1}, 2.0)
    return {
        "wait": engine.wait("signal", name="go", until=NEW_YEAR, details={"d": 1}),
        "workflow": engine.run_workflow("other", {"n": 1}),
        "job": engine.enqueue("job", {}, JobOptions(priority=3)).as_json(),
        "children": _code(lambda: call.run_children()),
        "branch": _code(lambda: engine.has_branch("steps")),
        "holds": _code(lambda: engine.holds("while")),
        "loop": _code(lambda: engine.loop("steps", [])),
        "parallel": _code(lambda: engine.run_parallel("steps", 2)),
        "rule": _code(lambda: engine.rule("by")),
        "lock": _code(lambda: engine.set_variables({"lock": threading.Lock()})),  # type: ignore[dict-item]
    }


def _code(work: Callable[[], object]) -> str:
    """The code of the failure that ``work`` raises."""
    try:
        work()
    except StepFailed as failed:
        return failed.code
    return "none"


@isolated("isolated.rows")
def rows(call: StepCall, input: Any) -> Any:
    """Do everything that can be done with rows."""
    store = call.store
    where = parse_where([{"field": "n", "operator": "gte", "value": 2}])
    more = parse_changes([{"field": "n", "operation": "increment", "value": 10}])
    found: list[Any] = [
        asdict(store.set("t", "a", {"n": 1}, ttl=timedelta(hours=1))),
        asdict(store.set("t", "a", {"n": 2}, if_absent=True)),
        store.set_many("t", [("b", {"n": 2}), ("c", {"n": 3})]),
        asdict(store.query("t", where, limit=1)),
        store.get("t", "nothing"),
        store.count("t", EVERY),
        asdict(store.update("t", "c", EVERY, more)),
        [asdict(row) for row in store.claim("t", where, (), limit=5, holder="me", changes=more)],
        store.renew("t", {"b": 1, "c": 9}, holder="me"),
        store.delete("t", where),
        [asdict(table) for table in store.tables()],
        store.remove_expired(),
        store.now().isoformat(),
    ]
    try:
        store.update("t", "a", EVERY, parse_changes([{"field": "n", "operation": "append", "value": 1}]))
    except StepFailed as failed:
        found.append([type(failed).__name__, failed.code, failed.retryable, str(failed), vars(failed)])
    return {"found": found}


@isolated("isolated.count")
def count(call: StepCall, input: Any) -> Any:
    """Add one to a row, and die at the first attempt."""
    changes = parse_changes([{"field": "n", "operation": "increment", "value": 1}])
    row = call.store.update("counts", "k", EVERY, changes, upsert=True).row
    if call.attempt == 1:
        os._exit(1)
    assert row is not None
    return {"row": row.value, "attempt": call.attempt}


@isolated("isolated.threads")
def threads(call: StepCall, input: Any) -> Any:
    """Ask from many threads at once."""

    def work(number: int) -> None:
        for round in range(20):
            call.store.set("t", f"{number}-{round}", {"n": number})
            row = call.store.get("t", f"{number}-{round}")
            assert row is not None
            assert row.value == {"n": number}
        done.append(number)

    done: list[int] = []
    started = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return {"done": sorted(done)}


def main(gate: str) -> None:
    from flo.engine.app import open

    with open("memory:", steps=[__file__]) as engine:
        given: Any = {"gate": gate, "how": "block"}
        engine.run({"steps": [{"stepId": "s", "stepType": "isolated.hang", "input": given}]})


if __name__ == "__main__":
    main(sys.argv[1])
