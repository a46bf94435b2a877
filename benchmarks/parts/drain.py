"""A queue of executions that do nothing, drained by worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from benchmarks.contestants import ContestantFailed, Team
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Aim, Line, compared
from benchmarks.measuring import Sample, Series, Way, by_turns

BY_HAND: Final = "by hand, batches of 100"

_MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    POSTGRES: {
        OWN: "benchmarks.own.jobs",
        BY_HAND: "benchmarks.floors.jobs_postgres",
        "pgqueuer": "benchmarks.peers.pgqueuer",
        "procrastinate": "benchmarks.peers.procrastinate",
        "dbos": "benchmarks.peers.dbos",
        "absurd": "benchmarks.peers.absurd",
    },
    SQLITE: {
        OWN: "benchmarks.own.jobs",
        BY_HAND: "benchmarks.floors.jobs_sqlite",
        "huey": "benchmarks.peers.huey",
        "dbos": "benchmarks.peers.dbos",
    },
}
_FLOOR_AIMS: Final = {POSTGRES: 0.5, SQLITE: 0.25}

Rounds = Mapping[tuple[str, int], Series]
"""By name and number of workers."""


def drain_lines(ground: Ground) -> Iterator[Line]:
    """Drain with one and with two processes, on SQLite with four as well, and see how one stands to several."""
    for store, aim in _FLOOR_AIMS.items():
        rounds, names = _rounds(ground, store)
        others = [Against(name, aim if name == BY_HAND else 1.0) for name in names if name != OWN]
        for workers in (1, 2):
            what = f"drain {ground.sizes.jobs:,} no-op executions, {workers} worker{'s' if workers > 1 else ''}"
            measured = [(other, rounds[other.name, workers]) for other in others]
            yield from compared(what, store, rounds[OWN, workers], measured)
        if store == POSTGRES:
            yield _shared("two workers", store, rounds, 2, 1.3)
        else:
            yield _shared("four processes on one file", store, rounds, 4, 0.75)
            yield _fair(store, rounds[OWN, 4])


def _rounds(ground: Ground, store: str) -> tuple[Rounds, Sequence[str]]:
    """Everybody with one worker and with two, by turns; gives their names, too."""
    sizes, own_sizes = (1, 2), (1, 2, 4) if store == SQLITE else (1, 2)
    amount = ground.sizes
    with ground.meeting(store, _MODULES[store], max(sizes), own_size=max(own_sizes)) as meeting:
        ways = {
            (name, size): Way(f"{name} {size}", partial(_drain, team.part(size)))
            for name, team in meeting.teams.items()
            for size in (own_sizes if name == OWN else sizes)
        }
        series = by_turns([*ways.values()], amount.jobs, amount.long_rounds, patience=amount.patience)
    failed = {(name, size): why for name, why in meeting.failed.items() for size in own_sizes}
    return failed | {key: series[way.name] for key, way in ways.items()}, [*meeting.teams, *meeting.failed]


def _drain(team: Team, jobs: int) -> Sample:
    """From the moment when all workers are released to the last end; all executions have to be there as ended.

    Who has to start something first counts from when that is done (``Taken``).
    """
    team.first.do("fill", jobs)
    released, answers = team.release("drain")
    if (succeeded := team.first.do("succeeded").value) != jobs:
        raise ContestantFailed(f"{succeeded} of {jobs} succeeded")
    return Sample(
        (max(answer.ended for answer in answers) - max(released, min(answer.began for answer in answers))) / jobs,
        max(answer.peak for answer in answers),
        tuple(answer.value for answer in answers),
    )


def _shared(what: str, store: str, rounds: Rounds, workers: int, aim: float) -> Line:
    """How fast several are, through how fast one is."""
    [line] = compared(what, store, rounds[OWN, workers], [(Against("one of them", aim), rounds[OWN, 1])])
    return line


def _fair(store: str, crowd: Series) -> Line:
    """The share of the one that did least."""
    least = tuple(min(sample.shares) / sum(sample.shares) for sample in crowd.samples)
    return Line("the least share of four processes", store, "all of them", least, "times", Aim(0.1))
