"""Every step type has an example: one is made up that fits its schema, or asked for where none can be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time
from typing import Annotated, Any, Literal, cast

import jsonschema
import pytest
from msgspec import Meta

from flo.engine.errors import FloError
from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject
from flo.testing import run_step

from .declared_types import Phone, declare, everything


@pytest.mark.parametrize(
    "schema",
    [
        everything.schema,
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 2}}, "required": ["a"]},
        {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}},
         "required": ["n"]},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 7, "multipleOf": 5}}, "required": ["n"]},
        {"type": "object", "properties": {"t": {"minLength": 40}, "u": {"maxLength": 1, "type": "string"}},
         "required": ["t", "u"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["x"], "properties": {"x": {"const": 5}}}}},
        {"type": "object", "minProperties": 1, "properties": {"a": {"oneOf": [{"type": "null"}, {"enum": ["z"]}]}}},
    ],
)  # fmt: skip
def test_an_example_is_made_up_that_fits_and_is_always_the_same(schema: Any) -> None:
    def body(call: StepCall, input: JsonObject) -> JsonObject:
        return {}

    made = declare(body, schema=schema).example
    jsonschema.Draft202012Validator(schema).validate(made)
    assert made == declare(body, schema=schema).example


def test_the_example_has_what_is_required_and_no_more() -> None:
    assert everything.example == {
        "who": {"name": "name"}, "reach": {"address": "address"}, "at": "2026-01-31T09:00:00Z",
    }  # fmt: skip


def test_every_documented_type_can_be_required() -> None:
    @dataclass
    class Bounded:
        naive: Annotated[datetime, Meta(tz=False)]
        perhaps: Annotated[datetime, Meta(tz=False)] | None
        clock: Annotated[time, Meta(tz=False)]
        zoned: Annotated[time, Meta(tz=True)]
        limits: Annotated[dict[str, int], Meta(min_length=2)]
        anything: Annotated[dict[str, Any], Meta(min_length=1)]
        choices: Annotated[dict[Literal["a", "b"], int], Meta(min_length=2)]
        key: Annotated[bytes, Meta(min_length=10)]
        short: Annotated[bytes, Meta(max_length=3)]

    def body(call: StepCall, input: Bounded) -> JsonObject:
        return {"naive": input.naive.tzinfo is None, "clock": input.clock.tzinfo is None, "key": len(input.key)}

    declared = step_type("test.bounded")(body)
    jsonschema.Draft202012Validator(declared.schema).validate(declared.example)
    assert run_step(declared, declared.example).output == {"naive": True, "clock": True, "key": 12}
    assert len(cast(Any, declared.example["limits"])) == 2


def test_an_example_that_cannot_be_long_enough_is_asked_for() -> None:
    @dataclass
    class Impossible:
        choices: Annotated[dict[Literal["a"], int], Meta(min_length=2)]

    def body(call: StepCall, input: Impossible) -> JsonObject:
        return {}

    with pytest.raises(FloError, match=r"an object of 1 came, expected at least 2"):
        step_type("test.impossible")(body)


def test_an_example_may_hold_templates() -> None:
    def body(call: StepCall, input: Phone) -> JsonObject:
        return {}

    assert declare(body, example={"number": "<< initial.number >>"}).example["number"] == "<< initial.number >>"
