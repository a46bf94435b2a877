"""A loop by hand: the same compiled templates over the same items, and no engine."""

from __future__ import annotations

from benchmarks.own.loops import MESSAGE, rows
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import compile_text
from flo.engine.values import Json


class Contestant:
    """Compiled templates."""

    def __init__(self, url: str) -> None:
        self._template = compile_text(MESSAGE)
        self._items: list[Json] = []

    def prepare(self, count: int) -> None:
        """Make the rows."""
        self._items = rows(count)

    def loop(self) -> str:
        """Evaluate the templates for every row."""
        root = Scope({"initial": {"items": self._items}})
        for item in self._items:
            self._template.evaluate(root.child({"$item": item}), _refuse)
        return "success"

    def close(self) -> None:
        """Nothing is open."""


def _refuse(missing: Missing) -> None:
    raise AssertionError(f"{missing.path} is missing")
