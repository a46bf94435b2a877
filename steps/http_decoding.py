"""Compressed bodies, decompressed piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

_PIECE: Final = 64 * 1024
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_MAX_CODINGS: Final = 3


class Undecodable(Exception):
    """A body is not compressed as its header says."""


def decoded(chunks: Iterator[bytes], codings: str) -> Iterator[bytes]:
    """Take the compressions of a ``Content-Encoding`` off, in pieces of 64 KiB at most. Where one is not known, all are
    left on. Raises ``Undecodable``."""
    if undecoded(codings):
        return chunks
    names = [name for part in codings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > _MAX_CODINGS:
        raise Undecodable(f"is compressed {len(names)} times, the limit is {_MAX_CODINGS}")
    for name in reversed(names):
        chunks = _gunzipped(chunks) if name in _GZIP else _inflated(chunks)
    return chunks


def undecoded(codings: str) -> bool:
    """Say whether ``decoded`` leaves the compressions on."""
    names = {part.strip().lower() for part in codings.split(",")}
    return bool(names - _GZIP - {"", "identity", "deflate"})


def _gunzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Gzip (RFC 1952), of one member or several. What comes after the last one is no part of it."""
    inflater = _gzip()
    begun, rest = False, b""
    for chunk in chunks:
        rest += chunk
        while rest:
            if inflater.eof:
                if len(rest) < 2:
                    break
                if not rest.startswith(b"\x1f\x8b"):
                    rest = b""
                    break
                inflater = _gzip()
            begun = True
            yield from _drained(inflater, rest)
            rest = inflater.unused_data
    if begun and not inflater.eof:
        raise Undecodable("ends in the middle of what gzip made of it")


def _inflated(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Deflate, with the frame of zlib (RFC 1950) as it should be, or without as some servers send it."""
    inflater, head = None, b""
    for chunk in chunks:
        if inflater is None:
            head += chunk
            if len(head) < 2:
                continue
            framed = head[0] & 0x0F == 8 and int.from_bytes(head[:2]) % 31 == 0
            inflater = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
            chunk = head
        yield from _drained(inflater, chunk)
    if head and (inflater is None or not inflater.eof):
        raise Undecodable("ends in the middle of what deflate made of it")


def _gzip() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _drained(inflater: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """What ``data`` gives, in pieces."""
    while not inflater.eof:
        try:
            piece = inflater.decompress(data, _PIECE)
        except zlib.error as error:
            raise Undecodable(f"cannot be decompressed: {error}") from error
        if piece:
            yield piece
        data = inflater.unconsumed_tail
        if not data and len(piece) < _PIECE:
            return
