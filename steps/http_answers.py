"""Answers: bytes and headers become the step's output, and nothing is guessed."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from flo.engine.errors import InputInvalid, ValueRefused
from flo.engine.reading import parse_text
from flo.engine.values import MAX_DEPTH, Json, plain
from flo.steps.http_decoding import undecoded
from flo.steps.http_exchange import Answer, Fields, Hop, bodiless
from flo.steps.http_media import codec_of, media_of
from flo.steps.http_network import Watch

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TEXTS: Final = frozenset(
    {
        "application/ecmascript", "application/graphql", "application/javascript", "application/jsonlines",
        "application/sql", "application/toml", "application/x-javascript", "application/x-ndjson",
        "application/x-sh", "application/x-www-form-urlencoded", "application/x-yaml", "application/xml",
        "application/xml-dtd", "application/yaml", "image/svg+xml",
    }
)  # fmt: skip
_SEARCHED: Final = 1024 * 1024
"""Characters in which the place of a mistake is looked for: in so many it takes seconds, and nothing interrupts it."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as one level up and one level down, in bytes with a sign."""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))


def output_of(hop: Hop, answer: Answer, watch: Watch) -> tuple[dict[str, Json], tuple[str, ...]]:
    """The step's output, and warnings. Raises ``StepFailed`` for JSON that nests too deep; with a body of some size,
    ``Expired`` and ``RunCancelled`` as the watch does."""
    output: dict[str, Json] = {"status": answer.status, "headers": _headers(answer.headers)}
    body, encoding, problem = _body(hop, answer, watch)
    output |= {"body": body, "bodyEncoding": encoding}
    if problem is None:
        return output, ()
    return output | {"json_error": problem}, (f"{problem}; it is left as it came",)


def _headers(fields: Fields) -> Mapping[str, Json]:
    """Headers by name. Only ``Set-Cookie`` cannot be joined (RFC 9110 section 5.3)."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value.replace("\x00", ""))
    return {name: values if name == "set-cookie" else ", ".join(values) for name, values in found.items()}


def _body(hop: Hop, answer: Answer, watch: Watch) -> tuple[Json, str | None, str | None]:
    """The body, what it is, and why it is not the JSON that it should be."""
    media, charset = media_of(answer.header("content-type"))
    data = answer.body
    is_json = media in ("application/json", "text/json") or media.endswith("+json")
    is_text = media.startswith("text/") or media.endswith("+xml") or media in _TEXTS or charset is not None
    if not data:
        empty_text = is_text and not is_json and not bodiless(hop.method, answer.status)
        return ("", "text", None) if empty_text else (None, None, None)
    if undecoded(answer.joined("content-encoding")):
        return _base64(data)
    text = _text(data, charset) if is_json or is_text or not media else None
    if not is_json:
        return _base64(data) if text is None else (text, "text", None)
    if text is None:
        return (*_base64(data)[:2], f"the body calls itself {media}, and is no text in {charset or 'utf-8'}")
    return _json(hop, text, media, watch)


def _json(hop: Hop, text: str, media: str, watch: Watch) -> tuple[Json, str, str | None]:
    if _too_deep(text, watch):
        raise hop.fails("decode_error", f"the body nests deeper than {MAX_DEPTH} as JSON")
    try:
        value = parse_text(text.removeprefix("\ufeff"), "the body", shallow=True, searched=_SEARCHED)
        if _ESCAPED_NUL.search(text):
            if len(text) > _SEARCHED:
                return text, "text", "the body holds what cannot be stored: the character U+0000"
            plain(value)
    except InputInvalid as error:
        where = f"line {error.line}, column {error.column}: " if error.line else ""
        return text, "text", f"the body calls itself {media}, and is no JSON: {where}{error.message}"
    except ValueRefused as error:
        return text, "text", f"the body holds what cannot be stored: {error.message}"
    return value, "json", None


def _base64(data: bytes) -> tuple[str, str, None]:
    return base64.b64encode(data).decode("ascii"), "base64", None


def _text(data: bytes, charset: str | None) -> str | None:
    """The body as text, decoded strictly, or None. A byte order mark says more than a header."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            data, charset = data[len(mark) :], encoding
            break
    codec = codec_of(charset or "utf-8")
    if codec is None:
        return None
    try:
        text = data.decode(codec)
    except ValueError:
        return None
    return None if _UNSTORABLE.search(text) else text


def _too_deep(text: str, watch: Watch) -> bool:
    """Say whether lists and objects nest too deep, whatever else is wrong with a text."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    if len(text) > _SEARCHED:
        watch.left()
    steps = _QUOTED.sub("", text).encode("utf-8", "replace").translate(_STEPS, _NO_BRACKETS)
    depth = 0
    for start in range(0, len(steps), _SEARCHED):
        if len(text) > _SEARCHED:
            watch.left()
        depths = [*accumulate(memoryview(steps[start : start + _SEARCHED]).cast("b"), initial=depth)]
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False
