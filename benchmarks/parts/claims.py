"""Claims and guarded updates of rows through their step types, against the same statements by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

from benchmarks import tables
from benchmarks.contestants import ContestantFailed, Team
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Line, compared
from benchmarks.measuring import Sample, Way, by_turns

BY_HAND: Final = "the same statement by hand"

_OWN_ROWS: Final = "benchmarks.own.rows"
_MODULES: Final = {
    POSTGRES: {OWN: _OWN_ROWS, BY_HAND: "benchmarks.floors.rows_postgres"},
    SQLITE: {OWN: _OWN_ROWS, BY_HAND: "benchmarks.floors.rows_sqlite"},
}
_AIMS: Final[Mapping[str, Mapping[int, float | None]]] = {POSTGRES: {100: 0.8, 1: 0.65}, SQLITE: {100: None, 1: None}}

_PENDING: Final = 1_000
_CLAIMS_OF_10: Final = 20
"""A round leaves most of the pending rows."""


def claim_lines(ground: Ground) -> Iterator[Line]:
    """Claims of 100 and of 1."""
    sizes = ground.sizes
    for store, aims in _AIMS.items():
        with ground.meeting(store, _MODULES[store]) as meeting:
            for limit, times in ((100, sizes.claims_of_100), (1, sizes.claims_of_1)):
                others, work = [Against(BY_HAND, aims[limit])], partial(_claim, limit=limit)
                yield from meeting.lines(f"claim of {limit}", others, work, times, sizes.rounds)


def _claim(team: Team, times: int, *, limit: int) -> Sample:
    tables.fill_rows(team.url, limit * times)
    return _claimed(team, times, limit)


def _claimed(team: Team, times: int, limit: int) -> Sample:
    answer = team.first.do("claim", times, limit)
    if answer.value != limit * times:
        raise ContestantFailed(f"{answer.value} rows came, {limit * times} are wanted")
    return Sample(answer.seconds / times, answer.peak)


def update_lines(ground: Ground) -> Iterator[Line]:
    """Guarded updates one by one."""
    for store, modules in _MODULES.items():
        with ground.meeting(store, modules) as meeting:
            sizes = ground.sizes
            yield from meeting.lines("guarded update", [Against(BY_HAND)], _update, sizes.updates, sizes.rounds)


def _update(team: Team, times: int) -> Sample:
    tables.fill_rows(team.url, times, "in_flight", holder=tables.HOLDER)
    answer = team.first.do("update", times)
    if answer.value != times:
        raise ContestantFailed(f"{answer.value} rows are updated, {times} are wanted")
    return Sample(answer.seconds / times, answer.peak)


def history_lines(ground: Ground) -> Iterator[Line]:
    """Claims of 10 among 1,000 pending rows, with very many finished ones beside them, against none."""
    for store in _MODULES:
        with ExitStack() as stack:
            crowded, alone = (stack.enter_context(ground.team(_OWN_ROWS, store)) for _ in range(2))
            tables.add_rows(crowded.url, ground.sizes.history, "done")
            ways = []
            for name, team in ((OWN, crowded), ("no finished rows", alone)):
                tables.add_rows(team.url, _PENDING, "pending")
                ways.append(Way(name, partial(_claim_again, team)))
            series = by_turns(ways, _CLAIMS_OF_10, ground.sizes.rounds)
        what = f"claim of 10 beside {ground.sizes.history:,} finished rows"
        yield from compared(what, store, series[OWN], [(Against("no finished rows", 0.8), series["no finished rows"])])


def _claim_again(team: Team, times: int) -> Sample:
    tables.reopen_rows(team.url, "in_flight", "pending")
    return _claimed(team, times, 10)
