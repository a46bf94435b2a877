"""Jobs of a queue in the states that an operator meets, made as workers make them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from flo.engine.app import Flo
from flo.engine.executions import DeadReason, ExecutionState
from flo.engine.jobs import LEASE, Delivery, Ended, Parked, Request, Wait

GREET = {
    "name": "greet",
    "steps": [{"stepId": "end", "stepType": "core.return", "input": {"hello": "<< initial.name >>"}}],
}
NO_TIME = timedelta(microseconds=1)


def request(engine: Flo, **changes: Any) -> Request:
    """A request to run ``GREET``."""
    workflow = engine.load(json.dumps(GREET))
    settings = {"workflow": workflow.name, "input": {"name": "Ada"}, **changes}
    return Request(workflow.text, workflow.digest, **settings)


def enqueued(engine: Flo, **changes: Any) -> str:
    """A job that waits; gives its id."""
    return engine.store.queue.enqueue([request(engine, **changes)])[0].execution_id


def claimed(engine: Flo, lease: timedelta = LEASE, worker: str = "w1", **changes: Any) -> Delivery:
    """A job that a worker has."""
    execution_id = enqueued(engine, **changes)
    queue = changes.get("queue", "default")
    (delivery,) = engine.store.queue.claim([queue], worker=worker, lease=lease, limit=1).deliveries
    assert delivery.execution.id == execution_id
    return delivery


def started(engine: Flo, lease: timedelta = LEASE, **changes: Any) -> Delivery:
    """A run of the foreground, whose process is there for ``lease``."""
    delivery = engine.store.queue.start(request(engine, queue=None, **changes), worker="w1", lease=lease)
    assert isinstance(delivery, Delivery)
    return delivery


def ended(engine: Flo, state: ExecutionState = ExecutionState.SUCCESS, **changes: Any) -> str:
    """A job that has ended; gives its id."""
    delivery = claimed(engine, **changes)
    error = {"code": "step_failed", "message": "boom"} if state is ExecutionState.FAILED else None
    engine.store.queue.conclude(delivery.hold, Ended(state, error=error))
    return delivery.execution.id


def dead(engine: Flo, reason: DeadReason = DeadReason.MAX_ATTEMPTS, **changes: Any) -> str:
    """A dead letter; gives its id."""
    delivery = claimed(engine, **changes)
    error = {"code": "step_failed", "message": "boom"}
    engine.store.queue.conclude(delivery.hold, Ended(ExecutionState.FAILED, error=error, reason=reason))
    return delivery.execution.id


def suspended(engine: Flo, *waits: Wait, **changes: Any) -> str:
    """A job that waits for something outside; gives its id."""
    delivery = claimed(engine, **changes)
    for wait in waits:
        engine.store.queue.own(delivery.hold, lambda owned, wait=wait: owned.wait(wait))
    engine.store.queue.conclude(delivery.hold, Parked())
    return delivery.execution.id
