"""Claims of a live execution are kept fresh, leases and rows; lost, finished and let-go ones are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import FloError, StepFailed, StoreUnavailable
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Delivery, Ended, Hold
from flo.engine.renewal import Renewer
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.memory import MemoryStore
from flo.testing import FrozenClock

from .renewing import Recorded, over
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
