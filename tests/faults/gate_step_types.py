"""The step type of the tests that cancel: it stops a loop at a known place, and hears nothing of being cancelled."""

import os
from contextlib import suppress

from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject

OBJECT: JsonObject = {"type": "object"}


@step_type("gate.pass", schema=OBJECT, output=OBJECT, example={}, touches=False)
def gate(call: StepCall, input: JsonObject) -> JsonObject:
    """Let numbers below `last` pass, save for 0; let the others stand at a barrier, whoever asks them to stop. Each is
    told to a test that listens."""
    descriptor = os.open(str(input["begun"]), os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        os.write(descriptor, b".")
    os.close(descriptor)
    number, last = int(str(input["number"])), int(str(input["last"]))
    if not 0 < number < last:
        os.close(os.open(str(input["open"]), os.O_RDONLY))
    return {}
