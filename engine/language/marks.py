"""Where the marks stand in a string: text, ``<< … >>`` and ``{{ … }}``, block tags, raw and comment blocks.

An opening mark belongs to the next closing mark of its kind; where another opening mark of its kind comes first, it is
text. So ``cat <<EOF`` and ``a << b`` are text, also in front of a template, while ``1 << 2 >> 3`` is the expression
``2`` between ``1 `` and `` 3``. Quoted text and the braces of objects inside an expression hide marks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from flo.engine.errors import ExpressionInvalid
from flo.engine.frozen import frozen

_OPENING: Final = re.compile(r"\{\{|<<|\{%")
_CLOSING: Final = {"{{": "}}", "<<": ">>", "{%": "%}"}
_NOTABLE: Final = {
    mark: re.compile("|".join(("[\"']", re.escape(mark), re.escape(closing), r"[{}]")))
    for mark, closing in _CLOSING.items()
}
_QUOTED: Final = re.compile(r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'""", re.DOTALL)
_NEVER: Final = sys.maxsize
_TAG: Final = re.compile(r"\s*([A-Za-z_]\w*)?")
_END_RAW: Final = re.compile(r"\{%(-?)\s*endraw\s*(-?)%\}")


@frozen
class Piece:
    """A part of a string. ``position`` is its place there. ``text`` is the text, the expression, or what a tag says
    behind its ``name``. ``trims_before`` and ``trims_after`` say that a hyphen in the mark takes the blanks off."""

    kind: Literal["text", "expression", "tag"]
    text: str
    position: int
    name: str = ""
    trims_before: bool = False
    trims_after: bool = False


def has_marks(text: str) -> bool:
    """Whether ``text`` holds a complete template."""
    if "{{" not in text and "<<" not in text and "{%" not in text:
        return False
    return _Finder(text).find(0) is not None


def scan(text: str) -> list[Piece]:
    """Cut ``text`` into pieces. Raises ``ExpressionInvalid`` for a raw or comment block that is never closed."""
    return [piece for piece in _trimmed(list(_pieces(text))) if piece.text or piece.kind != "text"]


def _pieces(text: str) -> Iterator[Piece]:
    finder, position = _Finder(text), 0
    while found := finder.find(position):
        start, end = found
        yield Piece("text", text[position:start], position)
        piece, position = _piece(text, start, end), end
        if piece.name == "raw":
            piece, position = _raw(text, piece, end)
        elif piece.name == "comment":
            piece, position = _comment(text, piece, end)
        yield piece
    yield Piece("text", text[position:], position)


def _piece(text: str, start: int, end: int) -> Piece:
    inside = text[start + 2 : end - 2]
    trims_before = inside.startswith("-")
    inside = inside[1:] if trims_before else inside
    trims_after = inside.endswith("-")
    inside = inside[:-1] if trims_after else inside
    if text.startswith("{%", start):
        named = _TAG.match(inside)
        name = named[1] or "" if named else ""
        rest = inside[named.end() if named else 0 :].strip()
        return Piece("tag", rest, start, name, trims_before, trims_after)
    if not inside.strip():
        raise ExpressionInvalid("an expression is missing between the marks", text, start)
    return Piece("expression", inside.strip(), start, "", trims_before, trims_after)


class _Finder:
    """Finds pairs of marks from left to right. ``ahead`` keeps the next closing mark of each kind, so that a text of
    nothing but opening marks is looked through once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ahead: dict[str, int] = {}

    def find(self, position: int) -> tuple[int, int] | None:
        """Find the next complete pair: where it starts and where it ends."""
        while opening := _OPENING.search(self.text, position):
            mark, start = opening[0], opening.start()
            first = self._next_closing(mark, start + 2)
            if first == _NEVER:
                position = start + 1
                continue
            end = self._end(mark, start + 2, first)
            if end > 0:
                return start, end
            position = -end
        return None

    def _next_closing(self, mark: str, position: int) -> int:
        if self.ahead.get(mark, -1) < position:
            found = self.text.find(_CLOSING[mark], position)
            self.ahead[mark] = found if found >= 0 else _NEVER
        return self.ahead[mark]

    def _end(self, mark: str, start: int, first: int) -> int:
        """Find where the pair ends; or minus the place of the opening mark that comes before its closing mark.
        ``first`` is where the first closing mark stands, be it hidden or not."""
        closing, depth, position = _CLOSING[mark], 0, start
        while found := _NOTABLE[mark].search(self.text, position):
            position = found.end()
            if found[0] in "\"'":
                if not (quoted := _QUOTED.match(self.text, found.start())):
                    break
                position = quoted.end()
            elif found[0] == mark:
                return -found.start()
            elif found[0] == "{":
                depth += 1
            elif depth and found[0].startswith("}"):
                depth -= 1
                position = found.start() + 1
            elif found[0] == closing:
                return position
        inner = self.text.rfind(mark, start, first)
        return first + 2 if inner < 0 else -inner


def _raw(text: str, opening: Piece, position: int) -> tuple[Piece, int]:
    """Give what stands between ``raw`` and ``endraw`` as it is."""
    if not (end := _END_RAW.search(text, position)):
        raise ExpressionInvalid("'raw' is never closed; '{% endraw %}' is missing", text, opening.position)
    inside = text[position : end.start()]
    if opening.trims_after:
        inside = inside.lstrip()
    if end[1]:
        inside = inside.rstrip()
    return replace(opening, text=inside, trims_after=bool(end[2])), end.end()


def _comment(text: str, opening: Piece, position: int) -> tuple[Piece, int]:
    """Skip to the ``endcomment`` that belongs to this comment. What stands inside is not read, but for nested comments
    and raw blocks."""
    depth, start = 1, text.find("{%", position)
    while start >= 0:
        close = text.find("%}", start + 2)
        if close < 0:
            break
        end = close + 2
        tag = _piece(text, start, end)
        if tag.name == "raw" and (raw := _END_RAW.search(text, end)):
            end = raw.end()
        depth += {"comment": 1, "endcomment": -1}.get(tag.name, 0)
        if depth == 0:
            return replace(opening, text="", trims_after=tag.trims_after), end
        start = text.find("{%", end)
    raise ExpressionInvalid("'comment' is never closed; '{% endcomment %}' is missing", text, opening.position)


def _trimmed(pieces: list[Piece]) -> Iterator[Piece]:
    """Take the blanks off the text beside marks with a hyphen."""
    for number, piece in enumerate(pieces):
        if piece.kind != "text":
            yield piece
            continue
        text = piece.text
        if number > 0 and pieces[number - 1].trims_after:
            text = text.lstrip()
        if number + 1 < len(pieces) and pieces[number + 1].trims_before:
            text = text.rstrip()
        yield replace(piece, text=text)
