"""A worker claims, runs, drains, stops, and goes on when its store was away. Over every store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import StoreUnavailable
from flo.engine.events import ClaimEnded
from flo.engine.executions import ExecutionState
from flo.engine.jobs import Claimed, Released
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.store import Store
from flo.engine.worker import SUSPECT

from .shops import PATIENCE, Make, found, opened
from .working import enqueued, job

_S = ExecutionState


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    made = opened(store_url)
    made.migrate()
    yield made
    made.close()


def test_a_drain_runs_what_is_due_and_ends(store: Store, shop: Make) -> None:
    for _ in range(20):
        enqueued(store, "end")
    later = enqueued(store, "end", delay=timedelta(hours=1))
    tally = shop(store).start(drain=True).ended()
    assert tally == {"success": 20}
    assert found(store, later).state is _S.PENDING
    assert {held.state for held in store.executions.list(limit=50)} == {_S.SUCCESS, _S.PENDING}


def test_the_tally_counts_how_claims_ended_and_each_end_is_announced(store: Store, shop: Make) -> None:
    wanted = {
        enqueued(store, "end"): "success",
        enqueued(store, "fail"): "failed",
        enqueued(store, "again"): "retrying",
    }
    made = shop(store).start(drain=True)
    assert made.ended() == {"success": 1, "failed": 1, "retrying": 1}
    ended = {event.execution.id: event for event in made.events if isinstance(event, ClaimEnded)}
    assert {name: event.execution.state.value for name, event in ended.items()} == wanted
    assert all(event.duration_ms >= 0 and not event.lost for event in ended.values())


def test_no_more_run_at_once_than_there_are_slots(store: Store, shop: Make) -> None:
    for _ in range(5):
        enqueued(store, "hang")
    made = shop(store, concurrency=3).start(drain=True)
    for _ in range(3):
        made.heard("started")
    states = [held.state for held in store.executions.list(limit=10)]
    assert (states.count(_S.RUNNING), states.count(_S.PENDING)) == (3, 2)
    made.deliverer.go.set()
    assert made.ended() == {"success": 5}


def test_only_the_named_queues_are_served(store: Store, shop: Make) -> None:
    enqueued(store, "end", queue="a")
    other = enqueued(store, "end", queue="b")
    enqueued(store, "end", queue="c")
    assert shop(store, queues=("a", "c")).start(drain=True).ended() == {"success": 2}
    assert found(store, other).state is _S.PENDING


def test_what_is_enqueued_wakes_a_sleeping_worker(store: Store, shop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own polls are put off so far that the test would fail if it waited for one."""
    monkeypatch.setattr("flo.engine.worker.POLL_SECONDS", 1000.0)
    monkeypatch.setattr("flo.engine.worker.BURY_SECONDS", 1000.0)
    made = shop(store).start()
    for _ in range(3):
        name = enqueued(store, "end")
        assert made.heard("ended")["ended"] == name
    assert made.stopped() == {"success": 3}


