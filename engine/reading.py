"""Reading JSON strictly: what is wrong is refused with its line and column, and nothing is guessed."""

from __future__ import annotations

import json
import math
import re
from typing import Final

from flo.engine.errors import InputInvalid
from flo.engine.positions import first_problem, line_and_column
from flo.engine.values import MAX_DEPTH, MAX_DIGITS, Json

MAX_BYTES: Final = 64 * 1024 * 1024
"""A document or an input may be this large."""

_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
_ESCAPE = re.compile(r"\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB]..\\u[dD][c-fC-F])|(\\)", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")


def parse_json(data: str | bytes, source: str, *, limit: int = MAX_BYTES) -> Json:
    """Read one JSON document (RFC 8259). Raises ``InputInvalid`` that names ``source``, line, column and remedy.

    Bytes are UTF-8 with or without a byte order mark, or UTF-16 with one. Refused besides what is no JSON: a repeated
    key, a number that overflows, a whole number of more than 4,300 digits, half a surrogate pair, nesting deeper than
    200, more than ``limit`` bytes (characters, for a text). Whole numbers are exact; ``1.0`` stays a float.
    """
    return parse_text(read_text(data, source, limit=limit), source)


def read_text(data: str | bytes, source: str, *, limit: int = MAX_BYTES) -> str:
    """Decode JSON text, without its byte order mark. Raises ``InputInvalid``."""
    if len(data) > limit:
        unit = "characters" if isinstance(data, str) else "bytes"
        raise InputInvalid(source, f"it has {len(data):,} {unit}, the limit is {limit:,}")
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace").removeprefix("\ufeff")
        line, column = line_and_column(before, len(before))
        what = f"the byte 0x{data[error.start]:02X} is no {encoding.upper()}; save the text as UTF-8"
        raise InputInvalid(source, what, line, column) from None
    if "\x00" in text[:4]:
        raise InputInvalid(source, "it holds zero bytes: is it UTF-16 or UTF-32? save the text as UTF-8", 1, 1)
    return text.removeprefix("\ufeff")


def parse_text(text: str, source: str, *, shallow: bool = False, searched: int = MAX_BYTES) -> Json:
    """As ``parse_json``, of text that ``read_text`` gave.

    ``shallow`` says that it is known to nest no deeper than it may. In more than ``searched`` characters the exact
    problem is not looked for, which takes seconds for each million of them: what the decoder says is told.
    """
    reason: ValueError | None = None
    if shallow or not _too_deep(text):
        try:
            value: Json = _DECODER.decode(text)
        except RecursionError:
            pass
        except ValueError as error:
            reason = error
        else:
            if not _has_half_pair(text):
                return value
            reason = ValueError("half of a surrogate pair")
    if len(text) > searched and reason is not None:
        raise _told(source, reason)
    problem = first_problem(text)
    if problem is None:
        raise InputInvalid(source, "it cannot be read as JSON")
    raise InputInvalid(source, problem.message, *line_and_column(text, problem.position))


def _told(source: str, reason: ValueError) -> InputInvalid:
    """What the decoder says, with its place where it knows one."""
    if not isinstance(reason, json.JSONDecodeError):
        return InputInvalid(source, f"it cannot be read as JSON: {reason}")
    words = reason.msg[:1].lower() + reason.msg[1:].removesuffix(" at").removesuffix(" starting")
    return InputInvalid(source, f"it cannot be read as JSON: {words}", reason.lineno, reason.colno)


def _too_deep(text: str) -> bool:
    """Say whether lists and objects nest too deep, or are not closed. Takes no stack: the innermost pairs are taken
    away, level by level."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    left = _NO_BRACKETS.sub("", _TEXT.sub("", text)).replace("{", "[").replace("}", "]")
    for _ in range(MAX_DEPTH):
        if not left:
            return False
        before = len(left)
        left = left.replace("[]", "")
        if len(left) == before:
            return True
    return bool(left)


def _has_half_pair(text: str) -> bool:
    if not text.isascii() and _HALF.search(text):
        return True
    if "\\ud" not in text and "\\uD" not in text:
        return False
    return any(found[1] for found in _ESCAPE.finditer(text))


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    held = dict(pairs)
    if len(held) != len(pairs):
        raise ValueError("a repeated key")
    return held


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number that overflows")
    return number


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS + digits.startswith("-"):
        raise ValueError("too many digits")
    return int(digits)


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_integer, parse_constant=_refuse
)
