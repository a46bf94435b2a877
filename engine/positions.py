"""Where things stand in JSON text: an exact scan that finds what is wrong with a text, or the place of each value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flo.engine.errors import did_you_mean
from flo.engine.values import MAX_DEPTH, MAX_DIGITS, Place

_BLANKS = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"[\w$.+-]+")
_TEXT_RUN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_LITERALS: Final = ("true", "false", "null")
_OTHER_LITERALS: Final = {"none": "null", "nil": "null", "undefined": "null", "yes": "true", "no": "false"}
_NO_NUMBERS: Final = ("nan", "infinity", "inf")
_TYPOGRAPHIC: Final = "\u201c\u201d\u201e\u201f\u2018\u2019\u00ab\u00bb\uff02"
_CONTROLS: Final = {"\n": r"a line break in text; write \n", "\r": r"a line break in text; write \r",
                    "\t": r"a tab in text; write \t"}  # fmt: skip


class Malformed(Exception):
    """The text is no JSON; ``position`` counts characters from 0."""

    def __init__(self, position: int, message: str) -> None:
        self.position, self.message = position, message
        super().__init__(message)


@dataclass(slots=True)
class _Open:
    """A list or an object whose end has not come. ``part`` is the index or key of the entry under way."""

    start: int
    keys: set[str] | None
    part: str | int = -1
    part_start: int = 0
    comma: int = -1
    entries: int = field(default=0)

    @property
    def closing(self) -> str:
        return "]" if self.keys is None else "}"


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Count both from 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def positions(text: str) -> Mapping[Place, int]:
    """Where each value of a sound JSON text stands: its key in an object, the value itself in a list."""
    found: dict[Place, int] = {}
    for around, start in _values(text):
        found[tuple(level.part for level in around)] = around[-1].part_start if around else start
    return found


def locate(text: str, place: Place) -> tuple[int, int]:
    """Line and column of a place in a sound JSON text; of what is around it where it is not there itself."""
    found = positions(text)
    while place not in found:
        place = place[:-1]
    return line_and_column(text, found[place])


def first_problem(text: str) -> Malformed | None:
    """What is wrong with a text as JSON, the first thing; None for a sound text."""
    try:
        for _ in _values(text):
            pass
    except Malformed as problem:
        return problem
    return None


def _values(text: str) -> Iterator[tuple[list[_Open], int]]:
    """Give for each value the containers that are open around it (the list is reused) and where it starts."""
    around: list[_Open] = []
    at = _skip(text, 0)
    if at == len(text):
        raise Malformed(0, "it is empty")
    while True:
        yield around, at
        if text[at : at + 1] in ("[", "{"):
            if len(around) >= MAX_DEPTH:
                raise Malformed(at, f"nesting deeper than {MAX_DEPTH}")
            around.append(_Open(at, set() if text[at] == "{" else None))
            at = _skip(text, at + 1)
        else:
            at = _skip(text, _scalar(text, at))
        while around:
            following = _next_entry(text, at, around[-1])
            if following is not None:
                at = following
                break
            around.pop()
            at = _skip(text, at + 1)
        else:
            if at < len(text):
                raise Malformed(at, f"something after the end of the document: {_shown(text, at)}")
            return


def _next_entry(text: str, at: int, level: _Open) -> int | None:
    """Go to the value of the container's next entry; None where the container ends at ``at``."""
    if level.entries and text.startswith(",", at):
        level.comma = at
        at = _skip(text, at + 1)
    elif text.startswith(level.closing, at):
        return None
    elif level.entries:
        raise Malformed(at, _instead_of_comma(text, at, level))
    if text.startswith(level.closing, at):
        raise Malformed(level.comma, "a comma after the last entry; remove it")
    level.entries += 1
    level.part_start = at
    if level.keys is None:
        level.part = level.entries - 1
        return at
    level.part, at = _key(text, at, level.keys)
    return at


def _key(text: str, at: int, keys: set[str]) -> tuple[str, int]:
    """Read a key and its colon; gives the key and where its value starts."""
    start = at
    if not text.startswith('"', at):
        raise Malformed(at, _instead_of_key(text, at))
    at = _end_of_text(text, at)
    key: str = json.loads(text[start:at])
    if key in keys:
        raise Malformed(start, f"the key {key!r} stands twice in one object; keep one")
    keys.add(key)
    at = _skip(text, at)
    if not text.startswith(":", at):
        raise Malformed(at, f"a colon is missing after the key {key!r}, {_found(text, at)}")
    return key, _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _scalar(text: str, at: int) -> int:
    """Check text, a number or a word, and give its end."""
    if text.startswith('"', at):
        return _end_of_text(text, at)
    if found := _NUMBER.match(text, at):
        return _end_of_number(text, found)
    for word in _LITERALS:
        if text.startswith(word, at) and not _WORD.match(text, at + len(word)):
            return at + len(word)
    raise Malformed(at, _instead_of_value(text, at))


