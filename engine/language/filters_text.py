"""Filters on text. A value that is no text is written as it stands in text first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from flo.engine.language.bounds import MAX_ELEMENTS, bounded, check_elements, check_length
from flo.engine.language.filters_numbers import whole_number
from flo.engine.language.operators import written
from flo.engine.values import Json

_LINE_END: Final = re.compile(r"\r?\n")
_ENTITY: Final = re.compile(r"&(?:[a-zA-Z]+|#\d+);", re.ASCII)
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_BLOCK: Final = re.compile(r"<script|<style|<!--", re.IGNORECASE)
_BLOCK_ENDS: Final = {
    "<script": re.compile(r"</script>", re.IGNORECASE),
    "<style": re.compile(r"</style>", re.IGNORECASE),
    "<!--": re.compile("-->"),
}


def upcase(value: Json) -> Json:
    """Turn text to upper case."""
    return bounded(written(value).upper())


def downcase(value: Json) -> Json:
    """Turn text to lower case."""
    return bounded(written(value).lower())


def capitalize(value: Json) -> Json:
    """Turn the first character to upper case and the others to lower case."""
    return bounded(written(value).capitalize())


def strip(value: Json) -> Json:
    """Take blanks and line ends off both sides."""
    return written(value).strip()


def lstrip(value: Json) -> Json:
    """Take blanks and line ends off the left side."""
    return written(value).lstrip()


def rstrip(value: Json) -> Json:
    """Take blanks and line ends off the right side."""
    return written(value).rstrip()


def strip_newlines(value: Json) -> Json:
    """Remove line ends."""
    return _LINE_END.sub("", written(value))


def newline_to_br(value: Json) -> Json:
    """Put ``<br />`` before each line end."""
    text = written(value)
    check_length(len(text) + 6 * text.count("\n"))
    return _LINE_END.sub("<br />\n", text)


def strip_html(value: Json) -> Json:
    """Remove tags, comments, scripts and style sheets."""
    return _without_tags(_without_blocks(written(value)))


def _without_blocks(text: str) -> str:
    """Take out scripts, style sheets and comments that are closed; reads each character a few times at most."""
    kept, position, unclosed = [], 0, set[str]()
    start = _BLOCK.search(text)
    while start:
        kind = start[0].lower()
        end = None if kind in unclosed else _BLOCK_ENDS[kind].search(text, start.end())
        if end:
            kept.append(text[position : start.start()])
            position = end.end()
        else:
            unclosed.add(kind)
        start = _BLOCK.search(text, end.end() if end else start.end())
    return "".join([*kept, text[position:]])


def _without_tags(text: str) -> str:
    kept, position = [], 0
    while (start := text.find("<", position)) >= 0 and (end := text.find(">", start)) >= 0:
        kept.append(text[position:start])
        position = end + 1
    return "".join([*kept, text[position:]])


def truncate(value: Json, length: Json = 50, ellipsis: Json = "...") -> Json:
    """Cut text to a length (50), the ellipsis ("...") included."""
    text, end = written(value), written(ellipsis)
    most = whole_number(length, "the length")
    if len(text) <= most:
        return text
    return bounded(text[: max(most - len(end), 0)] + end)


def truncatewords(value: Json, count: Json = 15, ellipsis: Json = "...") -> Json:
    """Cut text to a number of words (15) and put an ellipsis ("...") after it."""
    text = written(value)
    most = max(whole_number(count, "the number of words"), 1)
    check_elements(min(most, len(text)))
    words = text.split(None, min(most, len(text)))
    if len(words) <= most:
        return text
    return bounded(" ".join(words[:most]) + written(ellipsis))


def append(value: Json, end: Json) -> Json:
    """Put text after the value."""
    return _concatenated(written(value), written(end))


def prepend(value: Json, start: Json) -> Json:
    """Put text before the value."""
    return _concatenated(written(start), written(value))


def _concatenated(first: str, second: str) -> str:
    check_length(len(first) + len(second))
    return first + second


def replace(value: Json, old: Json, new: Json = "") -> Json:
    """Replace each occurrence of a text by another."""
    text, searched, put = written(value), written(old), written(new)
    check_length(len(text) + text.count(searched) * (len(put) - len(searched)))
    return text.replace(searched, put)


def replace_first(value: Json, old: Json, new: Json = "") -> Json:
    """Replace the first occurrence of a text by another."""
    return _replaced_at(written(value), str.find, written(old), written(new))


def replace_last(value: Json, old: Json, new: Json) -> Json:
    """Replace the last occurrence of a text by another."""
    return _replaced_at(written(value), str.rfind, written(old), written(new))


def remove(value: Json, old: Json) -> Json:
    """Remove each occurrence of a text."""
    return written(value).replace(written(old), "")


def remove_first(value: Json, old: Json) -> Json:
    """Remove the first occurrence of a text."""
    return _replaced_at(written(value), str.find, written(old), "")


def remove_last(value: Json, old: Json) -> Json:
    """Remove the last occurrence of a text."""
    return _replaced_at(written(value), str.rfind, written(old), "")


def _replaced_at(text: str, find: Callable[[str, str], int], old: str, new: str) -> str:
    position = find(text, old)
    if position < 0:
        return text
    check_length(len(text) - len(old) + len(new))
    return text[:position] + new + text[position + len(old) :]


def split(value: Json, separator: Json) -> Json:
    """Split text at a separator; one blank splits at any run of blanks, no separator into characters.

    Empty parts at the end are dropped. Null stays null, so that a missing text is not mistaken for an empty list.
    """
    if value is None:
        return None
    text, at = written(value), written(separator)
    if at == "":
        check_elements(len(text))
        return list(text)
    parts = text.split(None if at == " " else at, MAX_ELEMENTS)
    check_elements(len(parts))
    while parts and not parts[-1]:
        parts.pop()
    return parts


def escape(value: Json) -> Json:
    """Escape ``& < > " '`` for HTML."""
    return bounded(written(value).translate(_HTML))


def escape_once(value: Json) -> Json:
    """Escape for HTML what is not escaped yet."""
    text = written(value)
    kept, position = [], 0
    for entity in _ENTITY.finditer(text):
        kept += [text[position : entity.start()].translate(_HTML), entity[0]]
        position = entity.end()
    return bounded("".join([*kept, text[position:].translate(_HTML)]))


def to_string(value: Json) -> Json:
    """Write a value as it stands in text: null as nothing, lists and objects as JSON."""
    return written(value)
