"""Durable workflows of ten steps, one after the other in one process; the time is that of one step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.contestants import ContestantFailed, Team
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Line
from benchmarks.measuring import Sample
from benchmarks.own.workflows import STEPS

BY_HAND: Final = "by hand"

_DOES: Final = {
    "rows": ("write a row each", 0.6),
    "outside": ("act outside, a commit each", 0.6),
    "nothing": ("write nothing outside", 0.5),
}
"""What the steps do, and the aim beside the floor."""

_FLOORS: Final = {POSTGRES: "benchmarks.floors.workflows_postgres", SQLITE: "benchmarks.floors.workflows_sqlite"}
_PEERS: Final = {POSTGRES: ("dbos", "absurd"), SQLITE: ("dbos",)}


def workflow_lines(ground: Ground) -> Iterator[Line]:
    """By hand there is a commit for each step that writes a row or acts outside, and else one for each execution. flo
    makes one for those that act outside, and lets those that write rows share some. A peer has a checkpoint for each
    step whatever it does, and writes nothing else."""
    steps, rounds = ground.sizes.executions * STEPS, ground.sizes.long_rounds
    for store, floor in _FLOORS.items():
        peers = {peer: f"benchmarks.peers.{peer}" for peer in _PEERS[store]}
        with ground.meeting(store, {OWN: "benchmarks.own.workflows", BY_HAND: floor, **peers}) as meeting:
            for does, (what, aim) in _DOES.items():
                others = [Against(BY_HAND, aim)]
                others += [Against(peer, 10.0 if peer == "dbos" and does == "nothing" else 1.0) for peer in peers]
                name = f"durable workflow of {STEPS} steps that {what}"
                yield from meeting.lines(name, others, partial(_run, does=does), steps, rounds)


def _run(team: Team, steps: int, *, does: str) -> Sample:
    executions = max(steps // STEPS, 1)
    team.first.do("prepare", executions)
    answer = team.first.do("run", executions, does)
    if answer.value != executions:
        raise ContestantFailed(f"{answer.value} of {executions} ended well")
    return Sample(answer.seconds / executions / STEPS, answer.peak)
