"""A worker claims ahead of its places where executions are short, and keeps nobody else waiting by that."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.cancellation import Cancellation
from flo.engine.clock import SystemClock
from flo.engine.errors import StoreUnavailable
from flo.engine.events import Bus, ExecutionEnded
from flo.engine.executions import ExecutionState
from flo.engine.jobs import Claimed, Delivery, Ended, Hold, Limits
from flo.engine.lifecycle import Told
from flo.engine.pace import AHEAD_SECONDS, MOST_AHEAD, Pace
from flo.engine.registry import Registry
from flo.engine.renewal import Renewer
from flo.engine.slots import Slots
from flo.engine.step import StepCall, step_type
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.store import Store
from flo.engine.worker import SUSPECT
from flo.testing import FrozenClock

from .delivering import Over
from .shops import PATIENCE, Make, found, opened
from .working import enqueued, job

_S = ExecutionState


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    made = opened(store_url)
    made.migrate()
    yield made
    made.close()


class Counted:
    """A store that counts what each claim of it gave."""

    def __init__(self, store: Store) -> None:
        self.given: list[int] = []
        self.asked: list[tuple[int, int]] = []
        self._claim = store.queue.claim
        counted = Over(store.queue, claim=self._counted)
        self.store: Any = SimpleNamespace(data=store.data, executions=store.executions, queue=counted)

    def _counted(self, queues: Sequence[str], **how: Any) -> Claimed:
        claimed = self._claim(queues, **how)
        self.asked.append((how["limit"], how["ahead"]))
        self.given.append(len(claimed.deliveries))
        return claimed


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executions count as short however slow the machine is: what was claimed ahead shall not depend on that."""
    monkeypatch.setattr("flo.engine.pace.AHEAD_SECONDS", 0.4)
    ran = Pace.ran
    monkeypatch.setattr(Pace, "ran", lambda pace, seconds: ran(pace, min(seconds, 0.001)))


@pytest.mark.usefixtures("fast")
def test_short_executions_are_claimed_many_at_a_time_and_each_runs_once(store: Store, shop: Make) -> None:
    store.queue.enqueue([job("end") for _ in range(300)])
    counted = Counted(store)
    assert shop(store, over=counted.store, concurrency=2).start(drain=True).ended() == {"success": 300}
    assert max(counted.given) > 2
    assert len([given for given in counted.given if given]) < 60
    assert {held.deliveries for held in store.executions.list(limit=400)} == {1}


@pytest.mark.usefixtures("fast")
def test_what_waits_behind_one_that_takes_long_is_given_back_to_others(store: Store, shop: Make) -> None:
    for _ in range(3):
        enqueued(store, "end", priority=1)
    slow = enqueued(store, "hang")
    behind = {enqueued(store, "end") for _ in range(5)}
    made = shop(store, concurrency=1).start()
    while made.heard("started")["started"] != slow:
        pass
    other = shop(store).start()
    assert {other.heard("ended")["ended"] for _ in behind} == behind
    assert found(store, slow).state is _S.RUNNING
    made.deliverer.go.set()
    assert made.heard("ended")["ended"] == slow
    tally = made.stopped()
    assert tally["success"] == 4
    assert set(tally) <= {"success", "pending"}
    assert other.stopped() == {"success": 5}


