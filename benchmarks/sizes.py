"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rounds of each kind of comparison, and how much one round does."""

    rounds: int
    long_rounds: int
    claims_of_100: int
    claims_of_1: int
    history: int
    updates: int
    dispatched: int
    looped: int
    starts: int
    enqueued: int
    batches: int
    jobs: int
    latencies: int
    resumed: int
    pruned: int
    searches: int


FULL = Sizes(
    rounds=9,
    long_rounds=3,
    claims_of_100=20,
    claims_of_1=200,
    history=1_000_000,
    updates=500,
    dispatched=10_000,
    looped=50_000,
    starts=5,
    enqueued=500,
    batches=5,
    jobs=2_000,
    latencies=50,
    resumed=60_000,
    pruned=50_000,
    searches=20,
)
QUICK = Sizes(
    rounds=3,
    long_rounds=1,
    claims_of_100=10,
    claims_of_1=100,
    history=100_000,
    updates=100,
    dispatched=1_000,
    looped=5_000,
    starts=2,
    enqueued=100,
    batches=1,
    jobs=200,
    latencies=5,
    resumed=2_000,
    pruned=2_000,
    searches=3,
)
