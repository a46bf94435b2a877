"""Steps that wait: for a time, for a signal, for somebody's decision."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flo.engine.errors import FloError, InputInvalid, StepFailed
from flo.engine.executions import ExecutionState
from flo.engine.instants import parse_instant
from flo.engine.jobs import LeaseLost
from flo.engine.step import Suspended
from flo.testing import FrozenClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "until"),
    [
        ({"duration": "5m"}, MIDNIGHT + timedelta(minutes=5)),
        ({"duration": "0s"}, MIDNIGHT),
        ({"until": "2026-01-01T14:00:00+02:00"}, NOON),
        ({"until": "2025-12-31T00:00:00Z"}, MIDNIGHT - timedelta(days=1)),
    ],
)
def test_a_wait_asks_for_the_instant_at_which_it_is_over(
    body: Any, answering: Any, given: dict[str, str], until: datetime
) -> None:
    with pytest.raises(Suspended) as suspended:
        body("core.wait", **given)
    assert suspended.value.until == until
    assert answering.waits == [("time", "", until, None)]


def test_a_wait_that_is_over_says_when_the_run_went_on(body: Any, answering: Any, clock: FrozenClock) -> None:
    answering.answers = [None]
    clock.forward(timedelta(hours=1))
    assert body("core.wait", duration="5m") == {"waitedUntil": "2026-01-01T01:00:00.000000Z"}


@pytest.mark.parametrize(
    ("step_type", "given", "field", "example"),
    [
        ("core.wait", {"duration": "soon"}, 'duration: "soon"', '"5m"'),
        ("core.wait", {"duration": ""}, 'duration: ""', '"5m"'),
        ("core.wait", {"until": "tomorrow"}, 'until: "tomorrow"', '"2026-01-31T09:30:00Z"'),
        ("core.wait", {"until": "2026-01-01T12:00:00"}, 'until: "2026-01-01T12:00:00"', '"2026-01-31T09:30:00Z"'),
        ("core.wait-for-signal", {"name": "paid", "timeout": "-5m"}, 'timeout: "-5m"', '"5m"'),
        ("core.approval", {"message": "go?", "timeout": "2 days"}, 'timeout: "2 days"', '"5m"'),
        ("queue.wait", {"executionId": "x", "timeout": "1y"}, 'timeout: "1y"', '"5m"'),
        ("queue.enqueue", {"workflow": "w", "delay": "x"}, 'delay: "x"', '"5m"'),
        ("queue.enqueue", {"workflow": "w", "runAt": "x"}, 'runAt: "x"', '"2026-01-31T09:30:00Z"'),
        ("queue.enqueue", {"workflow": "w", "deadline": "5m"}, 'deadline: "5m"', '"2026-01-31T09:30:00Z"'),
    ],
)
def test_what_is_no_time_is_refused_with_the_field_what_came_and_an_example(
    body: Any, answering: Any, step_type: str, given: dict[str, str], field: str, example: str
) -> None:
    with pytest.raises(StepFailed) as failed:
        body(step_type, **given)
    assert (failed.value.code, failed.value.retryable) == ("invalid_input", False)
    assert failed.value.message.startswith(field)
    assert example in failed.value.message
    assert (answering.waits, answering.jobs) == ([], [])


def test_a_signal_gives_its_payload(body: Any, answering: Any) -> None:
    answering.answers = [{"amount": 5}]
    assert body("core.wait-for-signal", name="paid", timeout="12h") == {"amount": 5}
    assert answering.waits == [("signal", "paid", NOON, None)]


def test_a_signal_without_a_timeout_is_waited_for_as_long_as_it_takes(body: Any, answering: Any) -> None:
    with pytest.raises(Suspended) as suspended:
        body("core.wait-for-signal", name="paid")
    assert suspended.value.until is None


@pytest.mark.parametrize(
    ("step_type", "given", "message"),
    [
        ("core.wait-for-signal", {"name": "paid", "timeout": "2d"}, "no signal 'paid' came within \"2d\""),
        ("core.approval", {"message": "go?", "timeout": "2d"}, 'nobody decided on "go?" within "2d"'),
        ("queue.wait", {"executionId": "job-1", "timeout": "2d"}, 'execution job-1 did not end within "2d"'),
    ],
)
def test_an_answer_that_does_not_come_in_time_fails_the_step(
    body: Any, answering: Any, step_type: str, given: dict[str, str], message: str
) -> None:
    answering.answers = [None]
    with pytest.raises(StepFailed) as failed:
        body(step_type, **given)
    assert (failed.value.code, failed.value.retryable) == ("timeout", False)
    assert failed.value.message == message


SCHEMA = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "integer"}, "to": {"type": "array", "items": {"type": "string"}}},
}


def test_a_payload_that_fits_the_schema_is_given(body: Any, answering: Any) -> None:
    answering.answers = [{"amount": 5, "to": ["a"]}]
    assert body("core.wait-for-signal", name="paid", schema=SCHEMA) == {"amount": 5, "to": ["a"]}


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({}, "payload: 'amount' is a required property"),
        ({"amount": "5"}, "payload.amount: '5' is not of type 'integer'"),
        ({"amount": 5, "to": ["a", 7]}, "payload.to[1]: 7 is not of type 'string'"),
    ],
)
def test_a_payload_that_does_not_fit_fails_the_step_with_the_place(
    body: Any, answering: Any, payload: dict[str, Any], said: str
) -> None:
    answering.answers = [payload]
    with pytest.raises(StepFailed) as failed:
        body("core.wait-for-signal", name="paid", schema=SCHEMA)
    assert (failed.value.code, failed.value.retryable) == ("invalid_signal", False)
    assert failed.value.message == f"the signal 'paid' does not fit: {said}"


def test_a_payload_of_any_size_is_told_in_a_few_words(body: Any, answering: Any) -> None:
    answering.answers = [{"amount": "x" * 1_000_000, "to": list(range(1000))}]
    with pytest.raises(StepFailed) as failed:
        body("core.wait-for-signal", name="paid", schema=SCHEMA)
    assert len(failed.value.message) < 2_000


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "object", "properties": {"a": {"type": "strng"}}}, "schema.properties.a.type: "),
        ({"properties": {"a": {"pattern": "("}}}, "schema.properties.a.pattern: "),
    ],
)
def test_a_schema_that_is_none_is_refused_before_anything_is_waited_for(
    body: Any, answering: Any, schema: dict[str, Any], place: str
) -> None:
    answering.answers = [{"a": "b"}]
    with pytest.raises(StepFailed) as failed:
        body("core.wait-for-signal", name="paid", schema=schema)
    assert (failed.value.code, failed.value.retryable) == ("invalid_input", False)
    assert failed.value.message.startswith(place)
    assert answering.waits == []


@pytest.mark.parametrize("reference", ["#/$defs/gone", "https://example.com/elsewhere.json", "#"])
def test_a_reference_that_leads_nowhere_is_a_failure(body: Any, answering: Any, reference: str) -> None:
    answering.answers = [{"a": "b"}]
    with pytest.raises(StepFailed) as failed:
        body("core.wait-for-signal", name="paid", schema={"$ref": reference})
    assert (failed.value.code, failed.value.retryable) == ("invalid_input", False)
    assert failed.value.message.startswith("schema: a reference leads nowhere")


def test_an_approval_tells_what_is_asked_and_who_may_decide(body: Any, answering: Any) -> None:
    decision = {"approved": True, "actor": "maria", "reason": "fine", "at": "2026-01-01T00:00:00.000000Z"}
    answering.answers = [decision]
    assert body("core.approval", message="go?", approvers=["maria"], timeout="12h") == decision
    assert answering.waits == [("approval", "", NOON, {"message": "go?", "approvers": ["maria"]})]


def test_a_rejection_is_no_failure(body: Any, answering: Any) -> None:
    answering.answers = [{"approved": False, "actor": None, "at": "2026-01-01T00:00:00.000000Z"}]
    decision = body("core.approval", message="go?")
    assert (decision["approved"], decision["reason"]) == (False, None)
    assert answering.waits == [("approval", "", None, {"message": "go?"})]


@pytest.mark.parametrize("stopped", [Suspended(None), LeaseLost("e", ExecutionState.RUNNING, "another", 2)], ids=type)
@pytest.mark.parametrize(
    ("steps", "catch", "ran"), [(None, None, ["steps"]), (StepFailed("no luck"), None, ["steps", "catch"])]
)
def test_try_neither_handles_nor_cleans_up_after_a_run_that_goes_on_later(
    body: Any, answering: Any, stopped: BaseException, steps: Any, catch: Any, ran: list[str]
) -> None:
    answering.branches = {"steps": steps, "catch": catch, "finally": None, ran[-1]: stopped}
    with pytest.raises(type(stopped)):
        body("core.try")
    assert answering.ran == ran


def test_try_cleans_up_once_the_run_that_waited_has_gone_on(body: Any, answering: Any) -> None:
    answering.branches = {"steps": None, "finally": None}
    assert body("core.try") == {"succeeded": True, "error": None}
    assert answering.ran == ["steps", "finally"]


def step(step_id: str, step_type: str, **given: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": step_type, "input": given}


def counting(key: str) -> dict[str, Any]:
    """Add one to what ``Workplace.count`` gives."""
    change = {"field": "n", "operation": "increment", "value": 1}
    return step(f"count-{key}", "data-store.atomic-update", tableName="counts", key=key, upsert=True, set=change)


def answering_with(value: str) -> dict[str, Any]:
    return step("answer", "core.return", got=value)


def test_a_wait_frees_its_worker(workplace: Any) -> None:
    waiting = workplace.enqueue([step("rest", "core.wait", duration="2d")])
    other = workplace.enqueue([counting("other")])
    workplace.drain(concurrency=1)
    assert (workplace.state(waiting), workplace.state(other)) == ("suspended", "success")
    assert (workplace.get(waiting).worker, workplace.get(waiting).lease_until) == (None, None)


def test_a_wait_lasts_through_restarts_until_the_instant_that_was_meant_first(shared_workplace: Any) -> None:
    waiting = shared_workplace.enqueue(
        [counting("before"), step("rest", "core.wait", duration="2d"), counting("after")]
    )
    shared_workplace.drain()
    shared_workplace.clock.forward(timedelta(days=2, seconds=-1))
    again = shared_workplace.reopen()
    again.drain()
    assert again.state(waiting) == "suspended"
    again.clock.forward(timedelta(seconds=1))
    again.drain()
    assert again.state(waiting) == "success"
    assert [again.count(key) for key in ("before", "after")] == [1, 1]
    again.engine.close()


def test_a_wait_goes_on_when_its_time_has_come(workplace: Any) -> None:
    until = workplace.clock.now() + timedelta(hours=1)
    rest = step("rest", "core.wait", until=until.isoformat())
    waiting = workplace.enqueue([rest, answering_with("<< rest.waitedUntil >>")])
    workplace.drain()
    assert workplace.get(waiting).due_at == until
    workplace.clock.forward(timedelta(hours=1))
    workplace.drain()
    assert parse_instant(workplace.get(waiting).output["got"]) == until


def test_a_wait_for_a_time_that_has_passed_ends_at_once(workplace: Any) -> None:
    waiting = workplace.enqueue([step("rest", "core.wait", until="2020-01-01T00:00:00Z")])
    workplace.drain()
    assert workplace.state(waiting) == "success"
    assert workplace.get(waiting).deliveries == 1


LISTEN = step("listen", "core.wait-for-signal", name="paid")


def test_a_signal_wakes_who_waits_for_it_and_nobody_else(workplace: Any) -> None:
    waiting, other = (workplace.enqueue([LISTEN, answering_with("<< listen.amount >>")]) for _ in range(2))
    workplace.drain()
    workplace.engine.signal(waiting, "refunded", {"amount": 1})
    workplace.drain()
    assert workplace.state(waiting) == "suspended"
    workplace.engine.signal(waiting, "paid", {"amount": 2})
    workplace.drain()
    assert workplace.get(waiting).output == {"got": 2}
    assert workplace.state(other) == "suspended"


def test_signals_that_come_before_the_wait_are_taken_by_one_step_each_the_oldest_first(workplace: Any) -> None:
    again = step("again", "core.wait-for-signal", name="paid")
    waiting = workplace.enqueue([LISTEN, again, answering_with("<< [listen.amount, again.amount] >>")])
    workplace.engine.signal(waiting, "paid", {"amount": 1})
    workplace.engine.signal(waiting, "paid", {"amount": 2})
    workplace.drain()
    assert workplace.get(waiting).output == {"got": [1, 2]}
    assert workplace.get(waiting).deliveries == 1


def test_a_signal_that_does_not_come_in_time_is_a_failure_that_can_be_handled(workplace: Any) -> None:
    listen = step("listen", "core.wait-for-signal", name="paid", timeout="2d")
    caught = step("try", "core.try", steps=[listen], catch=[counting("caught")], **{"finally": [counting("cleaned")]})
    waiting = workplace.enqueue([caught, answering_with("<< try.error.code >>")])
    workplace.drain()
    assert workplace.state(waiting) == "suspended"
    assert [workplace.count(key) for key in ("caught", "cleaned")] == [0, 0]
    workplace.clock.forward(timedelta(days=2))
    workplace.drain()
    assert workplace.get(waiting).output == {"got": "timeout"}
    assert [workplace.count(key) for key in ("caught", "cleaned")] == [1, 1]


def test_a_wait_in_catch_or_finally_does_not_run_what_was_tried_again(workplace: Any) -> None:
    lists = {
        "steps": [counting("tried"), step("break", "core.fail", message="no luck")],
        "catch": [LISTEN, counting("caught")],
        "finally": [step("listen-last", "core.wait-for-signal", name="over"), counting("cleaned")],
    }
    waiting = workplace.enqueue([step("try", "core.try", **lists), answering_with("<< try.error.message >>")])
    workplace.drain()
    workplace.engine.signal(waiting, "paid")
    workplace.drain()
    assert [workplace.count(key) for key in ("tried", "caught", "cleaned")] == [1, 1, 0]
    workplace.engine.signal(waiting, "over")
    workplace.drain()
    assert workplace.get(waiting).output == {"got": "no luck"}
    assert [workplace.count(key) for key in ("tried", "caught", "cleaned")] == [1, 1, 1]


ASK = step("ask", "core.approval", message="go?", approvers=["maria", "jonas"])


@pytest.mark.parametrize("approved", [True, False])
def test_only_those_who_are_named_decide_and_the_decision_is_kept(workplace: Any, approved: bool) -> None:
    waiting = workplace.enqueue([ASK, answering_with("<< ask >>")])
    workplace.drain()
    with pytest.raises(InputInvalid, match="'eve' may not decide"):
        workplace.engine.approve(waiting, actor="eve")
    workplace.drain()
    assert workplace.state(waiting) == "suspended"
    workplace.engine.approve(waiting, actor="jonas", approved=approved, reason="because")
    with pytest.raises(FloError):
        workplace.engine.approve(waiting, actor="maria", approved=not approved)
    workplace.drain()
    decision = workplace.get(waiting).output["got"]
    assert (decision["approved"], decision["actor"], decision["reason"]) == (approved, "jonas", "because")
    (wait,) = workplace.engine.executions.waits(waiting)
    assert (wait.details["message"], wait.answer) == ("go?", decision)


def test_without_names_anybody_decides(workplace: Any) -> None:
    waiting = workplace.enqueue([step("ask", "core.approval", message="go?"), answering_with("<< ask.actor >>")])
    workplace.drain()
    workplace.engine.approve(waiting, actor="eve")
    workplace.drain()
    assert workplace.get(waiting).output == {"got": "eve"}


def test_steps_that_wait_in_a_loop_wait_together(workplace: Any) -> None:
    listen = step("listen", "core.wait-for-signal", name="<< $item >>")
    loop = step("each", "core.for-each", items=["a", "b", "c"], concurrency=3, steps=[listen, counting("heard")])
    waiting = workplace.enqueue([loop, answering_with("<< each.items | map: 'output.listen.n' >>")])
    workplace.drain()
    for number, name in enumerate(["c", "a", "b"]):
        workplace.engine.signal(waiting, name, {"n": number})
        workplace.drain()
    assert workplace.get(waiting).output == {"got": [1, 2, 0]}
    assert workplace.count("heard") == 3


def test_the_recipe_for_approvals_acts_on_what_is_decided_or_on_time_running_out(workplace: Any) -> None:
    recipe = Path(__file__).resolve().parents[2] / "recipes" / "approval.json"
    approved, rejected, late = (workplace.engine.enqueue(recipe).execution_id for _ in range(3))
    workplace.drain()
    workplace.engine.approve(approved, actor="maria")
    workplace.engine.approve(rejected, actor="jonas", approved=False)
    workplace.drain()
    assert workplace.get(approved).output == {"outcome": "approved", "by": "maria"}
    assert workplace.get(rejected).output == {"outcome": "rejected", "by": "jonas"}
    assert workplace.state(late) == "suspended"
    workplace.clock.forward(timedelta(days=2))
    workplace.drain()
    assert workplace.get(late).output == {"outcome": "too-late", "by": None}
    assert workplace.state(late) == "success"


def test_try_does_not_clean_up_in_a_worker_that_gives_the_run_back(workplace: Any) -> None:
    look = step("look", "data-store.get", tableName="flags", key="go")
    note = step("note", "core.set-variable", go="<< look.found >>")
    busy = step("busy", "core.repeat", **{"while": "<< not ($vars.go | default: false) >>"}, steps=[look, note])
    busy["input"]["maxIterations"] = 1_000_000_000
    lists = {"steps": [counting("tried"), busy], "finally": [counting("cleaned")]}
    run = workplace.enqueue([step("try", "core.try", **lists), answering_with("<< try.succeeded >>")])
    stop = threading.Event()
    workplace.listeners.append(lambda event: stop.set() if getattr(event, "path", "").startswith("busy[") else None)
    workplace.engine.worker().run(stop, now=stop)
    assert workplace.state(run) == "pending"
    assert [workplace.count(key) for key in ("tried", "cleaned")] == [1, 0]
    workplace.listeners.clear()
    workplace.engine.data.set("flags", "go", True)
    workplace.drain()
    assert workplace.get(run).output == {"got": True}
    assert [workplace.count(key) for key in ("tried", "cleaned")] == [1, 1]
