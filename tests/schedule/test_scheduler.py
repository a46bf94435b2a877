"""Schedulers over every store: each slot is fired once, on time, as the trigger is at that moment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.errors import StoreUnavailable
from flo.engine.events import Bus
from flo.engine.executions import ExecutionState
from flo.engine.registry import Registry
from flo.engine.schedule.dealing import AT_ONCE
from flo.engine.schedule.scheduler import Scheduler

from .conftest import Clockwork, event, schedule

MINUTELY = {"cron": "* * * * *"}
MINUTE = timedelta(minutes=1)


def test_a_schedule_fires_at_its_slots_and_says_when_the_next_one_is(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY))
    assert clockwork.at("12:00:59") == []
    assert clockwork.scheduler.tick() == timedelta(seconds=1)
    assert clockwork.at("12:01:00") == ["fired 12:01:00"]
    assert clockwork.scheduler.tick() == MINUTE
    assert clockwork.at("12:01:59") == []
    assert clockwork.at("12:02:00") == ["fired 12:02:00"]
    assert clockwork.scheduled() == ["12:01:00", "12:02:00"]


def test_what_is_fired_is_an_execution_of_the_queue_that_knows_its_trigger(clockwork: Clockwork) -> None:
    data = {"since": '<< initial.scheduledAt | date_sub: "1h" >>', "now": "<< $util.now >>"}
    clockwork.add("flow", schedule(**MINUTELY, queue="slow", priority=3, initialData=data), initial={"a": 1})
    clockwork.at("12:01:02")
    [execution] = clockwork.executions()
    [trigger] = clockwork.engine.triggers.list()
    assert (execution.trigger, execution.trigger_id, execution.queue, execution.priority) == (
        "schedule", trigger.id, "slow", 3,
    )  # fmt: skip
    assert execution.state is ExecutionState.PENDING
    assert execution.input == {
        "a": 1,
        "since": "2027-01-01T11:01:00.000000Z",
        "now": "2027-01-01T12:01:02.000000Z",
        "scheduledAt": "2027-01-01T12:01:00.000000Z",
    }


def test_a_fired_workflow_runs_and_sees_what_started_it(clockwork: Clockwork) -> None:
    told = {"stepId": "told", "stepType": "core.return", "input": {"by": "<< $execution.trigger >>"}}
    clockwork.add("flow", schedule(**MINUTELY), steps=[told])
    clockwork.at("12:01:00")
    clockwork.work()
    [execution] = clockwork.executions()
    assert (execution.state, execution.output) == (ExecutionState.SUCCESS, {"by": "schedule"})


def test_of_many_schedulers_one_fires_a_slot(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(every="1s"))
    schedulers = [clockwork.engine.scheduler() for _ in range(3)]
    for second in range(30):
        clockwork.after(timedelta(seconds=1), schedulers[second % 3])
        assert [each for one in schedulers for each in clockwork.settle(one)] == []
    assert len(clockwork.executions()) == 30


def test_two_schedulers_that_look_at_one_moment_fire_once(clockwork: Clockwork) -> None:
    """The second one has seen the trigger as due before the first one fired it."""
    clockwork.add("flow", schedule(**MINUTELY))
    clockwork.clock.forward(MINUTE)
    [seen] = clockwork.store.triggers.due(10).schedules
    late = clockwork.engine.scheduler()
    assert clockwork.settle() == ["fired 12:01:00"]
    late._dealer.schedule(seen, clockwork.clock.now())
    assert clockwork.scheduled() == ["12:01:00"]


@pytest.mark.parametrize(
    ("misfire", "announced", "run"),
    [
        ("once", ["skipped misfire 12:09:00", "fired 12:10:00"], ["12:10:00"]),
        ("skip", ["skipped misfire 12:10:00"], []),
        ("all", [f"fired 12:{minute:02}:00" for minute in range(1, 11)], [f"12:{m:02}:00" for m in range(1, 11)]),
    ],
)
def test_ten_minutes_without_a_scheduler_are_caught_up_as_misfire_says(
    clockwork: Clockwork, misfire: str, announced: list[str], run: list[str]
) -> None:
    clockwork.add("flow", schedule(**MINUTELY, misfire=misfire))
    clockwork.settle()
    assert clockwork.at("12:10:30") == announced
    assert clockwork.scheduled() == run
    assert clockwork.at("12:11:00") == ["fired 12:11:00"]
    assert clockwork.scheduled() == [*run, "12:11:00"]


def test_slots_that_were_missed_are_listed_with_their_number(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY, misfire="skip"))
    clockwork.at("12:10:30")
    [firing] = clockwork.engine.triggers.firings("flow")
    assert (firing.outcome, firing.reason, firing.passed) == ("skipped", "misfire", 10)
    assert firing.since == datetime.fromisoformat("2027-01-01T12:01:00Z")


def test_what_is_switched_off_elsewhere_a_second_before_its_slot_is_not_fired(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY))
    clockwork.at("12:00:59")
    clockwork.engine.triggers.disable("flow")
    assert clockwork.at("12:01:00") == []
    clockwork.at("12:05:30")
    clockwork.engine.triggers.enable("flow")
    assert clockwork.settle() == []
    assert clockwork.at("12:06:00") == ["fired 12:06:00"]


def test_a_fire_that_was_prepared_before_a_change_is_refused(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY))
    clockwork.clock.forward(MINUTE)
    [seen] = clockwork.store.triggers.due(10).schedules
    clockwork.engine.triggers.disable("flow")
    clockwork.scheduler._dealer.schedule(seen, clockwork.clock.now())
    assert clockwork.executions() == []


def test_a_schedule_that_is_changed_a_second_before_its_slot_fires_by_the_new_one_only(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY))
    clockwork.at("12:00:59")
    clockwork.add("flow", schedule(cron="2-59/3 * * * *"))
    assert clockwork.at("12:01:00") == []
    assert clockwork.at("12:02:00") == ["fired 12:02:00"]
    assert clockwork.at("12:03:00") == []


def test_an_interval_keeps_its_anchor_over_restarts_and_over_changes_of_other_things(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(every="65m"))
    fired = []
    for hour in range(24):
        if hour == 11:  # another process, and another version of the document with the same timing
            clockwork.scheduler = clockwork.engine.scheduler()
            clockwork.add("flow", schedule(every="65m", initialData={"new": True}))
        for _ in range(60):
            fired += clockwork.after(MINUTE)
    assert len(fired) == 22
    instants = [datetime.fromisoformat(str(one.input["scheduledAt"])) for one in clockwork.executions()]
    assert {later - earlier for earlier, later in pairwise(instants)} == {timedelta(minutes=65)}
    assert [one.input.get("new") for one in clockwork.executions()] == [None] * 10 + [True] * 12


def test_the_newest_version_of_a_workflow_is_what_a_slot_starts(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY))
    clockwork.at("12:01:00")
    clockwork.add("flow", schedule(**MINUTELY), description="changed")
    clockwork.at("12:02:00")
    assert [one.version for one in clockwork.executions()] == [1, 2]


def test_a_workflow_that_is_stored_without_its_trigger_is_not_fired_any_more(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY))
    clockwork.at("12:00:59")
    clockwork.add("flow")
    assert clockwork.at("12:01:00") == []


def test_data_that_cannot_be_made_is_a_failed_slot_and_the_next_one_is_fired(clockwork: Clockwork) -> None:
    data = {"n": "<< $util.now | slice: 15 >>"}  # the last digit of the minute, then the seconds
    schema = {"properties": {"n": {"const": "2"}}}
    clockwork.add("flow", schedule(**MINUTELY, initialData=data), inputSchema=schema)
    assert clockwork.at("12:01:00") == ["failed invalid_input 12:01:00"]
    assert clockwork.at("12:02:00") == ["fired 12:02:00"]
    failed = clockwork.engine.triggers.firings("flow")[-1]
    assert failed.error is not None
    assert "does not fit inputSchema" in str(failed.error["message"])
    assert clockwork.scheduled() == ["12:02:00"]


def test_a_missing_value_is_null_with_a_warning_and_fails_a_strict_workflow(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    data = {"a": "<< initial.nowhere >>"}
    clockwork.add("flow", schedule(**MINUTELY, initialData=data))
    clockwork.add("strict", schedule(**MINUTELY, initialData=data), options={"strict": True})
    with caplog.at_level(logging.WARNING, logger="flo.scheduler"):
        assert sorted(clockwork.at("12:01:00")) == ["failed invalid_input 12:01:00", "fired 12:01:00"]
    assert "initialData of trigger 'flow/t': 'initial.nowhere' is missing" in caplog.text
    assert [one.input["a"] for one in clockwork.executions()] == [None]


@pytest.fixture
def stranger(clockwork: Clockwork) -> Iterator[Scheduler]:
    """A scheduler of a process in which no step type is installed."""
    engine = Flo(clockwork.store, Registry([]), clockwork.clock, [clockwork.announced.append])
    yield engine.scheduler()
    engine._renewer.close()


def test_what_this_process_cannot_load_is_left_to_others_and_fails_when_nobody_can(
    clockwork: Clockwork, stranger: Scheduler
) -> None:
    clockwork.add("flow", schedule(cron="0 * * * *"))
    assert clockwork.at("13:00:00", stranger) == []
    assert clockwork.settle() == ["fired 13:00:00"]
    assert clockwork.at("14:00:00", stranger) == []
    assert clockwork.at("14:00:50", stranger) == []
    assert clockwork.at("14:01:00", stranger) == ["failed invalid_workflow 14:00:00"]
    assert clockwork.scheduled() == ["13:00:00"]


@pytest.mark.parametrize("misfire", ["once", "skip"])
def test_slots_that_nobody_can_fire_are_told_as_failed_however_often_they_come(
    clockwork: Clockwork, stranger: Scheduler, misfire: str
) -> None:
    clockwork.add("flow", schedule(**MINUTELY, misfire=misfire))

    assert clockwork.at("12:01:00", stranger) == []
    assert clockwork.at("12:01:50", stranger) == ([] if misfire == "once" else ["skipped misfire 12:01:00"])
    assert clockwork.at("12:02:00", stranger)[-1] == "failed invalid_workflow 12:02:00"
    assert clockwork.at("12:03:00", stranger) == ["failed invalid_workflow 12:03:00"]
    assert clockwork.at("12:04:00") == ["fired 12:04:00"]
    assert clockwork.at("12:05:00", stranger) == [], "somebody else can: they have time again"
    assert clockwork.settle() == ["fired 12:05:00"]


def test_a_trigger_that_cannot_be_read_keeps_no_other_one_from_being_fired(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clockwork.add("bad", schedule(**MINUTELY, initialData={"bad": True}))
    clockwork.add("good", schedule(**MINUTELY))
    from flo.engine.schedule import dealing

    sound = dealing.read_schedule

    def read(config: Any) -> Any:
        if "initialData" in config:
            raise RuntimeError("written by another version")
        return sound(config)

    monkeypatch.setattr(dealing, "read_schedule", read)
    assert clockwork.at("12:01:00") == ["fired 12:01:00"]
    assert clockwork.at("12:02:00") == ["fired 12:02:00"]
    assert caplog.text.count("trigger 'bad/t' cannot be dealt with") == 2, "it is put off for a minute"


def test_a_store_that_is_away_ends_the_look_and_the_next_one_fires(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    clockwork.add("flow", schedule(**MINUTELY))

    def away(fire: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(clockwork.store.triggers, "fire", away)
        with pytest.raises(StoreUnavailable):
            clockwork.at("12:01:00")
    assert clockwork.at("12:01:04") == ["fired 12:01:00"]


def test_jitter_delays_the_fire_but_not_the_slot(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY, jitterSeconds=30))
    clockwork.at("12:00:59")
    pause = clockwork.scheduler.tick()
    assert pause is not None
    assert timedelta(seconds=1) < pause < timedelta(seconds=31)
    assert clockwork.after(pause - timedelta(microseconds=1)) == []
    assert clockwork.after(timedelta(microseconds=1)) == ["fired 12:01:00"]


def test_a_schedule_that_has_come_to_its_end_is_looked_at_no_more(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule(**MINUTELY, endAt="2027-01-01T12:02:00Z"))
    assert clockwork.at("12:01:00") == ["fired 12:01:00"]
    assert clockwork.at("12:02:00") == ["fired 12:02:00"]
    assert clockwork.scheduler.tick() is None
    assert clockwork.at("13:00:00") == []


def test_a_trigger_that_others_have_fired_meanwhile_wakes_nobody(clockwork: Clockwork, stranger: Scheduler) -> None:
    clockwork.add("flow", schedule(cron="0 * * * *"))
    assert clockwork.at("13:00:00", stranger) == []
    assert stranger.tick() == timedelta(seconds=5)
    clockwork.settle()
    assert clockwork.at("13:00:05", stranger) == []
    assert stranger.tick() == timedelta(minutes=59, seconds=55)


def test_what_is_left_to_others_hides_nothing(clockwork: Clockwork, stranger: Scheduler) -> None:
    many = [schedule(f"t{number}", every="10s") for number in range(120)]
    clockwork.add("strange", *many)
    clockwork.add("first")
    clockwork.add("then", *(event(f"e{number}", workflow="first") for number in range(120)))
    clockwork.engine.enqueue("first")
    clockwork.work()
    clockwork.engine.add({"name": "plain", "steps": [], "triggers": [schedule(every="10s")]})
    looks = [clockwork.at("12:00:10", stranger) for _ in range(3)]
    assert [announced for look in looks for announced in look] == ["fired 12:00:10"]


def test_other_triggers_have_their_turn_while_one_catches_up_and_a_stop_ends_it(clockwork: Clockwork) -> None:
    clockwork.add("slow", schedule(**MINUTELY, misfire="all"))
    clockwork.add("other", schedule(cron="0 * * * *"))
    clockwork.clock.time += timedelta(hours=9)
    assert clockwork.scheduler.tick() == timedelta()
    assert len(clockwork.executions("slow")) == AT_ONCE
    assert len(clockwork.executions("other")) == 1
    clockwork.scheduler._dealer.stop.set()
    clockwork.scheduler.tick()
    assert len(clockwork.executions()) == AT_ONCE + 1
    clockwork.scheduler._dealer.stop.clear()
    clockwork.settle()
    assert len(clockwork.executions("slow")) == 9 * 60


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_a_request_that_the_store_refuses_is_a_failed_slot_and_the_next_one_is_fired(clockwork: Clockwork) -> None:
    """PostgreSQL has no room in an index for a key of such a length that cannot be pressed together."""
    clockwork.add("flow", schedule(**MINUTELY), options={"concurrencyKey": "<< $util.uuid >>" * 300})
    assert clockwork.at("12:01:00") == ["failed too_large 12:01:00"]
    clockwork.add("flow", schedule(**MINUTELY))
    assert clockwork.at("12:02:00") == ["fired 12:02:00"]


def test_a_scheduler_stops_when_it_is_asked_to(clockwork: Clockwork) -> None:
    stop = threading.Event()
    running = threading.Thread(target=Scheduler(clockwork.store, clockwork.engine._firer, Bus()).run, args=(stop,))
    running.start()
    stop.set()
    running.join(60)
    assert not running.is_alive()
