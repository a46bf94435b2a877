"""Claims of a live execution are kept fresh, leases and rows; lost, finished and let-go ones are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import FloError, StepFailed, StoreUnavailable
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Delivery, Ended, Hold
from flo.engine.renewal import LAZY_SECONDS, MAX_FAILURES, Renewer, Reports
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.memory import MemoryStore
from flo.engine.upkeep import Claim, Lease, Rows, Turn
from flo.testing import FrozenClock

from .working import enqueued


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def store(clock: FrozenClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def data(store: MemoryStore) -> Any:
    return store.data


@pytest.fixture
def renewer(store: MemoryStore, clock: FrozenClock) -> Iterator[Renewer]:
    made = Renewer(store, clock)
    yield made
    made.close()


def over(**parts: Any) -> Any:
    """Something that renews, which is all that is asked of a store here."""
    return SimpleNamespace(**parts)


def claim(data: Any, key: str = "k", holder: str = "me") -> dict[str, int]:
    data.set("t", key, {"status": "pending"})
    [row] = data.claim("t", EVERY, (), limit=1, holder=holder, changes=())
    return {row.key: row.claim_count}


def claimed_at(data: Any, key: str = "k") -> str:
    return str(data.get("t", key).value["claimedAt"])


def test_a_claim_is_renewed_when_it_is_due_and_not_before(data: Any, renewer: Renewer, clock: FrozenClock) -> None:
    renewer.keep("t", claim(data), holder="me", every=60)
    clock.forward(timedelta(seconds=59))
    renewer.renew_due()
    assert claimed_at(data) == "2026-01-01T00:00:00.000000Z"
    clock.forward(timedelta(seconds=1))
    renewer.renew_due()
    assert claimed_at(data) == "2026-01-01T00:01:00.000000Z"


def test_live_work_is_never_stale(data: Any, renewer: Renewer, clock: FrozenClock) -> None:
    renewer.keep("t", claim(data), holder="me", every=60)
    stale = parse_where([{"field": "claimedAt", "operator": "olderThan", "value": "3m"}])
    for _ in range(20):
        clock.forward(timedelta(seconds=61))
        renewer.renew_due()
        assert data.claim("t", stale, (), limit=1, holder="thief", changes=()) == []


@pytest.mark.parametrize("how", ["done", "taken", "let go"])
def test_a_row_that_is_no_longer_held_is_left_alone(data: Any, renewer: Renewer, clock: FrozenClock, how: str) -> None:
    renewer.keep("t", claim(data), holder="me", every=60)
    if how == "done":
        data.update("t", "k", EVERY, parse_changes([{"field": "status", "operation": "set", "value": "done"}]))
    elif how == "taken":
        data.claim("t", EVERY, (), limit=1, holder="thief", changes=())
    else:
        renewer.let_go("me")
    before = claimed_at(data)
    clock.forward(timedelta(seconds=120))
    renewer.renew_due()
    assert claimed_at(data) == before


@pytest.mark.parametrize(
    "error", [StoreUnavailable("gone for a moment"), StepFailed("too large")], ids=["store", "row"]
)
def test_a_renewal_that_fails_is_tried_again_at_the_next_turn(data: Any, clock: FrozenClock, error: FloError) -> None:
    class Failing:
        """A data store whose first renewal fails."""

        failures = 1

        def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
            if self.failures:
                self.failures -= 1
                raise error
            renewed: Sequence[str] = data.renew(table, held, holder=holder)
            return renewed

    renewer = Renewer(over(data=Failing()), clock)
    renewer.keep("t", claim(data), holder="me", every=60)
    for _ in range(2):
        clock.forward(timedelta(seconds=60))
        renewer.renew_due()
    renewer.close()
    assert claimed_at(data) == "2026-01-01T00:02:00.000000Z"


def test_claims_of_one_execution_are_renewed_together(clock: FrozenClock) -> None:
    calls: list[dict[str, int]] = []

    class Counting:
        """Counts renewals; every row is still held."""

        def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
            calls.append(dict(held))
            return list(held)

    renewer = Renewer(over(data=Counting()), clock)
    renewer.close()
    for key in "abc":
        renewer.keep("t", {key: 1}, holder="me", every=60)
    renewer.keep("t", {"b": 2}, holder="me", every=60)
    clock.forward(timedelta(seconds=60))
    renewer.renew_due()
    assert calls == [{"a": 1, "b": 2, "c": 1}]
    renewer.renew_due()
    assert len(calls) == 1


def test_the_thread_renews_by_itself(data: Any) -> None:
    renewed = threading.Event()

    class Watched:
        def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
            renewed.set()
            return list(held)

    renewer = Renewer(over(data=Watched()), SystemClock())
    renewer.keep("t", {"k": 1}, holder="me", every=0.01)
    assert renewed.wait(10)
    renewer.close()


def taken(store: MemoryStore, worker: str = "me", lease: timedelta = LEASE) -> Delivery:
    """A new execution, claimed."""
    enqueued(store, "end")
    [delivery] = store.queue.claim(["default"], worker=worker, lease=lease, limit=1).deliveries
    return delivery


def lease_left(store: MemoryStore, hold: Hold) -> float:
    execution = store.executions.get(hold.execution_id)
    assert execution is not None
    assert execution.lease_until is not None
    return (execution.lease_until - store.data.now()).total_seconds()


def test_a_lease_is_renewed_every_third_of_it(store: MemoryStore, renewer: Renewer, clock: FrozenClock) -> None:
    hold = taken(store).hold
    renewer.hold(hold, LEASE)
    clock.forward(timedelta(seconds=9))
    renewer.renew_due()
    assert lease_left(store, hold) == 21
    for _ in range(20):
        clock.forward(timedelta(seconds=10))
        renewer.renew_due()
        assert lease_left(store, hold) == 30


def test_a_lease_that_was_dropped_runs_out(store: MemoryStore, renewer: Renewer, clock: FrozenClock) -> None:
    hold = taken(store).hold
    renewer.hold(hold, LEASE)
    renewer.drop(hold)
    renewer.drop(hold)
    clock.forward(timedelta(seconds=31))
    renewer.renew_due()
    assert lease_left(store, hold) == -1


@pytest.mark.parametrize("how", ["taken over", "cancelled", "ended"])
def test_a_lease_that_is_lost_is_told_once_and_left_alone(
    store: MemoryStore, renewer: Renewer, clock: FrozenClock, how: str
) -> None:
    lost: list[str] = []
    hold = taken(store).hold
    renewer.hold(hold, LEASE, lambda: lost.append(how))
    match how:
        case "taken over":
            clock.forward(timedelta(seconds=31))
            store.queue.claim(["default"], worker="thief", lease=LEASE, limit=1)
        case "cancelled":
            store.executions.cancel(hold.execution_id)
        case _:
            store.queue.conclude(hold, Ended(ExecutionState.SUCCESS))
    before = store.executions.get(hold.execution_id)
    for _ in range(3):
        clock.forward(timedelta(seconds=10))
        renewer.renew_due()
    assert lost == [how]
    assert store.executions.get(hold.execution_id) == before


class Recorded:
    """Records which leases are renewed together; it is away while ``away`` is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, list[str]]] = []
        self.away = False

    def renew(self, holds: Sequence[Hold], *, lease: timedelta) -> Sequence[Hold]:
        self.calls.append((lease.total_seconds(), [hold.token for hold in holds]))
        if self.away:
            raise StoreUnavailable("gone for a moment")
        return holds


