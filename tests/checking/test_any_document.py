"""Whatever comes as a document, checking gives a workflow or says what is wrong, and never anything else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib.resources import files
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from flo.engine.checking.load import load
from flo.engine.errors import InputInvalid, Problem, WorkflowInvalid
from flo.engine.reading import parse_json
from flo.engine.registry import Registry

SOON = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
REGISTRY = Registry.installed()

EVERYTHING: dict[str, Any] = {
    "name": "n",
    "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "array"}}},
    "options": {"concurrencyKey": "<< initial.x >>", "retry": {"maxAttempts": 2}, "timeoutMilliseconds": 5},
    "triggers": [{"type": "schedule", "config": {"schedule": {"cron": "@daily", "initialData": "<< $util.now >>"}}}],
    "steps": [
        {"stepId": "first", "stepType": "core.log", "input": {"message": "<< initial.x | default: 1 >>"}},
        {"stepId": "maybe", "stepType": "core.if", "skipCondition": {"and": [{"var": "initial.x"}, "<< first >>"]},
         "input": {"condition": {"field": "first.level", "operator": "equals", "value": "<< $vars.x >>"},
                   "then": [{"stepId": "t", "stepType": "core.fail", "input": {"message": "{% if first %}{% endif %}"},
                             "retry": {"maxAttempts": 3, "backoff": "linear", "jitter": 0.5}}]}},
        {"stepId": "each", "stepType": "core.for-each", "dependsOn": ["maybe"], "onFailure": "skip",
         "input": {"items": "<< initial.x >>", "concurrency": 2, "steps": [
             {"stepId": "inner", "stepType": "core.set-variable", "input": {"a": ["<< $item.x >>", "<< $index >>"]}}]}},
        {"stepId": "again", "stepType": "core.repeat", "input": {"while": "<< $index < 3 >>", "steps": []}},
        {"stepId": "switch", "stepType": "core.switch", "continueOnError": True,
         "input": {"cases": [{"caseId": "c", "when": True, "steps": []}], "default": []}},
        {"stepId": "claim", "stepType": "data-store.atomic-claim",
         "input": {"tableName": "t", "where": [{"any": [{"field": "a", "operator": "in", "value": ["<< t >>"]}]}]}},
        {"stepId": "update", "stepType": "data-store.atomic-update",
         "input": {"tableName": "t", "key": "{{ claim.claimed[0].key }}", "where": {"field": "claimedBy"},
                   "set": [{"field": "s", "operation": "set", "value": 1}]}},
        {"stepId": "both", "stepType": "core.parallel", "input": {"steps": [
            {"stepId": "try", "stepType": "core.try", "input": {"steps": [], "catch": [], "finally": []}}]}},
    ],
}  # fmt: skip
RECIPES = [
    json.loads(file.read_text()) for file in sorted(files("flo.recipes").iterdir(), key=str) if file.suffix == ".json"
]

templates = st.lists(
    st.sampled_from(
        ["<< ", " >>", "{{ ", " }}", "{% if ", "{% endif %}", "{% for x in ", "{% endfor %}", " %}", "a", "each.items",
         "initial.x", "$item", "$index", "$parent.item", "$util.uiud", "$meta", ".", "[0]", " | ", "default: 1",
         "upcas", "'", '"', "(", ")", " + ", " and ", "not ", "null", "{", "}", ":", ",", "x", "\\", "\n", "é"]
    ),
    max_size=8,
).map("".join)  # fmt: skip
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | templates,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and object of a document, with each of its indexes and keys."""
    for part in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, part
        if isinstance(value[part], dict | list):
            yield from holders(value[part])


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A sound document with a few things changed."""
    document = deepcopy(draw(st.sampled_from([EVERYTHING, *RECIPES])))
    for _ in range(draw(st.integers(0, 4))):
        places = list(holders(document))
        holder, part = draw(st.sampled_from(places)) if places else (document, "steps")
        match draw(st.sampled_from(["replace", "move", "remove", "rename"])):
            case "move" if places:
                other, source = draw(st.sampled_from(places))
                holder[part] = deepcopy(other[source])
            case "remove" if places:
                del holder[part]
            case "rename" if isinstance(holder, dict):
                holder[draw(st.sampled_from(["steps", "input", "stepId"]) | st.text(max_size=3))] = holder.pop(part, 0)
            case _:
                holder[part] = draw(anything | templates)
    return document


def problems_of(document: Any) -> list[Problem]:
    """The problems of a document, warnings too; none where it is a workflow without a warning."""
    try:
        return list(load(document, REGISTRY, "flow.json").warnings)
    except WorkflowInvalid as invalid:
        return list(invalid.problems)


@SOON
@given(documents() | anything)
def test_any_json_is_a_workflow_or_has_problems_in_the_order_of_its_text(document: Any) -> None:
    found = problems_of(json.dumps(document, indent=1))
    assert [problem.line for problem in found] == sorted(problem.line for problem in found)
    assert all(problem.message for problem in found)
    event("sound" if all(problem.severity == "warning" for problem in found) else "unsound")


@SOON
@given(documents())
def test_a_document_has_the_same_problems_as_text_and_as_an_object(document: Any) -> None:
    as_text = [(problem.place, problem.message, problem.step_id) for problem in problems_of(json.dumps(document))]
    assert [(problem.place, problem.message, problem.step_id) for problem in problems_of(document)] == as_text


def refused(read: Callable[[bytes], object], data: bytes) -> str | None:
    """What is said against data; None where it is read."""
    try:
        read(data)
    except (InputInvalid, WorkflowInvalid) as problem:
        return str(problem)
    return None


@SOON
@given(st.binary() | st.text().map(lambda text: text.encode("utf-16")) | templates.map(str.encode))
def test_any_bytes_give_a_value_or_are_refused(data: bytes) -> None:
    said = refused(lambda given: parse_json(given, "it.json"), data)
    assert said is None or said.startswith("it.json")
    assert refused(lambda given: load(given, REGISTRY, "it.json"), data)
