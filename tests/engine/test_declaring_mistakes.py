"""A wrong declaration of a step type says what is wrong."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from flo.engine.errors import FloError
from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject

from .declared_types import declare, everything


async def asynchronous(call: StepCall, input: JsonObject) -> JsonObject:
    return {}


async def streaming(call: StepCall, input: JsonObject) -> AsyncIterator[JsonObject]:
    yield {}


def generating(call: StepCall, input: JsonObject) -> Iterator[JsonObject]:
    yield {}


def alone(call: StepCall) -> JsonObject:
    return {}


def crowded(call: StepCall, input: JsonObject, more: int) -> JsonObject:
    return {}


def gives_text(call: StepCall, input: JsonObject) -> str:
    return ""


def gives_nothing(call: StepCall, input: JsonObject) -> None: ...


def takes_number(call: StepCall, input: int) -> JsonObject:
    return {}


def takes_unknown(call: StepCall, input: Nowhere) -> JsonObject:  # type: ignore[name-defined]  # noqa: F821
    return {}


@dataclass
class Unfit:
    number: complex


def takes_unfit(call: StepCall, input: Unfit) -> JsonObject:
    return {}


@dataclass
class Keyed:
    held: dict[int, str]


def takes_keyed(call: StepCall, input: Keyed) -> JsonObject:
    return {}


def plain(call: StepCall, input: JsonObject) -> JsonObject:
    return {}


@pytest.mark.parametrize(
    ("function", "settings", "said"),
    [
        (plain, {"name": "greet"}, "'greet' is no name for a step type; write category.name"),
        (plain, {"name": plain}, 'write @step_type("category.name")'),
        (asynchronous, {}, "it is async: a step type is a plain function"),
        (streaming, {}, "it is async"),
        (generating, {}, "it is a generator: a step type is a plain function that returns its output"),
        (alone, {}, "a step type is a function of two parameters: call, and input (too many positional arguments)"),
        (crowded, {}, "(missing a required argument: 'more')"),
        (gives_text, {}, "it returns str: a step gives an object"),
        (gives_nothing, {}, "it returns None: a step gives an object"),
        (takes_number, {}, "the input cannot be int: it is a dict, a dataclass or a TypedDict"),
        (takes_unknown, {}, "the type 'Nowhere' of its input cannot be found when it is declared"),
        (takes_unfit, {}, "the field 'number' of Unfit has the type complex, which JSON cannot give"),
        (takes_keyed, {}, "the field 'held' of Keyed has keys of the type int: in JSON keys are text"),
        (inspect.unwrap(everything.body), {"schema": {"type": "objekt"}}, "the schema is none: type: 'objekt'"),
        (plain, {"schema": {"type": "object", "required": ["a"]}, "example": {}}, "'a' is a required property"),
        (plain, {"schema": {"properties": {"a": {"pattern": "^[xyz]{3}$"}}, "required": ["a"]}}, "give one, as"),
        (plain, {"isolated": True, "branches": ("steps",)}, "runs in a process of its own: no children"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_says_what_is_wrong(function: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FloError) as refused:
        declare(function, **settings)
    assert said in str(refused.value)


def test_the_decorator_alone_is_refused() -> None:
    with pytest.raises(FloError, match=r"^write @step_type\(\"category\.name\"\)"):

        @step_type  # type: ignore[arg-type]
        def body(call: StepCall, input: JsonObject) -> JsonObject:
            return {}


def test_a_required_field_that_is_never_given_is_refused() -> None:
    @dataclass
    class Steps:
        steps: list[Any]

    with pytest.raises(FloError, match="the field 'steps' is never given to the function"):

        @step_type("test.steps", branches=("steps",))
        def body(call: StepCall, input: Steps) -> JsonObject:
            return {}
