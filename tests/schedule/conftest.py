"""An engine over each store, whose clock the test moves, and its schedulers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.events import Event, TriggerFired
from flo.engine.executions import Execution, ExecutionState
from flo.engine.instants import parse_instant
from flo.engine.jobs import Delivery, Ended
from flo.engine.opening import open_store
from flo.engine.registry import Registry
from flo.engine.schedule.scheduler import Scheduler
from flo.engine.triggers import Firing
from flo.testing import FrozenClock


class Clockwork:
    """One store, and what the tests of schedules do with it."""

    def __init__(self, url: str) -> None:
        self.clock = FrozenClock(datetime.fromisoformat("2027-01-01T12:00:00+00:00"))
        self.store = open_store(url, self.clock)
        self.store.migrate()
        self.announced: list[Event] = []
        self.engine = Flo(self.store, Registry.installed(), self.clock, [self.announced.append])
        self.scheduler = self.engine.scheduler()

    def add(self, name: str, *triggers: Mapping[str, Any], **document: Any) -> None:
        """Store a workflow that returns its input."""
        returns = {"stepId": "back", "stepType": "core.return", "input": {"initial": "<< initial >>"}}
        self.engine.add({"name": name, "steps": [returns], "triggers": list(triggers), **document})

    def at(self, moment: str, scheduler: Scheduler | None = None) -> list[str]:
        """Move the clock to a time of the day, and let a scheduler fire what is due; gives what it announced."""
        hours, minutes, seconds = (int(part) for part in moment.split(":"))
        self.clock.time = self.clock.time.replace(hour=hours, minute=minutes, second=seconds)
        return self.settle(scheduler)

    def after(self, step: timedelta, scheduler: Scheduler | None = None) -> list[str]:
        """The same some time later."""
        self.clock.forward(step)
        return self.settle(scheduler)

    def settle(self, scheduler: Scheduler | None = None) -> list[str]:
        """Let a scheduler deal with all that is due now; gives what it announced, in short."""
        before = len(self.announced)
        for _ in range(10_000):
            if (scheduler or self.scheduler).tick() != timedelta():
                break
        else:
            raise AssertionError("the scheduler never comes to rest")
        return [_short(each.firing) for each in self.announced[before:] if isinstance(each, TriggerFired)]

    def work(self) -> None:
        """Run all that is due."""
        self.engine.worker(concurrency=1).run(threading.Event(), drain=True)

    def claim(self) -> list[Delivery]:
        """Let a worker hold all that may run now."""
        return list(self.store.queue.claim(["default"], worker="w", lease=timedelta(days=1), limit=100).deliveries)

    def end(self, delivery: Delivery, state: ExecutionState = ExecutionState.SUCCESS) -> None:
        """Let what a worker holds end."""
        self.store.queue.conclude(delivery.hold, Ended(state))

    def executions(self, workflow: str | None = None) -> list[Execution]:
        """Every execution, the oldest first."""
        return list(reversed(self.engine.executions.list(workflow=workflow, limit=1000)))

    def scheduled(self, workflow: str | None = None) -> list[str]:
        """The slots of the executions, in the order in which they run, as times of the day."""
        found = sorted(self.executions(workflow), key=lambda one: one.created_at)
        return [_time(parse_instant(str(one.input["scheduledAt"]))) for one in found]

    def close(self) -> None:
        self.engine.close()


def _short(firing: Firing) -> str:
    """``fired 12:01:00``, ``skipped overlap 12:01:00``, ``failed refused 12:01:00``."""
    why = firing.reason or (firing.error or {}).get("code")
    return " ".join(str(part) for part in (firing.outcome, why, _time(firing.scheduled_at)) if part)


def _time(instant: datetime | None) -> str:
    return "" if instant is None else instant.strftime("%H:%M:%S")


def schedule(name: str = "t", **config: Any) -> dict[str, Any]:
    """A schedule trigger as a document has it."""
    return {"name": name, "type": "schedule", "config": {"schedule": config}}


def event(name: str = "e", **config: Any) -> dict[str, Any]:
    """An event trigger as a document has it."""
    return {"name": name, "type": "event", "config": {"event": config}}


def outcomes(firings: Sequence[Firing]) -> list[str]:
    """Firings in short, the oldest first."""
    return [_short(firing) for firing in reversed(firings)]


@pytest.fixture
def clockwork(store_url: str) -> Iterator[Clockwork]:
    made = Clockwork(store_url)
    yield made
    made.close()
