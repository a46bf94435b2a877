"""A request to stop reaches what was started under it, and nothing else."""

from __future__ import annotations

import pytest

from flo.engine.cancellation import Cancellation
from flo.engine.errors import RunCancelled


def test_cancelling_reaches_everything_inside_and_nothing_around() -> None:
    outer = Cancellation()
    middle = outer.inner()
    inner, beside = middle.inner(), outer.inner()
    middle.cancel("timed_out")
    assert inner.event.is_set()
    assert inner.reason == "timed_out"
    assert not outer.event.is_set()
    assert not beside.event.is_set()


def test_what_is_made_after_the_request_is_cancelled_at_once() -> None:
    outer = Cancellation()
    outer.cancel()
    with pytest.raises(RunCancelled):
        outer.inner().check()


def test_the_first_reason_stands() -> None:
    cancellation = Cancellation()
    cancellation.cancel("timed_out")
    cancellation.cancel("cancelled")
    assert cancellation.reason == "timed_out"


def test_a_released_part_is_not_reached() -> None:
    outer = Cancellation()
    inner = outer.inner()
    outer.release(inner)
    outer.cancel()
    assert not inner.event.is_set()


def test_what_is_told_of_a_request_is_told_once() -> None:
    cancellation, told = Cancellation(), []
    cancellation.tell(lambda: told.append("now"))
    for _ in range(3):
        cancellation.cancel("lost")
    cancellation.tell(lambda: told.append("late"))
    assert told == ["now", "late"]
    assert cancellation.inner().event.is_set()
