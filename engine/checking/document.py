"""A document as it came, and as it is meant: the shapes in which a workflow may be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flo.engine.errors import Problem, ValueRefused, WorkflowInvalid
from flo.engine.frozen import frozen
from flo.engine.positions import line_and_column, positions
from flo.engine.reading import parse_text, read_text
from flo.engine.values import Json, JsonObject, Place, kind_of, place_text, plain

UNDER_DEFINITION: Final = ("steps", "initial", "environment", "options")
"""What servers send under ``definition``."""


@frozen
class Document:
    """A workflow's JSON. ``whole`` is what came, ``meaning`` the same with ``steps`` at its root; ``text`` is None
    where it never was text. ``wrapped`` and ``lone_step`` say which shape it came in."""

    source: str
    whole: JsonObject
    meaning: JsonObject
    text: str | None
    wrapped: bool = False
    lone_step: bool = False

    def written(self, place: Place) -> Place:
        """Where a place of ``meaning`` stands in ``whole``."""
        if self.lone_step:
            return place[2:]
        if self.wrapped and place and place[0] in UNDER_DEFINITION and place[0] not in self.whole:
            return ("definition", *place)
        return place

    def shown(self, place: Place) -> str:
        """A place of ``meaning`` as people read it."""
        return place_text(place if self.lone_step else self.written(place))


def read_document(data: str | bytes | Mapping[str, Json], source: str) -> Document:
    """Read a document: JSON text, its bytes, or an object.

    Besides the plain shape two others are accepted: that of servers, with ``steps`` under ``definition``, and one step
    alone. Raises ``InputInvalid`` for what is no JSON, ``WorkflowInvalid`` for what is no object, or holds what cannot
    be stored: an execution keeps a copy of its document.
    """
    text = None if isinstance(data, Mapping) else read_text(data, source)
    whole = data if text is None else parse_text(text, source)
    try:
        whole = plain(whole)
    except ValueRefused as refused:
        line, column = _found_in(text, refused.place)
        what = f"{refused.what} cannot be stored as JSON"
        raise WorkflowInvalid(source, [Problem(refused.place, what, line=line, column=column)]) from None
    if not isinstance(whole, dict):
        what = f"a workflow is an object with 'steps', {kind_of(whole)} came"
        raise WorkflowInvalid(source, [Problem("", what, line=1 if text else 0, column=1 if text else 0)])
    if "steps" not in whole and "definition" not in whole and "stepType" in whole:
        return Document(source, whole, {"steps": [whole]}, text, lone_step=True)
    definition = whole.get("definition")
    if isinstance(definition, dict):
        beside = {key: value for key, value in whole.items() if key != "definition"}
        inside = {key: value for key, value in definition.items() if key in UNDER_DEFINITION}
        return Document(source, whole, {**inside, **beside}, text, wrapped=True)
    return Document(source, whole, whole, text)


def _found_in(text: str | None, shown: str) -> tuple[int, int]:
    """Line and column of a place that is known only as people read it."""
    if text is None:
        return 0, 0
    offsets = (offset for place, offset in positions(text).items() if place_text(place) == shown)
    return line_and_column(text, next(offsets, 0))
