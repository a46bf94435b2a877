"""JSONLogic: an object with one key is a rule, its key the operator, its value the arguments.

A rule is compiled to closures once and applied many times. What data or a template gives is a value, never a rule.
Where the classic rules have an answer it is the same here, but for arithmetic on what is no number: that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from flo.engine.errors import ExpressionInvalid, TemplateFailed, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.language.logic_operators import LEAST, OPERATORS, size_of, steps_after, steps_before, truthy
from flo.engine.language.operators import settle, written
from flo.engine.language.paths import Nowhere, follow
from flo.engine.language.scope import Missing, OnMissing
from flo.engine.values import MAX_DEPTH, Json, Place, kind_of, place_text, shown

MAX_STEPS: Final = 2_000_000
"""Applying one rule takes at most this many steps; handling long lists and texts counts as more than one."""

Lookup = Callable[[tuple[str, ...]], Json | Missing]
"""Gives what a path leads to; its segments are keys, or indexes in digits. No segments: everything."""
Leaf = Callable[[str, Place], int | None]
"""Says which resolved value stands for a string of a rule; None: it means itself."""
Report = Callable[[Place, ExpressionInvalid], None]


class _Frame:
    """What a rule sees while it is applied: data, the values of its templates, and the steps that are left."""

    __slots__ = ("lookup", "on_missing", "resolved", "steps")

    def __init__(
        self, lookup: Lookup, resolved: Sequence[Json], on_missing: OnMissing | None, steps: list[int]
    ) -> None:
        self.lookup, self.resolved, self.on_missing, self.steps = lookup, resolved, on_missing, steps

    def spend(self, steps: int) -> None:
        self.steps[0] -= steps
        if self.steps[0] < 0:
            raise ValueError(f"the rule takes more than {MAX_STEPS:,} steps")

    def over(self, data: Json) -> _Frame:
        """The frame of a rule that is applied to an item."""
        return _Frame(partial(look_into, data), self.resolved, None, self.steps)


_Node = Callable[[_Frame], Json]


@frozen
class _Constant:
    value: Json

    def __call__(self, frame: _Frame) -> Json:
        return self.value


@frozen
class Rule:
    """A compiled rule. ``variables`` are the paths that its ``var`` operators read from the outer data, with their
    places, where they are written out."""

    variables: tuple[tuple[Place, str], ...]
    node: _Node = field(repr=False, compare=False)

    def apply(self, lookup: Lookup, resolved: Sequence[Json] = (), on_missing: OnMissing | None = None) -> Json:
        """Give the value of the rule. Raises ``TemplateFailed`` whose place is relative to the rule."""
        try:
            return self.node(_Frame(lookup, resolved, on_missing, [MAX_STEPS]))
        except ValueError as problem:
            raise TemplateFailed(str(problem)) from None
        except RecursionError:
            raise TemplateFailed("the rule or its data nest too deep") from None
        except MemoryError:
            raise TemplateFailed("the rule takes more memory than there is") from None


def apply(rule: Json, data: Json = None) -> Json:
    """Compile a rule and apply it to data. Raises ``ExpressionInvalid`` and ``TemplateFailed``."""
    return compile_rule(rule).apply(partial(look_into, data))


def look_into(data: Json, segments: Sequence[str], before: str = "") -> Json | Missing:
    """Follow a path into data. ``before`` is what leads to the data, for messages."""
    value = data
    for number, segment in enumerate(segments):
        is_index = not isinstance(value, str) and segment.isascii() and segment.isdecimal() and len(segment) < 10
        found = follow(value, int(segment) if is_index else segment)
        if isinstance(found, Nowhere):
            way = ".".join((*((before,) if before else ()), *segments[:number]))
            path = ".".join((*((before,) if before else ()), *segments))
            return Missing(path, source=path, holder=value, before=way, key=segment)
        value = found
    return value


@frozen
class _Site:
    """Where the compiler stands: ``outer`` says that ``var`` reads the outer data, not an item."""

    leaf: Leaf | None
    report: Report | None
    variables: list[tuple[Place, str]]
    place: Place = ()
    outer: bool = True

    def under(self, *keys: str | int, outer: bool = True) -> _Site:
        return _Site(self.leaf, self.report, self.variables, (*self.place, *keys), self.outer and outer)

    def fail(self, message: str, value: Json) -> _Node:
        """Report a problem; what it gives instead of a rule is never applied."""
        problem = ExpressionInvalid(message, shown(value, 100), 0)
        if self.report is None:
            raise problem
        self.report(self.place, problem)
        return _Constant(None)


def compile_rule(rule: Json, leaf: Leaf | None = None, report: Report | None = None) -> Rule:
    """Compile a rule. Problems go to ``report`` with their place, or are raised: an operator that does not exist, too
    few arguments, nesting deeper than 200."""
    site = _Site(leaf, report, [])
    try:
        node = _compile(rule, site)
    except RecursionError:
        node = site.fail("the rule nests too deep", None)
    return Rule(tuple(site.variables), node)


def _compile(rule: Json, site: _Site) -> _Node:
    if len(site.place) > MAX_DEPTH:
        return site.fail(f"the rule nests deeper than {MAX_DEPTH}", None)
    if isinstance(rule, str) and site.leaf is not None:
        index = site.leaf(rule, site.place)
        return _Constant(rule) if index is None else lambda frame: frame.resolved[index]
    if isinstance(rule, list | tuple):
        return _list([_compile(part, site.under(index)) for index, part in enumerate(rule)])
    if not isinstance(rule, dict):
        return _Constant(rule)
    if len(rule) != 1:
        return _literal(rule, site)
    ((name, arguments),) = rule.items()
    if name in KNOWN:
        return _operation(name, arguments, site)
    hint = did_you_mean(name, KNOWN)
    return site.fail(f"no JSONLogic operator {name!r}{hint}", rule)


def _list(nodes: Sequence[_Node]) -> _Node:
    if all(isinstance(node, _Constant) for node in nodes):
        return _Constant([node.value for node in nodes if isinstance(node, _Constant)])

    def build(frame: _Frame) -> Json:
        frame.spend(len(nodes))
        return [node(frame) for node in nodes]

    return build


def _literal(value: Json, site: _Site) -> _Node:
    """An object that is no rule: data, in which only templates mean something."""
    if isinstance(value, str) or len(site.place) > MAX_DEPTH:
        return _compile(value, site)
    if isinstance(value, list | tuple):
        return _list([_literal(part, site.under(index)) for index, part in enumerate(value)])
    if not isinstance(value, dict):
        return _Constant(value)
    nodes = {key: _literal(part, site.under(key)) for key, part in value.items()}
    if all(isinstance(node, _Constant) for node in nodes.values()):
        return _Constant(value)

    def build(frame: _Frame) -> Json:
        frame.spend(len(nodes))
        return {key: node(frame) for key, node in nodes.items()}

    return build


def _operation(name: str, arguments: Json, site: _Site) -> _Node:
    parts = arguments if isinstance(arguments, list | tuple) else [arguments]
    body = 1 if name in _ITERATING else -1
    nodes = [
        _compile(part, site.under(name, *(() if parts is not arguments else (index,)), outer=index != body))
        for index, part in enumerate(parts)
    ]
    if len(parts) < (least := LEAST.get(name, 0)):
        noun = "argument" if least == 1 else "arguments"
        return site.fail(f"{name!r} takes at least {least} {noun}, not {len(parts)}", {name: arguments})
    if name == "var" and nodes and isinstance(path := nodes[0], _Constant):
        at = site.under(name, *(() if parts is not arguments else (0,)))
        if not _is_path(path.value):
            return at.fail(f"a path is text, not {kind_of(path.value)}", path.value)
        if site.outer:
            site.variables.append((at.place, written(path.value)))
    build = _SPECIAL.get(name)
    return _guarded(name, build(nodes) if build else _eager(name, nodes), site)


def _guarded(name: str, node: _Node, site: _Site) -> _Node:
    """Count a step and place what fails."""
    place = place_text((*site.place, name))

    def guarded(frame: _Frame) -> Json:
        try:
            frame.spend(1)
            return node(frame)
        except ValueError as problem:
            raise TemplateFailed(str(problem), place=place) from None

    return guarded


def _eager(name: str, nodes: Sequence[_Node]) -> _Node:
    function = OPERATORS[name]

    def evaluate(frame: _Frame) -> Json:
        values = [node(frame) for node in nodes]
        frame.spend(steps_before(name, values, frame.steps[0]))
        result = function(values)
        frame.spend(steps_after(result))
        return result

    return evaluate


def _is_path(value: Json) -> bool:
    return value is None or isinstance(value, str | int | float)


def _path_text(value: Json) -> str:
    if _is_path(value):
        return written(value)
    raise ValueError(f"a path is text, not {kind_of(value)}")


def _segments(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


def _var(nodes: Sequence[_Node]) -> _Node:
    name = nodes[0] if nodes else _Constant("")
    otherwise = nodes[1] if len(nodes) > 1 else None
    fixed = _segments(_path_text(name.value)) if isinstance(name, _Constant) else None

    def read(frame: _Frame) -> Json:
        found = frame.lookup(_segments(_path_text(name(frame))) if fixed is None else fixed)
        if not isinstance(found, Missing):
            return found
        if otherwise is not None:
            return otherwise(frame)
        return None if frame.on_missing is None else settle(found, frame.on_missing)

    return read


def _absent(frame: _Frame, names: Sequence[Json]) -> list[Json]:
    frame.spend(len(names))
    found = [frame.lookup(_segments(_path_text(name))) for name in names]
    return [name for name, value in zip(names, found, strict=True) if _is_absent(value)]


def _is_absent(value: Json | Missing) -> bool:
    return value is None or value == "" or isinstance(value, Missing)


def _missing(nodes: Sequence[_Node]) -> _Node:
    def missing(frame: _Frame) -> Json:
        names = [node(frame) for node in nodes]
        first = names[0] if names else None
        return _absent(frame, first if isinstance(first, list) else names)

    return missing


def _missing_some(nodes: Sequence[_Node]) -> _Node:
    def missing(frame: _Frame) -> Json:
        least, names = nodes[0](frame), nodes[1](frame)
        if isinstance(least, bool) or not isinstance(least, int | float) or not isinstance(names, list):
            raise ValueError(f"'missing_some' takes a number and a list, not {kind_of(least)} and {kind_of(names)}")
        absent = _absent(frame, names)
        return [] if len(names) - len(absent) >= least else absent

    return missing


def _if(nodes: Sequence[_Node]) -> _Node:
    def choose(frame: _Frame) -> Json:
        for index in range(0, len(nodes) - 1, 2):
            if truthy(nodes[index](frame)):
                return nodes[index + 1](frame)
        return nodes[-1](frame) if len(nodes) % 2 else None

    return choose


def _and(nodes: Sequence[_Node]) -> _Node:
    return _until(nodes, stops_at=False)


def _or(nodes: Sequence[_Node]) -> _Node:
    return _until(nodes, stops_at=True)


def _until(nodes: Sequence[_Node], stops_at: bool) -> _Node:
    def first(frame: _Frame) -> Json:
        value: Json = None
        for node in nodes:
            value = node(frame)
            if truthy(value) is stops_at:
                break
        return value

    return first


def _items(frame: _Frame, node: _Node) -> Sequence[Json]:
    value = node(frame)
    items = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    frame.spend(len(items))
    return items


def _map(nodes: Sequence[_Node]) -> _Node:
    items, body = nodes[:2]
    return lambda frame: [body(frame.over(item)) for item in _items(frame, items)]


def _filter(nodes: Sequence[_Node]) -> _Node:
    items, body = nodes[:2]
    return lambda frame: [item for item in _items(frame, items) if truthy(body(frame.over(item)))]


def _reduce(nodes: Sequence[_Node]) -> _Node:
    items, body = nodes[:2]
    start = nodes[2] if len(nodes) > 2 else _Constant(None)

    def reduce(frame: _Frame) -> Json:
        result = start(frame)
        for item in _items(frame, items):
            result = body(frame.over({"current": item, "accumulator": result}))
        frame.spend(size_of(result, frame.steps[0]))  # it is huge where each turn put the last result in twice
        return result

    return reduce


def _all(nodes: Sequence[_Node]) -> _Node:
    items, body = nodes[:2]

    def every(frame: _Frame) -> Json:
        found = _items(frame, items)
        return bool(found) and all(truthy(body(frame.over(item))) for item in found)

    return every


def _some(nodes: Sequence[_Node]) -> _Node:
    items, body = nodes[:2]
    return lambda frame: any(truthy(body(frame.over(item))) for item in _items(frame, items))


def _none(nodes: Sequence[_Node]) -> _Node:
    items, body = nodes[:2]
    return lambda frame: not any(truthy(body(frame.over(item))) for item in _items(frame, items))


_ITERATING: Final = {"map": _map, "filter": _filter, "reduce": _reduce, "all": _all, "some": _some, "none": _none}
_SPECIAL: Final[dict[str, Callable[[Sequence[_Node]], _Node]]] = {
    "var": _var,
    "missing": _missing,
    "missing_some": _missing_some,
    "if": _if,
    "?:": _if,
    "and": _and,
    "or": _or,
    **_ITERATING,
}
KNOWN: Final = (*_SPECIAL, *OPERATORS)
"""The names of all operators."""
