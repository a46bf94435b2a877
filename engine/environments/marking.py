"""Which of the texts that an owner wrote are secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from flo.engine.errors import InputInvalid
from flo.engine.hiding import marked
from flo.engine.secrecy import HIDDEN, Secret, shown_forms
from flo.engine.values import Json, JsonObject, Place, kind_of, place_text, shown

SECRET_KEY: Final = "secret"
"""``{"secret": X}``, with no other key, stands for X, and marks each text in it."""

_OPEN: Final = frozenset({"type", "baseUrl", "description"})
_HEADERS: Final = "headers"
_OPEN_HEADERS: Final = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
"""What every client sends: hidden, they would blank ordinary words in logs."""


def is_secret(raw: Json) -> bool:
    """Whether it is ``{"secret": X}``."""
    return isinstance(raw, Mapping) and len(raw) == 1 and SECRET_KEY in raw


def as_written(raw: Json) -> Json:
    """The value that was meant: what stands in ``{"secret": X}`` marked, in its place. Raises ``ValueError``."""
    match raw:
        case Mapping() if is_secret(raw):
            held = as_written(raw[SECRET_KEY])
            for place in _numbers(held, ()):
                which = f"{shown(place_text(place))} " if place else "it "
                raise ValueError(f"a number cannot be kept secret: write {which}as text, in quotes")
            return marked(held)
        case Mapping():
            return {key: as_written(held) for key, held in raw.items()}
        case list():
            return [as_written(held) for held in raw]
    return raw


def _numbers(value: Json, place: Place) -> Iterator[Place]:
    """Where in a value numbers stand."""
    match value:
        case int() | float() if not isinstance(value, bool):
            yield place
        case Mapping():
            for key, held in value.items():
                yield from _numbers(held, (*place, key))
        case list():
            for index, held in enumerate(value):
                yield from _numbers(held, (*place, index))


def as_connection(raw: Json) -> JsonObject:
    """The same for a connection, in which all text is secret but that of ``type``, ``baseUrl`` and ``description``, and
    of the headers that every client sends. Raises ``ValueError`` for what is no object."""
    value = as_written(raw)
    if not isinstance(value, dict):
        raise ValueError(f"a connection is an object, {kind_of(value)} came")
    return {key: _closed(key, held, _OPEN) for key, held in value.items()}


def _closed(key: str, value: Json, open_keys: frozenset[str]) -> Json:
    if isinstance(value, str):
        return value if key in open_keys or key.lower() in open_keys & _OPEN_HEADERS else marked(value)
    if isinstance(value, Mapping):
        inside = _OPEN | _OPEN_HEADERS if key == _HEADERS else _OPEN
        return {name: _closed(name, held, inside) for name, held in value.items()}
    return marked(value)


def wholly(value: Json) -> Json:
    """The same value, of its texts nothing to be shown: what was made of a text that is secret as it stands."""
    match value:
        case str():
            return Secret(str(value))
        case Mapping():
            return {key: wholly(held) for key, held in value.items()}
        case list():
            return [wholly(held) for held in value]
    return value


def concealed(raw: Json, value: Json) -> Json:
    """``value`` as people may see it: where ``raw``, of which it was made, says that it is secret, numbers in it are
    hidden too."""
    if is_secret(raw):
        return HIDDEN
    if isinstance(raw, Mapping) and isinstance(value, Mapping):
        return {key: concealed(raw.get(key), held) for key, held in value.items()}
    if isinstance(raw, list) and isinstance(value, list) and len(raw) == len(value):
        return [concealed(before, held) for before, held in zip(raw, value, strict=True)]
    shown: Json = shown_forms(value)
    return shown


def entered(raw: Json, *, connection: bool, source: str) -> Json:
    """The value of what somebody entered, marked. Raises ``InputInvalid``."""
    try:
        return as_connection(raw) if connection else as_written(raw)
    except ValueError as error:
        raise InputInvalid(source, str(error)) from None
