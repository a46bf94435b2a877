"""One expression: compile it, evaluate it, list what it refers to."""

from __future__ import annotations

from dataclasses import field

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.language.operators import settle
from flo.engine.language.parser import Parser
from flo.engine.language.paths import Path, Run
from flo.engine.language.scope import Missing, OnMissing, Scope
from flo.engine.values import Json


@frozen
class Expression:
    """A compiled expression. ``text`` is the expression without the blanks around it, ``paths`` every path that it
    refers to, in the order of the text."""

    text: str
    paths: tuple[Path, ...]
    run: Run = field(repr=False, compare=False)

    def evaluate(self, scope: Scope, on_missing: OnMissing) -> Json:
        """Give the value; what is missing is null, and ``on_missing`` is told once. Raises ``TemplateFailed``."""
        try:
            value = self.run(scope, on_missing)
        except RecursionError:
            raise TemplateFailed("the expression or its values nest too deep", text=self.text) from None
        except MemoryError:
            raise TemplateFailed("the expression takes more memory than there is", text=self.text) from None
        return settle(value, on_missing) if isinstance(value, Missing) else value


def compile_expression(text: str) -> Expression:
    """Compile an expression as it stands between marks. Raises ``ExpressionInvalid``.

    At most 20,000 characters, 1,000 operators and filters, 100 levels of nesting.
    """
    text = text.strip()
    try:
        parser = Parser(text)
        if parser.token.kind == "end":
            raise parser.problem("an expression is missing between the marks")
        node = parser.parse()
        parser.finish()
    except RecursionError:
        raise ExpressionInvalid("an expression that nests too deep", text, 0) from None
    return Expression(text, in_order(parser.paths), node.run)


def in_order(paths: list[Path]) -> tuple[Path, ...]:
    """Paths as they stand in the text: one inside another's brackets was read before it."""
    return tuple(sorted(paths, key=lambda path: path.position))
