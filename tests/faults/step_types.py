"""Step types that the worker processes of the fault tests load: they act on files, where no transaction reaches."""

import ctypes
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

from flo.engine.errors import StepFailed
from flo.engine.step import StepCall, step_type
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY
from flo.engine.values import JsonObject

OBJECT: JsonObject = {"type": "object"}


def pulse(path: object) -> None:
    """Say something to a test that listens; one that hears too much already misses it."""
    descriptor = os.open(str(path), os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        os.write(descriptor, b".")
    os.close(descriptor)


@step_type("fault.note", schema=OBJECT, output=OBJECT, example={})
def note(call: StepCall, input: JsonObject) -> JsonObject:
    """Append the step's path to a file: an act that no transaction undoes."""
    with Path(str(input["file"])).open("a", encoding="utf-8") as file:
        file.write(f"{call.path}\n")
    return {"noted": call.path}


@step_type("fault.block", schema=OBJECT, output=OBJECT, example={})
def block(call: StepCall, input: JsonObject) -> JsonObject:
    """Hold the interpreter's lock, so that no thread of this process runs."""
    with Path(str(input["file"])).open("a", encoding="utf-8") as file:
        file.write(f"{call.execution_id}\n")
    pulse(input["begun"])
    ctypes.PyDLL(None).usleep(int(float(str(input["seconds"])) * 1_000_000))
    return {}


@step_type("fault.stall", schema=OBJECT, output=OBJECT, example={})
def stall(call: StepCall, input: JsonObject) -> JsonObject:
    """Say that it has begun, and stand at a barrier before it goes on."""
    pulse(input["begun"])
    os.close(os.open(str(input["go"]), os.O_RDONLY))  # until somebody opens the other end
    return {}


@step_type("fault.die", schema=OBJECT, output=OBJECT, example={})
def die(call: StepCall, input: JsonObject) -> JsonObject:
    """Take the whole process along, where the input says so."""
    if input.get("poison"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


@step_type("fault.count", schema=OBJECT, output=OBJECT, example={})
def count(call: StepCall, input: JsonObject) -> JsonObject:
    """Add one to a row, and then fail every so often: what was added stays added, once."""
    changes = parse_changes([{"field": "n", "operation": "increment", "value": 1}])
    call.store.update("counts", str(input["key"]), EVERY, changes, upsert=True)
    if "pulses" in input:
        pulse(input["pulses"])
    if random.random() < float(str(input.get("chance", 0))):
        raise StepFailed("bad luck", code="bad_luck")
    return {}
