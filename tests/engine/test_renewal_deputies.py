"""A renewal process beside the thread: started where it is worth it, followed, and replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from flo.engine.jobs import LEASE, Hold
from flo.engine.renewal import LAZY_SECONDS, MAX_FAILURES, Renewer, Reports
from flo.engine.upkeep import Claim, Lease, Rows, Turn
from flo.testing import FrozenClock

from .renewing import Recorded, over


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


class Stub:
    """The owner's end of a renewal process that does nothing."""

    def __init__(self) -> None:
        self.added: list[tuple[int, Claim, float]] = []
        self.removed: list[int] = []
        self.closed = False
        self.waited = 0.0

    def add(self, claims: Mapping[int, Claim], wait: float) -> None:
        self.added += [(number, claim, wait) for number, claim in claims.items()]

    def remove(self, numbers: Sequence[int]) -> None:
        self.removed += numbers

    def wait(self, seconds: float) -> None:
        self.waited = seconds

    def close(self) -> None:
        self.closed = True


class Stage:
    """A renewer whose thread does not run, and the processes that it starts."""

    def __init__(self, clock: FrozenClock) -> None:
        self.clock, self.queue = clock, Recorded()
        self.started: list[Stub] = []
        self.refuse = False
        self.renewer = Renewer(over(queue=self.queue), clock, self._start)
        self.renewer._upkeep.close()  # its thread alone: the test takes the turns

    def _start(self, reports: Reports) -> Stub:
        if self.refuse:
            raise OSError("no more processes")
        self.started.append(Stub())
        return self.started[-1]

    def turn(self, seconds: float) -> None:
        """Let time pass, and do what the thread would."""
        self.clock.forward(timedelta(seconds=seconds))
        self.renewer.renew_due()


@pytest.fixture
def stage(clock: FrozenClock) -> Stage:
    return Stage(clock)


SHORT = timedelta(seconds=3)
A, B = Hold("x", "a", 1, "me"), Hold("y", "b", 1, "me")


def test_what_is_renewed_often_has_its_process_at_once(stage: Stage) -> None:
    stage.renewer.hold(A, SHORT)
    assert [stub.added for stub in stage.started] == [[(1, Lease(A, SHORT), 1.0)]]


def test_what_is_held_for_a_while_has_its_process_then(stage: Stage) -> None:
    stage.renewer.hold(A, LEASE)
    stage.renewer.keep("t", {"k": 1}, holder="x", every=60)
    stage.turn(LAZY_SECONDS - 0.1)
    assert stage.started == []
    stage.turn(0.1)
    [stub] = stage.started
    assert stub.added == [(1, Lease(A, LEASE), 0.0), (2, Rows("t", "x", {"k": 1}, 60), 0.0)]


def test_a_short_run_never_has_one(stage: Stage) -> None:
    stage.renewer.hold(A, LEASE)
    stage.renewer.drop(A)
    stage.turn(LAZY_SECONDS)
    assert stage.started == []
    stage.renewer.hold(B, LEASE)
    stage.turn(LAZY_SECONDS)
    assert len(stage.started) == 1


def test_while_the_process_renews_the_thread_stands_by(stage: Stage) -> None:
    stage.renewer.hold(A, SHORT)
    for _ in range(5):
        stage.renewer.process_turned(Turn([1], []))
        stage.turn(1.0)
    assert stage.queue.calls == []


def test_what_the_process_leaves_alone_for_half_a_lease_the_thread_renews(stage: Stage) -> None:
    stage.renewer.hold(A, SHORT)
    stage.turn(1.4)
    assert stage.queue.calls == []
    stage.turn(0.1)
    assert stage.queue.calls == [(3, ["a"])]


def test_what_is_dropped_here_is_dropped_there(stage: Stage) -> None:
    stage.renewer.hold(A, SHORT)
    stage.renewer.keep("t", {"k": 1}, holder="x", every=1)
    stage.renewer.drop(A)
    stage.renewer.let_go("x")
    assert stage.started[0].removed == [1, 2]


def test_what_the_process_finds_lost_is_told_here(stage: Stage) -> None:
    lost: list[str] = []
    stage.renewer.hold(A, SHORT, lambda: lost.append("a"))
    stage.renewer.hold(B, SHORT, lambda: lost.append("b"))
    stage.renewer.process_turned(Turn([2], [1]))
    stage.renewer.process_turned(Turn([2], [1]))
    assert lost == ["a"]
    stage.turn(1.5)
    assert stage.queue.calls == [(3, ["b"])]


def test_when_the_process_dies_the_thread_renews_at_once_and_another_one_is_started(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.renewer.hold(A, SHORT)
    stage.renewer.process_ended("signal 9")
    stage.turn(0.0)
    assert stage.queue.calls == [(3, ["a"])]
    assert "the renewal process ended (signal 9)" in caplog.text
    stage.renewer.hold(B, SHORT)
    assert len(stage.started) == 1, "not before a pause"
    stage.turn(1.0)
    assert [claim for _, claim, _ in stage.started[1].added] == [Lease(A, SHORT), Lease(B, SHORT)]


@pytest.mark.parametrize("how", ["dies", "cannot be started"])
def test_a_process_that_never_renews_is_given_up(stage: Stage, how: str, caplog: pytest.LogCaptureFixture) -> None:
    stage.refuse = how != "dies"
    stage.renewer.hold(A, SHORT)
    for _ in range(20):
        stage.renewer.process_ended("exit code 1")
        stage.turn(100.0)
    assert len(stage.started) == (MAX_FAILURES if how == "dies" else 0)
    assert caplog.text.count("claims are renewed by a thread from now on") == 1
    assert len(stage.queue.calls) >= 20


def test_a_process_that_renewed_may_die_any_number_of_times(stage: Stage) -> None:
    stage.renewer.hold(A, SHORT)
    for _ in range(20):
        stage.renewer.process_turned(Turn([1], []))
        stage.renewer.process_ended("signal 9")
        stage.turn(1.0)
    assert len(stage.started) == 21


def test_a_lease_that_is_held_twice_is_renewed_once_and_told_as_it_was_asked_for_first(stage: Stage) -> None:
    lost: list[str] = []
    stage.renewer.hold(A, SHORT, lambda: lost.append("first"))
    stage.renewer.hold(A, SHORT)
    assert len(stage.started[0].added) == 1
    stage.renewer.process_turned(Turn([], [1]))
    assert lost == ["first"]


def test_whoever_needs_it_can_wait_until_the_process_is_ready(stage: Stage) -> None:
    stage.renewer.start_process(3.0)
    assert stage.started[0].waited == 3.0


def test_closing_ends_the_process(stage: Stage) -> None:
    stage.renewer.start_process()
    stage.renewer.start_process()
    stage.renewer.close()
    assert [stub.closed for stub in stage.started] == [True]
    stage.renewer.process_ended("exit code 0")
    stage.renewer.hold(A, SHORT)
    stage.turn(10)
    assert len(stage.started) == 1
