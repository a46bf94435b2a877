"""The quick way to say that a value fits its schema: it never says so of one that does not, and it is enough for what
ships."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from flo.engine.checking.envelope import workflow_schema
from flo.engine.checking.fitting import fits, misfits
from flo.engine.checking.inputs import marks_of
from flo.engine.checking.openness import opened, validator
from flo.engine.registry import Registry

REGISTRY = Registry.installed()
RECIPES = sorted(entry.name for entry in files("flo.recipes").iterdir() if entry.name.endswith(".json"))
OPEN, MIXED = "<< x >>", "a << x >>"

names = st.sampled_from(["a", "b"])
texts = st.sampled_from(["", "a", "b", "ab", OPEN, MIXED])
plain = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0, -1.5]) | texts
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2), max_leaves=6
)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of one to three keywords, with ``inner`` inside them."""
    sizes, forms = st.integers(0, 2), st.lists(inner, min_size=1, max_size=3)
    parts = st.dictionaries(names, inner, max_size=2)
    known = {
        "type": kinds | st.lists(kinds, min_size=1, max_size=2, unique=True),
        "enum": st.lists(st.none() | texts | st.integers(0, 1), min_size=1, max_size=3),
        "const": plain,
        "pattern": st.sampled_from(["^a", "b$", "("]),
        "format": st.just("uuid"),
        "description": texts,
        "x-unknown": st.just(1),
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "other"]),
        "$defs": parts,
        "uniqueItems": st.booleans(),
        "required": st.lists(names, unique=True),
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-1, 1)),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "maxProperties"), sizes),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), forms),
        **dict.fromkeys(("not", "items", "additionalProperties", "contains", "if", "then", "else"), inner),
        **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), parts),
    }
    chosen = st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3, unique=True)
    return chosen.flatmap(lambda words: st.fixed_dictionaries({word: known[word] for word in words}))


schemas = keywords(st.recursive(st.booleans() | st.just({}), keywords, max_leaves=5))


@given(schemas, values)
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example({"not": {"enum": [1]}}, True)
@example({"uniqueItems": True}, [1, 1.0])
@example({"type": "integer"}, 1.0)
@example({"oneOf": [{"type": "string"}, {"type": "number"}]}, OPEN)
@example({"not": {"additionalProperties": False, "patternProperties": {"a": True}}}, {"a": 1})
@example({"not": {"items": False, "prefixItems": [True]}}, [1])
def test_what_fits_the_quick_way_fits_the_whole_schema_too(schema: dict[str, Any], value: Any) -> None:
    if not fits(schema, opened(value, marks_of, {})):
        return
    try:
        assert list(validator(schema).iter_errors(opened(value, marks_of, {}))) == []
    except RecursionError:  # the quick way need not follow a reference that leads to itself
        reject()


@given(schemas, values)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_no_is_as_sure_as_a_yes(schema: dict[str, Any], value: Any) -> None:
    opposite = {"not": {"allOf": [schema]}}
    try:
        assert not fits(opposite, value) or validator(opposite).is_valid(value)
    except RecursionError:
        reject()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_judged_the_quick_way(name: str) -> None:
    document = json.loads(files("flo.recipes").joinpath(name).read_text("utf-8"))
    assert fits(workflow_schema(), document)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_example_of_a_step_type_is_judged_the_quick_way(name: str) -> None:
    assert fits(REGISTRY[name].schema, opened(REGISTRY[name].example, marks_of, {}))


def test_what_does_not_fit_is_told_in_words() -> None:
    (violation,) = misfits({"properties": {"a": {"type": "integer"}}}, {"a": 1.5})
    assert (violation.place, violation.message) == (("a",), "1.5 came, expected a whole number")


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"pattern": "("}, {"minimum": "much"}, {"type": "much"}])
def test_a_broken_schema_is_not_judged(schema: dict[str, Any]) -> None:
    assert not fits(schema, 1 if "minimum" in schema else "x" if "pattern" in schema else None)
