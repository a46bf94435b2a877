"""Services of one process, side by side."""

from __future__ import annotations

import threading

import pytest

from flo.engine.serving import serve


def test_services_run_side_by_side_until_all_are_stopped_and_give_their_results() -> None:
    stop, meeting = threading.Event(), threading.Barrier(3)

    def service(name: str) -> str:
        meeting.wait(60)
        stop.wait(60)
        return name

    threading.Thread(target=lambda: (meeting.wait(60), stop.set())).start()
    assert serve({"a": lambda stop: service("A"), "b": lambda stop: service("B")}, stop) == {"a": "A", "b": "B"}


def test_a_service_that_fails_stops_the_others_and_is_raised_when_they_have_wound_down() -> None:
    wound_down = []

    def lasting(stop: threading.Event) -> None:
        assert stop.wait(60)
        wound_down.append("lasting")

    def failing(stop: threading.Event) -> None:
        raise RuntimeError("it fails")

    with pytest.raises(RuntimeError, match="it fails"):
        serve({"lasting": lasting, "failing": failing}, threading.Event())
    assert wound_down == ["lasting"]


def test_a_service_that_is_done_leaves_the_others_running() -> None:
    stop, done = threading.Event(), threading.Event()

    def short(stop: threading.Event) -> None:
        done.set()

    def lasting(stop: threading.Event) -> bool:
        assert done.wait(60)
        was_stopped = stop.is_set()
        stop.set()
        return was_stopped

    assert serve({"short": short, "lasting": lasting}, stop)["lasting"] is False
