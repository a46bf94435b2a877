"""The step type of the tests that cancel: it stops a loop at a known place, and hears nothing of being cancelled."""

import time
from pathlib import Path

from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject

OBJECT: JsonObject = {"type": "object"}


@step_type("gate.pass", schema=OBJECT, output=OBJECT, example={}, touches=False)
def gate(call: StepCall, input: JsonObject) -> JsonObject:
    """Let numbers below ``last`` pass, save for 0; let the others wait until a file is there, whoever asks them to
    stop."""
    number, last = int(str(input["number"])), int(str(input["last"]))
    if 0 < number < last:
        return {}
    Path(str(input["begun"])).touch()
    while not Path(str(input["open"])).exists():
        time.sleep(0.01)
    return {}