def test_leases_that_are_due_within_a_tenth_are_renewed_in_one_call(clock: FrozenClock) -> None:
    queue = Recorded()
    renewer = Renewer(over(queue=queue), clock)
    renewer.close()
    for token in "abc":
        renewer.hold(Hold("x", token, 1, "me"), LEASE)
        clock.forward(timedelta(seconds=2))
    renewer.hold(Hold("x", "d", 1, "me"), timedelta(seconds=90))
    clock.forward(timedelta(seconds=4))
    renewer.renew_due()
    assert queue.calls == [(30, ["a", "b"])]
    clock.forward(timedelta(seconds=10))
    renewer.renew_due()
    assert queue.calls[1:] == [(30, ["a", "b", "c"])]


def test_a_store_that_is_away_is_tried_again_after_a_tenth_of_the_lease_and_told_once(
    clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Recorded()
    renewer = Renewer(over(queue=queue), clock)
    renewer.close()
    renewer.hold(Hold("x", "a", 1, "me"), LEASE)
    queue.away = True
    clock.forward(timedelta(seconds=10))
    renewer.renew_due()
    clock.forward(timedelta(seconds=2))
    renewer.renew_due()
    assert len(queue.calls) == 1
    for _ in range(4):
        clock.forward(timedelta(seconds=3))
        renewer.renew_due()
    assert len(queue.calls) == 5
    assert caplog.text.count("gone for a moment") == 1


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
