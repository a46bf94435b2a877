"""JSON values: their types, the checks that keep them JSON, and how they are written."""

from __future__ import annotations

import json
import marshal
import math
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, overload

from flo.engine.errors import ValueRefused
from flo.engine.secrecy import Lost, Secret, shown_forms

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonObject = Mapping[str, Json]
Place = tuple[str | int, ...]
"""Where a value stands in a document: the keys and indexes that lead to it."""


class LazyList(Sequence["Json"]):
    """A list that is read when something refers to it. What it holds is plain JSON already."""

    @abstractmethod
    def item(self, index: int) -> Json:
        """The item at ``index``, which is from 0 on and below the length."""

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | Sequence[Json]:
        if isinstance(index, slice):
            return [self.item(at) for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self.item(at)

    def __iter__(self) -> Iterator[Json]:
        return map(self.item, range(len(self)))


MAX_DEPTH: Final = 200
"""Lists and objects may nest this deep, at every entrance (RFC 8259 section 9 lets a reader bound it)."""

MAX_DIGITS: Final = 4_300
"""Integers may have this many digits: what Python reads and writes at most."""

SIMPLE: Final = frozenset({str, int, float, bool, type(None), Secret, Lost})
"""The types of values in which nothing else lies."""

OBJECT: Final = (dict, Mapping)
"""For ``isinstance``: a dict is known at once, and only what is none has to be asked whether it is a mapping."""

_PORTION: Final = 10_000
_TOO_LONG = 10**MAX_DIGITS
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$-]*\Z")


def place_text(place: Place) -> str:
    """Write a place as people read it: ``steps[1].input.where[0]["odd key"]``."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def place_under(outer: str, inner: str) -> str:
    """Write the place ``inner`` of a value that itself stands at ``outer``."""
    return outer + ("." if outer and inner and not inner.startswith("[") else "") + inner


def kind_of(value: object) -> str:
    """Name the JSON type of ``value`` as error messages do: ``null``, ``text``, ``a list``, …"""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case Sequence() if not isinstance(value, bytes | bytearray):
            return "a list"
        case _:
            return f"a Python {type(value).__name__}"


def shown(value: object, limit: int = 60) -> str:
    """Write a value for an error message: its JSON where it has one, cut at ``limit`` characters."""
    try:
        text = json.dumps(shown_forms(value), ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plain(value: object, place: Place = ()) -> Json:
    """Give ``value`` back as plain JSON: dicts with text keys, lists, text, finite numbers, booleans, null.

    A ``LazyList`` stays as it is, and secrets keep their mark; tuples and other sequences become lists. What no store
    could hold raises ``ValueRefused`` with its place: NaN and the infinities, whole numbers past ``MAX_DIGITS``, bytes,
    sets, other objects, keys that are no text, U+0000, lone surrogates, nesting past ``MAX_DEPTH``.
    """
    try:
        return _plain_quickly(value, MAX_DEPTH - len(place))
    except _Unusual:
        return _plain_slowly(value, place)


def storable(text: str) -> str:
    """Text as every store can hold it, for what has to be recorded whatever it says: U+0000 and lone surrogates become
    U+FFFD."""
    return text if is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def is_storable(text: str) -> bool:
    """Whether every store can hold a text: neither U+0000 nor a lone surrogate is in it."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Unusual(Exception):
    """Not of the types that JSON reads to, or not to be stored."""


def _plain_quickly(value: object, depth: int) -> Json:
    """A copy of what ``json.loads`` could have given; anything else is ``_Unusual``."""
    kind = type(value)
    if kind is str or kind is Secret or kind is Lost:
        if not is_storable(value):  # type: ignore[arg-type]
            raise _Unusual
        return value  # type: ignore[return-value]
    if kind is dict and depth > 0:
        copy: dict[str, Json] = {}
        for key, held in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or not is_storable(key):
                raise _Unusual
            copy[key] = _plain_quickly(held, depth - 1)
        return copy
    if kind is list and depth > 0:
        return [_plain_quickly(held, depth - 1) for held in value]  # type: ignore[attr-defined]
    if kind is int:
        if -_TOO_LONG < value < _TOO_LONG:  # type: ignore[operator]
            return value  # type: ignore[return-value]
        raise _Unusual
    if value is None or kind is bool or (kind is float and math.isfinite(value)):  # type: ignore[arg-type]
        return value  # type: ignore[return-value]
    raise _Unusual


