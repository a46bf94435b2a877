"""Requests, claims and records, as the tests of queues need them."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord, StepState
from flo.engine.jobs import LEASE, Again, Conclusion, Delivery, Ended, Entries, Hold, Parked, Released, Request, Wait
from flo.engine.stores.store import Store
from flo.engine.values import JsonObject

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)
DOCUMENT = '{"steps": [], "pi": 3.140}'
DIGEST = hashlib.sha256(DOCUMENT.encode()).hexdigest()
ERROR: JsonObject = {"code": "busy", "message": "not now"}
SUCCESS = Ended(ExecutionState.SUCCESS, {"n": 1})
FAILURE = Ended(ExecutionState.FAILED, error=ERROR)
CONCLUSIONS: Sequence[Conclusion] = (SUCCESS, FAILURE, Again(SECOND, ERROR), Released(), Parked())


def request(**changes: Any) -> Request:
    """A request that is due at once, in the queue ``default``."""
    made = Request(DOCUMENT, DIGEST, {"name": "Ada", "big": 2**70, "whole": 1.0}, workflow="greet", version=3)
    return dataclasses.replace(made, **changes)


def enqueued(store: Store, **changes: Any) -> str:
    """Enqueue one execution; gives its id."""
    (made,) = store.queue.enqueue([request(**changes)])
    assert made.created
    return made.execution_id


def claimed(
    store: Store, *queues: str, worker: str = "w1", lease: timedelta = LEASE, limit: int = 10
) -> Sequence[Delivery]:
    """What a claim on ``queues`` (``default``) gives."""
    return store.queue.claim(queues or ("default",), worker=worker, lease=lease, limit=limit).deliveries


def claimed_ids(store: Store, *queues: str, **how: Any) -> list[str]:
    return [delivery.execution.id for delivery in claimed(store, *queues, **how)]


def claimed_one(store: Store, *queues: str, worker: str = "w1", lease: timedelta = LEASE) -> Delivery:
    """The one execution that is due."""
    (delivery,) = claimed(store, *queues, worker=worker, lease=lease)
    return delivery


def held(store: Store, worker: str = "w1", lease: timedelta = LEASE, **changes: Any) -> Delivery:
    """An execution that was enqueued, and claimed by ``worker``."""
    execution_id = enqueued(store, **changes)
    delivery = claimed_one(store, changes.get("queue", "default"), worker=worker, lease=lease)
    assert delivery.execution.id == execution_id
    return delivery


def started(store: Store, worker: str = "w1", lease: timedelta = LEASE, **changes: Any) -> Delivery:
    """An execution that no queue delivers, held by ``worker``."""
    delivery = store.queue.start(request(queue=None, **changes), worker=worker, lease=lease)
    assert isinstance(delivery, Delivery)
    return delivery


def adopted(store: Store, parent: Hold, path: str = "sub", lease: timedelta = LEASE, **changes: Any) -> Delivery:
    """The unfinished child of ``parent`` at ``path``."""
    child = request(queue=None, parent_id=parent.execution_id, parent_path=path, **changes)
    delivery = store.queue.adopt(parent, child, lease=lease)
    assert isinstance(delivery, Delivery)
    return delivery


def waiting(store: Store, hold: Hold, wait: Wait) -> Wait:
    """Register a wait of an owner, or read it."""
    return store.queue.own(hold, lambda owned: owned.wait(wait), exclusive=True)


def recorded(store: Store, hold: Hold, entries: Entries) -> None:
    store.queue.own(hold, lambda owned: owned.record(entries), exclusive=True)


def found(store: Store, execution_id: str) -> Execution:
    execution = store.executions.get(execution_id)
    assert execution is not None
    return execution


def state_of(store: Store, execution_id: str) -> ExecutionState:
    return found(store, execution_id).state


def outcomes(store: Store, execution_id: str) -> list[tuple[int, str | None, str]]:
    """Claim, worker and outcome of the claims that did not end an execution."""
    return [(attempt.fence, attempt.worker, attempt.outcome) for attempt in store.executions.attempts(execution_id)]


def stored(store: Store) -> int:
    """How many executions without a parent there are."""
    return len(store.executions.list(limit=10_000))


def step(execution_id: str, path: str, **changes: Any) -> StepRecord:
    name = path.rsplit(".", 1)[-1]
    made = StepRecord(execution_id, path, name, "core.log", StepState.SUCCESS, START, 1.25)
    return dataclasses.replace(made, **changes)


def line(execution_id: str, number: int, message: str = "hello") -> LogLine:
    return LogLine(execution_id, START, "info", message, "greet", {"n": 1}, number)


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Do ``work`` in so many threads that begin together; gives what each gave, in order."""
    begin = threading.Barrier(count)
    gave: dict[int, T] = {}
    raised: list[BaseException] = []

    def run(number: int) -> None:
        begin.wait()
        try:
            gave[number] = work(number)
        except BaseException as error:  # shown by the test's own thread
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return [gave[number] for number in range(count)]
