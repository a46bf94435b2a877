"""Conditions: a boolean, one expression in marks, JSONLogic, or the tests that ``where`` of the data store takes.

Templates inside JSONLogic and tests are resolved first, with their types; what they give is data, never a rule. A
result counts as JSONLogic counts it: false, null, 0, empty text and the empty list are no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Any, cast

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.language.field_tests import Fail, Paths, compile_tests, enter, is_tests
from flo.engine.language.logic import Rule, compile_rule, look_into
from flo.engine.language.logic_operators import truthy
from flo.engine.language.paths import Path
from flo.engine.language.scope import META, Missing, OnMissing, Scope
from flo.engine.language.templates import Text, compile_text
from flo.engine.secrecy import Lost
from flo.engine.values import Json, Place, kind_of, place_text, shown

Evaluate = Callable[[Scope, OnMissing], Json]
Report = Callable[[Place, ExpressionInvalid], None]


@frozen
class CompiledCondition:
    """A compiled condition. ``paths`` is every path that it refers to, with the place of the string it stands in."""

    paths: tuple[tuple[Place, Path], ...]
    run: Evaluate = field(repr=False, compare=False)

    def holds(self, scope: Scope, on_missing: OnMissing) -> bool:
        """Say whether the condition holds. Raises ``TemplateFailed`` with a place relative to the condition."""
        return truthy(self.run(scope, on_missing))


def compile_condition(value: Json, report: Report | None = None) -> CompiledCondition:
    """Compile a condition. Problems go to ``report`` with their place in the condition; without it the first one is
    raised as ``ExpressionInvalid``."""
    paths: Paths = []

    def fail(place: Place, problem: ExpressionInvalid) -> None:
        if report is None:
            raise problem
        report(place, problem)

    try:
        run = _compile(value, fail, paths)
    except RecursionError:
        fail((), ExpressionInvalid("the condition nests too deep", "", 0))
        run = _never
    return CompiledCondition(tuple(paths), run)


def _never(scope: Scope, on_missing: OnMissing) -> Json:
    return False


def _compile(value: Json, fail: Fail, paths: Paths) -> Evaluate:
    if isinstance(value, bool):
        return lambda scope, on_missing: value
    if isinstance(value, str):
        return _expression(value, fail, paths)
    if is_tests(value):
        holds = compile_tests(value, fail, paths)
        return lambda scope, on_missing: holds(scope)
    if isinstance(value, Mapping):
        if len(value) != 1:
            return _misfit(dict(value), fail, f"an object with {len(value)} keys came, where JSONLogic has one")
        return compile_logic(value, fail, paths)
    return _misfit(value, fail, f"{kind_of(value)} came")


def _misfit(value: Json, fail: Fail, what: str) -> Evaluate:
    message = f"a condition is a boolean, one expression in marks, a row condition or JSONLogic; {what}"
    fail((), ExpressionInvalid(message, shown(value), 0))
    return _never


def _expression(value: str, fail: Fail, paths: Paths) -> Evaluate:
    try:
        text = compile_text(value)
    except ExpressionInvalid as problem:
        fail((), problem)
        return _never
    if not text.lone:
        return _misfit(value, fail, "text without marks came" if text.constant else "marks with text around them came")
    paths.extend(((), path) for path in text.paths)
    return text.run


def compile_logic(value: Mapping[str, Json], fail: Fail, paths: Paths) -> Evaluate:
    """Compile JSONLogic, an object with one key. Problems go to ``fail`` with their place in it; what it refers to is
    added to ``paths``."""
    for place in _places_of_tests(value, ()):
        message = (
            "a row condition means nothing inside JSONLogic; group some with 'all' or 'any', or compare with 'var'"
        )
        fail(place, ExpressionInvalid(message, "", 0))
    texts: list[tuple[Place, Text]] = []

    def leaf(string: str, place: Place) -> int | None:
        try:
            text = compile_text(string)
        except ExpressionInvalid as problem:
            fail(place, problem)
            return None
        if text.constant:
            return None
        texts.append((place, text))
        paths.extend((place, path) for path in text.paths)
        return len(texts) - 1

    rule = compile_rule(dict(value), leaf, fail)
    for place, path in rule.variables:
        if path:
            root, *segments = path.split(".")
            paths.append((place, Path(root, tuple(segments), 0, path, path)))
        else:
            message = "'var' needs a path here, from a step or a name such as 'initial' on"
            fail(place, ExpressionInvalid(message, path, 0))
    return partial(_apply, rule, texts)


def _places_of_tests(value: Json, place: Place) -> Iterator[Place]:
    """Where row conditions stand: to JSONLogic they are objects like any other, and those are always yes."""
    if isinstance(value, Mapping):
        if "field" in value and "operator" in value:
            yield place
        for key, held in value.items():
            yield from _places_of_tests(held, (*place, key))
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from _places_of_tests(held, (*place, index))


def _apply(rule: Rule, texts: list[tuple[Place, Text]], scope: Scope, on_missing: OnMissing) -> Json:
    resolved: list[Json] = []
    for place, text in texts:
        try:
            resolved.append(text.run(scope, on_missing))
        except TemplateFailed as failure:
            raise failure.at(place_text(place)) from failure.__cause__
    return rule.apply(partial(_look_up, scope), resolved, on_missing)


def _look_up(scope: Scope, segments: tuple[str, ...]) -> Json | Missing:
    value: Any = scope.root(segments[0]) if segments else None
    for key in segments[1:]:  # the short way, for the rules that are applied to every item of a list
        if type(value) is not dict or key not in value or key == META:
            return _look_up_slowly(scope, segments)
        value = value[key]
    kind = type(value)
    return _look_up_slowly(scope, segments) if kind is Missing or kind is Lost or not segments else cast(Json, value)


def _look_up_slowly(scope: Scope, segments: tuple[str, ...]) -> Json | Missing:
    root, rest = enter(scope, segments)
    path = ".".join(segments)
    if isinstance(root, Missing):
        return Missing(path, source=path)
    before = f"{segments[0]}.{META}" if len(rest) < len(segments) - 1 else segments[0]
    found = look_into(root, rest, before)
    return found if isinstance(found, Missing) else Path(segments[0], segments[1:], 0, path, path).had(found)
