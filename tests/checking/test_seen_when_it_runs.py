"""What checking lets a step refer to is there when the step runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flo.engine.app import Flo
from flo.engine.app import open as open_engine
from flo.engine.errors import WorkflowInvalid
from flo.engine.executions import ExecutionState

Shape = Any
"""A step that is not there yet: ``None`` for one that logs, else its kind and the shapes in each of its lists."""

HOLDERS: dict[str, dict[str, Any]] = {
    "core.if": {"condition": True, "then": "steps"},
    "core.switch": {"cases": [{"caseId": "c", "when": True, "steps": "steps"}]},
    "core.try": {"steps": "steps", "finally": "more"},
    "core.parallel": {"steps": "steps"},
    "core.for-each": {"items": [1, 2], "concurrency": 2, "steps": "steps"},
    "core.repeat": {"times": 2, "steps": "steps"},
}


def lists_of(shape: st.SearchStrategy[Shape]) -> st.SearchStrategy[list[Shape]]:
    return st.lists(shape, min_size=1, max_size=3)


shapes = st.recursive(
    st.none(),
    lambda inner: st.tuples(st.sampled_from(sorted(HOLDERS)), lists_of(inner), lists_of(inner), st.integers(0, 7)),
    max_leaves=8,
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Steps in lists, graphs, branches, loops, each of which says something."""
    numbers = count()

    def steps(wanted: list[Shape], graph: bool) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for shape in wanted:
            before = [step["stepId"] for step in made]
            made.append(step(shape))
            if graph and draw(st.booleans()):
                made[-1]["dependsOn"] = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        return made

    def step(shape: Shape) -> dict[str, Any]:
        step_id = f"s{next(numbers)}"
        if shape is None:
            return {"stepId": step_id, "stepType": "core.log", "input": {"message": "x", "data": []}}
        kind, first, second, graph = shape
        held = {"steps": steps(first, graph & 1 and kind != "core.parallel"), "more": steps(second, bool(graph & 2))}

        def filled(value: Any) -> Any:
            if isinstance(value, list):
                return [filled(inner) for inner in value]
            if isinstance(value, dict):
                return {key: filled(inner) for key, inner in value.items()}
            return held.get(value, value) if isinstance(value, str) else value

        return {"stepId": step_id, "stepType": kind, "input": filled(HOLDERS[kind])}

    return {"steps": steps(draw(lists_of(shapes)), draw(st.booleans())), "options": {"strict": True}}


def logs(value: Any) -> Iterator[dict[str, Any]]:
    """Every step that says something."""
    if isinstance(value, dict) and value.get("stepType") == "core.log":
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from logs(inner)


def refer_to_all_that_can_be_seen(document: dict[str, Any], engine: Flo) -> None:
    """Let each step refer to every step that is not refused."""
    ids = re.findall(r"'stepId': '(s\d+)'", repr(document))
    for log in logs(document):
        log["input"]["data"] = [f"<< {step_id}.$meta.success >>" for step_id in ids]
    try:
        engine.load(document)
    except WorkflowInvalid as invalid:
        refused = {(problem.step_id, re.findall(r"\[(\d+)\]$", problem.place)[0]) for problem in invalid.problems}
        for log in logs(document):
            data = log["input"]["data"]
            log["input"]["data"] = [held for at, held in enumerate(data) if (log["stepId"], str(at)) not in refused]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_what_a_step_may_refer_to_is_there_when_it_runs(document: dict[str, Any]) -> None:
    with open_engine("memory:") as engine:
        refer_to_all_that_can_be_seen(document, engine)
        result = engine.run(document)
        assert result.state is ExecutionState.SUCCESS, result.error


def test_everything_that_ran_before_can_be_referred_to() -> None:
    def log(step_id: str) -> dict[str, Any]:
        return {"stepId": step_id, "stepType": "core.log", "input": {"message": "x", "data": []}}

    branch = {"stepId": "s1", "stepType": "core.if", "input": {"condition": True, "then": [log("s2")]}}
    loop = {"stepId": "s3", "stepType": "core.for-each", "input": {"items": [1], "steps": [log("s4"), log("s5")]}}
    document = {"steps": [log("s0"), branch, loop, log("s6")]}
    with open_engine("memory:") as engine:
        refer_to_all_that_can_be_seen(document, engine)
    seen = {log["stepId"]: re.findall(r"s\d", repr(log["input"]["data"])) for log in logs(document)}
    assert seen == {
        "s0": [], "s2": ["s0"], "s4": ["s0", "s1", "s2"], "s5": ["s0", "s1", "s2", "s4"],
        "s6": ["s0", "s1", "s2", "s3"],
    }  # fmt: skip
