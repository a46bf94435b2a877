"""Records that never change, and are made quickly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(made: type[T]) -> type[T]:
    """``dataclass(frozen=True, slots=True)`` for what a run makes at each of its steps: in a third of the time, because
    it is the type checker that sees to it that nothing is changed."""
    return dataclass(slots=True, unsafe_hash=True)(made)
