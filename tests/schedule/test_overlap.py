"""What happens at a slot while an earlier run of the trigger is unfinished, and when a person fires it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from flo.engine.errors import InputInvalid
from flo.engine.executions import ExecutionState

from .conftest import Clockwork, outcomes, schedule


class Body:
    """A body that takes three periods of a trigger of ten seconds, over and over."""

    def __init__(self, clockwork: Clockwork) -> None:
        self.clockwork = clockwork
        self.running: list[tuple[datetime, Any]] = []
        self.most = 0

    def lives(self, seconds: int) -> list[str]:
        """Let time pass; gives what was announced."""
        announced = []
        for _ in range(seconds // 5):
            announced += self.clockwork.after(timedelta(seconds=5))
            now = self.clockwork.clock.now()
            for until, delivery in self.running:
                if until <= now:
                    self.clockwork.end(delivery)
            self.running = [each for each in self.running if each[0] > now]
            self.running += [(now + timedelta(seconds=30), each) for each in self.clockwork.claim()]
            self.most = max(self.most, len(self.running))
        return announced


def test_overlap_skip_leaves_out_the_slots_of_an_unfinished_run_and_lists_them(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(every="10s", overlap="skip"))
    body = Body(clockwork)
    announced = body.lives(100)
    assert body.most == 1
    skips = ["skipped overlap"] * 3  # it ends a moment after its third slot
    assert [each.rpartition(" ")[0] for each in announced] == [*["fired", *skips] * 2, "fired", "skipped overlap"]
    assert outcomes(clockwork.engine.triggers.firings("flow")) == announced
    assert len(clockwork.executions()) == 3


def test_overlap_queue_runs_every_slot_one_after_the_other_in_order(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(every="10s", overlap="queue"))
    body = Body(clockwork)
    assert all(each.startswith("fired") for each in body.lives(100))
    assert body.most == 1
    clockwork.engine.triggers.disable("flow")
    body.lives(300)
    ended = [one for one in clockwork.executions() if one.state is ExecutionState.SUCCESS]
    assert len(ended) == len(clockwork.executions()) == 10
    by_start = sorted(ended, key=lambda one: one.started_at or one.created_at)
    assert [one.input["scheduledAt"] for one in by_start] == sorted(str(one.input["scheduledAt"]) for one in ended)


def test_overlap_allow_lets_runs_overlap(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(every="10s"))
    body = Body(clockwork)
    assert all(each.startswith("fired") for each in body.lives(100))
    assert body.most == 3


def test_a_run_that_nobody_took_yet_counts_as_unfinished_and_one_whose_worker_died_until_it_ends(
    clockwork: Clockwork,
) -> None:
    clockwork.add("flow", schedule(every="10s", overlap="skip"))
    assert clockwork.after(timedelta(seconds=10)) == ["fired 12:00:10"]
    assert clockwork.after(timedelta(seconds=10)) == ["skipped overlap 12:00:20"]
    clockwork.store.queue.claim(["default"], worker="dies", lease=timedelta(seconds=5), limit=1)
    assert clockwork.after(timedelta(seconds=10)) == ["skipped overlap 12:00:30"]
    [taken_over] = clockwork.claim()
    clockwork.end(taken_over, ExecutionState.FAILED)
    assert clockwork.after(timedelta(seconds=10)) == ["fired 12:00:40"]


def test_a_person_fires_whatever_the_schedule_the_switch_and_the_overlap_say(clockwork: Clockwork) -> None:
    data = {"by": "schedule", "n": 1}
    clockwork.add("flow", schedule(every="10s", overlap="skip", initialData=data))
    clockwork.after(timedelta(seconds=10))
    clockwork.engine.triggers.disable("flow")
    firing = clockwork.engine.triggers.fire("flow/t", {"by": "me"})
    assert firing.outcome == "fired"
    _, fired = clockwork.executions()
    assert (fired.id, fired.trigger) == (firing.execution_id, "manual")
    assert fired.input == {"by": "me", "n": 1, "scheduledAt": "2027-01-01T12:00:10.000000Z"}
    clockwork.engine.triggers.enable("flow")
    assert clockwork.after(timedelta(seconds=10)) == ["skipped overlap 12:00:20"]
    for delivery in clockwork.claim():
        clockwork.end(delivery)
    assert clockwork.after(timedelta(seconds=10)) == ["fired 12:00:30"]
    clockwork.add("strict", schedule(every="1d"), inputSchema={"properties": {"n": {"type": "integer"}}})
    with pytest.raises(InputInvalid, match="does not fit inputSchema"):
        clockwork.engine.triggers.fire("strict", {"n": "five"})
