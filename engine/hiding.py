"""Secrets inside JSON values: found, carried along by what is made of them, and put back into what was stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flo.engine.secrecy import Lost, Secret, is_kept_form
from flo.engine.values import OBJECT, SIMPLE, Json, LazyList, is_builtin

_MARKED: Final = frozenset({Secret, Lost})
_LOST: Final = frozenset({Lost})


def marked(value: Json) -> Json:
    """The same value, each text in it a secret. What is read from the store when something refers to it stays."""
    kind = type(value)
    if kind is str:
        return Secret(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {key: marked(held) for key, held in value.items()}
    if kind is list or kind is tuple:
        return [marked(held) for held in value]  # type: ignore[union-attr]
    return value


def wholly_marked(value: Json) -> Json:
    """The same, keys of objects too."""
    if isinstance(value, Mapping):
        return {Secret(key): wholly_marked(held) for key, held in value.items()}
    if isinstance(value, list):
        return [wholly_marked(held) for held in value]
    return marked(value)


def secrets_in(value: object) -> Iterator[Secret | Lost]:
    """Every secret in a JSON value, and where one was lost; not in what is read when something refers to it."""
    kind = type(value)
    if kind is Secret or kind is Lost:
        yield value  # type: ignore[misc]
    elif kind is dict:
        for key, held in value.items():  # type: ignore[attr-defined]
            if type(key) is Secret:
                yield key
            yield from secrets_in(held)
    elif kind is list or kind is tuple:
        for held in value:  # type: ignore[attr-defined]
            yield from secrets_in(held)


def has_secret(value: object) -> bool:
    """Whether a JSON value holds a secret, or was one lost in it; in what is read when something refers to it, too."""
    return _holds(value, _MARKED)


def has_certain_secret(value: object) -> bool:
    """The same, for secrets alone of which it is certain that they are; not in what is read when something refers to
    it."""
    return any(type(secret) is Lost or secret.certain for secret in secrets_in(value))  # type: ignore[union-attr]


def lacks_secret(value: object) -> bool:
    """Whether a secret was lost in a JSON value; in what is read when something refers to it, too."""
    return _holds(value, _LOST)


def _holds(value: object, wanted: frozenset[type]) -> bool:
    """Whether a text of one of these types is in a JSON value. Values may be large, and most hold none: the types of
    all parts of a list or an object are looked at at once."""
    if is_builtin(value):
        return False
    waiting: list[Any] = [[value]]
    while waiting:
        held = waiting.pop()
        if isinstance(held, OBJECT):
            if not wanted.isdisjoint(map(type, held)):
                return True
            held = held.values()
        parts = list(held)
        kinds = set(map(type, parts))
        if not wanted.isdisjoint(kinds):
            return True
        if not kinds <= SIMPLE:
            waiting += [part for part in parts if isinstance(part, Mapping | list | tuple | LazyList)]
    return False


def joined_text(parts: Sequence[str]) -> str:
    """The parts as one text, secret where one of them is."""
    text = "".join(parts)
    if Secret in map(type, parts):
        return Secret(text, "".join([part.shown if isinstance(part, Secret) else part for part in parts]))
    return text


def carried(made: Json, of: Sequence[object]) -> Json:
    """What was made of other values, marked where one of them is secret: text as a whole, in lists and objects each
    text. What is one of them itself, or an element of one, keeps the mark that it has."""
    if any(made is each or (type(each) is list and any(made is held for held in each)) for each in of):
        return made
    if not any(has_secret(each) for each in of):
        return made
    return marked(made)


def hidden_places(value: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in a value, as it is stored, something else stands for a secret."""
    if isinstance(value, dict):
        if is_kept_form(value):
            yield place
            return
        for key, held in value.items():
            yield from hidden_places(held, (*place, key))
    elif isinstance(value, list | tuple):
        for index, held in enumerate(value):
            yield from hidden_places(held, (*place, index))


def filled(value: Json, source: Json) -> Json:
    """``value`` with the secrets of ``source`` where they were lost in it; where that has none they stay lost."""
    if type(value) is Lost:
        return source if isinstance(source, Secret) else value
    if isinstance(value, dict) and isinstance(source, Mapping):
        return {key: filled(held, source.get(key)) for key, held in value.items()}
    if isinstance(value, list) and isinstance(source, list) and len(value) == len(source):
        return [filled(held, given) for held, given in zip(value, source, strict=True)]
    return value
