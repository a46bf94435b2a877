"""The fields of a document and of its steps, in every shape a document may come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flo.engine.checking.load import Checked
from flo.engine.errors import Problem, WorkflowInvalid

SAY: dict[str, Any] = {"stepId": "a", "stepType": "t.say", "input": {"message": "hello"}}

Check = Callable[[Any], Checked]
Told = Callable[[Any], list[str]]
Problems = Callable[[Any], list[Problem]]


def with_step(**fields: Any) -> dict[str, Any]:
    return {"steps": [{**SAY, **fields}]}


GOOD: list[Any] = [
    {"steps": []},
    {"steps": [SAY]},
    {"definition": {"steps": [SAY], "initial": {}, "options": {"strict": True}}, "name": "n", "isPublic": True},
    {"steps": [], "name": "n", "id": "i", "description": "", "tags": ["t"], "testData": 5, "parameters": []},
    {"steps": [], "options": {"timeoutMilliseconds": 0, "executionMode": "x", "workerTier": 3, "whenFull": "reject"}},
    {"steps": [], "triggers": [{"name": "t", "type": "schedule", "config": {"schedule": {"cron": "* * * * *"}}}]},
    {"steps": [], "inputSchema": {"type": "object"}, "$schema": "./workflow.schema.json"},
    with_step(skipCondition=True, continueOnError=True, onFailure="continue", description="", dependsOn=[]),
    with_step(retry={"maxAttempts": 3, "backoff": "linear", "jitter": 0.5, "retryOn": ["timeout"]}),
    with_step(timeoutMilliseconds=5000, stepId="A-b_9"),
]

BAD: list[tuple[Any, str]] = [
    ({}, ": 'steps' is required"),
    ({"stpes": []}, "stpes: unknown field 'stpes'; did you mean 'steps'?"),
    ({"steps": {}}, "steps: an object came, expected a list"),
    ({"steps": [], "name": 5}, "name: 5 came, expected text"),
    ({"steps": [], "nmae": "x"}, "nmae: unknown field 'nmae'; did you mean 'name'?"),
    ({"steps": [], "initial": []}, "initial: a list came, expected an object"),
    ({"steps": [], "options": {"strcit": True}}, "options.strcit: unknown field 'strcit'; did you mean 'strict'?"),
    ({"steps": [], "options": {"maxConcurrent": 0}}, "options.maxConcurrent: 0 came, expected at least 1"),
    ({"steps": [], "options": {"timeoutMilliseconds": -1}},
     "options.timeoutMilliseconds: -1 came, expected at least 0"),
    ({"steps": [], "options": {"whenFull": "rejct"}},
     'options.whenFull: "rejct" (text) came, expected "queue" or "reject"; did you mean \'reject\'?'),
    ({"steps": [], "triggers": [{"type": "cron"}]},
     'triggers[0].type: "cron" (text) came, expected "schedule", "webhook", "manual" or "event"'),
    ({"steps": [], "definition": {"steps": []}}, ": 'steps' and 'definition' exclude each other"),
    ({"definition": {"steps": [], "name": "x"}},
     "definition.name: only 'steps', 'initial', 'environment', 'options' stand in 'definition'"),
    ({"definition": {"steps": []}, "options": {}},
     "options: 'options' stands beside 'definition'; it belongs into it, to 'steps'"),
    ({"definition": {"initial": {}}}, "definition: 'steps' is required"),
    ({"steps": [5]}, "steps[0]: 5 came, expected an object"),
    ({"steps": [{"stepId": "a"}]}, "steps[0]: 'stepType' is required"),
    (with_step(stepId="1a"), "steps[0].stepId: \"1a\" (text) came"),
    (with_step(stepId="a b"), "steps[0].stepId: \"a b\" (text) came"),
    (with_step(stepId=""), "steps[0].stepId: \"\" (text) came"),
    (with_step(inptu={}), "steps[0].inptu: unknown field 'inptu'"),
    (with_step(input=[]), "steps[0].input: a list came, expected an object"),
    (with_step(continueOnError="yes"), "steps[0].continueOnError: \"yes\" (text) came, expected true or false"),
    (with_step(onFailure="stop"), "steps[0].onFailure: \"stop\" (text) came"),
    (with_step(timeoutMilliseconds=1.5), "steps[0].timeoutMilliseconds: 1.5 came, expected a whole number"),
    (with_step(timeoutMilliseconds="{{ initial.x }}"), "steps[0].timeoutMilliseconds: \"{{ initial.x }}\" (text) came,"
     " expected a whole number; a template cannot stand here"),
    (with_step(retry={"maxAttempts": 0}), "steps[0].retry.maxAttempts: 0 came, expected at least 1"),
    (with_step(retry={"jitter": 2}), "steps[0].retry.jitter: 2 came, expected at most 1"),
    (with_step(retry={"attempts": 2}), "steps[0].retry.attempts: unknown field 'attempts'; did you mean 'maxAttempts'"),
    (with_step(dependsOn="b"), "steps[0].dependsOn: \"b\" (text) came, expected a list"),
    (with_step(dependsOn=["b", "b"]), "steps[0].dependsOn: an entry stands twice"),
    (with_step(skipCondition=5), "steps[0].skipCondition: 5 came, expected true or false, text or an object"),
]  # fmt: skip


@pytest.fixture(scope="module")
def published() -> Draft202012Validator:
    text = files("flo.schemas").joinpath("workflow.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("document", GOOD, ids=json.dumps)
def test_a_sound_document_passes_here_and_by_the_published_schema(
    document: Any, check: Check, published: Draft202012Validator
) -> None:
    assert check(document).warnings == ()
    assert published.is_valid(document)


@pytest.mark.parametrize(("document", "expected"), BAD, ids=lambda value: json.dumps(value)[:60])
def test_an_unsound_document_is_refused_here_and_by_the_published_schema(
    document: Any, expected: str, told: Told, published: Draft202012Validator
) -> None:
    assert any(line.startswith(expected) for line in told(document)), told(document)
    assert not published.is_valid(document)


@pytest.mark.parametrize("document", ["[]", "5", '"steps"', "null"])
def test_what_is_no_object_is_no_workflow(document: str, told: Told) -> None:
    (line,) = told(document)
    assert "a workflow is an object with 'steps'" in line


def test_what_is_no_json_is_one_problem_with_its_place(problems: Problems) -> None:
    (problem,) = problems('{"steps": [\n],}')
    assert (problem.line, problem.column) == (2, 2)
    assert "a comma after the last entry" in problem.message


def test_what_no_store_can_hold_is_refused_with_its_place(told: Told, problems: Problems) -> None:
    assert told({"steps": [], "initial": {"n": float("nan")}}) == ["initial.n: nan cannot be stored as JSON"]
    (problem,) = problems('{"steps": [],\n "initial": {"n": "a\\u0000"}}')
    assert (problem.place, problem.line) == ("initial.n", 2)
    assert problem.message == "the character U+0000 cannot be stored as JSON"


def test_the_shape_of_servers_means_the_same(check: Check, problems: Problems) -> None:
    workflow = check({"name": "n", "definition": {"steps": [SAY], "initial": {"x": 1}}}).workflow
    assert (workflow.name, workflow.initial, workflow.block.steps[0].id) == ("n", {"x": 1}, "a")
    (problem,) = problems('{"definition": {"steps": [\n{"stepId": "a", "stepType": "t.say"}]}}')
    assert (problem.place, problem.line, problem.step_id) == ("definition.steps[0].input", 2, "a")


def test_one_step_alone_is_a_workflow(check: Check, problems: Problems) -> None:
    workflow = check(json.dumps(SAY)).workflow
    assert [(step.id, step.place) for step in workflow.block.steps] == [("a", "steps[0]")]
    (problem,) = problems('{"stepId": "a",\n "stepType": "t.say",\n "input": {\n  "message": "<< nobody >>"}}')
    assert (problem.place, problem.line, problem.column) == ("steps[0].input.message", 4, 3)


@pytest.mark.parametrize("name", ["initial", "true", "nil", "and", "if", "not", "empty"])
def test_a_step_cannot_have_a_name_that_means_something_else(name: str, told: Told) -> None:
    assert any("means something else in expressions" in line for line in told(with_step(stepId=name)))


def test_continue_on_error_and_on_failure_cannot_contradict(told: Told, check: Check) -> None:
    (line,) = told(with_step(continueOnError=True, onFailure="skip"))
    assert line.startswith("steps[0].onFailure: 'continueOnError' is true")
    assert check(with_step(continueOnError=False, onFailure="skip")).workflow.block.steps[0].on_failure == "skip"


def test_fields_reach_the_records(check: Check) -> None:
    document = {
        "name": "n", "id": "pin", "environment": "prod", "initial": {"a": 1},
        "options": {"timeoutMilliseconds": 5, "stopOnError": False, "strict": True, "maxConcurrent": 2,
                    "whenFull": "reject", "concurrencyKey": "k-<< initial.a >>", "retry": {"maxAttempts": 2}},
        "steps": [{**SAY, "timeoutMilliseconds": 9, "continueOnError": True,
                   "retry": {"maxAttempts": 4, "backoff": "exponential", "delaySeconds": 2, "retryOn": ["timeout"]}},
                  {**SAY, "stepId": "b", "timeoutMilliseconds": 0}],
    }  # fmt: skip
    workflow = check(json.dumps(document)).workflow
    assert (workflow.name, workflow.pinned_id, workflow.environment) == ("n", "pin", "prod")
    options = workflow.options
    assert (options.timeout_ms, options.stop_on_error, options.strict, options.max_concurrent) == (5, False, True, 2)
    assert options.concurrency_key is not None
    assert not options.concurrency_key.constant
    assert options.retry is not None
    assert options.retry.max_attempts == 2
    first, second = workflow.block.steps
    assert (first.timeout_ms, first.on_failure, second.timeout_ms, second.on_failure) == (9, "continue", None, "halt")
    assert (first.retry.max_attempts, first.retry.backoff, first.retry.retry_on) == (4, "exponential", {"timeout"})


def test_the_digest_tells_texts_apart(check: Check) -> None:
    first, second = json.dumps({"steps": [SAY]}), json.dumps({"steps": [{**SAY, "stepId": "b"}]})
    assert check(first).workflow.digest == check(first.encode()).workflow.digest != check(second).workflow.digest
    assert check(first).workflow.text == first


def test_many_problems_come_in_one_answer_in_the_order_of_the_document(problems: Problems) -> None:
    text = """{
      "nmae": "x",
      "steps": [
        {"stepId": "a", "stepType": "t.sya", "input": {}},
        {"stepId": "b", "stepType": "t.say", "input": {"mesage": 1}, "retyr": {}},
        {"stepId": "b", "stepType": "t.say", "input": {"message": "<< c.x >> << initial.x | upcas >>"}}
      ],
      "options": {"strict": 1}
    }"""
    found = problems(text)
    assert [problem.line for problem in found] == sorted(problem.line for problem in found)
    assert [(problem.place, problem.step_id) for problem in found] == [
        ("nmae", None),
        ("steps[0].stepType", "a"),
        ("steps[1].input", "b"),
        ("steps[1].input.mesage", "b"),
        ("steps[1].retyr", "b"),
        ("steps[2].stepId", "b"),
        ("steps[2].input.message", "b"),
        ("options.strict", None),
    ]
    assert "steps[1].retyr (line 5) in step 'b': unknown field 'retyr'; did you mean 'retry'?" in str(
        WorkflowInvalid("flow.json", found)
    )
