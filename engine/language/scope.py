"""What an expression can see: names in scopes that nest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from flo.engine.values import Json


class Missing:
    """What a path gives that leads nowhere. ``path`` is what was asked for, as written.

    ``source`` is the expression it stands in and ``position`` its place there. ``holder`` is the value that has no
    ``key``, and ``before`` how the path to it is written.
    """

    __slots__ = ("before", "holder", "key", "path", "position", "source")

    def __init__(
        self, path: str, *, source: str = "", position: int = 0, holder: Json = None, before: str = "", key: str = ""
    ) -> None:
        self.path, self.source, self.position = path, source, position
        self.holder, self.before, self.key = holder, before, key

    def __repr__(self) -> str:
        return f"<missing {self.path}>"

    @property
    def hint(self) -> str:
        """``; did you mean 'initial.name'?`` where a key like it is there, or nothing."""
        from difflib import get_close_matches  # as in did_you_mean

        close = get_close_matches(self.key, self.holder, n=1) if isinstance(self.holder, Mapping) else []
        return f"; did you mean {f'{self.before}.{close[0]}'!r}?" if close else ""


OnMissing = Callable[[Missing], None]
"""Told once for each missing value that an evaluation turned into null. Warns, or raises ``TemplateFailed``."""

META: Final = "$meta"
ROOTS: Final = frozenset(
    {
        "initial", "$item", "$index", "$isFirst", "$isLast", "$parent", "$vars", "$env",
        "$connections", "$execution", "$errors", "$util",
    }
)  # fmt: skip
"""The roots besides the stepIds."""


class Noted(Protocol):
    """How a step ended."""

    @property
    def meta(self) -> Json:
        """What ``<step-id>.$meta`` gives: made when something refers to it."""


class Scope:
    """Names and their values, and the scope around. ``metas`` has for each step that ended how it did.

    One scope may be read by many threads while one of them adds names.
    """

    __slots__ = ("around", "metas", "names")

    def __init__(self, names: dict[str, Json] | None = None, around: Scope | None = None) -> None:
        self.names: dict[str, Json] = {} if names is None else names
        self.metas: dict[str, Noted] = {}
        self.around = around

    def root(self, name: str) -> Json | Missing:
        """The value of a root, from the innermost scope that has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return Missing(name)

    def meta(self, step_id: str) -> Json | Missing:
        """What ``<step-id>.$meta`` gives."""
        scope: Scope | None = self
        while scope is not None:
            if step_id in scope.metas:
                return scope.metas[step_id].meta
            scope = scope.around
        return Missing(f"{step_id}.{META}")

    def child(self, names: dict[str, Json]) -> Scope:
        """A scope inside this one."""
        return Scope(names, self)

    def known(self) -> Iterator[str]:
        """Every name that can be seen from here."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.around


class Fresh(Mapping[str, Json]):
    """A root whose keys are made anew at each reference: ``$util``."""

    def __init__(self, makers: Mapping[str, Callable[[], Json]]) -> None:
        self._makers = makers

    def __getitem__(self, key: str) -> Json:
        return self._makers[key]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
