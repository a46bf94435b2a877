"""Checking a resolved input: the quick way says what the whole schema says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flo.engine.checking.load import load
from flo.engine.checking.openness import validator
from flo.engine.errors import StepFailed, WorkflowInvalid
from flo.engine.language.workflow import Recheck
from flo.engine.registry import Registry
from flo.engine.step import StepType
from flo.engine.values import Json, LazyList

OPEN = "<< initial.x >>"


def rechecking(schema: dict[str, Any], given: dict[str, Any]) -> Recheck:
    """What checks the resolved input of a step with this schema and this input."""
    step_type = StepType("t.t", lambda call, input: input, {"type": "object", **schema}, {}, "", "", {})
    document = {"steps": [{"stepId": "s", "stepType": "t.t", "input": given}]}
    return load(document, Registry([step_type])).workflow.block.steps[0].recheck


def said(recheck: Recheck, value: Any) -> str | None:
    """What is said against a value; None where it fits."""
    try:
        recheck(value)
    except StepFailed as failed:
        return failed.message
    return None


class Rows(LazyList):
    """A list that cannot be read whole."""

    def item(self, index: int) -> Json:
        raise AssertionError("checking that it is a list reads none of it")

    def __len__(self) -> int:
        return 1_000_000


@pytest.mark.parametrize("kinds", ["array", ["array", "object"]])
def test_a_list_that_is_read_from_the_store_counts_as_a_list_and_is_not_read(kinds: Json) -> None:
    recheck = rechecking({"properties": {"items": {"type": kinds}}}, {"items": OPEN})
    assert said(recheck, {"items": Rows()}) is None
    recheck = rechecking({"properties": {"items": {"type": "object"}}}, {"items": OPEN})
    assert said(recheck, {"items": Rows()}) == "steps[0].input.items: a list came, expected an object"


class Entries(LazyList):
    """A list whose entries can be read."""

    def __init__(self, *entries: Json) -> None:
        self.entries = entries

    def item(self, index: int) -> Json:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)


def test_the_entries_of_such_a_list_are_checked_where_the_schema_asks_for_it() -> None:
    recheck = rechecking({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}, {"a": OPEN})
    assert said(recheck, {"a": Entries("x", "y")}) is None
    assert said(recheck, {"a": Entries("x", 5)}) == "steps[0].input.a[1]: 5 came, expected text"


FORMS: dict[str, tuple[dict[str, Any], list[Any], list[tuple[Any, str]]]] = {
    "any of several kinds": (
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "enum": ["all"]}]},
        [1, "all"],
        [(0, "0 came, expected at least 1"), ("any", '"any" (text) came, expected a whole number or "all"'),
         (None, 'null came, expected a whole number or text')],
    ),
    "one of two objects": (
        {"oneOf": [{"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {}}},
                   {"type": "object", "required": ["b"], "additionalProperties": False, "properties": {"b": {}}}]},
        [{"a": 1}, {"b": 1}],
        [({"a": 1, "c": 1}, "unknown field 'c'"), ([], "a list came, expected an object")],
    ),
    "a part of the schema by its name": (
        {"$ref": "#/$defs/n"}, [1, 2],
        [(0, "0 came, expected at least 1"), (True, "true came, expected a whole number")],
    ),
    "no booleans for numbers": ({"type": "number"}, [1, 1.5], [(True, "true came, expected a number")]),
    "no 1 for true": ({"enum": [True]}, [True], [(1, "1 came, expected true")]),
}  # fmt: skip


@pytest.mark.parametrize("place", ["field", "entry", "part"])
@pytest.mark.parametrize(("form", "good", "bad"), FORMS.values(), ids=FORMS)
def test_forms_are_told_apart_when_the_value_is_there(
    form: dict[str, Any], good: list[Any], bad: list[tuple[Any, str]], place: str
) -> None:
    fields, around = {
        "field": (form, lambda value: value),
        "entry": ({"type": "array", "items": form}, lambda value: [value]),
        "part": ({"type": "object", "properties": {"k": form}}, lambda value: {"k": value}),
    }[place]
    schema = {"properties": {"f": fields}, "$defs": {"n": {"type": "integer", "minimum": 1}}}
    recheck = rechecking(schema, {"f": around(OPEN)})
    assert [said(recheck, {"f": around(value)}) for value in good] == [None] * len(good)
    for value, message in bad:
        where = {"field": "f", "entry": "f[0]", "part": "f.k"}[place]
        answer = said(recheck, {"f": around(value)})
        assert answer is not None
        assert answer.startswith(f"steps[0].input.{where}")
        assert message in answer


NUMBER = {"properties": {"k": {"type": "integer"}}}
LARGE = {"properties": {"k": {"minimum": 5}}}
AROUND: list[tuple[dict[str, Any], Any, Any, Any]] = [
    ({"type": "array", "uniqueItems": True}, [OPEN, 1], [2, 1], [1, 1]),
    ({"enum": [{"k": 1}, {"k": 2}]}, {"k": OPEN}, {"k": 2}, {"k": 3}),
    ({"const": [1]}, [OPEN], [1], [2]),
    ({"not": {"properties": {"k": {"const": 1}}}}, {"k": OPEN}, {"k": 2}, {"k": 1}),
    ({"contains": {"const": 1}}, [OPEN], [1], [2]),
    ({"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["m"]}}, {"k": OPEN}, {"k": 2}, {"k": 1}),
    ({**NUMBER, "anyOf": [LARGE, {"properties": {"k": {"maximum": 1}}}]}, {"k": OPEN}, {"k": 1}, {"k": 3}),
    ({**NUMBER, "oneOf": [LARGE, {"properties": {"k": {"minimum": 8}}}]}, {"k": OPEN}, {"k": 5}, {"k": 9}),
    ({**NUMBER, "allOf": [LARGE]}, {"k": OPEN}, {"k": 5}, {"k": 4}),
    ({**NUMBER, "$ref": "#/$defs/large"}, {"k": OPEN}, {"k": 5}, {"k": 4}),
    ({**NUMBER, "patternProperties": {"^k": {"minimum": 5}}}, {"k": OPEN}, {"k": 5}, {"k": 4}),
    ({**NUMBER, "dependentSchemas": {"k": LARGE}}, {"k": OPEN}, {"k": 5}, {"k": 4}),
    ({**NUMBER, "additionalProperties": {"minimum": 5}}, {"m": OPEN}, {"m": 5}, {"m": 4}),
    ({"items": {"type": "integer"}, "prefixItems": [{"minimum": 5}]}, [OPEN, 1], [5, 1], [4, 1]),
]


@pytest.mark.parametrize(("schema", "given", "good", "bad"), AROUND, ids=[str(schema) for schema, *_ in AROUND])
def test_what_is_asked_of_the_whole_is_asked_when_all_of_it_is_there(
    schema: dict[str, Any], given: Any, good: Any, bad: Any
) -> None:
    recheck = rechecking({"properties": {"f": schema}, "$defs": {"large": LARGE}}, {"f": given})
    assert said(recheck, {"f": good}) is None
    assert said(recheck, {"f": bad}) is not None


values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 5, 2.5, 1.0, "", "a", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
simple = st.sampled_from(
    [{}, True, {"type": "string"}, {"type": "string", "minLength": 1, "maxLength": 2}, {"type": "boolean"},
     {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5}, {"type": ["array", "null"]}, {"enum": ["a", "abc"]},
     {"enum": [1, True]}, {"const": "a"}, {"type": "integer", "minimum": 1}, {"type": "array", "uniqueItems": True},
     {"pattern": "^a"}, {"not": {"type": "string"}}, {"type": "array", "minItems": 1}, {"$ref": "#/$defs/d"}]
)  # fmt: skip


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    required = st.lists(st.sampled_from("abc"), max_size=1).map(lambda names: {"required": names})
    combined = st.builds(lambda key, held: {key: held}, st.sampled_from(["anyOf", "oneOf", "allOf"]), some)
    presence = st.builds(
        lambda key, held: {key: held}, st.sampled_from(["anyOf", "oneOf"]), st.lists(required, min_size=1)
    )
    listed = st.builds(lambda held: {"type": "array", "items": held}, inner)
    fields = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    object_ = st.builds(
        lambda held, closed, more: {"type": "object", "properties": held, "additionalProperties": not closed, **more},
        fields, st.booleans(), presence | required | combined,
    )  # fmt: skip
    return combined | listed | object_


schemas = st.recursive(simple, containers, max_leaves=8)


@st.composite
def partly_open(draw: st.DrawFn, value: Any) -> Any:
    """The same value, some of it as a template."""
    if draw(st.integers(0, 2)) == 0:
        return OPEN
    if isinstance(value, str) and draw(st.booleans()):
        return f"{OPEN}!"
    if isinstance(value, dict):
        return {key: draw(partly_open(held)) for key, held in value.items()}
    if isinstance(value, list):
        return [draw(partly_open(held)) for held in value]
    return value


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(schemas, st.dictionaries(st.sampled_from("abc"), values, max_size=3), st.data())
def test_what_passes_before_and_when_it_runs_is_what_the_schema_lets_pass(
    part: Any, value: dict[str, Any], data: st.DataObject
) -> None:
    schema = {"properties": dict.fromkeys("abc", part), "$defs": {"d": {"type": ["string", "integer"]}}}
    given = {key: data.draw(partly_open(held)) for key, held in value.items()}
    fits = validator(schema).is_valid(value)
    try:
        recheck = rechecking(schema, given)
    except WorkflowInvalid:
        assert not fits
        return
    assume(given != value or fits)
    assert (said(recheck, value) is None) == fits
