"""Paths into values: keys of objects and indexes of lists, never a Python attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from flo.engine.errors import TemplateFailed
from flo.engine.frozen import frozen
from flo.engine.language.scope import META, Missing, OnMissing, Scope
from flo.engine.secrecy import NOT_KEPT, Lost, Secret
from flo.engine.values import Json

Run = Callable[[Scope, OnMissing], Json | Missing]
"""A compiled expression or a part of one."""

Segment = int | str | None


@frozen
class Path:
    """A path that an expression refers to.

    A segment is a key, an index, or None where it is computed. ``text`` is the path as written, ``source`` the
    expression it stands in, ``position`` its place there, and ``ends`` where in ``source`` the root and each segment
    end.
    """

    root: str
    segments: tuple[Segment, ...]
    position: int
    text: str
    source: str = ""
    ends: tuple[int, ...] = ()

    def missing(self, depth: int, holder: Json = None, key: object = "") -> Missing:
        """What the path gives when its segment number ``depth`` is not there; -1 is the root."""
        before = self.source[self.position : self.ends[depth]] if depth >= 0 else ""
        name = key if isinstance(key, str) else ""
        return Missing(self.text, source=self.source, position=self.position, holder=holder, before=before, key=name)

    def had(self, value: Json) -> Json:
        """Give ``value`` back, unless a secret stood there that could not be kept. Raises ``TemplateFailed``."""
        if type(value) is Lost:
            raise TemplateFailed(f"{self.text!r} {NOT_KEPT}", text=self.source, position=self.position)
        return value


class Nowhere:
    """What ``follow`` gives where nothing is."""


NOWHERE: Final = Nowhere()


def follow(value: Json, key: object) -> Json | Nowhere:
    """Go one step down: a key of an object, an index of a list, or Liquid's ``size``, ``first`` and ``last``.

    An index of an object is its key of that name, for JSON has no other keys.
    """
    if isinstance(value, Mapping):
        if isinstance(key, bool) or not isinstance(key, str | int):
            return NOWHERE
        try:
            return value[str(key)]
        except (KeyError, ValueError):
            return len(value) if key == "size" else NOWHERE
    if not isinstance(value, str | Sequence):
        return NOWHERE
    if isinstance(key, int) and not isinstance(key, bool) and not isinstance(value, str):
        try:
            return value[key]
        except IndexError:
            return NOWHERE
    if key == "size":
        return len(value)
    if value and (key == "first" or key == "last"):
        part = value[0 if key == "first" else -1]
        return Secret(part) if type(value) is Secret else part  # type: ignore[arg-type]  # of text, text
    return NOWHERE


def reached(path: Path, scope: Scope) -> Json:
    """What a path leads to, as far as its segments are written out; null where that is missing."""
    value = scope.root(path.root)
    if path.segments[:1] == (META,):
        return None
    for key in path.segments:
        if isinstance(value, Missing) or key is None:
            break
        found = follow(value, key)
        value = Missing(path.text) if isinstance(found, Nowhere) else found
    return None if isinstance(value, Missing) else value


def getter(path: Path, computed: Mapping[int, Run]) -> Run:
    """Compile a path. ``computed`` gives the segments that are expressions themselves, by their number."""
    if computed:
        return _computed_getter(path, computed)
    if path.segments and path.segments[0] == META:
        return _meta_getter(path)
    root, keys = path.root, path.segments

    def plain(scope: Scope, on_missing: OnMissing) -> Json | Missing:
        value: Any = scope.root(root)
        for key in keys:
            kind = type(value)
            if kind is dict:
                if key not in value:
                    break
            elif kind is not list or type(key) is not int or not -len(value) <= key < len(value):
                break
            value = value[key]
        else:
            kind = type(value)
            if kind is Missing:
                return path.missing(-1)
            return path.had(value) if kind is Lost else cast(Json, value)
        return _slowly(path, scope.root(root), 0)

    return plain


def _slowly(path: Path, value: Json | Missing, start: int) -> Json | Missing:
    """Walk the segments from ``start`` on by every rule."""
    if isinstance(value, Missing):
        return path.missing(-1)
    for number in range(start, len(path.segments)):
        key = path.segments[number]
        found = follow(value, key)
        if isinstance(found, Nowhere):
            return path.missing(number, value, key)
        value = found
    return path.had(value)


def _meta_getter(path: Path) -> Run:
    """``<step-id>.$meta``: what the scope keeps of a step. A root without it may have an ordinary key of that name."""
    root = path.root

    def meta(scope: Scope, on_missing: OnMissing) -> Json | Missing:
        value = scope.meta(root)
        return _slowly(path, scope.root(root), 0) if isinstance(value, Missing) else _slowly(path, value, 1)

    return meta


def _computed_getter(path: Path, computed: Mapping[int, Run]) -> Run:
    def get(scope: Scope, on_missing: OnMissing) -> Json | Missing:
        kept = scope.meta(path.root) if path.segments[0] == META else None
        first = 0 if kept is None or isinstance(kept, Missing) else 1
        value = kept if first else scope.root(path.root)
        if isinstance(value, Missing):
            return path.missing(-1)
        for number in range(first, len(path.segments)):
            key: Json | Missing = path.segments[number]
            if number in computed:
                key = computed[number](scope, on_missing)
                if isinstance(key, Missing):
                    return key
            found = follow(value, key)
            if isinstance(found, Nowhere):
                return path.missing(number, value, key)
            value = found
        return path.had(value)

    return get
