"""Templates in what the owner wrote: resolved once, when it is loaded, and what they make of secrets is secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from flo.engine.environments.entries import Entry
from flo.engine.environments.marking import wholly
from flo.engine.errors import ExpressionInvalid, TemplateFailed, caret, did_you_mean
from flo.engine.hiding import carried, secrets_in
from flo.engine.language.marks import has_marks
from flo.engine.language.paths import Nowhere, Path, follow
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import Text, compile_text
from flo.engine.netting import Net
from flo.engine.sealing import KEY_VARIABLE
from flo.engine.secrecy import Secret
from flo.engine.values import Json, JsonObject, Place, place_text, storable

ENV: Final = "$env"
PROCESS: Final = "$process"
ROOTS: Final = (ENV, PROCESS)

_NAMES: Final = re.compile(r"\$(?:env|process)(?:\.[\w-]+)*")
"""A path of nothing but names."""

_DEEPEST: Final = 100
"""So many values may refer to each other in a row."""

_AS_IT_STANDS: Final = "to take a text with marks as it stands, write {% raw %} before it and {% endraw %} behind it"


class Resolver:
    """Resolves the values of one environment, each once, in whatever order they refer to each other."""

    def __init__(self, entries: Mapping[str, Entry], process: Mapping[str, str]) -> None:
        self._entries, self._process = entries, process
        self._env: dict[str, Json] = dict.fromkeys(entries)
        """What templates see. Null stands for what is not resolved yet, which none refers to."""
        self._done: set[str] = set()
        self._under_way: list[str] = []

    def env(self) -> JsonObject:
        """Every value. Raises ``InputInvalid``."""
        for name in self._entries:
            self.value(name)
        return self._env

    def value(self, name: str) -> Json:
        """One value. Raises ``InputInvalid`` that names the place, for a circle all that are in it."""
        if name in self._done:
            return self._env[name]
        entry = self._entries[name]
        if name in self._under_way:
            circle = [*self._under_way[self._under_way.index(name) :], name]
            raise entry.refused(f"its template goes in a circle: {', '.join(f'{ENV}.{each}' for each in circle)}")
        if len(self._under_way) >= _DEEPEST:
            raise entry.refused(f"more than {_DEEPEST} values refer to each other in a row")
        self._under_way.append(name)
        try:
            found = self.entry(entry)
        finally:
            self._under_way.pop()
        self._env[name] = found
        self._done.add(name)
        return found

    def entry(self, entry: Entry) -> Json:
        """A value of this environment, or a connection that may refer to it. Raises ``InputInvalid``."""
        return self._resolved(entry, entry.value, ())

    def _resolved(self, entry: Entry, value: Json, place: Place) -> Json:
        match value:
            case str():
                return self._text(entry, value, place) if has_marks(value) else value
            case Mapping():
                return {key: self._resolved(entry, held, (*place, key)) for key, held in value.items()}
            case list():
                return [self._resolved(entry, held, (*place, index)) for index, held in enumerate(value)]
        return value

    def _text(self, entry: Entry, text: str, place: Place) -> Json:
        secret = isinstance(text, Secret)
        try:
            compiled = compile_text(text)
            if compiled.constant:
                return text
            reached = self._reached(compiled)
            value = self._evaluated(compiled, reached)
        except (TemplateFailed, ExpressionInvalid, _Refused) as failure:
            where = f"{place_text(place)}: " if place else ""
            raise entry.refused(f"{where}{_worded(failure, secret)}") from None
        return wholly(value) if secret else carried(value, reached)

    def _reached(self, compiled: Text) -> list[Json]:
        """Resolve what a template refers to. Gives the values from which what it gives may be made."""
        _check_roots(compiled)
        for path in compiled.paths:
            if path.root == ENV:
                for name in self._names(path):
                    self.value(name)
        return [self._end(path) for path in compiled.paths]

    def _names(self, path: Path) -> Iterator[str]:
        """The values that a path may lead to: one, or all."""
        first = path.segments[0] if path.segments else None
        if first is None:
            yield from self._entries
        elif str(first) in self._entries:
            yield str(first)

    def _end(self, path: Path) -> Json:
        """Where a path leads, as far as it can be told without computing parts of it."""
        value: Json = self._env if path.root == ENV else self._secrets
        for segment in path.segments:
            found = None if segment is None else follow(value, segment)
            if segment is None or isinstance(found, Nowhere):
                return value
            value = found
        return value

    def _evaluated(self, compiled: Text, reached: list[Json]) -> Json:
        names: dict[str, Json] = {ENV: self._env}
        if any(path.root == PROCESS for path in compiled.paths):
            names[PROCESS] = self._secrets
        try:
            return compiled.evaluate(Scope(names), _refuse_missing)
        except _NotThere:
            raise
        except TemplateFailed as failure:
            reason = Net(map(str, secrets_in(reached))).mask(failure.reason)
            raise TemplateFailed(reason, text=failure.text, position=failure.position) from None

    @cached_property
    def _secrets(self) -> dict[str, Json]:
        """The environment of the process; the master key is nobody's."""
        return {
            name: Secret(text)
            for name, text in self._process.items()
            if name != KEY_VARIABLE and storable(text) == text
        }


class _Refused(Exception):
    """A template that means nothing here."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class _NotThere(TemplateFailed):
    """A name that is missing, which is told also where the text around it is secret."""


def _refuse_missing(missing: Missing) -> None:
    failure = _NotThere if _NAMES.fullmatch(missing.path) else TemplateFailed
    raise failure(f"{missing.path!r} is missing{missing.hint}", text=missing.source, position=missing.position)


def _check_roots(compiled: Text) -> None:
    for path in compiled.paths:
        if path.root not in ROOTS:
            hint = did_you_mean(path.root, ROOTS)
            raise _Refused(f"there is no {path.root!r} here, but {ENV} and {PROCESS}{hint}")


def _worded(failure: TemplateFailed | ExpressionInvalid | _Refused, secret: bool) -> str:
    """What is to be said of a template that gives no value; of a text that is secret itself nothing is shown."""
    if secret:
        if isinstance(failure, _NotThere):
            return failure.reason
        return f"this secret holds a template that gives no value; {_AS_IT_STANDS}"
    match failure:
        case _Refused():
            return f"{failure.message}; {_AS_IT_STANDS}"
        case ExpressionInvalid():
            return f"{failure.message}\n{caret(failure.text, failure.position)}"
    return f"{failure.reason}\n{caret(failure.text, failure.position)}" if failure.text else failure.reason


def check(entry: Entry) -> None:
    """Hold the templates of a value that somebody enters to what can be resolved, whatever is set up. Raises
    ``InputInvalid``."""
    for text in _texts(entry.value):
        try:
            _check_roots(compile_text(text))
        except (ExpressionInvalid, _Refused) as failure:
            raise entry.refused(_worded(failure, isinstance(text, Secret))) from None


def _texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for held in value.values():
                yield from _texts(held)
        case list():
            for held in value:
                yield from _texts(held)