@pytest.mark.usefixtures("fast")
def test_a_stop_gives_back_what_waits_at_once(store: Store, shop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flo.engine.worker.CHECK_SECONDS", 1000.0)
    enqueued(store, "end", priority=1)
    slow = enqueued(store, "hang")
    behind = [enqueued(store, "end") for _ in range(5)]
    given_back: list[str] = []
    all_back = threading.Event()

    def conclude(hold: Hold, *how: Any, **more: Any) -> Any:
        given_back.append(hold.execution_id)
        concluded = store.queue.conclude(hold, *how, **more)
        if given_back == behind:
            all_back.set()
        return concluded

    over = SimpleNamespace(data=store.data, executions=store.executions, queue=Over(store.queue, conclude=conclude))
    made = shop(store, over=over, concurrency=1, grace_seconds=PATIENCE).start()
    while made.heard("started")["started"] != slow:
        pass
    made.stop.set()
    assert all_back.wait(PATIENCE), "they wait for the one that runs"
    made.deliverer.go.set()
    assert made.ended() == {"success": 2, "pending": 5}
    assert {found(store, name).state for name in behind} == {_S.PENDING}
    assert {found(store, name).expiries for name in behind} == {0}


class Away:
    """A queue that cannot be reached for as long as ``away`` is set; tells when somebody has tried to give back."""

    def __init__(self, store: Store) -> None:
        self.away, self.tried, self.asked = threading.Event(), threading.Event(), 0
        real = store.queue

        def refused(call: Any) -> Any:
            def ask(*given: Any, **named: Any) -> Any:
                if self.away.is_set():
                    self.asked += call == real.conclude
                    if self.asked or call == real.valid:
                        self.tried.set()
                    raise StoreUnavailable("gone for a moment")
                return call(*given, **named)

            return ask

        queue = Over(real, conclude=refused(real.conclude), valid=refused(real.valid), claim=refused(real.claim))
        self.store: Any = SimpleNamespace(data=store.data, executions=store.executions, queue=queue)


def slow_with_others_behind(store: Store) -> tuple[str, list[str]]:
    for _ in range(3):
        enqueued(store, "end", priority=1)
    return enqueued(store, "hang"), [enqueued(store, "end") for _ in range(5)]


@pytest.mark.usefixtures("fast")
def test_what_waits_keeps_its_place_while_the_store_is_away(shop: Make) -> None:
    store = MemoryStore(SystemClock())
    slow, behind = slow_with_others_behind(store)
    away = Away(store)
    made = shop(store, over=away.store, concurrency=1).start()
    while made.heard("started")["started"] != slow:
        pass
    away.away.set()
    assert away.tried.wait(PATIENCE)
    away.away.clear()
    made.deliverer.go.set()
    assert {found(store, name).expiries for name in behind} == {0}
    assert shop(store).start(drain=True).ended().get("lost", 0) == 0
    assert made.stopped().get("lost", 0) == 0
    assert {found(store, name).state for name in behind} == {_S.SUCCESS}


@pytest.mark.usefixtures("fast")
def test_a_stop_asks_a_store_that_is_away_once(shop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flo.engine.worker.CHECK_SECONDS", 1000.0)
    monkeypatch.setattr("flo.engine.worker.RELEASE_SECONDS", 0.05)
    store = MemoryStore(SystemClock())
    slow, behind = slow_with_others_behind(store)
    away = Away(store)
    made = shop(store, over=away.store, concurrency=1, grace_seconds=0.0).start()
    while made.heard("started")["started"] != slow:
        pass
    away.away.set()
    tally = made.stopped()
    assert tally == {"success": 3, "lost": 1 + len(behind)}
    assert away.asked == 2, "once for those that wait, once for the one that hangs"


def test_after_a_suspect_one_is_claimed_at_a_time(shop: Make) -> None:
    store = MemoryStore(SystemClock())
    for _ in range(4):
        enqueued(store, "end")
    for _ in range(SUSPECT + 1):
        lost = store.queue.claim(["default"], worker="gone", lease=timedelta(0), limit=4)
        assert len(lost.deliveries) == 4
    counted = Counted(store)
    assert shop(store, over=counted.store).start(drain=True).ended()["success"] == 4
    assert set(counted.asked[1:4]) == {(1, 0)}


def test_a_queue_with_limits_gives_nothing_ahead(store: Store, shop: Make) -> None:
    store.queue.limit("default", Limits(running=4))
    store.queue.enqueue([job("end") for _ in range(40)])
    counted = Counted(store)
    assert shop(store, over=counted.store, concurrency=2).start(drain=True).ended() == {"success": 40}
    assert max(counted.given) <= 2


def test_a_claim_ahead_takes_the_places_and_more_in_the_same_order(store: Store) -> None:
    late = [enqueued(store, "end") for _ in range(6)]
    first = [enqueued(store, "end", priority=5) for _ in range(2)]
    claimed = store.queue.claim(["default"], worker="w", lease=timedelta(seconds=30), limit=1, ahead=4)
    assert [given.execution.id for given in claimed.deliveries] == [*first, *late[:3]]
    nothing_but_ahead = store.queue.claim(["default"], worker="w", lease=timedelta(seconds=30), limit=0, ahead=2)
    assert [given.execution.id for given in nothing_but_ahead.deliveries] == late[3:5]


def test_where_claims_count_only_the_places_are_taken(store: Store) -> None:
    store.queue.limit("default", Limits(running=100))
    for _ in range(6):
        enqueued(store, "end")
    claimed = store.queue.claim(["default"], worker="w", lease=timedelta(seconds=30), limit=2, ahead=4)
    assert len(claimed.deliveries) == 2
    none = store.queue.claim(["default"], worker="w", lease=timedelta(seconds=30), limit=0, ahead=4)
    assert not none.deliveries


def test_nothing_waits_before_it_is_known_how_long_executions_take() -> None:
    assert Pace(4).wanted([]) == 0


def test_the_shorter_they_are_the_more_wait_up_to_a_bound() -> None:
    def wanted(seconds: float) -> int:
        pace = Pace(2)
        pace.ran(seconds)
        return pace.wanted([])

    assert wanted(AHEAD_SECONDS) == 2
    assert wanted(AHEAD_SECONDS / 10) == 20
    assert wanted(AHEAD_SECONDS * 3) == 0
    assert wanted(0.0) == MOST_AHEAD


def test_the_places_of_those_that_take_long_do_not_count() -> None:
    pace, long_ago, now = Pace(2), -1e9, 1e9
    pace.ran(AHEAD_SECONDS / 10)
    assert [pace.wanted(since) for since in ([now, now], [long_ago, now], [long_ago, long_ago])] == [20, 10, 0]


def test_one_that_took_very_long_is_forgotten_by_short_ones() -> None:
    pace = Pace(4)
    pace.ran(3600.0)
    for _ in range(50):
        pace.ran(AHEAD_SECONDS / 100)
    assert pace.wanted([]) > 4


def test_a_body_that_hangs_past_the_timeout_of_its_run_leaves_its_place_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flo.engine.body.TIMEOUT_GRACE_SECONDS", 0.01)
    let_go, came_back = threading.Event(), threading.Event()

    @step_type("test.deaf", schema={"type": "object"}, output={"type": "object"}, example={})
    def deaf(call: StepCall, input: Any) -> Any:
        """Hear nothing."""
        let_go.wait(PATIENCE)
        came_back.set()
        return {}

    installed = Registry.installed()
    clock = FrozenClock()
    engine = Flo(MemoryStore(clock), Registry([*(installed[name] for name in installed), deaf]), clock)
    hanging: Any = {
        "steps": [{"stepId": "d", "stepType": "test.deaf"}, {"stepId": "after", "stepType": "test.deaf"}],
        "options": {"timeoutMilliseconds": 20},
    }
    first = engine.enqueue(hanging).execution_id
    second = engine.enqueue("core.log", {"message": "next"}).execution_id
    tally = engine.worker(concurrency=1).run(threading.Event(), drain=True)
    assert tally.as_json() == {"timed_out": 1, "success": 1}
    let_go.set()
    assert came_back.wait(PATIENCE)
    states = [engine.store.executions.get(name).state for name in (first, second)]  # type: ignore[union-attr]
    assert states == [_S.TIMED_OUT, _S.SUCCESS]
    assert not [record for record in engine.executions.steps(first) if record.path == "after"]
    engine.close()


def test_a_listener_that_breaks_at_an_end_leaves_no_place_taken(bench: Any) -> None:
    def break_at(event: object) -> None:
        if isinstance(event, ExecutionEnded):
            raise RuntimeError("a mistake of a listener")

    engine = bench.engine
    engine.bus.subscribe(break_at)
    engine.enqueue("core.log", {"message": "a"})
    assert engine.worker().run(threading.Event(), drain=True).as_json() == {"lost": 1}


class Held:
    """Runs nothing, and holds its thread until it is let go; whoever waits for the end is for the test to tell."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self.go = threading.Event()

    def deliver(self, delivery: Delivery, cancellation: Cancellation, told: Told) -> None:
        self.told.put(told)
        assert self.go.wait(PATIENCE)


@pytest.mark.parametrize("leaves_first", [True, False])
def test_what_has_ended_is_not_given_back(leaves_first: bool) -> None:
    """Neither while its end is written, nor once it is and its thread has not come back."""
    store, clock, held, left = MemoryStore(SystemClock()), SystemClock(), Held(), threading.Event()
    enqueued(store, "end")
    [delivery] = store.queue.claim(["default"], worker="w", lease=timedelta(seconds=30), limit=1).deliveries
    renewer = Renewer(store, clock)

    def wanting() -> None:
        if held.go.is_set():
            left.set()

    slots = Slots(held, renewer, clock, Bus(), size=1, lease=timedelta(seconds=30), wanting=wanting)
    slots.start([delivery])
    told = held.told.get(timeout=PATIENCE)
    slots.room()
    if leaves_first:
        held.go.set()
        assert left.wait(PATIENCE)
        assert slots.abandon() == []
        assert slots.busy
    told.ended(store.queue.conclude(delivery.hold, Ended(_S.SUCCESS)))
    assert slots.abandon() == []
    assert not slots.busy
    assert slots.tally().as_json() == {"success": 1}
    held.go.set()
    slots.close()
    renewer.close()