def test_what_comes_due_by_time_is_claimed_then(store: Store, shop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flo.engine.worker.POLL_SECONDS", 1000.0)
    monkeypatch.setattr("flo.engine.worker.BURY_SECONDS", 1000.0)
    name = enqueued(store, "end", delay=timedelta(milliseconds=300))
    made = shop(store).start()
    assert made.heard("started")["started"] == name
    execution = found(store, name)
    assert execution.claimed_at is not None
    assert execution.run_at is not None
    assert execution.claimed_at >= execution.run_at


def test_a_stop_lets_what_runs_end_and_claims_nothing_more(store: Store, shop: Make) -> None:
    name, waiting = enqueued(store, "hang"), enqueued(store, "end")
    made = shop(store, concurrency=1, grace_seconds=PATIENCE).start()
    made.heard("started")
    made.stop.set()
    made.deliverer.go.set()
    assert made.ended() == {"success": 1}
    assert (found(store, name).state, found(store, waiting).state) == (_S.SUCCESS, _S.PENDING)


def test_what_does_not_end_within_the_grace_period_is_given_back(store: Store, shop: Make) -> None:
    name = enqueued(store, "wait")
    made = shop(store, grace_seconds=0.05).start()
    made.heard("started")
    assert made.stopped() == {"pending": 1}
    assert made.heard("stopped") == {"stopped": name, "reason": "released"}
    execution = found(store, name)
    assert (execution.state, execution.expiries) == (_S.PENDING, 0)
    assert [attempt.outcome for attempt in store.executions.attempts(name)] == ["released"]


def test_what_hangs_is_given_back_by_the_worker_and_can_write_nothing_more(
    store: Store, shop: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.worker.RELEASE_SECONDS", 0.05)
    name = enqueued(store, "hang")
    made = shop(store, grace_seconds=0.05).start()
    made.heard("started")
    assert made.stopped() == {"pending": 1}
    [again] = store.queue.claim(["default"], worker="next", lease=timedelta(seconds=30), limit=1).deliveries
    made.deliverer.go.set()
    assert made.heard("lost")["lost"] == name
    assert found(store, name).worker == "next"
    assert store.queue.valid([again.hold]) == [again.hold]


def test_the_grace_period_can_be_cut_short(store: Store, shop: Make) -> None:
    enqueued(store, "wait")
    made = shop(store, grace_seconds=1000.0).start()
    made.heard("started")
    made.now.set()
    assert made.stopped() == {"pending": 1}


def test_a_cancellation_from_elsewhere_stops_what_runs(store: Store, shop: Make) -> None:
    name = enqueued(store, "wait")
    made = shop(store).start()
    made.heard("started")
    store.executions.cancel(name)
    assert made.heard("stopped")["reason"] == "lost"
    assert made.heard("lost")["lost"] == name
    assert made.stopped() == {"lost": 1}
    assert found(store, name).state is _S.CANCELLED


def test_what_is_past_its_deadline_is_ended_without_being_run(store: Store, shop: Make) -> None:
    name = enqueued(store, "end", deadline=datetime(2020, 1, 1, tzinfo=UTC))
    assert shop(store).start(drain=True).ended() == {}
    assert found(store, name).state is _S.TIMED_OUT


def test_a_mistake_of_the_engine_costs_neither_the_slot_nor_the_worker(
    store: Store, shop: Make, caplog: pytest.LogCaptureFixture
) -> None:
    enqueued(store, "break")
    good = enqueued(store, "end")
    made = shop(store, concurrency=1).start()
    assert made.heard("ended")["ended"] == good
    assert made.stopped() == {"lost": 1, "success": 1}
    assert "RuntimeError: a mistake" in caplog.text


def test_a_drain_waits_for_what_another_worker_runs(store: Store, shop: Make) -> None:
    name = enqueued(store, "end")
    [delivery] = store.queue.claim(["default"], worker="other", lease=timedelta(seconds=30), limit=1).deliveries
    made = shop(store).start(drain=True)
    enqueued(store, "end")
    made.heard("ended")
    assert made.worker.id != "other"
    store.queue.conclude(delivery.hold, Released())
    assert made.heard("ended")["ended"] == name
    assert made.ended() == {"success": 2}


class Flawed:
    """A store whose queue cannot be reached for its first ``failures`` calls of one kind."""

    def __init__(self, store: Store, method: str, failures: int) -> None:
        self._store, self._method, self.failures = store, method, failures
        self.data, self.executions, self.queue = store.data, store.executions, self
        self.reached = threading.Event()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store.queue, name)
        return (lambda *given, **named: self._call(real, given, named)) if name == self._method else real

    def _call(self, real: Callable[..., Any], given: Sequence[Any], named: dict[str, Any]) -> Any:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("gone for a moment")
        self.reached.set()
        return real(*given, **named)


@pytest.mark.parametrize("method", ["claim", "bury", "valid", "wakeups", "idle"])
def test_a_store_that_is_away_never_ends_a_worker_and_is_told_once(
    method: str, shop: Make, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(SystemClock())
    enqueued(store, "hang" if method == "valid" else "end")
    flawed = Flawed(store, method, failures=4)
    made = shop(store, over=flawed).start(drain=True)
    if method == "valid":
        assert flawed.reached.wait(PATIENCE)
        made.deliverer.go.set()
    assert made.ended() == {"success": 1}
    assert flawed.failures == 0
    assert caplog.text.count("gone for a moment") == 1


def test_an_end_that_cannot_be_written_is_told_and_the_lease_runs_out(
    shop: Make, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(SystemClock())
    name = enqueued(store, "end")
    made = shop(store)
    made.deliverer._store = Flawed(store, "conclude", failures=1)  # type: ignore[assignment]
    made.start()
    made.heard("started")
    made.heard("claim ended")
    assert made.stopped() == {"lost": 1}
    assert f"how execution {name} ended cannot be written" in caplog.text
    assert found(store, name).state is _S.RUNNING


def test_what_is_due_and_not_given_is_not_asked_for_without_a_pause(shop: Make) -> None:
    """A queue that is at its limit says so with a time that has come."""
    store = MemoryStore(SystemClock())
    claims: list[float] = []
    enough = threading.Event()

    class Full:
        def claim(self, queues: Sequence[str], **how: Any) -> Claimed:
            claims.append(SystemClock().monotonic())
            if len(claims) == 7:
                enough.set()
            return Claimed((), store.data.now() - timedelta(seconds=1))

        def __getattr__(self, name: str) -> Any:
            return getattr(store.queue, name)

    made = shop(store, over=SimpleNamespace(data=store.data, queue=Full())).start()
    assert enough.wait(PATIENCE)
    made.stopped()
    assert claims[6] - claims[5] >= 0.2


def test_what_has_lost_several_workers_runs_alone(store: Store, shop: Make) -> None:
    suspect = enqueued(store, "end", priority=1)
    for _ in range(SUSPECT + 1):  # owners that are not heard of again
        assert store.queue.claim(["default"], worker="gone", lease=timedelta(0), limit=1).deliveries
    assert found(store, suspect).expiries == SUSPECT
    others = {enqueued(store, "hang") for _ in range(3)}
    made = shop(store, concurrency=4).start()
    begun = {made.heard("started")["started"] for _ in range(3)}
    assert begun == others, "the suspect does not begin beside others"
    late = enqueued(store, "end")
    made.deliverer.go.set()
    assert {made.heard("ended")["ended"] for _ in range(3)} == others
    assert made.heard("started")["started"] == suspect
    assert made.heard("started")["started"] == late
    assert made.stopped() == {"success": 5}


def test_two_workers_run_each_job_once(store: Store, shop: Make) -> None:
    store.queue.enqueue([job("end") for _ in range(60)])
    both = [shop(store).start(drain=True) for _ in range(2)]
    tallies = [made.ended() for made in both]
    assert sum(tally.get("success", 0) for tally in tallies) == 60
    assert all(held.deliveries == 1 for held in store.executions.list(limit=100))


def test_housekeeping_is_done_beside_the_work(shop: Make) -> None:
    store = MemoryStore(SystemClock())
    done = threading.Event()
    made = shop(store, housekeeper=done.set).start()
    assert done.wait(PATIENCE)
    assert made.stopped() == {}
