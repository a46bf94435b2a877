"""What ``flo.testing`` gives to tests is what a run would: checks, conversion, secrets, failures, rows, time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flo.engine.errors import StepFailed, StoreUnavailable, WorkflowInvalid
from flo.engine.secrecy import Secret
from flo.engine.step import Outcome, StepCall, step_type
from flo.engine.stores.filters import EVERY
from flo.engine.values import JsonObject
from flo.testing import FrozenClock, NotInARun, run_step, run_workflow

SESAME = "open sesame"


@dataclass
class Order:
    item: str
    count: int = 1


@step_type("test.order")
def order(call: StepCall, input: Order) -> dict[str, Any]:
    """Order something, once."""
    stored = call.store.set("orders", call.idempotency_key, {"item": input.item}, if_absent=True)
    call.log("info", f"ordered {input.item}", {"count": input.count})
    return {"created": stored.created, "at": call.clock.now().isoformat(), "attempt": call.attempt}


def test_a_step_runs_with_a_clock_that_stands_still_and_a_store_of_its_own() -> None:
    clock = FrozenClock(datetime(2026, 5, 1, tzinfo=UTC))
    first = run_step(order, {"item": "tea"}, clock=clock, idempotency_key="order-1")
    assert first.output == {"created": True, "at": "2026-05-01T00:00:00+00:00", "attempt": 1}
    assert [(line.level, line.message, line.data) for line in first.logs] == [("info", "ordered tea", {"count": 1})]
    again = run_step(order, {"item": "tea"}, store=first.store, idempotency_key="order-1", attempt=2)
    assert not again.output["created"]
    assert first.store.count("orders", EVERY) == 1
    assert run_step(order, {"item": "tea"}).output["created"]


@pytest.mark.parametrize(
    ("input", "said"),
    [
        ({}, "input: 'item' is required"),
        ({"item": "tea", "cuont": 2}, "input.cuont: unknown field 'cuont'; did you mean 'count'?"),
        ({"item": float("nan")}, "input.item: nan cannot be stored as JSON"),
    ],
)
def test_an_input_is_checked_as_a_run_checks_it(input: dict[str, Any], said: str) -> None:
    with pytest.raises(StepFailed) as failed:
        run_step(order, input)
    assert failed.value.message == said


def test_a_function_is_tested_before_it_has_a_name() -> None:
    def double(call: StepCall, input: dict[str, Any]) -> dict[str, Any]:
        return {"doubled": input["number"] * 2}

    assert run_step(double, {"number": 2}).output == {"doubled": 4}


def raising(error: BaseException) -> Any:
    def body(call: StepCall, input: JsonObject) -> JsonObject:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (StepFailed("no tea", code="sold_out", retryable=False), "sold_out", "no tea"),
        (KeyError("tea"), "step_error", "KeyError: 'tea'"),
        (AssertionError("tea"), "step_error", "AssertionError: tea"),
        (SystemExit(3), "step_error", "SystemExit: 3"),
        (StoreUnavailable("no store"), "store_error", "no store"),
    ],
)
def test_a_failure_is_raised_as_a_run_would_record_it(error: BaseException, code: str, message: str) -> None:
    with pytest.raises(StepFailed) as failed:
        run_step(raising(error))
    assert (failed.value.code, failed.value.message) == (code, message)
    document = {"steps": [{"stepId": "a", "stepType": "test.raising"}]}
    recorded = run_workflow(document, steps=[step_type("test.raising")(raising(error))]).error
    assert recorded is not None
    assert (recorded["code"], recorded["message"]) == (code, message)


def test_an_outcome_that_is_bad_keeps_its_output() -> None:
    def body(call: StepCall, input: JsonObject) -> Outcome:
        return Outcome({"status": 500}, operational_errors=["the server said 500"])

    result = run_step(body)
    assert not result.success
    assert result.output == {"status": 500}
    assert result.outcome.operational_errors == ("the server said 500",)


def test_an_outcome_is_the_one_that_the_step_gave_secrets_hidden() -> None:
    def body(call: StepCall, input: JsonObject) -> Outcome:
        said = f"refused {call.secrets['KEY']}"
        return Outcome({}, operational_errors=[said], warnings=[said], retryable=False, retry_after=7)

    outcome = run_step(body, secrets={"KEY": SESAME}).outcome
    assert outcome == Outcome({}, ["refused ***"], ["refused ***"], retryable=False, retry_after=7)


@pytest.mark.parametrize(
    ("line", "said"), [(("wran", "it"), "did you mean 'warn'"), (("info", "it", {"at": object()}), "data.at: ")]
)
def test_a_line_is_checked_as_a_run_checks_it(line: Any, said: str) -> None:
    def body(call: StepCall, input: JsonObject) -> JsonObject:
        call.log(*line)
        return {}

    with pytest.raises(StepFailed, match=said) as failed:
        run_step(body)
    recorded = run_workflow({"steps": [{"stepId": "a", "stepType": "t.body"}]}, steps=[step_type("t.body")(body)]).error
    assert recorded is not None
    assert (recorded["code"], recorded["message"]) == (failed.value.code, failed.value.message)


def test_an_output_that_is_not_what_was_promised_fails_the_test() -> None:
    promised = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}

    @step_type("test.promise", output=promised)
    def promise(call: StepCall, input: dict[str, Any]) -> dict[str, Any]:
        return input

    assert run_step(promise, {"total": 1}).output == {"total": 1}
    with pytest.raises(AssertionError, match=r'output\.total: "1" \(text\) came, expected a whole number'):
        run_step(promise, {"total": "1"})


def test_what_only_a_run_has_is_asked_for_in_vain() -> None:
    @step_type("test.parent", branches=("steps",))
    def parent(call: StepCall, input: dict[str, Any]) -> JsonObject:
        return call.run_children()

    with pytest.raises(NotInARun, match="test it with run_workflow"):
        run_step(parent)
    child = {"stepId": "child", "stepType": "test.order", "input": {"item": "tea"}}
    document = {"steps": [{"stepId": "a", "stepType": "test.parent", "input": {"steps": [child]}}]}
    result = run_workflow(document, steps=[parent, order])
    assert result.steps["a"]["output"]["child"]["created"]


@step_type("test.tells")
def tells(call: StepCall, input: dict[str, Any]) -> dict[str, Any]:
    """Use a secret where everybody can see it."""
    key = call.secrets["KEY"]
    call.log("warn", f"the key is {key}", {"key": key, "spelled": f"<{key}>"})
    if input.get("fail"):
        raise StepFailed(f"{key} is wrong")
    if input.get("keep"):
        call.store.set("keys", "key", {"held": f"<{key}>"})
    return {"key": key, "made": f"<{key}>", "url": call.secrets.connection("shop")["baseUrl"]}


SET_UP: Any = {"secrets": {"KEY": SESAME}, "connections": {"shop": {"baseUrl": "https://shop.test", "token": "t"}}}


def test_secrets_are_there_and_are_not_shown() -> None:
    result = run_step(tells, **SET_UP)
    assert result.output == {"key": SESAME, "made": f"<{SESAME}>", "url": "https://shop.test"}
    assert isinstance(result.output["made"], Secret)
    assert SESAME not in str([line.as_json() for line in result.logs])
    with pytest.raises(StepFailed, match=r"\*\*\* is wrong"):
        run_step(tells, {"fail": True}, **SET_UP)
    with pytest.raises(StepFailed, match="rows are readable"):
        run_step(tells, {"keep": True}, **SET_UP)
    with pytest.raises(StepFailed, match="the environment has no 'KEY'; did you mean 'KEYS'"):
        run_step(tells, secrets={"KEYS": ""})


def test_secrets_of_a_workflow_are_its_environment() -> None:
    step = {"stepId": "a", "stepType": "test.tells", "input": {"again": "<< $env.KEY >>"}}
    result = run_workflow({"steps": [step]}, steps=[tells], **SET_UP)
    assert result.success, result.error
    assert SESAME not in str(result)
    assert SESAME not in str([line.as_json() for line in result.logs])


def test_a_workflow_waits_without_taking_time() -> None:
    clock = FrozenClock()
    steps = [
        {"stepId": "nap", "stepType": "core.wait", "input": {"duration": "3h"}},
        {"stepId": "order", "stepType": "test.order", "input": {"item": "<< initial.item >>"}},
        {"stepId": "back", "stepType": "core.return", "input": {"at": "<< order.at >>"}},
    ]
    result = run_workflow({"steps": steps}, {"item": "tea"}, steps=[order], clock=clock)
    assert (result.status, result.output) == ("success", {"at": "2026-01-01T03:00:00+00:00"})
    assert clock.now() == datetime(2026, 1, 1, 3, tzinfo=UTC)
    assert "ordered tea" in [line.message for line in result.logs]
    (row,) = result.store.query("orders", EVERY, limit=10).rows
    assert row.value == {"item": "tea"}


def test_a_failed_run_is_a_result_and_a_wrong_document_is_not() -> None:
    document = {"steps": [{"stepId": "a", "stepType": "test.order", "input": {"item": "<< initial.item >>"}}]}
    result = run_workflow(document, {"item": 5}, steps=[order])
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["message"] == "steps[0].input.item: 5 came, expected text"
    with pytest.raises(WorkflowInvalid, match=r"no step type 'test\.order'"):
        run_workflow(document)


def test_a_step_type_stands_in_for_an_installed_one_and_files_add_theirs(tmp_path: Path) -> None:
    @step_type("core.log")
    def silent(call: StepCall, input: dict[str, Any]) -> dict[str, Any]:
        return {"silent": True}

    file = tmp_path / "more.py"
    file.write_text("from flo import step_type\n@step_type('test.more')\ndef more(call, input):\n    return {'n': 1}\n")
    flow = tmp_path / "flow.json"
    flow.write_text('{"steps": [{"stepId": "a", "stepType": "core.log"}, {"stepId": "b", "stepType": "test.more"}]}')
    result = run_workflow(flow, steps=[silent, str(file)])
    assert [result.steps[step]["output"] for step in ("a", "b")] == [{"silent": True}, {"n": 1}]


def test_a_frozen_clock_moves_when_it_is_told_to() -> None:
    clock = FrozenClock()
    clock.forward(timedelta(minutes=5))
    assert not clock.wait(threading.Event(), 60)
    assert clock.monotonic() == 360
    event = threading.Event()
    event.set()
    assert clock.wait(event, 60)
    assert clock.now() == datetime(2026, 1, 1, 0, 6, tzinfo=UTC)


def test_a_deadline_and_a_wish_to_stop_reach_the_step() -> None:
    def body(call: StepCall, input: JsonObject) -> dict[str, Any]:
        return {"left": (call.deadline or 0) - call.clock.monotonic(), "stop": call.cancelled.is_set()}

    cancelled = threading.Event()
    cancelled.set()
    assert run_step(body, timeout_seconds=5, cancelled=cancelled).output == {"left": 5.0, "stop": True}


def test_a_workflow_that_waits_for_weeks_is_tested_at_once() -> None:
    steps = [
        {"stepId": "wait", "stepType": "core.wait", "input": {"duration": "90d"}},
        {"stepId": "end", "stepType": "core.return", "input": {"at": "<< $util.today >>"}},
    ]
    clock = FrozenClock()
    waits: list[float] = []
    wait = clock.wait

    def counted(event: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        return wait(event, seconds)

    clock.wait = counted  # type: ignore[method-assign]
    assert run_workflow({"steps": steps}, clock=clock).output == {"at": "2026-04-01"}
    assert len(waits) < 100
