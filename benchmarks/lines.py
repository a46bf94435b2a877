"""The lines of the table: what flo took, what somebody else took, and how the one stands to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchmarks.measuring import Series

Unit = Literal["times", "ms", "ms more", "MB more"]
"""``times`` is the other one's time through flo's: 1 is as fast, 0.5 half as fast, 2 twice as fast, and more is better.
Of the others, less is better."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a line should reach."""

    value: float
    unit: Unit = "times"

    def met(self, found: float) -> bool:
        """Whether a figure reaches it."""
        return found >= self.value if self.unit == "times" else found <= self.value


@dataclass(frozen=True, slots=True)
class Line:
    """One line: flo against ``other``. The seconds are medians for one operation, ``figures`` has one for each round.

    A line that could not be measured has no figures, and a note that says why.
    """

    what: str
    store: str
    other: str
    figures: tuple[float, ...] = ()
    unit: Unit = "times"
    aim: Aim | None = None
    seconds: float | None = None
    other_seconds: float | None = None
    peak: int = 0
    other_peak: int = 0
    note: str = ""

    @property
    def figure(self) -> float:
        return median(self.figures)


@dataclass(frozen=True, slots=True)
class Against:
    """Whom flo is compared with, and what it should reach there."""

    name: str
    aim: float | None = None
    unit: Unit = "times"


def compared(
    what: str, store: str, own: Series, others: Sequence[tuple[Against, Series]], *, note: str = ""
) -> Iterator[Line]:
    """A line for flo against each of the others, of the rounds that both took part in."""
    for against, other in others:
        yield _compared(what, store, own, against, other, note)


def _compared(what: str, store: str, own: Series, against: Against, other: Series, note: str) -> Line:
    aim = None if against.aim is None else Aim(against.aim, against.unit)
    failures = [f"{name} failed: {why}" for name, why in (("flo", own.failure), (against.name, other.failure)) if why]
    fewer = f"{against.name}: {other.operations:,}" if other.samples and other.operations < own.operations else ""
    note = "; ".join(filter(None, (note, fewer, *failures)))
    if not own.samples or not other.samples:
        seconds = own.seconds if own.samples else None
        other_seconds = other.seconds if other.samples else None
        return Line(what, store, against.name, (), against.unit, aim, seconds, other_seconds, note=note)
    figure = _FIGURES[against.unit]
    pairs = zip(own.samples, other.samples, strict=False)
    return Line(
        what,
        store,
        against.name,
        tuple(figure(mine.seconds, theirs.seconds) for mine, theirs in pairs),
        against.unit,
        aim,
        own.seconds,
        other.seconds,
        own.peak,
        other.peak,
        note,
    )


_FIGURES: dict[Unit, Callable[[float, float], float]] = {
    "times": lambda own, other: other / own,
    "ms": lambda own, other: own * 1e3,
    "ms more": lambda own, other: (own - other) * 1e3,
}
