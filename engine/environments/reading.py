"""Reading JSON that may hold secrets: what is wrong is told by its place, without the text that stands there."""

from __future__ import annotations

import re
from typing import Final

from flo.engine.errors import InputInvalid
from flo.engine.reading import parse_text, read_text
from flo.engine.values import Json

MAX_BYTES: Final = 16 * 1024 * 1024
"""A settings file may be this large."""

_WORD: Final = re.compile(r"[\w$.+-]+")
_SHOWN: Final = 29
"""So much of a long word stands in a message about JSON."""


def read_discreetly(data: str | bytes, source: str) -> tuple[Json, str]:
    """The value of a JSON text, and the text. Raises ``InputInvalid`` with line and column."""
    text = read_text(data, source, limit=MAX_BYTES)
    try:
        return parse_text(text, source), text
    except InputInvalid as wrong:
        raise InputInvalid(source, _without_word(wrong, text), wrong.line, wrong.column) from None


def _without_word(wrong: InputInvalid, text: str) -> str:
    """The message without the word that it is about: a password without its quotes, for one."""
    lines = text.split("\n")
    rest = lines[wrong.line - 1][wrong.column - 1 :] if 0 < wrong.line <= len(lines) else ""
    found = _WORD.match(rest)
    if found is None:
        return wrong.message
    word = re.escape(found[0][:_SHOWN])
    message = re.sub(rf"'{word}[^']*'( came)?\Z", r"something\1", wrong.message)  # at the end, in quotes
    return re.sub(rf"\A(the number )?{word}\S* is ", "what stands there is ", message)  # or at the beginning