def _plain_slowly(value: object, place: Place) -> Json:
    """The same for everything that passes as JSON, or the place of what does not."""
    match value:
        case None | bool():
            return value
        case str():
            if found := _UNSTORABLE.search(value):
                raise ValueRefused(place_text(place), f"the character U+{ord(found[0]):04X}")
            return value if isinstance(value, Secret | Lost) else str(value)
        case int():
            if not -_TOO_LONG < value < _TOO_LONG:
                raise ValueRefused(place_text(place), f"a whole number with more than {MAX_DIGITS:,} digits")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise ValueRefused(place_text(place), str(value))
            return float(value)
    if len(place) >= MAX_DEPTH:
        raise ValueRefused(place_text(place[:3]) + "…", f"nesting deeper than {MAX_DEPTH}")
    match value:
        case LazyList():
            return value
        case Mapping():
            return {_plain_key(key, place): _plain_slowly(held, (*place, key)) for key, held in value.items()}
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return [_plain_slowly(held, (*place, index)) for index, held in enumerate(value)]
    raise ValueRefused(place_text(place), kind_of(value))


def _plain_key(key: object, place: Place) -> str:
    if not isinstance(key, str):
        raise ValueRefused(place_text(place), f"the key {key!r} (no text)")
    if found := _UNSTORABLE.search(key):
        raise ValueRefused(place_text(place), f"a key with the character U+{ord(found[0]):04X}")
    return key


def whole(value: Json) -> Json:
    """The same, with every ``LazyList`` in it read: for what is kept apart from that list, or stored."""
    return value if is_builtin(value) else _read(value)


def whole_object(value: JsonObject) -> JsonObject:
    """As ``whole``, for an object."""
    return {key: whole(held) for key, held in value.items()}


def is_builtin(value: Any) -> bool:
    """Whether all of a value is of Python's own types: no secret is in it, and nothing that is read when something
    refers to it. ``marshal`` takes nothing else, and a tenth of the time that looking at each part would; but it needs
    more memory than the value, so that long lists are looked at in portions."""
    if value.__class__ is list and len(value) > _PORTION:
        return all(is_builtin(value[at : at + _PORTION]) for at in range(0, len(value), _PORTION))
    if value.__class__ is dict:
        for held in value.values():
            if held.__class__ is list and len(held) > _PORTION:
                return all(map(is_builtin, value)) and all(map(is_builtin, value.values()))
    try:
        marshal.dumps(value)
    except ValueError:
        return False
    return True


def _read(value: Json) -> Json:
    if type(value) in SIMPLE or isinstance(value, str):
        return value
    if isinstance(value, OBJECT):
        return {key: _read(held) for key, held in value.items()}
    return [_read(held) for held in value] if isinstance(value, Sequence) else value


def dump(value: Json) -> str:
    """Write compact JSON, characters unescaped, NaN refused. Reading it back gives an equal value."""
    return "".join(_encode(value, 0))


def _encode_unusual(value: object) -> Json:
    """Let results that a store reads lazily be written like the lists and objects they stand for."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise ValueRefused("", kind_of(value))


def _encoder() -> Callable[[Json, int], Iterable[str]]:
    """One encoder for all values. ``json.JSONEncoder`` makes one in C for each, which takes longer than most values."""
    make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if make is None:  # not CPython
        plain = json.JSONEncoder(
            ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_encode_unusual
        )
        return lambda value, level: plain.iterencode(value)
    encoder: Callable[[Json, int], Iterable[str]] = make(
        None, _encode_unusual, json.encoder.encode_basestring, None, ":", ",", False, False, False
    )
    return encoder


_encode: Final = _encoder()


def new_id() -> str:
    """Make a UUIDv7 (RFC 9562 sections 5.7 and 6.2): sorts by creation to a quarter of a microsecond, so that those of
    one batch keep their order; unique per call."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    number = milliseconds << 80 | (nanoseconds * 4096 // 1_000_000) << 64 | int.from_bytes(os.urandom(8))
    number = number | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
