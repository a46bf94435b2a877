"""Measures several ways to do one thing by turns, so that what else the machine does meets all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.contestants import ContestantFailed


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one way: the seconds of one operation, the most memory of a process that did it, and for several
    processes how many operations each did."""

    seconds: float
    peak: int = 0
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do something. ``work`` does a number of operations, and says what they took."""

    name: str
    work: Callable[[int], Sample]


@dataclass(slots=True)
class Series:
    """The rounds of one way, each of so many ``operations``. ``failure`` says why there are no more of them."""

    samples: list[Sample] = field(default_factory=list)
    failure: str | None = None
    operations: int = 0

    @property
    def seconds(self) -> float:
        return median(sample.seconds for sample in self.samples)

    @property
    def peak(self) -> int:
        return max(sample.peak for sample in self.samples)


def by_turns(
    ways: Sequence[Way], operations: int, rounds: int, *, warm: int | None = None, patience: float = float("inf")
) -> Mapping[str, Series]:
    """Run every way once a round, and another one first each time, after a short round that does not count.

    A way that has used up ``patience`` seconds sits out the rounds that follow, and so does one that failed. One that
    would take more than half of that for a round, by what the short one took, does less in each.
    """
    series = {way.name: Series(operations=operations) for way in ways}
    used = dict.fromkeys(series, 0.0)
    for number in range(rounds + 1):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            own = series[way.name]
            if own.failure is not None or used[way.name] > patience:
                continue
            count = own.operations if number else min(operations, warm or max(operations // 20, 1))
            try:
                sample = way.work(count)
            except ContestantFailed as failed:
                own.failure = str(failed)
                continue
            if number:
                own.samples.append(sample)
                used[way.name] += sample.seconds * count
            elif sample.seconds * operations > patience / 2:
                own.operations = _round(int(patience / 2 / sample.seconds))
    return series


def _round(count: int) -> int:
    """A number of operations, in whole hundreds where it has some."""
    return max(count - count % 100 if count > 100 else count, 1)
