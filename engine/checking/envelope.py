"""The first stage: the fields of the document and of each step, as ``schemas/workflow.schema.json`` has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flo.engine.checking.document import UNDER_DEFINITION, Document
from flo.engine.checking.fitting import fits
from flo.engine.checking.openness import Open, validator
from flo.engine.checking.problems import Report
from flo.engine.checking.violations import Violation, distinct, violations
from flo.engine.language.grammar import LITERALS, OPERATOR_WORDS
from flo.engine.language.marks import has_marks
from flo.engine.language.scope import ROOTS
from flo.engine.values import Json, JsonObject, Place

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_RESERVED: Final = frozenset({*ROOTS, *LITERALS, *OPERATOR_WORDS, "not"})


@cache
def workflow_schema() -> JsonObject:
    """The schema of a workflow, as it ships."""
    text = Path(__file__).parents[2].joinpath("schemas", "workflow.schema.json").read_text(encoding="utf-8")
    schema: JsonObject = json.loads(text)
    return schema


def check_document(document: Document, report: Report) -> None:
    """Check every field of the document but its steps."""
    if document.lone_step:
        return
    whole: Mapping[str, Any] = _with_open_steps(document.whole)
    definition = whole.get("definition")
    if isinstance(definition, Mapping):
        whole = {**whole, "definition": _with_open_steps(definition)}
    if fits(workflow_schema(), whole):
        return
    for error in distinct(_validator().iter_errors(whole)):
        for violation in _said(error):
            report.error(violation.place, violation.message + _template_hint(document.whole, violation.place))


def check_step(step: Json, place: Place, report: Report) -> JsonObject:
    """Check the fields of one step but what is in its ``input``; gives those that are sound."""
    shallow = {**step, "input": {}} if isinstance(step, Mapping) and isinstance(step.get("input"), Mapping) else step
    found = _step_violations(shallow)
    for violation in found:
        report.error((*place, *violation.place), violation.message + _template_hint(step, violation.place))
    unsound = {violation.place[0] for violation in found if violation.place}
    sound = {name: held for name, held in step.items() if name not in unsound} if isinstance(step, Mapping) else {}
    if sound.get("stepId") in _RESERVED:
        what = f"{sound['stepId']!r} means something else in expressions; choose another name"
        report.error((*place, "stepId"), what)
    if sound.get("continueOnError") is True and sound.get("onFailure", "continue") != "continue":
        what = f"'continueOnError' is true, which is 'onFailure': \"continue\"; it says {sound['onFailure']!r}"
        report.error((*place, "onFailure"), what)
    return sound


def _step_violations(step: Json) -> list[Violation]:
    definitions: Any = workflow_schema()["$defs"]
    if fits(definitions["step"], step, workflow_schema()):
        return []
    return violations(_validator().evolve(schema=definitions["step"]).iter_errors(step))


@cache
def _validator() -> Validator:
    return validator(workflow_schema())


def _with_open_steps(fields: JsonObject) -> Mapping[str, Any]:
    """The same fields, nothing known of the steps but how many there are."""
    steps = fields.get("steps")
    return {**fields, "steps": [Open() for _ in steps]} if isinstance(steps, list) else fields


def _said(error: ValidationError) -> Iterable[Violation]:
    if error.validator == "oneOf" and not error.absolute_path and error.context:
        return [Violation((), "'steps' is required")]
    if error.validator == "not":
        name = error.absolute_path[0]
        return [Violation((name,), f"{name!r} stands beside 'definition'; it belongs into it, to 'steps'")]
    found = violations([error])
    if tuple(error.absolute_path) == ("definition",) and error.validator == "additionalProperties":
        return [
            Violation(each.place, f"only {', '.join(map(repr, UNDER_DEFINITION))} stand in 'definition'")
            if each.place[-1] in _top_level()
            else each
            for each in found
        ]
    return found


def _top_level() -> JsonObject:
    properties: Any = workflow_schema()["properties"]
    return properties  # type: ignore[no-any-return]


def _template_hint(value: Any, place: Place) -> str:
    for part in place:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return ""
    return "; a template cannot stand here" if isinstance(value, str) and has_marks(value) else ""
