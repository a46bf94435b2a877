"""How text with block tags is written: the parts draw themselves onto a canvas that is bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from flo.engine.errors import TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.language.expressions import Expression
from flo.engine.language.operators import MAX_TEXT, settle, truthy, written
from flo.engine.language.paths import Run
from flo.engine.language.scope import OnMissing, Scope
from flo.engine.values import MAX_DEPTH, Json, kind_of, shown

MAX_LOOPS: Final = 100_000
"""The loops of one text go round this many times in total."""
MAX_ASSIGNED: Final = 10_000_000
"""The values that the ``assign`` tags of one text compute have this many parts in total; 64 characters are one."""


class Jump(Enum):
    """How a loop goes on after ``break`` and ``continue``."""

    BREAK = "break"
    CONTINUE = "continue"


@dataclass(slots=True)
class Canvas:
    """What one rendering writes, and what it may still do. ``names`` are the assigned ones, ``resume`` says where
    ``offset: continue`` goes on, by loop."""

    on_missing: OnMissing
    names: dict[str, Json]
    output: list[str] = field(default_factory=list)
    room: int = MAX_TEXT
    loops: int = MAX_LOOPS
    assigned: int = MAX_ASSIGNED
    resume: dict[str, int] = field(default_factory=dict)

    def write(self, text: str, source: str = "") -> None:
        self.room -= len(text)
        if self.room < 0:
            raise TemplateFailed(f"the text grows past {MAX_TEXT:,} characters", text=source)
        if text:
            self.output.append(text)


Draw = Callable[[Canvas, Scope], Jump | None]
"""A part of a text."""


def literal(text: str) -> Draw:
    def draw(canvas: Canvas, scope: Scope) -> None:
        canvas.write(text)

    return draw


def output(expression: Expression) -> Draw:
    def draw(canvas: Canvas, scope: Scope) -> None:
        value = expression.evaluate(scope, canvas.on_missing)
        canvas.write(shown_in_text(value, expression), expression.text)

    return draw


def shown_in_text(value: Json, expression: Expression) -> str:
    """Write the value of an expression; what cannot be written fails it."""
    try:
        return written(value)
    except ValueError as error:
        raise TemplateFailed(str(error), text=expression.text) from None
    except RecursionError:
        raise TemplateFailed("the value nests too deep to be written", text=expression.text) from None


def sequence(parts: Sequence[Draw]) -> Draw:
    def draw(canvas: Canvas, scope: Scope) -> Jump | None:
        for part in parts:
            if jump := part(canvas, scope):
                return jump
        return None

    return draw


def jump(kind: Jump) -> Draw:
    return lambda canvas, scope: kind


def first_that_holds(branches: Sequence[tuple[Expression, bool, Draw]], otherwise: Draw | None) -> Draw:
    """``if`` and ``unless``: each branch with its condition and the truth that it waits for."""

    def draw(canvas: Canvas, scope: Scope) -> Jump | None:
        for condition, wanted, body in branches:
            value = condition.evaluate(scope, canvas.on_missing)
            if truthy(value, canvas.on_missing) is wanted:
                return body(canvas, scope)
        return otherwise(canvas, scope) if otherwise else None

    return draw


def matching(branches: Sequence[tuple[Sequence[Run] | None, Draw]]) -> Draw:
    """``case``: every branch one of whose tests holds is drawn; one without tests (``else``) if none before it was."""

    def draw(canvas: Canvas, scope: Scope) -> Jump | None:
        matched = False
        for tests, body in branches:
            if tests is None:
                chosen = not matched
            else:
                chosen = any(test(scope, canvas.on_missing) is True for test in tests)
                matched = matched or chosen
            if chosen and (jump := body(canvas, scope)):
                return jump
        return None

    return draw


def assigned(name: str, expression: Expression) -> Draw:
    computed = [path.text for path in expression.paths] != [expression.text]

    def draw(canvas: Canvas, scope: Scope) -> None:
        value = expression.evaluate(scope, canvas.on_missing)
        canvas.assigned -= _weight(value, {}) if computed else 1
        if canvas.assigned < 0:
            raise TemplateFailed("the assigned values grow too large", text=expression.text)
        canvas.names[name] = value

    return draw


def _weight(value: Json, seen: dict[int, int], depth: int = 0) -> int:
    """Count the parts of a value, each as often as it would be written. ``seen`` keeps the count of each list and
    object, so that one that is held many times is looked through once."""
    if isinstance(value, str):
        return 1 + len(value) // 64
    if not isinstance(value, dict | list):
        return 1
    if depth > MAX_DEPTH:
        return MAX_ASSIGNED + 1
    if id(value) not in seen:
        total = 1
        for part in value.values() if isinstance(value, dict) else value:
            total += _weight(part, seen, depth + 1)
        seen[id(value)] = total
    return seen[id(value)]


@frozen
class Loop:
    """A ``for`` tag. ``source`` is what it says, ``position`` where its items stand there."""

    variable: str
    name: str
    items: Run
    source: str
    position: int
    limit: Run | None = None
    offset: Run | None = None
    resumes: bool = False
    backwards: bool = False

    def fail(self, message: str) -> TemplateFailed:
        return TemplateFailed(message, text=self.source, position=self.position)


def repeated(loop: Loop, body: Draw, otherwise: Draw | None) -> Draw:
    def draw(canvas: Canvas, scope: Scope) -> Jump | None:
        items = _chosen(loop, canvas, scope)
        if not items:
            return otherwise(canvas, scope) if otherwise else None
        around = scope.root("forloop")
        for index, item in enumerate(items):
            canvas.loops -= 1
            if canvas.loops < 0:
                raise loop.fail(f"the loops of one text go round more than {MAX_LOOPS:,} times")
            place = _forloop(loop, index, len(items), around)
            if body(canvas, scope.child({loop.variable: item, "forloop": place})) is Jump.BREAK:
                break
        return None

    return draw


def _forloop(loop: Loop, index: int, length: int, around: object) -> Json:
    return {
        "name": loop.name,
        "length": length,
        "index": index + 1,
        "index0": index,
        "rindex": length - index,
        "rindex0": length - index - 1,
        "first": index == 0,
        "last": index == length - 1,
        "parentloop": around if isinstance(around, dict) else None,
    }


def _chosen(loop: Loop, canvas: Canvas, scope: Scope) -> Sequence[Json]:
    """The items that the loop goes over, after ``offset``, ``limit`` and ``reversed``."""
    items = _items(loop, settle(loop.items(scope, canvas.on_missing), canvas.on_missing))
    start = canvas.resume.get(loop.name, 0) if loop.resumes else _count(loop, loop.offset, "offset", canvas, scope)
    limit = _count(loop, loop.limit, "limit", canvas, scope) if loop.limit else None
    end = len(items) if limit is None else min(len(items), (start or 0) + limit)
    chosen = items[start or 0 : end]
    canvas.resume[loop.name] = max(end, 0)
    return chosen[::-1] if loop.backwards else chosen


def _items(loop: Loop, value: Json) -> Sequence[Json]:
    """A list as it is, an object as its pairs, text as one item, nothing for null."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return [[key, held] for key, held in value.items()]
    if isinstance(value, Sequence):
        return value
    raise loop.fail(f"'for' goes over a list, but {kind_of(value)} came")


def _count(loop: Loop, run: Run | None, what: str, canvas: Canvas, scope: Scope) -> int | None:
    value = settle(run(scope, canvas.on_missing), canvas.on_missing) if run else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise loop.fail(f"the {what} of 'for' is a whole number from 0 on, but {shown(value)} came")
    return value
