"""The end of one workflow starts another one, once."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Clockwork, event, schedule


def test_the_end_of_another_workflow_fires_once_with_what_it_gave(clockwork: Clockwork) -> None:
    clockwork.add("first")
    clockwork.add("then", event(workflow="first", status=["success"], initialData={"of": "<< initial.event.output >>"}))
    clockwork.engine.enqueue("first", {"n": 1})
    clockwork.work()
    assert clockwork.settle() == ["fired"]
    assert clockwork.settle(clockwork.engine.scheduler()) == []
    [first] = clockwork.executions("first")
    [then] = clockwork.executions("then")
    assert (then.trigger, then.depth) == ("event", 2)
    assert then.input == {
        "of": {"initial": {"n": 1}},
        "event": {
            "on": "workflow.finished",
            "executionId": first.id,
            "workflow": "first",
            "status": "success",
            "output": {"initial": {"n": 1}},
            "error": None,
        },
    }


def test_an_end_that_nobody_waits_for_fires_nothing(clockwork: Clockwork) -> None:
    clockwork.add("first")
    clockwork.add("then", event(workflow="first", status=["failed"]))
    clockwork.engine.enqueue("first")
    clockwork.work()
    assert clockwork.settle() == []


def test_workflows_that_start_each_other_stop_at_the_tenth(clockwork: Clockwork) -> None:
    clockwork.add("ping", event(workflow="pong"))
    clockwork.add("pong", event(workflow="ping"))
    clockwork.engine.enqueue("ping")
    announced = []
    for _ in range(12):
        clockwork.work()
        announced += clockwork.settle()
    assert announced == [*["fired"] * 9, "failed invalid_input"]
    assert len(clockwork.executions()) == 10


def test_an_event_that_is_switched_off_before_it_is_dealt_with_is_skipped(clockwork: Clockwork) -> None:
    clockwork.add("first")
    clockwork.add("then", event(workflow="first"))
    clockwork.engine.enqueue("first")
    clockwork.work()
    clockwork.engine.triggers.disable("then")
    assert clockwork.settle() == ["skipped disabled"]
    assert clockwork.executions("then") == []


def test_an_end_that_is_due_to_what_became_a_schedule_is_skipped(clockwork: Clockwork) -> None:
    clockwork.add("first")
    clockwork.add("then", event("t", workflow="first"))
    clockwork.engine.enqueue("first")
    clockwork.work()
    clockwork.add("then", schedule("t", cron="* * * * *"))
    assert clockwork.settle() == ["skipped disabled"]
    assert clockwork.at("12:01:00") == ["fired 12:01:00"]


def test_an_end_that_cannot_be_dealt_with_is_in_nobodys_way(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    clockwork.add("first")
    clockwork.add("then", event(workflow="first"))
    clockwork.engine.enqueue("first")
    clockwork.work()

    def request(*given: Any, **named: Any) -> Any:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(type(clockwork.engine._firer), "request", request)
    assert clockwork.settle() == ["failed bug"]


def test_an_end_that_was_resumed_since_fires_with_how_it_ended_then(clockwork: Clockwork) -> None:
    fails = {"stepId": "a", "stepType": "core.fail", "input": {"message": "boom"}}
    clockwork.add("first", steps=[fails])
    clockwork.add("then", event(workflow="first"))
    clockwork.engine.enqueue("first")
    clockwork.work()
    [first] = clockwork.executions("first")
    clockwork.engine.resume(first.id)
    assert clockwork.settle() == ["fired"]
    clockwork.work()
    assert clockwork.settle() == ["fired"]
    told = [one.input["event"] for one in clockwork.executions("then")]
    assert [(each["status"], each["error"] is None) for each in told] == [("failed", True), ("failed", False)]
