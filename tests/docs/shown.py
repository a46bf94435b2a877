"""What pages show: documents that have to pass every check, templates that have to give what is said, and output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flo.engine.app import Flo
from flo.engine.environments.files import parse_settings
from flo.engine.language.conditions import compile_condition
from flo.engine.language.scope import ROOTS, Missing, Scope
from flo.engine.language.templates import compile_template
from flo.engine.language.workflow import Block
from flo.engine.positions import first_problem
from flo.engine.run import utilities
from flo.engine.values import dump
from flo.testing import FrozenClock

NEED_OTHERS: Final = {
    "core.approval",
    "core.http",
    "core.sub-workflow",
    "core.wait",
    "core.wait-for-signal",
    "queue.wait",
}
"""Step types that need a person, a server or another workflow: a document with one of them is checked, not run."""

_DOCUMENT_FIELDS: Final = ("options", "triggers", "inputSchema", "initial", "environment", "tags", "testData")
_STEP_FIELDS: Final = ("retry", "skipCondition", "dependsOn", "onFailure", "continueOnError", "timeoutMilliseconds")
_ROW_FIELDS: Final = ("where", "orderBy", "filterMode")
_LOG: Final = {"stepId": "a-step", "stepType": "core.log", "input": {"message": "x"}}
_JSON: Final = re.compile(r"^[\[{]\n(?:[ ].*\n)+[\]}]$", re.MULTILINE)
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:\d\d)?"), "<instant>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}-[0-9a-f-]{22}\b|…)"), "<id>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b[\d.]+ (?:ms|s|m|h|d)\b(?: \d+ [smh]\b)?"), "<duration>"),
    (re.compile(r"(?<=[^\s│]) {2,}"), "  "),
)


def parsed(text: str) -> Any:
    """JSON as a page shows it; what begins with a key is the inside of an object. Raises ``AssertionError``."""
    whole = text if not text.lstrip().startswith('"') else f"{{{text}}}"
    problem = first_problem(whole)
    assert problem is None, f"no JSON: {problem.message}"
    return json.loads(whole)


def check_document(engine: Flo, value: Any) -> Block | None:
    """Check a workflow, or a part of one, put into the smallest workflow that it can stand in. Gives the steps of what
    was whole. Raises ``AssertionError`` for what is no part of one, ``WorkflowInvalid``."""
    assert isinstance(value, dict), "no object"
    if "operator" in value or value.keys() in ({"any"}, {"all"}):
        value = {"where": [value]}
    if value.keys() <= {"environments", "connections"}:
        parse_settings(dump(value).encode(), "settings")
        return None
    if "steps" in value or "definition" in value:
        checked = engine.check(value)
        assert checked.warnings == (), checked.warnings
        return checked.workflow.block
    if "stepType" in value:
        step = {"stepId": "a-step", **value}
        engine.check({"steps": [*_stood_for(step), _in_loop(step)]})
    elif "type" in value and "config" in value:
        engine.check({"name": "a-workflow", "steps": [_LOG], "triggers": [value]})
    elif value.keys() <= {"set", *_ROW_FIELDS}:
        name = "data-store.atomic-claim" if "set" in value else "data-store.query"
        step = {"stepId": "a-step", "stepType": name, "input": {"tableName": "t", **value}}
        engine.check({"steps": [*_stood_for(step), _in_loop(step)]})
        if compile_template(value).constant:
            assert engine.run({"steps": [step]}).success
    else:
        document = {name: held for name, held in value.items() if name in _DOCUMENT_FIELDS}
        step = {name: held for name, held in value.items() if name in _STEP_FIELDS}
        assert len(document) + len(step) == len(value), f"no part of a workflow: {[*value]}"
        engine.check({"name": "a-workflow", **document, "steps": [*_stood_for(step), {**_LOG, **step}]})
    return None


def types_of(block: Block) -> Iterator[str]:
    """The step types of a list of steps, and of those inside."""
    for step in block.steps:
        yield step.type
        for inside in step.branches.values():
            yield from types_of(inside)


def _in_loop(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step where it sees ``$item``."""
    return {"stepId": "a-loop", "stepType": "core.for-each", "input": {"items": [], "steps": [step]}}


def _stood_for(value: Any) -> list[dict[str, Any]]:
    """A step for each step that the templates of a value refer to and that is not there."""
    own = set(re.findall(r'"stepId": ?"([^"]*)"', dump(value)))
    names = {path.root for _, path in compile_template(value).paths} - ROOTS - own
    names |= set(re.findall(r'"var": ?"([a-z][\w-]*)', dump(value))) - ROOTS - own
    return [{"stepId": name, "stepType": "core.set-variable", "input": {}} for name in sorted(names) if name[0] != "$"]


def evaluated(kind: str, text: str, names: Mapping[str, Any]) -> Any:
    """What a template, an expression or a condition gives, ``names`` in its scope; a missing value is null."""
    scope = Scope({"$util": utilities(FrozenClock()), **names})

    def missing(_: Missing) -> None:
        """Null takes its place."""

    if kind == "condition":
        written = json.loads(text) if text[:1] in '{"' or text in ("true", "false") else text
        return compile_condition(written).holds(scope, missing)
    return compile_template(f"<< {text} >>" if kind == "expression" else text).resolve(scope, missing)


def differs(shown: str, *given: str) -> str:
    """How each output that was given differs from what is shown; empty where one of them does not.

    A line ``…`` stands for any lines, ``…`` in a line for any text. Instants, ids and durations are never the same;
    JSON may be written on one line or on several.
    """
    if _is_json(shown) and _is_json(given[0]):
        return "" if json.loads(shown) == json.loads(given[0]) else f"shown: {shown}\ngiven: {given[0]}"
    pattern = _pattern(shown)
    if any(re.fullmatch(pattern, _settled(output).rstrip("\n"), re.DOTALL) for output in given):
        return ""
    return f"shown:\n{_settled(shown)}\ngiven:\n{_settled(next(filter(None, reversed(given)), ''))}"


def _pattern(shown: str) -> str:
    lines = _settled(shown).rstrip("\n").split("\n")
    written = ["\0" if line.strip() == "…" else re.escape(line).replace("…", "[^\n]*") for line in lines]
    return "\n".join(written).replace("\0\n", "(?:[^\n]*\n)*?").replace("\n\0", "(?:\n[^\n]*)*?").replace("\0", ".*")


def _settled(text: str) -> str:
    for pattern, stands in _VARYING:
        text = pattern.sub(stands, text)
    text = _JSON.sub(lambda found: dump(json.loads(found[0])) if _is_json(found[0]) else found[0], text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
