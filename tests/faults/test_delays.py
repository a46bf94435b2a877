"""When workers take what waits: retries in their band, nothing before its time, and the order of what is due."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flo.engine.app import Flo, open_store
from flo.engine.clock import SystemClock
from flo.engine.errors import StepFailed
from flo.engine.executions import DeadReason, Execution, ExecutionState
from flo.engine.jobs import JobOptions
from flo.engine.registry import Registry
from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject
from flo.testing import FrozenClock

from .conftest import Launch, ended

OBJECT: JsonObject = {"type": "object"}
SECOND, INSTANT = timedelta(seconds=1), timedelta(microseconds=1)
RUN_AT = datetime(2026, 1, 1, 5, tzinfo=UTC)
JOBS = 40
BANDS = [(54, 66), (108, 132), (216, 264)]
"""In seconds: a minute, doubled with each try, a tenth more or less."""


class Place:
    """An engine over a store whose clock the test moves, and what its workers ran, in that order."""

    def __init__(self, url: str, clock: FrozenClock) -> None:
        self.clock = clock
        self.ran: list[JsonObject] = []

        @step_type("delay.note", schema=OBJECT, output=OBJECT, example={})
        def note(call: StepCall, input: JsonObject) -> JsonObject:
            """Note that it ran, and fail where the input asks for that."""
            self.ran.append(input)
            if "fail" in input:
                asked = input.get("retryAfter")
                raise StepFailed("no", retry_after=float(str(asked)) if asked is not None else None)
            return {}

        installed = Registry.installed()
        store = open_store(url, clock)
        store.migrate()
        self.engine = Flo(store, Registry([*(installed[name] for name in installed), note]), clock)

    def enqueue(self, given: JsonObject, **options: Any) -> str:
        return self.engine.enqueue("delay.note", given, JobOptions(**options)).execution_id

    def work(self) -> Sequence[JsonObject]:
        """Let a worker run, one at a time, all that is due; gives what it ran."""
        before = len(self.ran)
        self.engine.worker(concurrency=1).run(threading.Event(), drain=True)
        return self.ran[before:]

    def get(self, execution_id: str) -> Execution:
        found = self.engine.executions.get(execution_id)
        assert found is not None
        return found


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@contextmanager
def opened(url: str, clock: FrozenClock) -> Iterator[Place]:
    made = Place(f"{url}?synchronous=OFF" if url.startswith("sqlite:") else url, clock)
    yield made
    made.engine.close()


@pytest.fixture
def place(store_url: str, clock: FrozenClock) -> Iterator[Place]:
    with opened(store_url, clock) as made:
        yield made


def test_a_step_type_that_fails_is_tried_again_in_its_band_three_times(place: Place, clock: FrozenClock) -> None:
    ids = [place.enqueue({"fail": True, "n": number}) for number in range(JOBS)]
    for attempt, (earliest, latest) in enumerate(BANDS, 1):
        failed_at = clock.now()
        assert len(place.work()) == JOBS
        waiting = [place.get(one) for one in ids]
        assert {(held.state, held.attempt) for held in waiting} == {(ExecutionState.RETRYING, attempt + 1)}
        delays = sorted(seconds_between(failed_at, held.due_at) for held in waiting)
        assert earliest <= delays[0] < delays[-1] <= latest
        assert delays[-1] - delays[0] > (latest - earliest) / 4, "they come back at one moment"
        clock.forward(timedelta(seconds=delays[0]) - INSTANT)
        assert place.work() == []
        clock.forward(timedelta(seconds=delays[-1] - delays[0]) + INSTANT)
    assert len(place.work()) == JOBS
    assert {(held.state, held.reason, held.attempt) for held in map(place.get, ids)} == {
        (ExecutionState.FAILED, DeadReason.MAX_ATTEMPTS, 4)
    }
    clock.forward(timedelta(days=1))
    assert place.work() == []


def test_a_retry_comes_when_it_is_due_and_not_with_the_others(place: Place, clock: FrozenClock) -> None:
    ids = [place.enqueue({"fail": True, "n": number}) for number in range(JOBS)]
    place.work()
    waiting = [place.get(one) for one in ids]
    for due in sorted({due_at(held) for held in waiting}):
        clock.forward(due - clock.now() - INSTANT)
        assert place.work() == []
        clock.forward(INSTANT)
        assert place.work() == [held.input for held in waiting if held.due_at == due]


@pytest.mark.parametrize(("asked", "waits"), [(1, None), (600, 600), (3600, 3600), (7200, 3600)])
def test_a_failure_may_ask_for_more_time_up_to_an_hour(
    asked: int, waits: int | None, place: Place, clock: FrozenClock
) -> None:
    one = place.enqueue({"fail": True, "retryAfter": asked})
    place.work()
    delay = seconds_between(clock.now(), place.get(one).due_at)
    assert delay == waits if waits is not None else 54 <= delay <= 66


@pytest.mark.parametrize("options", [{"run_at": RUN_AT}, {"delay": timedelta(hours=5)}], ids=["runAt", "delay"])
def test_nothing_runs_an_instant_before_its_time(options: Any, place: Place, clock: FrozenClock) -> None:
    one = place.enqueue({"n": 1}, **options)
    clock.forward(RUN_AT - clock.now() - INSTANT)
    assert place.work() == []
    assert (place.get(one).state, place.get(one).run_at) == (ExecutionState.PENDING, RUN_AT)
    clock.forward(INSTANT)
    assert place.work() == [{"n": 1}]


def test_what_another_process_enqueued_for_later_runs_then(shared_url: str, launch: Launch, clock: FrozenClock) -> None:
    year = timedelta(days=365)
    run_at = SystemClock().now().replace(microsecond=0) + year
    given = ("--input", '{"n": 1}', "--run-at", run_at.isoformat())
    assert ended(launch("enqueue", "delay.note", *given, "--store", shared_url)) == 0
    clock.forward(run_at - clock.now() - SECOND)
    for state in (ExecutionState.PENDING, ExecutionState.SUCCESS):
        with opened(shared_url, clock) as place:
            assert place.work() == ([{"n": 1}] if clock.now() == run_at else [])
            [held] = place.engine.executions.list()
            assert (held.state, held.run_at) == (state, run_at)
        clock.forward(SECOND)


def test_a_worker_takes_the_highest_priority_then_the_longest_due_then_the_oldest(
    place: Place, clock: FrozenClock
) -> None:
    chance = random.Random(11)
    due = [clock.now() + SECOND * seconds for seconds in (100, 101, 102)]
    made = []
    for number in range(JOBS):
        options = {"priority": chance.choice([-1, 0, 7]), "run_at": chance.choice(due)}
        place.enqueue({"n": number}, **options)
        made.append((-options["priority"], options["run_at"], number))
        clock.forward(SECOND)
    clock.forward(timedelta(hours=1))
    assert [ran["n"] for ran in place.work()] == [number for *_, number in sorted(made)]


def test_a_batch_runs_in_its_order(place: Place) -> None:
    inputs: list[JsonObject | None] = [{"n": number} for number in range(200)]
    place.engine.enqueue_many("delay.note", inputs)
    assert list(place.work()) == inputs


def due_at(held: Execution) -> datetime:
    assert held.due_at is not None
    return held.due_at


def seconds_between(start: datetime, end: datetime | None) -> float:
    assert end is not None
    return (end - start).total_seconds()
