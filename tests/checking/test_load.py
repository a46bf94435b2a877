"""What is told of a document that is no JSON, of its conditions, its templates and its retries, each with its line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.checking.load import Checked
from flo.engine.errors import Problem

Check = Callable[[Any], Checked]
Told = Callable[[Any], list[str]]
Problems = Callable[[Any], list[Problem]]

SOUND = '{"steps": [{"stepId": "a", "stepType": "t.say", "input": {"message": "é"}}]}'


@pytest.mark.parametrize(
    "data",
    [SOUND, SOUND.encode(), codecs.BOM_UTF8 + SOUND.encode(), SOUND.encode("utf-16"),
     codecs.BOM_UTF16_BE + SOUND.encode("utf-16-be"), f"\ufeff{SOUND}", f"\n\t{SOUND}\r\n"],
    ids=["text", "UTF-8", "UTF-8 with a mark", "UTF-16", "UTF-16 the other way", "text with a mark", "blanks around"],
)  # fmt: skip
def test_a_document_is_read_in_every_encoding(data: str | bytes, check: Check) -> None:
    assert check(data).workflow.document == json.loads(SOUND)


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("", 1, 1, "it is empty"),
        ('{"steps": [],\n "steps": []}', 2, 2, "the key 'steps' stands twice"),
        ('{"steps": [\n  {},\n]}', 2, 5, "a comma after the last entry"),
        ('{"steps": [] // none\n}', 1, 14, "JSON has none"),
        ('{"initial": {"n": NaN},\n "steps": []}', 1, 19, "NaN is no JSON number"),
        ('{"steps": [],\n "initial": {"n": 1e400}}', 2, 19, "too large"),
        ('{"initial": ' + "9" * 5000 + "}", 1, 13, "more than 4,300 digits"),
        ('{"initial": ' + "[" * 200 + "]" * 200 + "}", 1, 212, "nesting deeper than 200"),
        ("[" * 100_000, 1, 201, "nesting deeper than 200"),
        ('{"name": "\\ud800", "steps": []}', 1, 11, "half of a surrogate pair"),
        ('{"steps": [],\n "name": "a\\u0000"}', 2, 2, "the character U+0000"),
        ('{"steps": [\n {"stepId": "a", "stepType": "t.say", "input": {"message": {"\\u0000": 1}}}]}', 2, 49,
         "a key with the character U+0000"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_cannot_be_read_or_kept_is_one_problem_with_its_place(
    text: str, line: int, column: int, part: str, problems: Problems
) -> None:
    (problem,) = problems(text)
    assert (problem.line, problem.column) == (line, column)
    assert part in problem.message


@pytest.mark.parametrize(
    ("value", "place", "part"),
    [
        ("a\0", "initial.x[1]", "the character U+0000"),
        ("\ud800", "initial.x[1]", "the character U+D800"),
        ({"\0": 1}, "initial.x[1]", "a key with the character U+0000"),
        ({1: 2}, "initial.x[1]", "the key 1 (no text)"),
        (float("inf"), "initial.x[1]", "inf"),
        ([10**4300], "initial.x[1][0]", "a whole number with more than 4,300 digits"),
        (b"", "initial.x[1]", "a Python bytes"),
        ({1}, "initial.x[1]", "a Python set"),
    ],
)
def test_an_object_with_what_json_cannot_hold_is_refused_with_its_place(
    value: Any, place: str, part: str, problems: Problems
) -> None:
    (problem,) = problems({"steps": [], "initial": {"x": [0, value]}})
    assert problem.place == place
    assert part in problem.message


def test_a_backslash_before_an_escape_is_no_zero_character(check: Check) -> None:
    text = r'{"steps": [], "initial": {"x": "\\u0000"}}'
    assert check(text).workflow.initial == {"x": r"\u0000"}


CONDITIONS: list[tuple[Any, str]] = [
    ("yes", "a condition is a boolean, one expression in marks, a row condition or JSONLogic; text without marks came"),
    ("is << initial.x >>", "one expression in marks, a row condition or JSONLogic; marks with text"),
    ({"and": [], "or": []}, "a row condition or JSONLogic; an object with 2 keys"),
    ({}, "a row condition or JSONLogic; an object with 0 keys"),
    ({"=>": [1, 2]}, "no JSONLogic operator '=>'; did you mean '>'?"),
    ({"var": "gone.x"}, "no step or name 'gone'"),
    ({"!": [{"var": ""}]}, "'var' needs a path here"),
    ({"==": ["<< gone.x >>", 1]}, "no step or name 'gone'"),
    ({"field": "gone.x", "operator": "equals", "value": 1}, "no step or name 'gone'"),
    ({"field": "initial.x", "operator": "eqals", "value": 1}, "'eqals'"),
    ({"any": [{"field": "initial.x", "operator": "equals", "value": "<< gone >>"}]}, "no step or name 'gone'"),
]


@pytest.mark.parametrize(("condition", "part"), CONDITIONS, ids=[json.dumps(held) for held, _ in CONDITIONS])
@pytest.mark.parametrize("place", ["skipCondition", "input.when", "input.cases[0].when", "input.until"])
def test_a_condition_is_checked_wherever_it_stands(condition: Any, part: str, place: str, told: Told) -> None:
    step: dict[str, Any] = {
        "skipCondition": {"stepId": "a", "stepType": "t.any", "skipCondition": condition},
        "input.when": {"stepId": "a", "stepType": "t.if", "input": {"when": condition}},
        "input.cases[0].when": {
            "stepId": "a", "stepType": "t.switch", "input": {"cases": [{"when": condition, "steps": []}]}
        },
        "input.until": {"stepId": "a", "stepType": "t.each", "input": {"items": [], "steps": [], "until": condition}},
    }[place]  # fmt: skip
    (line,) = told([step])
    assert line.startswith(f"steps[0].{place}")
    assert part in line


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{% if initial.x %}", "'if'"),
        ("{% endif %}", "endif"),
        ("{% fi initial.x %}{% endif %}", "'fi'"),
        ("{% for x %}{% endfor %}", "in"),
        ("<< initial.x | nope >>", "no filter 'nope'"),
        ("<< initial.x | replace >>", "'replace'"),
        ("<< 1 + >>", ""),
        ("{{}}", ""),
        ("{% for x in gone %}<< x >>{% endfor %}", "no step or name 'gone'"),
        ("{% assign y = 1 %}<< y >><< z >>", "no step or name 'z'"),
    ],
)
def test_a_template_that_cannot_be_compiled_is_told_with_its_place(text: str, part: str, problems: Problems) -> None:
    step = {"stepId": "a", "stepType": "t.any", "input": {"deep": [{"text": text}]}}
    (problem,) = problems(json.dumps({"steps": [step]}, indent=1))
    assert (problem.place, problem.line, problem.step_id) == ("steps[0].input.deep[0].text", 9, "a")
    assert part in problem.message


@pytest.mark.parametrize("mark", ["<< {} >>", "{{{{ {} }}}}", "<<{}>>", "{{{{{}}}}}", "{{{{\n {} \n}}}}"])
def test_a_reference_is_good_or_bad_whatever_blanks_and_marks_are_around_it(
    mark: str, check: Check, told: Told
) -> None:
    def step(expression: str) -> list[Any]:
        return [{"stepId": "a", "stepType": "t.any", "input": {"x": mark.format(expression)}}]

    assert check(step("initial.name")).warnings == ()
    assert told(step("nostep.name")) == ["steps[0].input.x: no step or name 'nostep'"]


def test_a_slip_that_stands_twice_in_one_text_is_told_once(told: Told) -> None:
    step = {"stepId": "a", "stepType": "t.any", "input": {"x": "<< gone.x >> and << gone.x >>"}}
    assert told([step]) == ["steps[0].input.x: no step or name 'gone'"]


RETRIES: list[tuple[str, list[Any], list[Any]]] = [
    ("maxAttempts", [1, 1000], [0, -1, 1001, 1.5, "3", None, True]),
    ("delaySeconds", [0, 0.5, 31536000], [-1, 31536001, "1", None]),
    ("maxDelaySeconds", [0, 31536000], [-0.1, 31536001, "1"]),
    ("jitter", [0, 0.5, 1], [-0.1, 1.1, "0"]),
    ("backoff", ["fixed", "linear", "exponential"], ["expo", "Fixed", None]),
    ("retryOn", [[], ["timeout", "my_code"]], ["timeout", [5], [None]]),
]


@pytest.mark.parametrize(("field", "good", "bad"), RETRIES, ids=[field for field, _, _ in RETRIES])
def test_every_field_of_retry_has_its_bounds(
    field: str, good: list[Any], bad: list[Any], check: Check, told: Told
) -> None:
    for value in good:
        document = {"steps": [{"stepId": "a", "stepType": "t.any", "retry": {field: value}}]}
        assert check({**document, "options": {"retry": {field: value}}}).warnings == ()
    for value in bad:
        document = {"steps": [{"stepId": "a", "stepType": "t.any", "retry": {field: value}}]}
        in_step, in_options = told({**document, "options": {"retry": {field: value}}})
        assert in_step.startswith(f"steps[0].retry.{field}")
        assert in_options.startswith(f"options.retry.{field}")


def test_the_nearest_right_thing_stands_beside_what_is_required(problems: Problems) -> None:
    text = """{
      "steps": [
        {"stepId": "a", "stepType": "t.say", "input": {"message": ""}},
        {
          "stepId": "each",
          "stepType": "t.each",
          "input": {
            "steps": [],
            "itmes": []
          }
        }
      ]
    }"""
    assert [str(problem) for problem in problems(text)] == [
        "steps[1].input (line 7) in step 'each': 'items' is required",
        "steps[1].input.itmes (line 9) in step 'each': unknown field 'itmes'; did you mean 'items'?",
    ]
