"""Media types and charsets: one reading of them for what comes and for what is sent."""

from __future__ import annotations

import codecs
from email.message import Message
from typing import Final

_NO_CHARSETS: Final = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"})
"""What Python decodes and no server means."""


def media_of(content_type: str | None) -> tuple[str, str | None]:
    """Media type in lower case, nothing if none came, and charset."""
    if content_type is None:
        return "", None
    message = Message()
    message["content-type"] = content_type.replace("\r", " ").replace("\n", " ")
    charset = message.get_param("charset")
    return content_type.partition(";")[0].strip().lower(), charset if isinstance(charset, str) and charset else None


def codec_of(charset: str) -> str | None:
    """The name under which Python encodes and decodes a charset, or None for one that is not known."""
    try:
        name = codecs.lookup(charset).name
        "".encode(name)  # refuses what is no charset: rot13, base64, …
    except (LookupError, ValueError):
        return None
    return None if name in _NO_CHARSETS else name
