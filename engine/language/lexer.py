"""The tokens of an expression: names, numbers, quoted text, operators."""

from __future__ import annotations

import math
import re
from typing import Final, Literal

from flo.engine.errors import ExpressionInvalid
from flo.engine.frozen import frozen

MAX_LENGTH: Final = 20_000
"""An expression may have this many characters."""
MAX_BITS: Final = 14_284
"""Integers may have this many bits: 4,300 digits, what Python writes and reads at most."""

Kind = Literal["name", "key", "number", "text", "operator", "end"]

_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$-]*\??")
_KEY = re.compile(r"[\w$][\w$-]*\??")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_TEXT = re.compile(r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'""", re.DOTALL)
_OPERATOR = re.compile(r"==|!=|<>|<=|>=|\.\.|[<>.,:|()\[\]{}+*/%-]")
_ESCAPE = re.compile(r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_FOREIGN = re.compile(r"===|!==|&&|\|\||\*\*|//|=(?!=)|!(?!=)|\?")
_INSTEAD: Final = {
    "===": "write '=='",
    "=": "write '=='",
    "!==": "write '!='",
    "&&": "write 'and'",
    "||": "write 'or'",
    "!": "write 'not'",
    "?": "write 'a if condition else b'",
    "**": "there are no powers",
    "//": "write 'a | divided_by: b'",
}
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}


@frozen
class Token:
    """``text`` is the token as written; ``value`` what a number or a quoted text means. A ``key`` is a name behind a
    dot."""

    kind: Kind
    text: str
    position: int
    value: int | float | str = ""

    @property
    def end(self) -> int:
        return self.position + len(self.text)


def tokenize(source: str) -> list[Token]:
    """Cut ``source`` into tokens, the last of kind ``end``. Raises ``ExpressionInvalid``."""
    if len(source) > MAX_LENGTH:
        raise ExpressionInvalid(
            f"an expression of {len(source):,} characters; at most {MAX_LENGTH:,} are allowed", source, 0
        )
    tokens: list[Token] = []
    position = _skip_blanks(source, 0)
    while position < len(source):
        behind_dot = bool(tokens) and tokens[-1].text == "." and tokens[-1].kind == "operator"
        token = _key(source, position) if behind_dot else _token(source, position)
        tokens.append(token)
        position = _skip_blanks(source, token.end)
    tokens.append(Token("end", "", position))
    return tokens


def _skip_blanks(source: str, position: int) -> int:
    found = _BLANKS.match(source, position)
    return found.end() if found else position


def _key(source: str, position: int) -> Token:
    found = _KEY.match(source, position)
    return Token("key", found[0], position) if found else _token(source, position)


def _token(source: str, position: int) -> Token:
    if found := _NAME.match(source, position):
        return Token("name", found[0], position)
    if found := _NUMBER.match(source, position):
        return Token("number", found[0], position, _number(source, position, found[0]))
    if source[position] in "\"'":
        if not (found := _TEXT.match(source, position)):
            raise ExpressionInvalid("quoted text that is never closed", source, position)
        return Token("text", found[0], position, _unescape(source, position, found[0][1:-1]))
    if found := _FOREIGN.match(source, position):
        raise ExpressionInvalid(f"no operator {found[0]!r}; {_INSTEAD[found[0]]}", source, position)
    if found := _OPERATOR.match(source, position):
        return Token("operator", found[0], position)
    raise ExpressionInvalid(f"the character {source[position]!r} means nothing here", source, position)


def _number(source: str, position: int, digits: str) -> int | float:
    following = source[position + len(digits) : position + len(digits) + 1]
    if following.isalpha() or following in ("_", "$"):
        raise ExpressionInvalid("a name cannot start with a digit", source, position)
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        raise ExpressionInvalid("a number has no leading zeros; quote it to keep it as text", source, position)
    if not digits.isdigit():
        number = float(digits)
        if math.isinf(number):
            raise ExpressionInvalid("a number that is too large", source, position)
        return number
    if len(digits) > 4300 or (whole := int(digits)).bit_length() > MAX_BITS:
        raise ExpressionInvalid("a number of more than 4,300 digits", source, position)
    return whole


def _unescape(source: str, position: int, written: str) -> str:
    if "\\" not in written:
        return written

    def meant(escape: re.Match[str]) -> str:
        what = escape[1]
        if what in _ESCAPED:
            return _ESCAPED[what]
        place = position + 1 + escape.start()
        if len(what) == 1:
            raise ExpressionInvalid(f"no escape {escape[0]!r}; a backslash itself is written twice", source, place)
        units = bytes.fromhex(what.replace("\\", "").replace("u", ""))
        try:
            text = units.decode("utf-16-be")
        except UnicodeDecodeError:
            raise ExpressionInvalid(f"{escape[0]!r} is half a character", source, place) from None
        if text == "\0":
            raise ExpressionInvalid("the character U+0000 cannot be stored as JSON", source, place)
        return text

    return _ESCAPE.sub(meant, written)
