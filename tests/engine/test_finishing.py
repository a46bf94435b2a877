"""The ends of executions are written together when they come together, and each is told what became of it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import StoreError, StoreUnavailable
from flo.engine.executions import Execution, ExecutionState
from flo.engine.finishing import TOGETHER, TOGETHER_CHARACTERS, Finisher
from flo.engine.jobs import NOTHING, Ended, Ending, LeaseLost
from flo.engine.stores.memory import MemoryStore
from flo.testing import FrozenClock

from .delivering import Over
from .working import job

PATIENCE = 20.0
ENDED = Ended(ExecutionState.SUCCESS, {"done": True})


class House:
    """Claimed executions, and a finisher over a queue whose writes can be held up and counted."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.store = MemoryStore(self.clock)
        self.batches: list[int] = []
        self.writing, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.before: Callable[[Sequence[Ending]], None] = lambda endings: None
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()
        over: Any = Over(self.store, queue=Over(self.store.queue, conclude_many=self._conclude))
        self.finisher = Finisher(over, self.clock)

    def _conclude(self, endings: Sequence[Ending]) -> Any:
        self.batches.append(len(endings))
        self.writing.set()
        assert self.go_on.wait(PATIENCE)
        self.before(endings)
        return self.store.queue.conclude_many(endings)

    def claimed(self, count: int) -> list[Ending]:
        self.store.queue.enqueue([job("end") for _ in range(count)])
        claimed = self.store.queue.claim(["default"], worker="w", lease=timedelta(minutes=5), limit=count)
        return [Ending(given.hold, ENDED, NOTHING, given.execution) for given in claimed.deliveries]

    def put(self, *endings: Ending, characters: int = 0) -> None:
        for ending in endings:
            self.finisher.put(ending, characters, lambda result, of=ending: self.told.put((of.of.id, result)))  # type: ignore[misc]

    def heard(self, count: int) -> dict[str, Any]:
        return dict(self.told.get(timeout=PATIENCE) for _ in range(count))

    def hold_up(self, ending: Ending) -> None:
        """Let one be under way for as long as the test wants."""
        self.go_on.clear()
        self.put(ending)
        assert self.writing.wait(PATIENCE)


@pytest.fixture
def house() -> House:
    return House()


def test_an_end_that_comes_alone_is_written_at_once(house: House) -> None:
    (ending,) = house.claimed(1)
    house.put(ending)
    (result,) = house.heard(1).values()
    assert (result.state, result.output) == (ExecutionState.SUCCESS, {"done": True})
    assert house.batches == [1]


def test_what_ends_while_another_is_written_goes_together(house: House) -> None:
    first, *others = house.claimed(31)
    house.hold_up(first)
    house.put(*others)
    house.go_on.set()
    assert {result.state for result in house.heard(31).values()} == {ExecutionState.SUCCESS}
    assert house.batches == [1, 30]
    assert {held.state for held in house.store.executions.list(limit=50)} == {ExecutionState.SUCCESS}


def test_a_batch_is_bounded_in_number_and_in_size(house: House) -> None:
    first, *others = house.claimed(TOGETHER + 5)
    house.hold_up(first)
    house.put(*others[:-3])
    house.put(*others[-3:], characters=TOGETHER_CHARACTERS)
    house.go_on.set()
    assert len(house.heard(TOGETHER + 5)) == TOGETHER + 5
    assert house.batches == [1, TOGETHER, 2, 1, 1]


def test_a_claim_that_is_lost_is_told_and_the_others_are_written(house: House) -> None:
    endings = house.claimed(3)
    house.store.executions.cancel(endings[1].of.id)
    house.hold_up(endings[0])
    house.put(*endings[1:])
    house.go_on.set()
    heard = house.heard(3)
    assert [type(heard[ending.of.id]) for ending in endings] == [Execution, LeaseLost, Execution]


def test_ends_whose_answer_was_lost_are_found_written(house: House) -> None:
    endings = house.claimed(2)
    lost = [True]

    def lose(given: Sequence[Ending]) -> None:
        if lost:
            lost.clear()
            house.store.queue.conclude_many(given)
            raise StoreUnavailable("gone for a moment")

    house.before = lose
    house.put(*endings)
    assert {result.state for result in house.heard(2).values()} == {ExecutionState.SUCCESS}


def test_a_store_that_stays_away_is_told_of_each_and_the_next_ones_are_tried(house: House) -> None:
    first, second = house.claimed(2)
    house.before = lambda endings: (_ for _ in ()).throw(StoreUnavailable("gone"))
    house.put(first)
    (result,) = house.heard(1).values()
    assert isinstance(result, StoreUnavailable)
    house.before = lambda endings: None
    house.put(second)
    (result,) = house.heard(1).values()
    assert result.state is ExecutionState.SUCCESS


@pytest.mark.parametrize("where", ["store", "listener"])
def test_a_mistake_keeps_nobody_from_being_told(house: House, where: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = house.claimed(2)
    if where == "store":
        house.before = lambda endings: [][0]
        house.put(first)
        (result,) = house.heard(1).values()
        assert isinstance(result, StoreError)
        assert "IndexError" in str(result)
        house.before = lambda endings: None
    else:
        house.finisher.put(first, 0, lambda result: [][0])
    house.put(second)
    (result,) = house.heard(1).values()
    assert result.state is ExecutionState.SUCCESS
    assert "IndexError" in caplog.text


def test_the_thread_ends_when_nothing_comes_and_another_one_starts(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.finishing._IDLE_SECONDS", 0.0)
    for ending in house.claimed(3):
        house.put(ending)
        assert len(house.heard(1)) == 1
        for thread in threading.enumerate():
            if thread.name == "flo-finisher":
                thread.join(PATIENCE)
                assert not thread.is_alive()


def test_what_many_threads_put_is_written_once_each(house: House) -> None:
    endings = house.claimed(200)
    shares = [endings[at::8] for at in range(8)]
    threads = [threading.Thread(target=house.put, args=share) for share in shares]
    for thread in threads:
        thread.start()
    heard = house.heard(200)
    assert {result.state for result in heard.values()} == {ExecutionState.SUCCESS}
    assert sum(house.batches) == 200


def test_a_listener_that_breaks_costs_neither_the_next_end_nor_the_thread(house: House) -> None:
    first, second = house.claimed(2)

    def leave(result: object) -> None:
        raise SystemExit

    house.hold_up(first)
    house.finisher.put(second, 0, leave)
    house.go_on.set()
    assert len(house.heard(1)) == 1
    (third,) = house.claimed(1)
    house.put(third)
    (result,) = house.heard(1).values()
    assert result.state is ExecutionState.SUCCESS
