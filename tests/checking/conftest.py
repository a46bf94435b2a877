"""What the tests of checking share: a few small step types, and documents checked against them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flo.engine.checking.load import Checked, load
from flo.engine.errors import Problem, WorkflowInvalid
from flo.engine.registry import BrokenPlugin, Registry
from flo.engine.step import StepType

STEPS = {"type": "array", "items": {"type": "object"}}


def step_type(name: str, schema: Mapping[str, Any], **more: Any) -> StepType:
    """A step type that is never run."""
    return StepType(
        name=name,
        body=lambda call, input: input,
        schema={"type": "object", **schema},
        output_schema=more.pop("output", {"type": "object"}),
        summary="",
        description="",
        example={},
        **more,
    )


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {"required": required, "additionalProperties": False, "properties": properties}


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Step types of every shape."""
    limit = {"type": "integer", "minimum": 1, "maximum": 100}
    where = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/test"}}, {"$ref": "#/$defs/test"}]}
    test = {
        "type": "object",
        "required": ["field"],
        "additionalProperties": False,
        "properties": {"field": {"type": "string"}, "operator": {"enum": ["equals", "lt"]}, "value": {}},
    }
    return Registry(
        [
            step_type("t.any", {}, output={"type": "object"}),
            step_type("t.say", closed(["message"], message={}, level={"type": "string", "enum": ["info", "error"]})),
            step_type(
                "t.read",
                {**closed(["table"], table={"type": "string", "minLength": 2}, limit=limit, where=where),
                 "$defs": {"test": test}},
                output=closed([], rows={"type": "array"}, count={"type": "integer"}),
                exact=("where",),
            ),
            step_type("t.one-of", {**closed([], a={}, b={}), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            step_type("t.if", closed(["when"], when={}, then=STEPS, **{"else": STEPS}), branches=("then", "else"),
                      conditions=("when",)),
            step_type("t.switch", closed(["cases"], cases={"type": "array", "items": closed(["steps"], id={}, when={},
                      steps=STEPS)}, default=STEPS), branches=("cases[].steps", "default"),
                      conditions=("cases[].when",)),
            step_type("t.each", closed(["items", "steps"], items={"type": "array"}, steps=STEPS, concurrency=limit,
                      continueOnError={"type": "boolean"}, until={}), branches=("steps",), loops=("steps",),
                      conditions=("until",), sees={"until": ("$index",)},
                      output=closed([], items={"type": "array"}, count={"type": "integer"})),
            step_type("t.all", closed(["steps"], steps=STEPS), branches=("steps",), parallel=("steps",)),
            step_type("t.try", closed(["steps"], steps=STEPS, **{"catch": STEPS, "finally": STEPS}),
                      branches=("steps", "catch", "finally"),
                      follows={"catch": ("steps",), "finally": ("steps", "catch")}),
            step_type("t.broken", {"properties": {"n": {"minimum": "five"}}}),
            step_type("t.endless", {"properties": {"n": {"$ref": "#/properties/n"}}}),
        ],
        [BrokenPlugin("acme.steps", "acme/steps.py:7", "ImportError: no module named 'gone'")],
    )  # fmt: skip


Document = str | bytes | Mapping[str, Any] | list[Any]


@pytest.fixture
def check(registry: Registry) -> Callable[[Document], Checked]:
    """Check a document, or a list of steps."""

    def checked(document: Document) -> Checked:
        return load({"steps": document} if isinstance(document, list) else document, registry, "flow.json")

    return checked


@pytest.fixture
def problems(check: Callable[[Document], Checked]) -> Callable[[Document], list[Problem]]:
    """Every problem of a document that is wrong."""

    def found(document: Document) -> list[Problem]:
        with pytest.raises(WorkflowInvalid) as caught:
            check(document)
        assert caught.value.source == "flow.json"
        return list(caught.value.problems)

    return found


@pytest.fixture
def told(problems: Callable[[Document], list[Problem]]) -> Callable[[Document], list[str]]:
    """Every problem as ``place: message``, the first line of it."""

    def lines(document: Document) -> list[str]:
        return [f"{problem.place}: {problem.message.splitlines()[0]}" for problem in problems(document)]

    return lines
