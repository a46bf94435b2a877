"""Measures two ways to do one thing by turns, so that what else the machine does meets both."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do something. ``work`` is measured; ``prepare`` runs before each round, and is not."""

    name: str
    work: Callable[[], object]
    prepare: Callable[[], object] = _nothing


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: a way against a floor. ``seconds`` and ``floor_seconds`` are medians for one operation;
    ``ratios`` has for each round the floor's time through the way's: 1 is as fast as the floor, 0.5 half as fast."""

    name: str
    store: str
    way: str
    floor: str
    seconds: float
    floor_seconds: float
    ratios: tuple[float, ...]
    wanted: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def compare(
    name: str,
    store: str,
    ways: Sequence[Way],
    floors: Sequence[Way],
    *,
    operations: int,
    rounds: int,
    wanted: float | None = None,
) -> list[Line]:
    """Run every way and floor once a round, in turn, after a round that does not count; a line for each pair of them.

    One round of one way does ``operations`` operations.
    """
    everyone = [*ways, *floors]
    taken: dict[str, list[float]] = {way.name: [] for way in everyone}
    for number in range(rounds + 1):
        first = number % len(everyone)
        for way in (*everyone[first:], *everyone[:first]):
            seconds = _timed(way) / operations
            if number:
                taken[way.name].append(seconds)
    return [
        _line(name, store, way.name, taken[way.name], floor.name, taken[floor.name], wanted)
        for way in ways
        for floor in floors
    ]


def _timed(way: Way) -> float:
    way.prepare()
    gc.collect()
    started = time.perf_counter()
    way.work()
    return time.perf_counter() - started


def _line(
    name: str, store: str, way: str, taken: list[float], floor: str, floors: list[float], wanted: float | None
) -> Line:
    ratios = tuple(at_floor / own for own, at_floor in zip(taken, floors, strict=True))
    return Line(name, store, way, floor, median(taken), median(floors), ratios, wanted)
