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

BY_HAND: Final = "by hand, a commit a step, or an execution"

_FLOORS: Final = {POSTGRES: "benchmarks.floors.workflows_postgres", SQLITE: "benchmarks.floors.workflows_sqlite"}
_PEERS: Final = {POSTGRES: ("dbos", "absurd"), SQLITE: ("dbos",)}


def workflow_lines(ground: Ground) -> Iterator[Line]:
    """Steps that write a row each, and steps that write nothing outside. A peer has a checkpoint for each step either
    way, and writes nothing else."""
    steps, rounds = ground.sizes.executions * STEPS, ground.sizes.long_rounds
    for store, floor in _FLOORS.items():
        peers = {peer: f"benchmarks.peers.{peer}" for peer in _PEERS[store]}
        with ground.meeting(store, {OWN: "benchmarks.own.workflows", BY_HAND: floor, **peers}) as meeting:
            for writes, what in ((True, "a row each"), (False, "nothing outside")):
                others = [Against(BY_HAND, 0.6 if writes else 0.5)]
                others += [Against(peer, 10.0 if peer == "dbos" and not writes else 1.0) for peer in peers]
                name = f"durable workflow of {STEPS} steps that write {what}"
                yield from meeting.lines(name, others, partial(_run, writes=writes), steps, rounds)


def _run(team: Team, steps: int, *, writes: bool) -> Sample:
    executions = max(steps // STEPS, 1)
    team.first.do("prepare", executions)
    answer = team.first.do("run", executions, writes)
    if answer.value != executions:
        raise ContestantFailed(f"{answer.value} of {executions} ended well")
    return Sample(answer.seconds / executions / STEPS, answer.peak)
