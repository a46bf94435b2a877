"""Filters that encode, decode and digest: JSON, Base64, URLs, hashes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_plus, unquote_to_bytes

from flo.engine import reading
from flo.engine.errors import InputInvalid
from flo.engine.language.bounds import bounded, check_length
from flo.engine.language.operators import check_size, written
from flo.engine.values import Json, dump

_BLANKS: Final = re.compile(r"[ \t\r\n]+")


def default(value: Json, fallback: Json = "", *, allow_false: Json = False) -> Json:
    """Give another value in place of one that is missing, null, false or empty; ``allow_false: true`` keeps false."""
    if value is False:
        return fallback if allow_false is None or allow_false is False else False
    if value is None:
        return fallback
    is_empty = not isinstance(value, bool | int | float) and len(value) == 0
    return fallback if is_empty else value


def to_json(value: Json) -> Json:
    """Write a value as compact JSON."""
    check_size(value)
    return bounded(dump(value))


def parse_json(value: Json) -> Json:
    """Read JSON text by the strict rules of every input."""
    try:
        return reading.parse_json(written(value), "the text")
    except InputInvalid as problem:
        raise ValueError(str(problem)) from None


def _bytes(value: Json) -> bytes:
    try:
        return written(value).encode()
    except UnicodeEncodeError:
        raise ValueError("the text has a lone surrogate, which UTF-8 cannot hold") from None


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise ValueError("what was decoded is no UTF-8 text") from None


def base64_encode(value: Json) -> Json:
    """Encode text as Base64."""
    return bounded(base64.b64encode(_bytes(value)).decode())


def base64_decode(value: Json) -> Json:
    """Decode Base64 that holds UTF-8 text; line ends in it are ignored."""
    return _decoded(_BLANKS.sub("", written(value)), lambda text: base64.b64decode(text, validate=True))


def base64_url_safe_encode(value: Json) -> Json:
    """Encode text as Base64 with ``-`` and ``_`` in place of ``+`` and ``/``."""
    return bounded(base64.urlsafe_b64encode(_bytes(value)).decode())


def base64_url_safe_decode(value: Json) -> Json:
    """Decode URL-safe Base64 that holds UTF-8 text; the padding may be left out."""
    text = _BLANKS.sub("", written(value)).rstrip("=")
    padded = text + "=" * (-len(text) % 4)
    return _decoded(padded, lambda text: base64.b64decode(text, altchars=b"-_", validate=True))


def _decoded(text: str, decode: Callable[[str], bytes]) -> str:
    try:
        octets = decode(text)
    except (binascii.Error, ValueError):
        raise ValueError("the text is no Base64") from None
    return _text(octets)


def url_encode(value: Json) -> Json:
    """Encode text for the query of a URL; a blank becomes ``+``."""
    octets = _bytes(value)
    check_length(len(octets))
    return bounded(quote_plus(octets))


def url_decode(value: Json) -> Json:
    """Decode text from the query of a URL; ``+`` becomes a blank."""
    return _text(unquote_to_bytes(_bytes(written(value).replace("+", " "))))


def md5(value: Json) -> Json:
    """Give the MD5 of text as hexadecimal digits; for checksums, not for secrets."""
    return hashlib.md5(_bytes(value), usedforsecurity=False).hexdigest()


def sha256(value: Json) -> Json:
    """Give the SHA-256 of text as hexadecimal digits."""
    return hashlib.sha256(_bytes(value)).hexdigest()


def hmac_sha256(value: Json, key: Json) -> Json:
    """Sign text with a key: HMAC-SHA-256 as hexadecimal digits."""
    return hmac.new(_bytes(key), _bytes(value), hashlib.sha256).hexdigest()
