"""Bodies of requests: a JSON value becomes bytes, and the media type that says what they are."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from flo.engine.errors import StepFailed, did_you_mean
from flo.engine.values import Json, JsonObject, dump, kind_of, plain, shown
from flo.steps.http_media import codec_of, media_of

_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
_FILE: Final = ("body", "bodyEncoding", "fileName", "contentType")
_NO_ASCII = re.compile("[^\x00-\x7f]+")
_ESCAPED: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def body_of(input: JsonObject, media: str | None) -> tuple[bytes, str] | None:
    """The bytes to send and their media type, or None without a body. ``media`` is the type that they are given, if
    any: text is written in its charset. Raises ``StepFailed`` (``invalid_input``)."""
    kind, body = _kind(input), input.get("body")
    if "body" not in input or (body is None and kind != "json"):
        return None
    match kind or _usual(body):
        case "form":
            return _form(body), "application/x-www-form-urlencoded"
        case "multipart":
            return _multipart(body)
        case named:
            return written(body, named, "body", media)


def written(body: Json, kind: str, place: str, media: str | None) -> tuple[bytes, str]:
    """A value as ``json``, ``text`` or ``base64``, in the charset of ``media``."""
    if kind == "json":
        return _json(body, place, media), "application/json"
    if kind == "text":
        return _encoded(as_text(body), place, media), _TEXT
    if not isinstance(body, str):
        raise invalid(f"{place} is {kind_of(body)}; expected text in base64")
    try:
        return base64.b64decode("".join(body.split()), validate=True), _BYTES
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{place} is no base64: {str(error).lower()}") from None


def _json(body: Json, place: str, media: str | None) -> bytes:
    """Exact JSON; ASCII where its charset is another than UTF-8, so that it is right for whoever heeds that or not.
    Raises ``ValueRefused`` with the place of what JSON cannot hold."""
    try:
        text = dump(body)
    except ValueError:
        plain(body, (place,))
        raise
    return _encoded(text if _codec(place, media) == "utf-8" else _NO_ASCII.sub(_escape, text), place, media)


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _encoded(text: str, place: str, media: str | None) -> bytes:
    codec = _codec(place, media)
    try:
        return text.encode(codec) if text else b""
    except UnicodeEncodeError as error:
        what = f"{place} holds U+{ord(text[error.start]):04X}, which its Content-Type {shown(media)} has no bytes for"
        raise invalid(what) from None


def _codec(place: str, media: str | None) -> str:
    """What text is encoded with that is sent as ``media``."""
    charset = media_of(media)[1]
    codec = codec_of(charset or "utf-8")
    if codec is None:
        raise invalid(f"the charset {shown(charset)} of the Content-Type is not known; {place} cannot be written in it")
    return codec


def as_text(value: Json) -> str:
    """A value where HTTP has text: text as it is, null as nothing, anything else as JSON."""
    if value is None:
        return ""
    return str.__str__(value) if isinstance(value, str) else dump(value)


def pairs_of(fields: Mapping[str, Json], place: str) -> Iterator[tuple[str, str]]:
    """Names and values of a query or a form: a list repeats its name, null is left out."""
    for name, held in fields.items():
        for value in _listed(held):
            if isinstance(value, Mapping) or (not isinstance(value, str) and isinstance(value, Sequence)):
                raise invalid(f"{place}.{name} holds {kind_of(value)}; expected text, numbers or booleans")
            if value is not None:
                yield name, as_text(value)


def invalid(message: str) -> StepFailed:
    """The failure of an input from which no request can be made."""
    return StepFailed(message, code="invalid_input", retryable=False)


def _kind(input: JsonObject) -> str | None:
    kind, alias = input.get("bodyType"), input.get("bodyEncoding")
    if kind is not None and alias is not None and kind != alias:
        raise invalid(f"bodyType is {kind!r} and bodyEncoding {alias!r}; expected one of them")
    found = alias if kind is None else kind
    return None if found is None else str(found)


def _usual(body: Json) -> str:
    return "text" if isinstance(body, str) else "json"


def _listed(held: Json) -> Sequence[Json]:
    return held if isinstance(held, Sequence) and not isinstance(held, str) else [held]


def _form(body: Json) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, Mapping):
        raise invalid(f"body is {kind_of(body)}; expected an object for a form")
    return urlencode(list(pairs_of(body, "body"))).encode()


def _multipart(body: Json) -> tuple[bytes, str]:
    """A form of several parts (RFC 7578): an object stands for a file, with what its ``_FILE`` fields say."""
    if not isinstance(body, Mapping):
        raise invalid(f"body is {kind_of(body)}; expected an object for a form of several parts")
    boundary = os.urandom(16).hex()
    parts: list[bytes] = []
    for name, held in body.items():
        for value in _listed(held):
            if isinstance(value, Mapping):
                parts.append(_file(name, value, boundary))
            else:
                parts += [_part(name, text.encode(), boundary) for _, text in pairs_of({name: value}, "body")]
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _file(name: str, file: Mapping[str, Json], boundary: str) -> bytes:
    place = f"body.{name}"
    for field in file:
        if field not in _FILE:
            raise invalid(f"{place} has no field {field!r}{did_you_mean(field, _FILE)}; expected {', '.join(_FILE)}")
    content = file.get("body")
    kind = file.get("bodyEncoding")
    if content is None and kind != "json":
        content = ""
    kind = _usual(content) if kind is None else kind
    if kind not in ("json", "text", "base64"):
        raise invalid(f"{place}.bodyEncoding is {as_text(kind)!r}; expected 'json', 'text' or 'base64'")
    given = None if file.get("contentType") is None else as_text(file["contentType"])
    if given is not None and not (given.isprintable() and given.isascii()):
        raise invalid(f"{place}.contentType is no media type")
    data, usual = written(content, str(kind), f"{place}.body", given)
    media = usual if given is None else given
    return _part(name, data, boundary, as_text(file.get("fileName", name)), media)


def _part(name: str, data: bytes, boundary: str, file: str | None = None, media: str | None = None) -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name.translate(_ESCAPED)}"'
    if file is not None:
        head += f'; filename="{file.translate(_ESCAPED)}"\r\nContent-Type: {media}'
    return f"{head}\r\n\r\n".encode() + data + b"\r\n"
