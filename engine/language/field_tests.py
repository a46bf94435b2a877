"""The tests that ``where`` of the data store takes, on what a scope holds: the same operators, the same answers.

``{"field": "initial.status", "operator": "equals", "value": 5}``, in groups ``{"all": [...]}`` and ``{"any": [...]}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from flo.engine.errors import ExpressionInvalid, FilterInvalid, TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.instants import parse_instant
from flo.engine.language.paths import Path
from flo.engine.language.scope import META, Missing, Scope
from flo.engine.language.templates import Template, compile_template, has_marks
from flo.engine.stores.fields import ABSENT, follow, read_path
from flo.engine.stores.filters import Operator, Test, holds, parse_where
from flo.engine.values import Json, Place, place_text, shown

Fail = Callable[[Place, ExpressionInvalid], None]
Paths = list[tuple[Place, Path]]
Holds = Callable[[Scope], bool]

_AGES: Final = (Operator.OLDER_THAN, Operator.NEWER_THAN)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_tests(value: Json) -> bool:
    """Say whether a condition is a test of a field or a group of such, not JSONLogic: JSONLogic's own ``all`` has a
    list and a rule under it."""
    if not isinstance(value, Mapping):
        return False
    if "field" in value:
        return True
    parts = value.get("all", value.get("any")) if len(value) == 1 else None
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        return False
    return all(part.keys() & {"field", "all", "any"} for part in parts) and any(map(is_tests, parts))


@frozen
class _Written:
    """A test of a field, as it was written. ``test`` is None where its value is resolved each time."""

    value: Mapping[str, Json]
    segments: tuple[str, ...]
    template: Template
    test: Test | None
    place: Place

    def ready(self, scope: Scope) -> Test:
        """The test with its value. A value that is missing, or does not suit the operator, fails it."""
        if self.test is not None:
            return self.test
        try:
            return _read({**self.value, "value": self.template.resolve(scope, _refuse)})
        except FilterInvalid as problem:
            raise TemplateFailed(problem.reason, place=place_text(self.place)) from None
        except TemplateFailed as failure:
            link = "" if failure.place[:1] in ("", "[") else "."
            raise failure.at(place_text((*self.place, "value")) + link + failure.place) from failure.__cause__


_Holds = Callable[[Sequence[Test], Scope], bool]
"""Says whether a part of a condition holds, given all its tests with their values."""


def compile_tests(value: Json, fail: Fail, paths: Paths) -> Holds:
    """Compile what ``is_tests`` recognised. Problems go to ``fail``; what fields and templates refer to is added to
    ``paths``. As in ``where``, every value is resolved before the first test is made."""
    tests: list[_Written] = []
    part = _compile(value, (), tests, fail, paths)
    return lambda scope: part([test.ready(scope) for test in tests], scope)


def _compile(value: Json, place: Place, tests: list[_Written], fail: Fail, paths: Paths) -> _Holds:
    kind = next(iter(value)) if isinstance(value, Mapping) and len(value) == 1 else None
    parts = value[kind] if isinstance(value, Mapping) and kind in ("all", "any") else None
    if not isinstance(parts, list):
        return _compile_test(value, place, tests, fail, paths)
    held = [_compile(part, (*place, str(kind), index), tests, fail, paths) for index, part in enumerate(parts)]
    if kind == "all":
        return lambda ready, scope: all(part(ready, scope) for part in held)
    return lambda ready, scope: any(part(ready, scope) for part in held)


def _compile_test(value: Json, place: Place, tests: list[_Written], fail: Fail, paths: Paths) -> _Holds:
    operand = value.get("value") if isinstance(value, Mapping) else None
    template = compile_template(operand, lambda inner, problem: fail((*place, "value", *inner), problem))
    try:
        test = _read(value) if template.constant else _checked(value)
        segments, _ = read_path(test.field.text, "field")
    except FilterInvalid as problem:
        part = problem.place.rpartition(".")[2]
        fail((*place, part) if part else place, ExpressionInvalid(problem.reason, shown(value, 100), 0))
        return lambda ready, scope: False
    assert isinstance(value, Mapping)
    field, at = test.field.text, (*place, "field")
    if has_marks(field):
        fail(at, ExpressionInvalid("the field is a path, without marks", field, 0))
    paths.append((at, Path(segments[0], segments[1:], 0, field, field)))
    paths.extend(((*place, "value", *inner), path) for inner, path in template.paths)
    index = len(tests)
    tests.append(_Written(value, segments, template, test if template.constant else None, place))
    return lambda ready, scope: _holds(ready[index], segments, scope)


def _read(value: Json) -> Test:
    """Read one test. Raises ``FilterInvalid``."""
    test = parse_where(value if isinstance(value, Mapping) else [value], place="")
    assert isinstance(test, Test)
    return test


def _checked(value: Json) -> Test:
    """Read a test whose value a template will give: a list or a duration stands in for it, whichever suits."""
    assert isinstance(value, Mapping)
    stand_ins: tuple[Json, ...] = ([], "1s")
    for stand_in in stand_ins:
        with suppress(FilterInvalid):
            return _read({**value, "value": stand_in})
    return _read(value)


def _refuse(missing: Missing) -> None:
    raise TemplateFailed(f"{missing.path!r} is missing, and a test needs a value to compare with{missing.hint}")


def _holds(test: Test, segments: tuple[str, ...], scope: Scope) -> bool:
    root, rest = enter(scope, segments)
    found = ABSENT if isinstance(root, Missing) else follow(root, rest)
    now = _now(scope) if test.operator in _AGES else _EPOCH
    return holds(test.operator, found, test.value, now)


def _now(scope: Scope) -> datetime:
    """The time that ``$util.now`` tells, so that a test and a template agree."""
    util = scope.root("$util")
    text = util.get("now") if isinstance(util, Mapping) else None
    return (parse_instant(text) if isinstance(text, str) else None) or datetime.now(UTC)


def enter(scope: Scope, segments: tuple[str, ...]) -> tuple[Json | Missing, tuple[str, ...]]:
    """The root that a path starts from, and the segments that are left; ``<step-id>.$meta`` counts as a root."""
    if not segments:
        return Missing(""), ()
    root, rest = segments[0], segments[1:]
    if rest and rest[0] == META and not isinstance(kept := scope.meta(root), Missing):
        return kept, rest[1:]
    return scope.root(root), rest
