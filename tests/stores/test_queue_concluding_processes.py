"""Executions that several processes end in batches: each once, and what a killed process did not commit is not done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Delivery, Wait
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import SUCCESS, claimed, found, request, waiting
from .processes import processes, said
from .test_queue_processes import AN_HOUR, opened

CONCLUDER = Path(__file__).with_name("concluder.py")
COUNT = 60


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    with opened(shared_url) as made:
        yield made


@pytest.fixture
def deliveries(store: Store) -> list[Delivery]:
    store.queue.enqueue([request() for _ in range(COUNT)])
    return list(claimed(store, lease=60 * LEASE, limit=COUNT))


@contextmanager
def concluders(url: str, deliveries: list[Delivery], folder: Path, *names: str, fault: str = "") -> Iterator[Any]:
    """Processes that are about to end all of them."""
    holds = folder / "holds"
    given = [[one.hold.execution_id, one.hold.token, one.hold.fence, one.hold.worker] for one in deliveries]
    holds.write_text(json.dumps(given), encoding="utf-8")
    with processes(CONCLUDER, *((url, str(holds), name) for name in names), fault=fault) as running:
        yield running


def test_batches_of_several_processes_end_each_execution_once(
    store: Store, shared_url: str, deliveries: list[Delivery], tmp_path: Path
) -> None:
    """Also where each waits for the end of the next one."""
    for one, following in zip(deliveries, [*deliveries[1:], deliveries[0]], strict=True):
        waiting(store, one.hold, Wait("job", "execution", following.execution.id))
    with concluders(shared_url, deliveries, tmp_path, "p0", "p1", "p2") as running:
        told = [said(process) for process in running]
    ended = [
        (execution_id, f"p{number}") for number, batches in enumerate(told) for ids in batches for execution_id in ids
    ]
    assert Counter(execution_id for execution_id, _ in ended) == Counter(one.execution.id for one in deliveries)
    for execution_id, name in ended:
        execution = found(store, execution_id)
        assert (execution.state, execution.output) == (ExecutionState.SUCCESS, name)
        assert [line.message for line in store.executions.lines(execution_id)] == [name]
    if not shared_url.startswith("sqlite:"):
        with psycopg.connect(shared_url) as connection:
            sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert connection.execute(sql).fetchone() == (0,)


@pytest.mark.parametrize(("fault", "written"), [("conclude.before-commit:3", 20), ("conclude.committed:3", 30)])
def test_a_process_that_is_killed_has_ended_whole_batches(
    store: Store, shared_url: str, deliveries: list[Delivery], tmp_path: Path, fault: str, written: int
) -> None:
    with concluders(shared_url, deliveries, tmp_path, "p0", fault=fault) as (process,):
        assert process.wait() == -9
    ids = {one.execution.id for one in deliveries}
    ended = {one.id for one in store.executions.list(state=ExecutionState.SUCCESS, limit=COUNT)}
    assert len(ended) == written
    assert all(len(store.executions.lines(execution_id)) == (execution_id in ended) for execution_id in ids)
    again: list[Delivery] = []
    with opened(shared_url, FrozenClock(datetime.now(UTC) + 24 * AN_HOUR)) as later:
        while len(again) < COUNT - written:  # its session may hold the last batch for a moment
            again += claimed(later, worker="w2", limit=COUNT)
        assert {one.execution.id for one in again} == ids - ended
        for one in again:
            assert later.queue.conclude(one.hold, SUCCESS).state is ExecutionState.SUCCESS