def _end_of_number(text: str, found: re.Match[str]) -> int:
    more = _WORD.match(text, found.end())
    if more:
        raise Malformed(found.start(), _no_number(found[0] + more[0]))
    whole = found[1] is None and found[2] is None
    if whole and len(found[0].lstrip("-")) > MAX_DIGITS:
        raise Malformed(found.start(), f"a whole number with more than {MAX_DIGITS:,} digits; write it as text")
    if not whole and abs(float(found[0])) == float("inf"):
        raise Malformed(found.start(), f"the number {_cut(found[0])} is too large; write it as text")
    return found.end()


def _end_of_text(text: str, start: int) -> int:
    """Check a quoted text and give where it ends, the closing quote included."""
    at = start + 1
    while True:
        run = _TEXT_RUN.match(text, at)
        at = run.end() if run else at
        match text[at : at + 1]:
            case '"':
                return at + 1
            case "\\":
                at = _end_of_escape(text, at)
            case "":
                raise Malformed(start, "text without its closing quote")
            case "\n" if '"' not in text[at : at + 200].partition("\n")[0]:
                raise Malformed(start, "text without its closing quote on its line")
            case character if character < " ":
                what = f"the control character U+{ord(character):04X} in text; write \\u{ord(character):04x}"
                raise Malformed(at, _CONTROLS.get(character, what))
            case character:
                raise Malformed(at, f"half of a surrogate pair, U+{ord(character):04X}, in text")


def _end_of_escape(text: str, at: int) -> int:
    character = text[at + 1 : at + 2]
    if character and character in '"\\/bfnrt':
        return at + 2
    if character != "u":
        shown = text[at : at + 2]
        raise Malformed(at, f"no escape {shown!r} in JSON; a backslash itself is written twice")
    found = _UNICODE_ESCAPE.match(text, at)
    if not found:
        raise Malformed(at, r"the escape \u needs four hexadecimal digits")
    unit = int(found[1], 16)
    if not 0xD800 <= unit < 0xE000:
        return found.end()
    second = _UNICODE_ESCAPE.match(text, found.end())
    if unit < 0xDC00 and second and 0xDC00 <= int(second[1], 16) < 0xE000:
        return second.end()
    raise Malformed(at, f"half of a surrogate pair, {found[0]}; write both halves")


def _instead_of_comma(text: str, at: int, level: _Open) -> str:
    if at == len(text):
        line, column = line_and_column(text, level.start)
        kind = "list" if level.keys is None else "object"
        return f"the text ends before the {kind} of line {line}, column {column} is closed with {level.closing!r}"
    if comment := _comment(text, at):
        return comment
    if text[at] in "]}":
        line, column = line_and_column(text, level.start)
        return f"{text[at]!r} closes what {text[level.start]!r} opened in line {line}, column {column}"
    return f"a comma is missing, {_found(text, at)}"


def _instead_of_key(text: str, at: int) -> str:
    if at == len(text):
        return "the text ends where a key is expected"
    if comment := _comment(text, at):
        return comment
    if text[at] == ",":
        return "a comma too many"
    if text[at] == "'" or text[at] in _TYPOGRAPHIC or _WORD.match(text, at):
        return f"a key stands in double quotes, {_found(text, at)}"
    return f"a key in double quotes is expected, {_found(text, at)}"


def _instead_of_value(text: str, at: int) -> str:
    if at == len(text):
        return "the text ends where a value is expected"
    if comment := _comment(text, at):
        return comment
    if text[at] == "'" or text[at] in _TYPOGRAPHIC:
        return f"text stands in double quotes, {_found(text, at)}"
    if text[at] == ",":
        return "a value is missing before the comma"
    word = _WORD.match(text, at)
    if not word:
        return f"a value is expected, {_found(text, at)}"
    if any(character.isdigit() for character in word[0][:2]) or word[0].lstrip("+-").lower() in _NO_NUMBERS:
        return _no_number(word[0])
    known = _OTHER_LITERALS.get(word[0].lower())
    hint = f"; did you mean {known!r}?" if known else did_you_mean(word[0], _LITERALS)
    return f"{_cut(word[0])} is no JSON value{hint or '; text stands in double quotes'}"


def _no_number(word: str) -> str:
    digits = word.lstrip("+-")
    if digits.lower() in _NO_NUMBERS:
        return f"{word} is no JSON number"
    if word.startswith("+"):
        return f"{_cut(word)} is no JSON number; a number has no plus sign"
    if re.match(r"0\d+(?:\.\d+)?\Z", digits):
        return f"{_cut(word)} is no JSON number; a number has no leading zeros (quote it to keep them)"
    if digits.startswith(".") or digits.endswith("."):
        return f"{_cut(word)} is no JSON number; digits stand before and after the point"
    return f"{_cut(word)} is no JSON number"


def _comment(text: str, at: int) -> str:
    mark = next((mark for mark in ("//", "/*", "#") if text.startswith(mark, at)), "")
    return f"a comment ({mark}); JSON has none, remove it" if mark else ""


def _found(text: str, at: int) -> str:
    return f"{_shown(text, at)} came" if at < len(text) else "the text ends here"


def _shown(text: str, at: int) -> str:
    character = text[at]
    if not character.isprintable() or (ord(character) > 126 and not character.isalnum()):
        return f"U+{ord(character):04X}"
    word = _WORD.match(text, at)
    return repr(_cut(word[0] if word else character))


def _cut(word: str) -> str:
    return word if len(word) <= 30 else word[:29] + "…"
