"""Enqueueing one by one and in batches, on PostgreSQL; the time is that of one job."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.contestants import Team
from benchmarks.databases import POSTGRES
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Line
from benchmarks.measuring import Sample

BATCH: Final = 1_000
BY_HAND: Final = "by hand, INSERT"

_MODULES: Final = {
    OWN: "benchmarks.own.jobs",
    BY_HAND: "benchmarks.floors.jobs_postgres",
    "pgqueuer": "benchmarks.peers.pgqueuer",
    "procrastinate": "benchmarks.peers.procrastinate",
}


def enqueue_lines(ground: Ground) -> Iterator[Line]:
    """Against plain INSERTs, and those who have a queue as well."""
    sizes = ground.sizes
    others = [Against(BY_HAND), Against("pgqueuer", 1.0), Against("procrastinate", 1.0)]
    with ground.meeting(POSTGRES, _MODULES) as meeting:
        for what, size, jobs in (
            ("enqueue, one by one", 1, sizes.enqueued),
            (f"enqueue, batches of {BATCH:,}", BATCH, sizes.batches * BATCH),
        ):
            yield from meeting.lines(what, others, partial(_enqueue, size=size), jobs, sizes.long_rounds)


def _enqueue(team: Team, jobs: int, *, size: int) -> Sample:
    team.first.do("clear")
    answer = team.first.do("enqueue", jobs, size)
    return Sample(answer.seconds / jobs, answer.peak)
