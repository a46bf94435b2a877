"""The step types of the benchmarks."""

from __future__ import annotations

import time
from queue import SimpleQueue
from typing import Final

from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject

NOTHING: Final = "benchmark.nothing"
OUTSIDE: Final = "benchmark.outside"
NOTE: Final = "benchmark.note"

noted: SimpleQueue[float] = SimpleQueue()
"""When ``benchmark.note`` began, by the system's monotonic clock."""


@step_type(NOTHING, schema={"type": "object"}, output={"type": "object"}, example={}, touches=False)
def nothing(call: StepCall, input: JsonObject) -> JsonObject:
    """Do nothing."""
    return {}


@step_type(OUTSIDE, schema={"type": "object"}, output={"type": "object"}, example={})
def outside(call: StepCall, input: JsonObject) -> JsonObject:
    """Do nothing, as a step that acts outside: its end is stored before the next one begins."""
    return {}


@step_type(NOTE, schema={"type": "object"}, output={"type": "object"}, example={}, touches=False)
def note(call: StepCall, input: JsonObject) -> JsonObject:
    """Note when it begins."""
    noted.put(time.monotonic())
    return {}
