"""The parts of a compiled expression: closures that take a scope and give a value.

Chains (``a + b + c``, ``x | f | g``) are one part that loops, so that only nesting takes stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flo.engine.errors import TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.hiding import carried, secrets_in
from flo.engine.language.filters import Filter
from flo.engine.language.grammar import Special
from flo.engine.language.operators import Value, bounded, is_blank, is_empty, settle, span, truthy
from flo.engine.language.paths import Nowhere, Run, follow
from flo.engine.language.scope import Missing, OnMissing, Scope
from flo.engine.netting import Net
from flo.engine.values import Json


@frozen
class Node:
    """``depth`` counts how many parts stand inside each other. ``special`` names Liquid's ``empty`` and ``blank``,
    which are empty text but where they are compared."""

    run: Run
    depth: int = 1
    special: Special = ""


def constant(value: Json) -> Run:
    return lambda scope, on_missing: value


def chain(first: Run, rest: Sequence[tuple[Callable[[Value, Value], Json], Run, int]], source: str) -> Run:
    """``a + b - c``, from left to right. Each operation comes with its operand and its place."""

    def run(scope: Scope, on_missing: OnMissing) -> Value:
        value = first(scope, on_missing)
        for operation, operand, position in rest:
            right = operand(scope, on_missing)
            try:
                value = operation(value, right)
            except ValueError as error:
                raise TemplateFailed(str(error), text=source, position=position) from None
        return value

    return run


def unary(operation: Callable[[Value], Json], operand: Run, source: str, position: int) -> Run:
    def run(scope: Scope, on_missing: OnMissing) -> Value:
        try:
            return operation(operand(scope, on_missing))
        except ValueError as error:
            raise TemplateFailed(str(error), text=source, position=position) from None

    return run


def decided(parts: Sequence[Run], stop: bool) -> Run:
    """``and`` and ``or``: the first part whose truth is ``stop``, else the last one."""
    *firsts, last = parts

    def run(scope: Scope, on_missing: OnMissing) -> Value:
        for part in firsts:
            value = part(scope, on_missing)
            if isinstance(value, Missing):
                value = settle(value, on_missing)
            if truthy(value, on_missing) is stop:
                return value
        return last(scope, on_missing)

    return run


def opposite(operand: Run) -> Run:
    return lambda scope, on_missing: not truthy(operand(scope, on_missing), on_missing)


def choice(condition: Run, then: Run, otherwise: Run) -> Run:
    def run(scope: Scope, on_missing: OnMissing) -> Value:
        chosen = then if truthy(condition(scope, on_missing), on_missing) else otherwise
        return chosen(scope, on_missing)

    return run


def compared(left: Run, right: Run, operation: Callable[[Json, Json], bool]) -> Run:
    def run(scope: Scope, on_missing: OnMissing) -> Value:
        first = settle(left(scope, on_missing), on_missing)
        return operation(first, settle(right(scope, on_missing), on_missing))

    return run


def contained(needle: Run, holder: Run, operation: Callable[[Json, Json], bool], opposite: bool) -> Run:
    """``in``, ``not in`` and ``contains``. What is missing is in nothing, also not in a list that holds null."""

    def run(scope: Scope, on_missing: OnMissing) -> Value:
        item = needle(scope, on_missing)
        held = settle(holder(scope, on_missing), on_missing)
        if isinstance(item, Missing):
            settle(item, on_missing)
            return opposite
        return operation(item, held) is not opposite

    return run


def compared_with_special(operand: Node, special: Special, opposite: bool) -> Run:
    """``x == empty`` and ``x == blank``."""
    if operand.special:
        return constant((operand.special == special) is not opposite)
    inner, test = operand.run, is_empty if special == "empty" else is_blank

    def run(scope: Scope, on_missing: OnMissing) -> Value:
        return test(settle(inner(scope, on_missing), on_missing)) is not opposite

    return run


def list_of(parts: Sequence[Run]) -> Run:
    return lambda scope, on_missing: [settle(part(scope, on_missing), on_missing) for part in parts]


def object_of(parts: Mapping[str, Run]) -> Run:
    return lambda scope, on_missing: {key: settle(part(scope, on_missing), on_missing) for key, part in parts.items()}


def range_of(start: Run, end: Run, source: str, position: int) -> Run:
    def run(scope: Scope, on_missing: OnMissing) -> Value:
        try:
            return span(start(scope, on_missing), end(scope, on_missing))
        except (ValueError, OverflowError) as error:
            raise TemplateFailed(str(error), text=source, position=position) from None

    return run


def access(inner: Run, keys: Sequence[Run], missing: Missing) -> Run:
    """``(x | first).name``: steps into what no path leads to, or ``missing``."""

    def run(scope: Scope, on_missing: OnMissing) -> Value:
        value = inner(scope, on_missing)
        for part in keys:
            if isinstance(value, Missing):
                return value
            key = part(scope, on_missing)
            if isinstance(key, Missing):
                return key
            found = follow(value, key)
            if isinstance(found, Nowhere):
                return missing
            value = found
        return value

    return run


Link = Callable[[Value, Scope, OnMissing], Value]
"""A filter with its arguments."""


def piped(first: Run, links: Sequence[Link]) -> Run:
    def run(scope: Scope, on_missing: OnMissing) -> Value:
        value = first(scope, on_missing)
        for link in links:
            value = link(value, scope, on_missing)
        return value

    return run


def link(entry: Filter, arguments: Sequence[Run], named: Mapping[str, Run], source: str, position: int) -> Link:
    """A filter with its arguments; ``position`` is the place of its name in ``source``."""
    call = _call(entry, source, position)

    def settled(value: Value, scope: Scope, on_missing: OnMissing) -> Value:
        given = settle(value, on_missing)
        return call(
            [given, *(settle(part(scope, on_missing), on_missing) for part in arguments)],
            {name: settle(part(scope, on_missing), on_missing) for name, part in named.items()},
        )

    def seeing(value: Value, scope: Scope, on_missing: OnMissing) -> Value:
        given = [value, *(part(scope, on_missing) for part in arguments)]
        result = call(
            [None if isinstance(part, Missing) else part for part in given],
            {name: settle(part(scope, on_missing), on_missing) for name, part in named.items()},
        )
        if result is None:
            return next((part for part in given[1:] if isinstance(part, Missing)), None)
        return result

    return seeing if entry.sees_missing else settled


def _call(entry: Filter, source: str, position: int) -> Callable[[list[Json], dict[str, Json]], Json]:
    function, name = entry.function, entry.name

    def call(arguments: list[Json], named: dict[str, Json]) -> Json:
        try:
            result = bounded(function(*arguments, **named))
            kind = type(result)
            if kind is str or ((kind is list or kind is dict) and isinstance(arguments[0], str)):  # made anew
                return carried(result, [*arguments, *named.values()])
            return result
        except TemplateFailed:
            raise
        except ValueError as error:
            message = str(error)
        except RecursionError:
            message = f"{name!r} was given a value that nests too deep"
        except MemoryError:
            message = f"{name!r} takes more memory than there is"
        except Exception as error:  # a filter that breaks on odd data fails the step, never the process
            message = f"{name!r} failed: {error}"
        given = Net(map(str, secrets_in([*arguments, *named.values()])))
        raise TemplateFailed(given.mask(message), text=source, position=position)

    return call
