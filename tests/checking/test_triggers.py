"""What a document says of its triggers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.checking.load import Checked, load
from flo.engine.errors import Problem
from flo.engine.executions import ExecutionState
from flo.engine.registry import Registry

Check = Callable[[Any], Checked]
Told = Callable[[Any], list[str]]

NOTHING_RUNS: list[Any] = []


def schedule(**config: Any) -> dict[str, Any]:
    return {"type": "schedule", "config": {"schedule": config}}


def event(**config: Any) -> dict[str, Any]:
    return {"type": "event", "config": {"event": config}}


def flow(*triggers: Any, **document: Any) -> dict[str, Any]:
    return {"name": "flow", "steps": NOTHING_RUNS, "triggers": list(triggers), **document}


def test_a_trigger_becomes_what_is_wanted_of_the_store(check: Check) -> None:
    config = {"cron": "0 2 * * *", "timezone": "Asia/Kolkata", "initialData": {"since": "<< $util.now >>"}}
    [wanted] = check(flow({"name": "nightly", "enabled": False, **schedule(**config)})).workflow.triggers
    assert (wanted.name, wanted.kind, wanted.enabled, wanted.config) == ("nightly", "schedule", False, config)
    assert wanted.timing == '{"cron":"0 2 * * *","timezone":"Asia/Kolkata"}'
    assert wanted.awaits is None


def test_triggers_without_a_name_are_called_by_their_type(check: Check) -> None:
    every = schedule(every="5m")
    found = check(flow(every, {"type": "manual"}, every, {"name": "schedule-3", **every}, every)).workflow.triggers
    assert [one.name for one in found] == ["schedule", "manual", "schedule-2", "schedule-3", "schedule-4"]


def test_an_event_waits_for_every_end_unless_it_says_which(check: Check) -> None:
    triggers = [event(workflow="import"), event(workflow="import", status=["failed", "timed_out"])]
    every, some = check(flow(*triggers)).workflow.triggers
    assert every.awaits == some.awaits == "import"
    assert every.states == {state for state in ExecutionState if state.final} - {ExecutionState.REJECTED}
    assert some.states == {ExecutionState.FAILED, ExecutionState.TIMED_OUT}


@pytest.mark.parametrize(
    ("trigger", "place", "said"),
    [
        (schedule(cron="61 * * * *"), "schedule.cron", "minute"),
        (schedule(cron="* * * *"), "schedule.cron", "4 fields came"),
        (schedule(cron="*/0 * * * *"), "schedule.cron", "minute"),
        (schedule(cron="5-1 * * * *"), "schedule.cron", "minute"),
        (schedule(cron="a * * * *"), "schedule.cron", "minute"),
        (schedule(cron=""), "schedule.cron", ""),
        (schedule(cron="0 0 31 2 *"), "schedule.cron", "day"),
        (schedule(cron="0 0 0 * * *"), "schedule.cron", "did you mean '0 0 * * *'?"),
        (schedule(cron="<< initial.cron >>"), "schedule.cron", ""),
        (schedule(cron=5), "schedule.cron", "5 came, expected text"),
        (schedule(corn="* * * * *"), "schedule.corn", "did you mean 'cron'?"),
        (schedule(cron="@daily", every="1d"), "schedule", "both came"),
        (schedule(), "schedule", "neither came"),
        ({"type": "schedule"}, "schedule", "neither came"),
        (schedule(every="5 minutes"), "schedule.every", "is no duration"),
        (schedule(every="1h", timezone="CEST"), "schedule.timezone", "Europe/Berlin"),
        (schedule(every="1h", timezone="Europe/Berln"), "schedule.timezone", "did you mean 'Europe/Berlin'?"),
        (schedule(every="1h", misfire="twice"), "schedule.misfire", 'expected "once", "skip" or "all"'),
        (schedule(every="1h", overlap="skp"), "schedule.overlap", "did you mean 'skip'?"),
        (schedule(every="1h", graceSeconds=-1), "schedule.graceSeconds", "at least 0"),
        (schedule(every="1h", jitterSeconds="5"), "schedule.jitterSeconds", "expected a number"),
        (schedule(every="1h", initialData=[1]), "schedule.initialData", "a list came"),
        (schedule(every="1h", initialData="all"), "schedule.initialData", "expected an object"),
        (schedule(every="1h", initialData={"a": "<< $util.nwo >>"}), "schedule.initialData.a", "'now'"),
        (event(), "event", "'workflow' is required"),
        (event(workflow="flow"), "event.workflow", "its own workflow"),
        (event(workflow="other", on="workflow.started"), "event.on", "workflow.finished"),
        (event(workflow="other", status=["rejected"]), "event.status[0]", "rejected"),
        ({"type": "manual", "config": {"manual": {"cron": "@daily"}}}, "manual.cron", "unknown field"),
        ({"type": "manual", "config": {"schedule": {"every": "1h"}}}, "schedule", "this one is of type 'manual'"),
    ],
)
def test_a_trigger_that_means_nothing_is_refused_with_its_place(
    trigger: dict[str, Any], place: str, said: str, told: Told
) -> None:
    [line] = told(flow(trigger))
    assert line.startswith(f"triggers[0].config.{place}: ")
    assert said in line


def test_everything_that_is_wrong_with_a_trigger_is_told_at_once(told: Told) -> None:
    trigger = schedule(cron="61 * * * *", timezone="CEST", misfire="twice", initialData={"a": "<< x >>"})
    places = [line.partition(": ")[0].removeprefix("triggers[0].config.schedule.") for line in told(flow(trigger))]
    assert places == ["cron", "timezone", "misfire", "initialData.a"]


def test_two_triggers_of_one_name_are_refused(told: Told) -> None:
    [line] = told(flow({"name": "t", **schedule(every="1h")}, {"name": "t", **schedule(every="2h")}))
    assert line.startswith("triggers[1].name: there is another trigger 't'")


def test_data_that_cannot_fit_the_input_schema_is_refused_before_it_is_ever_fired(check: Check, told: Told) -> None:
    schema = {"type": "object", "required": ["limit"], "properties": {"limit": {"type": "integer"}}}
    [line] = told(flow(schedule(every="1h", initialData={"limit": "5"}), inputSchema=schema))
    assert line.startswith("triggers[0].config.schedule.initialData.limit: it does not fit inputSchema: ")
    [line] = told(flow(schedule(every="1h", initialData={"a": 1}), inputSchema=schema))
    assert "initialData: it does not fit inputSchema: 'limit' is required" in line
    check(flow(schedule(every="1h", initialData={"limit": 5}), inputSchema=schema))
    check(flow(schedule(every="1h", initialData={"limit": "<< $util.timestamp >>"}), inputSchema=schema))
    check(flow(schedule(every="1h", initialData="<< initial.all >>"), inputSchema=schema))
    [line] = told(flow(schedule(every="1h", initialData={"limit": "5", "at": "<< $util.now >>"}), inputSchema=schema))
    assert line.startswith("triggers[0].config.schedule.initialData.limit: it does not fit inputSchema: ")
    check(flow(schedule(every="1h", initialData={"a": 1}), inputSchema=schema, initial={"limit": 5}))


@pytest.mark.parametrize(
    "event_schema",
    [
        {"properties": {"output": {"type": "object"}}},
        {"required": ["on", "executionId", "status"]},
        {"properties": {"status": {"const": "failed"}}},
    ],
)
def test_what_a_fire_adds_may_be_all_that_the_input_schema_wants(event_schema: dict[str, Any], check: Check) -> None:
    schema = {"required": ["event"], "properties": {"event": event_schema}}
    check(flow(event(workflow="other", initialData={"a": 1}), inputSchema=schema))


def test_an_input_schema_that_knows_no_scheduled_time_is_refused_for_a_schedule(check: Check, told: Told) -> None:
    closed = {"type": "object", "additionalProperties": False, "properties": {"a": {}}}
    [line] = told(flow(schedule(every="1h", initialData={"a": 1}), inputSchema=closed))
    assert "initialData: it does not fit inputSchema: unknown field 'scheduledAt'" in line
    check(flow({"type": "manual", "config": {"manual": {"initialData": {"a": 1}}}}, inputSchema=closed))


@pytest.mark.parametrize(
    "options",
    [
        {"maxConcurrent": 3},
        {"concurrencyKey": "<< initial.tenant >>", "maxConcurrent": 1},
        {"maxConcurrent": 1, "whenFull": "reject"},
    ],
)
def test_waiting_for_the_run_before_does_not_go_with_another_limit(options: dict[str, Any], told: Told) -> None:
    [line] = told(flow(schedule(every="1h", overlap="queue"), options=options))
    assert line.startswith("triggers[0].config.schedule.overlap: 'queue' runs one after the other")


@pytest.mark.parametrize("options", [{}, {"maxConcurrent": 1}])
def test_waiting_for_the_run_before_goes_with_no_limit_and_with_one_at_a_time(
    options: dict[str, Any], check: Check
) -> None:
    check(flow(schedule(every="1h", overlap="queue"), options=options))


def test_the_traps_of_an_expression_are_told_where_it_stands(check: Check) -> None:
    [warning] = check(flow(schedule(cron="*/45 * * * *"))).warnings
    assert isinstance(warning, Problem)
    assert warning.place == "triggers[0].config.schedule.cron"
    assert "45m" in warning.message
    assert check(flow(schedule(cron="30 2 * * *", timezone="Europe/Berlin"))).warnings == ()


def test_triggers_of_a_workflow_inside_another_one_are_told_never_to_fire() -> None:
    inside = flow(schedule(every="1h"))
    call = {"stepId": "call", "stepType": "core.sub-workflow", "input": {"workflow": inside}}
    [warning] = load({"steps": [call]}, Registry.installed()).warnings
    assert warning.place == "steps[0].input.workflow.triggers"
    assert "only triggers of a stored workflow fire" in warning.message


def test_the_triggers_of_a_wrapped_document_are_those_beside_its_definition(check: Check) -> None:
    document = {"name": "flow", "definition": {"steps": []}, "triggers": [schedule(every="1h")]}
    [wanted] = check(document).workflow.triggers
    assert wanted.kind == "schedule"
