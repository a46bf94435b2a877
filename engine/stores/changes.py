"""Changes to a row's value: what ``set`` says, as records, and the plain application that every adapter agrees with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flo.engine.values import Json


class Operation(StrEnum):
    """What a change does to a field."""

    SET = "set"
    UNSET = "unset"
    INCREMENT = "increment"
    DECREMENT = "decrement"
    MIN = "min"
    MAX = "max"
    APPEND = "append"
    PREPEND = "prepend"
    REMOVE = "remove"
    MERGE = "merge"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one field of the value. ``path`` leads into the value; missing objects on the way are made."""

    path: tuple[str, ...]
    operation: Operation
    value: Json = None
    text: str = ""


def parse_changes(changes: Json, place: str = "set") -> tuple[Change, ...]:
    """Read ``set``. Raises ``FilterInvalid`` with the place of what is wrong and the nearest right word."""
    raise NotImplementedError
