"""How soon an idle worker starts what another process enqueues, on PostgreSQL, against LISTEN and NOTIFY alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import quantiles
from typing import Final

from benchmarks.contestants import Team
from benchmarks.databases import POSTGRES
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Aim, Line
from benchmarks.measuring import Sample, Series

ALONE: Final = "LISTEN/NOTIFY alone"
IDLE_SECONDS: Final = 0.1

_MODULES: Final = {OWN: "benchmarks.own.jobs", ALONE: "benchmarks.floors.jobs_postgres"}


def wake_lines(ground: Ground) -> Iterator[Line]:
    """The median, and the hundredth part that waits longest."""
    what = "wake-up, from enqueue to start"
    with ground.meeting(POSTGRES, _MODULES, 2) as meeting:
        for team in meeting.teams.values():
            team.first.do("listen")
        series = meeting.series(_wake, 1, ground.sizes.wakes)
    yield _line(f"{what}, p50", series[OWN], series[ALONE], 50, Aim(10.0, "ms"))
    yield _line(f"{what}, p99", series[OWN], series[ALONE], 99, None)


def _wake(team: Team, times: int) -> Sample:
    """The first process waits, the second one gives it something."""
    waiting, waking = team.members
    waiting.ask("woken")
    time.sleep(IDLE_SECONDS)
    began = waking.do("wake").value
    answer = waiting.answer()
    return Sample(answer.value - began, answer.peak)


def _line(what: str, own: Series, alone: Series, percent: int, aim: Aim | None) -> Line:
    failure = "; ".join(f"{name} failed: {why}" for name, why in ((OWN, own.failure), (ALONE, alone.failure)) if why)
    if failure:
        return Line(what, POSTGRES, ALONE, unit="ms", aim=aim, note=failure)
    seconds, floor = _percentile(own.samples, percent), _percentile(alone.samples, percent)
    note = f"of {len(own.samples)}"
    return Line(what, POSTGRES, ALONE, (seconds * 1e3,), "ms", aim, seconds, floor, own.peak, alone.peak, note)


def _percentile(samples: Sequence[Sample], percent: int) -> float:
    return quantiles([sample.seconds for sample in samples], n=100, method="inclusive")[percent - 1]
