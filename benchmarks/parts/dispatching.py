"""The dispatcher recipe until its queue is empty, against a loop of the same statements by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks import tables
from benchmarks.contestants import ContestantFailed, Team
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Line
from benchmarks.measuring import Sample

LIMIT: Final = 100
_FLOORS: Final = {
    POSTGRES: ("by hand, 4 connections", "benchmarks.floors.rows_postgres", 1.0),
    SQLITE: ("by hand, a commit each", "benchmarks.floors.rows_sqlite", 2.0),
}


def dispatcher_lines(ground: Ground) -> Iterator[Line]:
    """As the recipe says: batches of 100, five at a time, a log line and a guarded update each."""
    rows, rounds = ground.sizes.dispatched, ground.sizes.long_rounds
    for store, (name, floor, aim) in _FLOORS.items():
        modules = {OWN: "benchmarks.own.rows", name: floor}
        with ground.meeting(store, modules) as meeting:
            what = f"dispatcher recipe, {rows:,} rows"
            yield from meeting.lines(what, [Against(name, aim)], _dispatch, rows, rounds)


def _dispatch(team: Team, rows: int) -> Sample:
    tables.fill_rows(team.url, rows)
    answer = team.first.do("dispatch", LIMIT)
    if (done := tables.done_rows(team.url)) != rows or answer.value != rows:
        raise ContestantFailed(f"{done} of {rows} rows are done")
    return Sample(answer.seconds / rows, answer.peak)
