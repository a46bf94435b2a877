"""Queues under several processes at once: one owner for each execution, limits kept, one end for each."""

from __future__ import annotations

import json
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flo.engine.clock import Clock, SystemClock
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Ended, Hold, LeaseLost, Limits
from flo.engine.stores.filters import EVERY
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import SUCCESS, claimed, enqueued, found, outcomes, request
from .processes import processes, said

CLAIMANT = Path(__file__).with_name("queue_claimant.py")
AN_HOUR = timedelta(hours=1)


@contextmanager
def opened(url: str, clock: Clock | None = None) -> Iterator[Store]:
    """The store that the processes share, by the real clock or by one that the test moves."""
    store: Store
    if url.startswith("sqlite:"):
        path = Path(url.removeprefix("sqlite:"))
        store = SqliteStore.open(path, clock or SystemClock(), synchronous="OFF")
    else:
        store = PostgresStore.open(url, clock)
    store.migrate()
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    with opened(shared_url) as made:
        yield made


def at_once(url: str, count: int, *mode: str) -> list[list[Any]]:
    """What each of so many processes said. All of them have to end well."""
    with processes(CLAIMANT, *((url, f"p{number}", *mode) for number in range(count))) as running:
        return [said(process) for process in running]


def put(store: Store, count: int, **changes: Any) -> list[str]:
    return [one.execution_id for one in store.queue.enqueue([request(**changes) for _ in range(count)])]


def test_every_execution_is_claimed_by_one_process(store: Store, shared_url: str) -> None:
    ids = put(store, 1000) + put(store, 1000)
    claims = at_once(shared_url, 8, "drain")
    counts = Counter(execution_id for said in claims for claim in said for execution_id in claim)
    assert counts == Counter(ids)
    assert all(len(claim) <= 7 for said in claims for claim in said)
    running = store.executions.list(state=ExecutionState.RUNNING, limit=3000)
    assert len(running) == 2000
    assert {(execution.fence, execution.deliveries, execution.expiries) for execution in running} == {(1, 1, 0)}
    holders = {execution.id: execution.worker for execution in running}
    assert all(holders[one] == f"p{n}" for n, said in enumerate(claims) for claim in said for one in claim)


def test_of_twenty_processes_that_enqueue_one_key_one_creates(store: Store, shared_url: str) -> None:
    became = [said[0][0] for said in at_once(shared_url, 20, "key")]
    assert sorted(one["created"] for one in became) == [False] * 19 + [True]
    (execution_id,) = {one["executionId"] for one in became}
    assert [execution.id for execution in store.executions.list()] == [execution_id]


def most_at_once(intervals: Sequence[tuple[float, float]]) -> int:
    """How many of the intervals overlap at one moment, at most."""
    moments = sorted([(since, 1) for since, _ in intervals] + [(until, -1) for _, until in intervals])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def held_by_key(said: list[list[Any]]) -> dict[str, list[tuple[float, float]]]:
    """Between which moments executions of each key were certainly held; each was claimed once."""
    claims = [claim for one in said for claim in one]
    assert set(Counter(claim[0] for claim in claims).values()) == {1}
    intervals: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _, concurrency_key, since, until in claims:
        intervals[concurrency_key].append((since, until))
    return intervals


def test_processes_never_run_more_of_a_key_than_its_limit(store: Store, shared_url: str) -> None:
    for number in range(5):
        put(store, 40, concurrency_key=f"c{number}", concurrency_limit=2, priority=number)
    intervals = held_by_key(at_once(shared_url, 8, "keyed"))
    assert {name: len(held) for name, held in intervals.items()} == {f"c{number}": 40 for number in range(5)}
    assert {name: most_at_once(held) for name, held in intervals.items() if most_at_once(held) > 2} == {}
    assert len(store.executions.list(state=ExecutionState.SUCCESS, limit=300)) == 200


def test_processes_never_run_more_of_a_queue_than_its_limit(store: Store, shared_url: str) -> None:
    store.queue.limit("default", Limits(running=4))
    put(store, 150)
    intervals = [interval for held in held_by_key(at_once(shared_url, 8, "keyed")).values() for interval in held]
    assert len(intervals) == 150
    assert most_at_once(intervals) <= 4


def test_whatever_processes_do_each_execution_ends_once(store: Store, shared_url: str) -> None:
    """Also under leases that end at once, so that owners are overtaken all the time."""
    ids = set(put(store, 60)) | set(put(store, 60, concurrency_key="c2", concurrency_limit=2))
    said = [end for one in at_once(shared_url, 6, "mixed", "120") for end in one]
    for hours in range(1, 5_000):
        with opened(shared_url, FrozenClock(datetime.now(UTC) + hours * AN_HOUR)) as later:
            deliveries = claimed(later, worker="last", limit=1000)
            for delivery in deliveries:
                ended = later.queue.conclude(delivery.hold, Ended(ExecutionState.SUCCESS, "last"))
                said.append([ended.id, ended.state.value, ended.output])
            buried = later.queue.bury(limit=1000)
            said += [[one.id, one.state.value, one.output] for one in buried]
        if not deliveries and not buried:
            break
    executions = {execution.id: execution for execution in store.executions.list(limit=5000)}
    assert ids < set(executions)
    ends = {execution_id: (state, output) for execution_id, state, output in said}
    assert ends == {one.id: (one.state.value, one.output) for one in executions.values()}
    assert len(said) == len(ends)
    for execution in executions.values():
        assert execution.state.final
        assert execution.finished_at is not None
        assert execution.deliveries == execution.fence
        fences = [fence for fence, _, _ in outcomes(store, execution.id)]
        assert fences == list(range(1, len(fences) + 1))
        assert execution.fence - len(fences) in (0, 1)
    written = store.data.query("t", EVERY, limit=5000).rows
    assert written
    assert all(1 <= row.value["fence"] <= executions[row.key].fence for row in written)  # type: ignore[index,call-overload,operator]


def test_what_a_killed_process_held_is_taken_over_when_its_lease_ends(store: Store, shared_url: str) -> None:
    """Its place in a limit and in a key too."""
    store.queue.limit("default", Limits(running=5))
    ids = put(store, 5, priority=1, concurrency_key="c", concurrency_limit=5)
    with processes(CLAIMANT, (shared_url, "p0", "hold")) as (process,):
        assert process.stdout is not None
        tokens = dict(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert set(tokens) == set(ids)
    enqueued(store)
    assert list(claimed(store, worker="w2")) == []
    with opened(shared_url, FrozenClock(datetime.now(UTC) + 60 * LEASE)) as later:
        taken = claimed(later, worker="w2")
        assert {delivery.execution.id for delivery in taken} == set(ids)
        assert {(one.execution.expiries, one.hold.fence) for one in taken} == {(1, 2)}
        for execution_id, token in tokens.items():
            assert outcomes(later, execution_id) == [(1, "p0", "expired")]
            with pytest.raises(LeaseLost, match="worker 'w2' holds it, by claim 2"):
                later.queue.conclude(Hold(execution_id, token, 1, "p0"), SUCCESS)
        for delivery in taken:
            later.queue.conclude(delivery.hold, SUCCESS)
        assert {found(later, execution_id).state for execution_id in ids} == {ExecutionState.SUCCESS}
