"""Reads, checks and compiles a document; tells every problem of it in one answer."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from flo.engine.checking.advice import advise
from flo.engine.checking.compiling import Compiler, expression_problem, retry_of
from flo.engine.checking.document import Document, read_document
from flo.engine.checking.envelope import check_document
from flo.engine.checking.gathering import gather
from flo.engine.checking.input_schema import input_violations, schema_violations
from flo.engine.checking.problems import Report
from flo.engine.checking.references import check_early_path
from flo.engine.checking.tree import every
from flo.engine.errors import ExpressionInvalid, InputInvalid, Problem, WorkflowInvalid
from flo.engine.frozen import frozen
from flo.engine.language.templates import Template, compile_template
from flo.engine.language.workflow import Block, Options, Workflow
from flo.engine.registry import Registry
from flo.engine.triggers import WantedTrigger
from flo.engine.values import Json, JsonObject, Place, dump, place_text


@frozen
class Checked:
    """A workflow that can run, and what it probably does not mean."""

    workflow: Workflow
    warnings: tuple[Problem, ...]


def load(data: str | bytes | Mapping[str, Json], registry: Registry, source: str = "workflow") -> Checked:
    """Read, check and compile a document: JSON text, its bytes, or an object.

    Raises ``WorkflowInvalid`` with every problem, in the order of the document. Two stages: the envelope, that is the
    fields of the document and of each step; then each step's input by its own type, and what its templates refer to.
    """
    try:
        document = read_document(data, source)
    except InputInvalid as invalid:
        problem = Problem("", invalid.message, line=invalid.line, column=invalid.column)
        raise WorkflowInvalid(source, [problem]) from invalid
    report = Report()
    compiled = _compile(document, registry, report)
    told = report.told(document)
    if report.failed:
        raise WorkflowInvalid(source, told)
    return Checked(_workflow(document, compiled), told)


@frozen
class _Compiled:
    """What was compiled of a document."""

    block: Block
    concurrency_key: Template | None
    triggers: tuple[WantedTrigger, ...]


def _compile(document: Document, registry: Registry, report: Report) -> _Compiled:
    """Check and compile a document, and check those inside it."""
    check_document(document, report)
    root, names = gather(document.meaning.get("steps"), registry, report)
    block = Compiler(names, report, document.shown).block(root)
    _check_input_schema(document, report)
    triggers = _triggers(document, report)
    key = _concurrency_key(document, report)
    advise(root, document.meaning, report)
    for node in every(root):
        for field in node.type.documents:
            if isinstance(held := node.input.get(field), Mapping):
                _check_inside(held, (*node.place, "input", field), registry, report)
    return _Compiled(block, key, triggers)


def _check_inside(held: JsonObject, place: Place, registry: Registry, report: Report) -> None:
    """Check a document that stands in the input of a step."""
    inside, found = read_document(held, "workflow"), Report()
    if _compile(inside, registry, found).triggers:
        found.warn(("triggers",), "only triggers of a stored workflow fire; this one lies inside another one")
    report.take(found, lambda inner: (*place, *inside.written(inner)))


def check_input(workflow: Workflow, initial: JsonObject) -> tuple[Problem, ...]:
    """What ``inputSchema`` says against an input; nothing where there is no schema, or the input fits."""
    if workflow.input_schema is None:
        return ()
    found = input_violations(workflow.input_schema, initial)
    return tuple(Problem(place_text(("initial", *each.place)), each.message) for each in found)


def _check_input_schema(document: Document, report: Report) -> None:
    schema = document.meaning.get("inputSchema")
    for violation in schema_violations(schema) if isinstance(schema, Mapping) else ():
        report.error(("inputSchema", *violation.place), violation.message)


def _triggers(document: Document, report: Report) -> tuple[WantedTrigger, ...]:
    if not document.meaning.get("triggers"):
        return ()
    from flo.engine.checking.triggers import check_triggers  # and all of schedules, which few documents need

    return check_triggers(document, report, _early_template)


def _early_template(value: Json, place: Place, report: Report) -> Template:
    """Compile a template that is resolved before the run begins."""

    def told(inside: Place, problem: ExpressionInvalid) -> None:
        report.error((*place, *inside), expression_problem(problem))

    template = compile_template(value, told)
    for inside, path in template.paths:
        check_early_path(path, (*place, *inside), report)
    return template


def _concurrency_key(document: Document, report: Report) -> Template | None:
    options = document.meaning.get("options")
    if not isinstance(options, Mapping) or not isinstance(options.get("concurrencyKey"), str):
        return None
    return _early_template(options["concurrencyKey"], ("options", "concurrencyKey"), report)


def _workflow(document: Document, compiled: _Compiled) -> Workflow:
    meaning: Any = document.meaning
    text = document.text if document.text is not None else dump(document.whole)
    schema = meaning.get("inputSchema")
    return Workflow(
        document=document.whole,
        text=text,
        digest=sha256(text.encode()).hexdigest(),
        source=document.source,
        block=compiled.block,
        options=_options(meaning.get("options", {}), compiled.concurrency_key),
        name=meaning.get("name"),
        pinned_id=meaning.get("id"),
        initial=meaning.get("initial", {}),
        input_schema={"not": {}} if schema is False else schema if isinstance(schema, Mapping) else None,
        environment=meaning.get("environment"),
        triggers=compiled.triggers,
    )


def _options(raw: Any, key: Template | None) -> Options:
    return Options(
        timeout_ms=raw.get("timeoutMilliseconds") or None,
        stop_on_error=raw.get("stopOnError", True),
        strict=raw.get("strict", False),
        max_concurrent=raw.get("maxConcurrent"),
        when_full=raw.get("whenFull", "queue"),
        concurrency_key=key,
        retry=retry_of(raw["retry"]) if "retry" in raw else None,
        retention=raw.get("retention"),
    )
