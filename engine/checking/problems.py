"""Gathering what is wrong with a document, to be told in one answer, in the order of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from flo.engine.checking.document import Document
from flo.engine.errors import Problem
from flo.engine.positions import line_and_column, positions
from flo.engine.values import Json, Place

Severity = Literal["error", "warning"]


@dataclass(slots=True)
class Report:
    """Problems as they are found. ``steps`` are the steps found so far, by place: a problem is one of the innermost
    step around it."""

    steps: dict[Place, str] = field(default_factory=dict)
    found: list[tuple[Place, str, Severity]] = field(default_factory=list)

    def error(self, place: Place, message: str) -> None:
        """Something that keeps the workflow from running."""
        self.found.append((place, message, "error"))

    def warn(self, place: Place, message: str) -> None:
        """Something that is probably not meant."""
        self.found.append((place, message, "warning"))

    def take(self, inner: Report, place: Callable[[Place], Place]) -> None:
        """Take what was found in a document inside this one; ``place`` says where a place of it stands here."""
        self.found += [(place(held), message, severity) for held, message, severity in inner.found]
        self.steps |= {place(held): step for held, step in inner.steps.items()}

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(severity == "error" for _, _, severity in self.found)

    def told(self, document: Document) -> tuple[Problem, ...]:
        """Every problem, once, in the order of the document, with line and column where it came as text."""
        if not self.found:
            return ()
        text = document.text
        where = positions(text) if text is not None else _ordinals(document.whole)
        told: list[tuple[int, Problem]] = []
        for place, message, severity in dict.fromkeys(self.found):
            at = _nearest(where, document.written(place))
            line, column = line_and_column(text, at) if text is not None else (0, 0)
            told.append((at, Problem(document.shown(place), message, self._step(place), line, column, severity)))
        return tuple(problem for _, problem in sorted(told, key=lambda pair: pair[0]))

    def _step(self, place: Place) -> str | None:
        for length in range(len(place), 0, -1):
            if (step := self.steps.get(place[:length])) is not None:
                return step
        return None


def _nearest(where: Mapping[Place, int], place: Place) -> int:
    """Where a place stands; where what is around it stands, if it is not there."""
    while place not in where:
        place = place[:-1]
    return where[place]


def _ordinals(whole: Json) -> Mapping[Place, int]:
    """Number the values of a document that never was text, in its order."""
    return {place: number for number, place in enumerate(_places(whole, ()))}


def _places(value: Json, place: Place) -> Iterator[Place]:
    yield place
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*place, index))
