"""Lets a benchmark call a step type's body as the engine does, from inside a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flo.engine.app import Flo
from flo.engine.registry import Registry
from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject

T = TypeVar("T")


def with_call(engine: Flo, work: Callable[[StepCall], T]) -> T:
    """Give what ``work`` gives for the call of a step that runs: with its store, its log and its renewals.

    What a run itself costs, before and after, stays outside of what ``work`` measures.
    """
    given: list[T] = []

    @step_type("benchmark.call", schema={"type": "object"}, output={"type": "object"}, example={})
    def call_it(call: StepCall, input: JsonObject) -> JsonObject:
        """Do the work."""
        given.append(work(call))
        return {}

    registry = Registry([*(engine.registry[name] for name in engine.registry), call_it])
    inside = Flo(engine.store, registry, engine.clock)
    result = inside.run({"steps": [{"stepId": "call", "stepType": "benchmark.call"}]})
    if not given:
        raise RuntimeError(f"the run failed: {result.error}")
    return given[0]
