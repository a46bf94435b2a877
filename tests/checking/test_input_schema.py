"""A workflow's ``inputSchema``: checked itself, and then the input against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.checking.load import Checked, check_input
from flo.engine.errors import Problem

Check = Callable[[Any], Checked]
Told = Callable[[Any], list[str]]


def document(schema: Any) -> dict[str, Any]:
    return {"steps": [], "inputSchema": schema}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "strng"}, "inputSchema.type"),
        ({"properties": {"a": {"minimum": "5"}}}, "inputSchema.properties.a.minimum: "),
        ({"properties": {"a": {"pattern": "("}}}, "inputSchema.properties.a.pattern: "),
        ({"properties": []}, "inputSchema.properties: a list came, expected an object"),
        ({"required": "a"}, "inputSchema.required: \"a\" (text) came, expected a list"),
        ({"$ref": "#/$defs/gone"}, "inputSchema.$ref: the reference '#/$defs/gone' leads to no schema"),
        ({"items": {"$ref": "https://example.com/s.json"}}, "inputSchema.items.$ref: the reference"),
        ({"$ref": "#/type", "type": "object"}, "inputSchema.$ref: the reference '#/type' leads to no schema"),
        (5, "inputSchema: 5 came, expected an object or true or false"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_before_the_run(schema: Any, expected: str, told: Told) -> None:
    lines = told(document(schema))
    assert any(line.startswith(expected) for line in lines), lines


def test_every_problem_of_a_schema_is_told(told: Told) -> None:
    assert len(told(document({"properties": {"a": {"minimum": "5"}, "b": {"maxLength": -1}}}))) == 2


def test_an_input_is_held_to_the_schema(check: Check) -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"$ref": "#/$defs/id"}, "n": {"type": "integer"}},
        "$defs": {"id": {"type": "string", "minLength": 3}},
    }
    workflow = check(document(schema)).workflow
    assert check_input(workflow, {"id": "abc", "n": 1.0, "more": True}) == ()
    assert check_input(workflow, {"id": "ab", "n": 1.5}) == (
        Problem("initial.id", "text with 2 characters came, expected at least 3 characters"),
        Problem("initial.n", "1.5 came, expected a whole number"),
    )
    assert check_input(workflow, {}) == (Problem("initial", "'id' is required"),)


def test_true_lets_everything_through_and_false_nothing(check: Check) -> None:
    assert check_input(check(document(True)).workflow, {"a": 1}) == ()
    assert check_input(check(document({})).workflow, {"a": 1}) == ()
    assert len(check_input(check(document(False)).workflow, {})) == 1
    assert check_input(check({"steps": []}).workflow, {"a": 1}) == ()


def test_a_schema_without_an_end_refuses_the_input_and_nothing_worse(check: Check) -> None:
    workflow = check(document({"$ref": "#"})).workflow
    assert check_input(workflow, {}) == (Problem("initial", "it nests too deep to be checked"),)
