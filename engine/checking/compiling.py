"""From a checked tree of steps to the records that run: templates, conditions, rules compiled, every path checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from flo.engine.checking.inputs import check_input, rule_places
from flo.engine.checking.problems import Report
from flo.engine.checking.references import check_path
from flo.engine.checking.tree import Names, Node, Siblings, at_place, expand
from flo.engine.errors import ExpressionInvalid, caret
from flo.engine.language.conditions import CompiledCondition, compile_condition
from flo.engine.language.rules import CompiledRule, compile_rule
from flo.engine.language.templates import Template, compile_template, verbatim
from flo.engine.language.workflow import Block, OnFailure, Step
from flo.engine.retry import ONCE, Retry
from flo.engine.values import Json, Place

_CHANGING: Final = frozenset({"$vars", "$util", "$errors"})


class Compiler:
    """Compiles the steps of one document. What does not compile, or refers to what it cannot see, is reported.

    ``shown`` gives a place in the document as people read it.
    """

    def __init__(self, names: Names, report: Report, shown: Callable[[Place], str]) -> None:
        self._names, self._report, self._shown = names, report, shown

    def block(self, siblings: Siblings) -> Block:
        """Compile a list."""
        steps = tuple(self._step(node) for node in siblings.nodes)
        return Block(steps, tuple(siblings.needs), siblings.plain and not siblings.parallel)

    def _step(self, node: Node) -> Step:
        raw, label = node.fields, self._shown(node.place)
        skip = self._condition(raw["skipCondition"], node, ("skipCondition",)) if "skipCondition" in raw else None
        held = {place for branch in node.type.branches for _, place in expand(branch, node.input)}
        conditions: dict[str, CompiledCondition] = {}
        for pattern in node.type.conditions:
            for text, place in expand(pattern, node.input):
                held.add(place)
                more = node.type.sees.get(pattern, ())
                conditions[text] = self._condition(at_place(node.input, place), node, ("input", *place), more)
        rules: dict[str, CompiledRule] = {}
        for pattern, text, place in rule_places(node):
            held.add(place)
            rules[text] = self._rule(at_place(node.input, place), node, ("input", *place), pattern)
        fields = {
            key: verbatim(value)
            if key in node.type.documents
            else self._template(_without(value, held, (key,)), node, ("input", key))
            for key, value in node.input.items()
            if (key,) not in held
        }
        branches = {text: self.block(siblings) for text, siblings in node.branches.items()}
        children = [step for block in branches.values() for step in block.steps]
        timeout_ms = _timeout(raw.get("timeoutMilliseconds"))
        return Step(
            id=node.id,
            type=node.type.name,
            place=label,
            input=fields,
            recheck=check_input(node, label, self._report),
            branches=branches,
            conditions=conditions,
            rules=rules,
            skip=skip,
            depends_on=tuple(map(str, waits)) if isinstance(waits := raw.get("dependsOn"), list) else None,
            on_failure=_on_failure(node),
            retry=retry_of(raw.get("retry")),
            timeout_ms=timeout_ms,
            exact=frozenset(node.type.exact),
            volatile=bool(node.branches) and any(_is_volatile(template) for template in fields.values()),
            shares=node.type.shares and timeout_ms is None and all(block.shares for block in branches.values()),
            commits=node.type.transactional or node.type.touches or any(child.commits for child in children),
        )

    def _template(self, value: Json, node: Node, place: Place) -> Template:
        template = compile_template(value, self._reporter(node, place))
        for inside, path in template.paths:
            check_path(path, (*node.place, *place, *inside), node, self._names, self._report)
        return template

    def _condition(self, value: Json, node: Node, place: Place, more: tuple[str, ...] = ()) -> CompiledCondition:
        condition = compile_condition(value, self._reporter(node, place))
        for inside, path in condition.paths:
            check_path(path, (*node.place, *place, *inside), node, self._names, self._report, more)
        return condition

    def _rule(self, value: Json, node: Node, place: Place, pattern: str) -> CompiledRule:
        rule = compile_rule(value, self._reporter(node, place))
        more = node.type.sees.get(pattern, ())
        for inside, path in rule.paths:
            check_path(path, (*node.place, *place, *inside), node, self._names, self._report, more)
        if rule.constant and not isinstance(value, str):  # text without marks is an error
            what = "nothing in this rule is a template or JSONLogic: it gives the same for every item"
            self._report.warn((*node.place, *place), what)
        return rule

    def _reporter(self, node: Node, place: Place) -> Callable[[Place, ExpressionInvalid], None]:
        def told(inside: Place, problem: ExpressionInvalid) -> None:
            self._report.error((*node.place, *place, *inside), expression_problem(problem))

        return told


def _is_volatile(template: Template) -> bool:
    """Whether a template refers to what changes while a run goes on."""
    return any(path.root in _CHANGING for _, path in template.paths)


def expression_problem(problem: ExpressionInvalid) -> str:
    """A problem of an expression, with the place in it."""
    return f"{problem.message}\n{caret(problem.text, problem.position)}" if problem.text else problem.message


def retry_of(raw: Json) -> Retry:
    """Read ``retry``, which the envelope has checked."""
    if not isinstance(raw, Mapping):
        return ONCE
    known: Any = raw
    return Retry(
        max_attempts=known.get("maxAttempts", 1),
        backoff=known.get("backoff", "fixed"),
        delay_seconds=known.get("delaySeconds", 1.0),
        max_delay_seconds=known.get("maxDelaySeconds", 3600.0),
        jitter=known.get("jitter", 0.0),
        retry_on=frozenset(known["retryOn"]) if "retryOn" in known else None,
    )


def _timeout(raw: Json) -> int | None:
    """0 is no limit."""
    return raw if isinstance(raw, int) and raw > 0 else None


def _on_failure(node: Node) -> OnFailure:
    if node.fields.get("continueOnError") is True or node.tolerant:
        return "continue"
    wanted: Any = node.fields.get("onFailure", "halt")
    chosen: OnFailure = wanted
    return chosen


def _without(value: Json, held: set[Place], place: Place) -> Json:
    """A copy of ``value`` without what stands at the places of ``held``; in a list, null stands there."""
    if not any(other[: len(place)] == place for other in held):
        return value
    if isinstance(value, Mapping):
        return {key: _without(inner, held, (*place, key)) for key, inner in value.items() if (*place, key) not in held}
    if isinstance(value, list):
        return [None if (*place, at) in held else _without(inner, held, (*place, at)) for at, inner in enumerate(value)]
    return value
