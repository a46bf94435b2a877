"""Marks in a JSON value: compiled once, resolved many times.

A string that is exactly one expression gives the value with its type; everything else gives text. What an expression
gives is never looked at for marks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.hiding import joined_text
from flo.engine.language import marks
from flo.engine.language.blocks import compile_blocks
from flo.engine.language.expressions import Expression, compile_expression
from flo.engine.language.marks import has_marks
from flo.engine.language.operators import MAX_TEXT
from flo.engine.language.paths import Path
from flo.engine.language.rendering import Canvas, Draw, shown_in_text
from flo.engine.language.scope import OnMissing, Scope
from flo.engine.values import Json, Place, place_text

__all__ = [
    "Template", "Text", "built_list", "built_object", "compile_template", "compile_text", "has_marks", "verbatim",
]  # fmt: skip

Evaluate = Callable[[Scope, OnMissing], Json]
Report = Callable[[Place, ExpressionInvalid], None]


@frozen
class Text:
    """A compiled string. ``lone`` says that it is exactly one expression, ``constant`` that it holds no template;
    ``paths`` is every path that it refers to, but for loop variables and assigned names."""

    text: str
    lone: bool
    constant: bool
    paths: tuple[Path, ...]
    run: Evaluate = field(repr=False, compare=False)

    def evaluate(self, scope: Scope, on_missing: OnMissing) -> Json:
        """Give the value. Raises ``TemplateFailed``."""
        return self.run(scope, on_missing)


def compile_text(text: str) -> Text:
    """Compile a string. Raises ``ExpressionInvalid``."""
    if not has_marks(text):
        return Text(text, False, True, (), lambda scope, on_missing: text)
    try:
        pieces = marks.scan(text)
        if any(piece.kind == "tag" for piece in pieces):
            compiled = compile_blocks(text, pieces)
            return Text(text, False, False, compiled.paths, _blocks(compiled.draw))
    except RecursionError:
        raise ExpressionInvalid("block tags that nest too deep", text, 0) from None
    parts = [compile_expression(piece.text) if piece.kind == "expression" else piece.text for piece in pieces]
    paths = tuple(path for part in parts if isinstance(part, Expression) for path in part.paths)
    if len(parts) == 1 and isinstance(only := parts[0], Expression):
        return Text(text, True, False, paths, only.evaluate)
    return Text(text, False, False, paths, _joined(parts))


def _joined(parts: Sequence[str | Expression]) -> Evaluate:
    def evaluate(scope: Scope, on_missing: OnMissing) -> Json:
        output: list[str] = []
        room = MAX_TEXT
        for part in parts:
            if isinstance(part, str):
                output.append(part)
                continue
            value = part.evaluate(scope, on_missing)
            text = value if type(value) is str else shown_in_text(value, part)
            room -= len(text)
            if room < 0:
                raise TemplateFailed(f"the text grows past {MAX_TEXT:,} characters", text=part.text)
            output.append(text)
        return joined_text(output)

    return evaluate


def _blocks(draw: Draw) -> Evaluate:
    def evaluate(scope: Scope, on_missing: OnMissing) -> Json:
        names: dict[str, Json] = {}
        canvas = Canvas(on_missing, names)
        try:
            draw(canvas, scope.child(names))
        except RecursionError:
            raise TemplateFailed("the block tags or their values nest too deep") from None
        except MemoryError:
            raise TemplateFailed("the block tags take more memory than there is") from None
        return joined_text(canvas.output)

    return evaluate


@frozen
class Template:
    """A compiled JSON value. ``constant`` says that nothing in it is a template; ``paths`` is every path that it
    refers to, with the place of the string it stands in."""

    constant: bool
    paths: tuple[tuple[Place, Path], ...]
    run: Evaluate = field(repr=False, compare=False)

    def resolve(self, scope: Scope, on_missing: OnMissing) -> Json:
        """Give the value, all or nothing. Parts without templates are shared with the value that was compiled, not
        copied. Raises ``TemplateFailed`` with the place of the string."""
        return self.run(scope, on_missing)


def compile_template(value: Json, report: Report | None = None) -> Template:
    """Compile the marks in every string of ``value``; keys are not templates.

    With ``report``, each string that cannot be compiled is reported with its place and stands for null; without, the
    first raises ``ExpressionInvalid``.
    """
    paths: list[tuple[Place, Path]] = []
    evaluate = _compile(value, (), paths, report)
    return Template(evaluate is None, tuple(paths), evaluate or (lambda scope, on_missing: value))


def verbatim(value: Json) -> Template:
    """What gives ``value`` as it stands, whatever marks are in it."""
    return Template(True, (), lambda scope, on_missing: value)


def _compile(value: Json, place: Place, paths: list[tuple[Place, Path]], report: Report | None) -> Evaluate | None:
    """Give what evaluates ``value``, or None where it is constant."""
    if isinstance(value, str):
        return _string(value, place, paths, report)
    if isinstance(value, Mapping):
        moving = {key: _compile(held, (*place, key), paths, report) for key, held in value.items()}
        return built_object(value, moving)
    if isinstance(value, Sequence):
        parts = [_compile(held, (*place, index), paths, report) for index, held in enumerate(value)]
        return built_list(value, parts)
    return None


def _string(value: str, place: Place, paths: list[tuple[Place, Path]], report: Report | None) -> Evaluate | None:
    try:
        text = compile_text(value)
    except ExpressionInvalid as problem:
        if report is None:
            raise
        report(place, problem)
        return lambda scope, on_missing: None
    if text.constant:
        return None
    paths.extend((place, path) for path in text.paths)
    evaluate = text.run
    if not place:
        return evaluate

    def placed(scope: Scope, on_missing: OnMissing) -> Json:
        try:
            return evaluate(scope, on_missing)
        except TemplateFailed as failure:
            raise failure.at(place_text(place)) from failure.__cause__

    return placed


def built_object(value: Mapping[str, Json], parts: Mapping[str, Evaluate | None]) -> Evaluate | None:
    """What evaluates an object of which some parts move; None where none does. The others are shared, not copied."""
    fixed, moving = dict(value), [(key, part) for key, part in parts.items() if part]

    def evaluate(scope: Scope, on_missing: OnMissing) -> Json:
        result = fixed.copy()
        for key, part in moving:
            result[key] = part(scope, on_missing)
        return result

    return evaluate if moving else None


def built_list(value: Sequence[Json], parts: Sequence[Evaluate | None]) -> Evaluate | None:
    """The same of a list."""
    fixed, moving = list(value), [(index, part) for index, part in enumerate(parts) if part]

    def evaluate(scope: Scope, on_missing: OnMissing) -> Json:
        result = fixed.copy()
        for index, part in moving:
            result[index] = part(scope, on_missing)
        return result

    return evaluate if moving else None
