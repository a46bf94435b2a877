"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rounds of each kind of comparison, how much one round does, and the seconds after which a contestant sits out
    the rounds that are left."""

    rounds: int
    long_rounds: int
    patience: float
    jobs: int
    claims_of_100: int
    claims_of_1: int
    history: int
    updates: int
    dispatched: int
    executions: int
    enqueued: int
    batches: int
    wakes: int
    looped: int
    starts: int
    resumed: int
    pruned: int
    searches: int


FULL = Sizes(
    rounds=7,
    long_rounds=3,
    patience=20.0,
    jobs=10_000,
    claims_of_100=20,
    claims_of_1=200,
    history=1_000_000,
    updates=500,
    dispatched=10_000,
    executions=100,
    enqueued=1_000,
    batches=10,
    wakes=300,
    looped=50_000,
    starts=5,
    resumed=60_000,
    pruned=50_000,
    searches=20,
)
QUICK = Sizes(
    rounds=3,
    long_rounds=1,
    patience=2.0,
    jobs=300,
    claims_of_100=5,
    claims_of_1=50,
    history=50_000,
    updates=100,
    dispatched=500,
    executions=6,
    enqueued=100,
    batches=2,
    wakes=20,
    looped=500,
    starts=2,
    resumed=2_000,
    pruned=2_000,
    searches=3,
)
