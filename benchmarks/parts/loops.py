"""Loops: what the engine adds to templates, and what a long one needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.contestants import ContestantFailed, Team
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import OWN, Ground
from benchmarks.lines import Against, Aim, Line, compared
from benchmarks.measuring import Sample, Series

STEPS: Final = 1_000
TIMES: Final = 10
"""How much longer the long loop is."""

BY_HAND: Final = "bare loop of compiled templates"


def template_lines(ground: Ground) -> Iterator[Line]:
    """A loop of ``core.log`` steps on the memory store against a bare loop over the same compiled templates."""
    modules = {OWN: "benchmarks.own.loops", BY_HAND: "benchmarks.floors.loops"}
    what = f"loop of {STEPS:,} log steps, two templates"
    with ground.meeting("memory", modules) as meeting:
        yield from meeting.lines(what, [Against(BY_HAND, 0.5)], _loop, STEPS, ground.sizes.rounds)


def _loop(team: Team, items: int) -> Sample:
    team.first.do("prepare", items)
    answer = team.first.do("loop")
    if answer.value != "success":
        raise ContestantFailed(f"the loop ended as {answer.value}")
    return Sample(answer.seconds / items, answer.peak)


def long_loop_lines(ground: Ground) -> Iterator[Line]:
    """A loop, and one that is ten times as long, each in a process and on a database of its own."""
    few, many = ground.sizes.looped, ground.sizes.looped * TIMES
    what, shorter = f"for-each over {many:,} items", f"over {few:,} items"
    for store in (SQLITE, POSTGRES):
        long, own_more = _long(ground, store, many)
        short, other_more = _long(ground, store, few)
        yield from compared(f"{what}, time of an item", store, long, [(Against(shorter, 0.9), short)])
        if long.samples and short.samples:
            note = f"beyond the list of items {own_more / 1e6:.0f} and {other_more / 1e6:.0f} MB"
            grown, aim = ((own_more - other_more) / 1e6,), Aim(10.0, "MB more")
            peaks = long.peak, short.peak
            yield Line(f"{what}, memory", store, shorter, grown, "MB more", aim, None, None, *peaks, note=note)


def _long(ground: Ground, store: str, items: int) -> tuple[Series, int]:
    """The time of an item, and the memory that the run needed beyond its list of items."""
    series = Series()
    try:
        with ground.team("benchmarks.own.loops", store) as team:
            before = team.first.do("prepare_numbers", items).value
            answer = team.first.do("loop_numbers")
            if answer.value != "success":
                raise ContestantFailed(f"the loop ended as {answer.value}")
            series.samples.append(Sample(answer.seconds / items, answer.peak))
            return series, answer.peak - before
    except ContestantFailed as failed:
        series.failure = str(failed)
        return series, 0
