"""Values of environments and connections as their owner wrote them, and where that is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flo.engine.errors import InputInvalid
from flo.engine.frozen import frozen
from flo.engine.values import Json, shown

DEFAULT: Final = "default"
"""The environment of a run that names none. It need not exist."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A value as it was written: ``raw``, and ``value`` in which the texts that are secret are marked. Only itself is
    equal to it.

    ``origin`` is the variable, the file or the store that has it. ``source``, ``place``, ``line`` and ``column`` are
    how errors call it.
    """

    raw: Json = field(repr=False)
    value: Json = field(repr=False)
    origin: str
    source: str
    place: str = ""
    line: int = 0
    column: int = 0

    def refused(self, message: str) -> InputInvalid:
        """The error that says what is wrong with it."""
        where = f"{self.place}: " if self.place else ""
        return InputInvalid(self.source, f"{where}{message}", self.line, self.column)


@frozen
class Written:
    """What one file holds: environments by name and connections by name."""

    environments: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)
    connections: Mapping[str, Entry] = field(default_factory=dict)


def is_name(name: str) -> bool:
    """Whether something can be called so: 1 to 200 letters, digits, ``_`` and ``-``."""
    return _NAME.fullmatch(name) is not None


def check_name(kind: str, name: str) -> str:
    """Give back the name of an environment, of a value in one or of a connection. Raises ``InputInvalid``."""
    if not is_name(name):
        raise InputInvalid(kind, misnamed(name))
    return name


def misnamed(name: str) -> str:
    """What is to be said of a name that is none."""
    return f"{shown(name)} is no name: it has 1 to 200 letters (a to z), digits, '_' and '-'"


def folded(name: str) -> str:
    """What two spellings of a connection's name have in common: variables have no ``-``, and often no small letters."""
    return name.lower().replace("-", "_")
