"""Rules: what a step evaluates for each item of a list: JSONLogic, or any JSON with templates and JSONLogic in it.

An object with exactly one key that is an operator of JSONLogic is JSONLogic, wherever in a rule it stands; every other
object is built of its parts, key by key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from flo.engine.errors import ExpressionInvalid, TemplateFailed, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.language.conditions import Evaluate, compile_logic
from flo.engine.language.field_tests import Fail, Paths
from flo.engine.language.logic import KNOWN
from flo.engine.language.paths import Path
from flo.engine.language.scope import OnMissing, Scope
from flo.engine.language.templates import built_list, built_object, compile_text, has_marks
from flo.engine.values import Json, Place, place_text, place_under, shown

Report = Callable[[Place, ExpressionInvalid], None]

_SYMBOLS: Final = frozenset("=<>!&|?:+-*/%^~")
_PATH: Final = re.compile(r"\$?[A-Za-z_][\w-]*(\.[\w-]+|\[\d+\])*", re.ASCII)


@frozen
class CompiledRule:
    """A compiled rule. ``constant`` says that it gives the same whatever it sees; ``paths`` is every path that it
    refers to, with the place of the string it stands in. ``give`` evaluates it; it raises ``TemplateFailed`` with a
    place relative to the rule."""

    constant: bool
    paths: tuple[tuple[Place, Path], ...]
    give: Evaluate = field(repr=False, compare=False)


def compile_rule(value: Json, report: Report | None = None) -> CompiledRule:
    """Compile a rule. Problems go to ``report`` with their place in the rule; without it the first one is raised as
    ``ExpressionInvalid``. Parts that are constant are shared by all that it gives, not copied."""
    paths: Paths = []

    def fail(place: Place, problem: ExpressionInvalid) -> None:
        if report is None:
            raise problem
        report(place, problem)

    if isinstance(value, str) and not has_marks(value):
        fail((), _without_marks(value))
    try:
        give = _compile(value, (), fail, paths)
    except RecursionError:
        fail((), ExpressionInvalid("the rule nests too deep", "", 0))
        give = _nothing
    return CompiledRule(give is None, tuple(paths), give or (lambda scope, on_missing: value))


def _without_marks(text: str) -> ExpressionInvalid:
    path = text if text.startswith("$") else f"$item.{text}"
    hint = f"; did you mean '<< {path} >>'?" if _PATH.fullmatch(text) else ""
    message = f"a rule is an expression in marks, JSONLogic, or JSON with such in it; text without marks came{hint}"
    return ExpressionInvalid(message, text, 0)


def _nothing(scope: Scope, on_missing: OnMissing) -> Json:
    return None


def _compile(value: Json, place: Place, fail: Fail, paths: Paths) -> Evaluate | None:
    """Give what evaluates ``value``, or None where it is constant."""
    if isinstance(value, str):
        return _string(value, place, fail, paths)
    if isinstance(value, Mapping):
        if len(value) == 1 and next(iter(value)) in KNOWN:
            return _logic(value, place, fail, paths)
        if problem := _meant_as_logic(value):
            fail(place, problem)
            return _nothing
        return built_object(value, {key: _compile(held, (*place, key), fail, paths) for key, held in value.items()})
    if isinstance(value, Sequence):
        return built_list(value, [_compile(held, (*place, index), fail, paths) for index, held in enumerate(value)])
    return None


def _meant_as_logic(value: Mapping[str, Json]) -> ExpressionInvalid | None:
    """What is wrong with an object that is no JSONLogic, and was clearly meant to be."""
    if len(value) == 1:
        ((name, held),) = value.items()
        hint = did_you_mean(name, KNOWN)
        if (name and set(name) <= _SYMBOLS) or (hint and _are_arguments(held)):
            message = f"no JSONLogic operator {name!r}{hint}; an object with this key is << {{{name!r}: …}} >>"
            return ExpressionInvalid(message, shown(value, 100), 0)
    elif any(key in KNOWN and set(key) <= _SYMBOLS and isinstance(held, list) for key, held in value.items()):
        message = f"an object with {len(value)} keys came, where JSONLogic has one; join several with 'and'"
        return ExpressionInvalid(message, shown(value, 100), 0)
    return None


def _are_arguments(held: Json) -> bool:
    """Whether something reads as the arguments of an operator: a path without marks, or a list with JSONLogic in it."""
    if isinstance(held, str):
        return held.startswith("$") and _PATH.fullmatch(held) is not None
    parts = held if isinstance(held, list) else ()
    return any(isinstance(part, Mapping) and len(part) == 1 and next(iter(part)) in KNOWN for part in parts)


def _logic(value: Mapping[str, Json], place: Place, fail: Fail, paths: Paths) -> Evaluate:
    inner: Paths = []
    run = compile_logic(value, lambda inside, problem: fail((*place, *inside), problem), inner)
    paths.extend(((*place, *inside), path) for inside, path in inner)
    return _placed(run, place)


def _string(value: str, place: Place, fail: Fail, paths: Paths) -> Evaluate | None:
    try:
        text = compile_text(value)
    except ExpressionInvalid as problem:
        fail(place, problem)
        return _nothing
    if text.constant:
        return None
    paths.extend((place, path) for path in text.paths)
    return _placed(text.run, place)


def _placed(run: Evaluate, place: Place) -> Evaluate:
    """Say of a failure where in the rule it is."""
    if not place:
        return run
    where = place_text(place)

    def placed(scope: Scope, on_missing: OnMissing) -> Json:
        try:
            return run(scope, on_missing)
        except TemplateFailed as failed:
            raise failed.at(place_under(where, failed.place)) from failed.__cause__

    return placed
