"""What was decided, caught and returned stays so, whoever goes on with the execution."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.cancellation import Cancellation
from flo.engine.executions import ExecutionState, StepState
from flo.engine.jobs import LEASE
from flo.engine.step import StepCall
from flo.engine.values import JsonObject

from .delivering import House, Owner, act, fail, failing, loop, step

_S = ExecutionState
HOUR = timedelta(hours=1)


# what was decided


def by_time(*inside: Any, otherwise: Any = ()) -> dict[str, Any]:
    """Holds as long as it is before one o'clock."""
    condition = "<< $util.now < '2026-01-01T01:00:00Z' >>"
    return step("choose", "core.if", {"condition": condition, "then": list(inside), "else": list(otherwise)})


def test_a_condition_is_decided_once_however_late_the_next_owner_comes(house: House) -> None:
    decide = by_time(act("a"), act("b"), otherwise=[act("never")])
    name = house.enqueue([decide, act("c", {"branch": "<< choose.branch >>"})])
    house.dies(in_step="b")
    house.clock.forward(HOUR)
    house.ends()
    assert house.outputs(name)["c"] == {"branch": "then"}
    assert house.ran == {"a": 1, "b": 2, "c": 1}


def test_a_decision_from_which_nothing_followed_falls_anew(house: House) -> None:
    name = house.enqueue([by_time(act("a"), otherwise=[act("late")]), act("c", {"branch": "<< choose.branch >>"})])
    house.dies(in_step="a")
    house.clock.forward(HOUR)
    house.ends()
    assert house.outputs(name)["c"] == {"branch": "else"}


def test_a_decision_is_stored_before_steps_beside_one_another_follow_from_it(house: House) -> None:
    both = step("both", "core.parallel", {"steps": [act("a"), act("b")], "concurrency": 1})
    house.enqueue([by_time(both, otherwise=[act("never")])])
    house.dies(in_step="b")
    house.clock.forward(HOUR)
    house.ends()
    assert house.ran == {"a": 1, "b": 2}


@pytest.mark.parametrize("looped", [False, True])
def test_a_decision_stands_once_a_child_has_written_though_nothing_is_recorded(house: House, looped: bool) -> None:
    def write(call: StepCall, input: JsonObject) -> JsonObject:
        return {"created": call.store.set("t", "k", 1).created}

    house.acts["a"] = write
    decide = by_time(act("a"), otherwise=[act("never")])
    house.enqueue([loop("l", [0], decide) if looped else decide])
    path = "l[0].a" if looped else "a"
    house.dies(in_step=path)
    house.clock.forward(HOUR)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {path: 2}


def test_whether_a_step_with_children_is_skipped_is_decided_once(house: House) -> None:
    body = [step("now", "core.set-variable", {"done": True}), act("a"), act("b")]
    name = house.enqueue([{**loop("l", [1], *body), "skipCondition": "<< $vars.done | default: false >>"}])
    house.dies(in_step="l[0].b")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"l[0].a": 1, "l[0].b": 2}
    assert house.records(name)["l"].state is StepState.SUCCESS


def test_a_decision_stands_when_a_failed_execution_is_resumed(house: House) -> None:
    house.acts["b"] = failing(1)
    name = house.enqueue([by_time(act("a"), act("b"), otherwise=[act("never")])])
    assert house.ends().state is _S.FAILED
    house.clock.forward(HOUR)
    house.engine.resume(name)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 2}


def test_a_loop_goes_through_the_list_that_it_began_with(house: House) -> None:
    begin = step("begin", "core.set-variable", {"todo": ["x", "y", "z"]})
    body = [step("drop", "core.set-variable", {"todo": []}), act("work", {"item": "<< $item >>"})]
    each = {**loop("l", [], *body)}
    each["input"]["items"] = "<< $vars.todo >>"
    name = house.enqueue([begin, each])
    house.dies(in_step="l[1].work")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"l[0].work": 1, "l[1].work": 2, "l[2].work": 1}
    assert house.outputs(name)["l"]["count"] == 3


def test_a_switch_is_decided_once(house: House) -> None:
    cases = [
        {"caseId": "early", "when": "<< $util.now < '2026-01-01T01:00:00Z' >>", "steps": [act("a"), act("b")]},
        {"caseId": "late", "when": True, "steps": [act("never")]},
    ]
    name = house.enqueue([step("s", "core.switch", {"cases": cases}), act("c", {"v": "<< s.caseId >>"})])
    house.dies(in_step="b")
    house.clock.forward(HOUR)
    house.ends()
    assert house.outputs(name)["c"] == {"v": "early"}


def test_a_decision_in_a_loop_is_one_of_its_iteration(house: House) -> None:
    name = house.enqueue([loop("l", [0, 1], by_time(act("a"), act("b"), otherwise=[act("late")]))])
    house.dies(in_step="l[0].b")
    house.clock.forward(HOUR)
    house.ends()
    assert house.ran == {"l[0].a": 1, "l[0].b": 2, "l[1].late": 1}
    [first, second] = house.store.executions.iterations(name, "l", start=0, limit=2)
    assert isinstance(first.output, dict)
    assert isinstance(second.output, dict)
    assert (first.output["choose"], second.output["choose"]) == (
        {"conditionResult": True, "branch": "then"},
        {"conditionResult": False, "branch": "else"},
    )


def test_a_decision_stands_when_its_worker_gives_the_execution_back(house: House) -> None:
    """What the children did is stored with the claim's end; so is what let them run."""
    cancellation = Cancellation()

    def stop(call: StepCall, input: JsonObject) -> JsonObject:
        cancellation.cancel("released")
        return {}

    house.acts["a"] = stop
    name = house.enqueue([by_time(act("a", kind="test.act-inside"), act("b"), otherwise=[act("never")]), act("c")])
    released = Owner(house).deliver(cancellation=cancellation)
    assert released is not None
    assert released.state is _S.PENDING
    assert "a" in house.records(name)
    house.clock.forward(HOUR)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 1, "c": 1}


def test_a_decision_stands_when_the_whole_is_tried_again(house: House) -> None:
    house.acts["b"] = failing(1)
    inside = [act("a", kind="test.act-inside"), act("b", kind="test.act-inside")]
    retry = {"maxAttempts": 2, "delaySeconds": 3600}
    name = house.enqueue([by_time(*inside, otherwise=[act("never")])], options={"retry": retry})
    assert house.ends().state is _S.RETRYING
    house.clock.forward(HOUR)
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 2}
    assert house.records(name)["choose"].output == {"conditionResult": True, "branch": "then"}


# core.try


def trying(*inside: Any, catch: Any = None, last: Any = None) -> dict[str, Any]:
    branches = {"steps": list(inside), "catch": catch, "finally": last}
    return step("try", "core.try", {name: held for name, held in branches.items() if held is not None})


def test_a_failure_that_was_caught_stays_caught_and_is_not_tried_again(house: House) -> None:
    house.acts["a"] = failing(1)
    catch = [act("c1", {"why": "<< $errors.last.message >>"}), act("c2")]
    name = house.enqueue([trying(act("a"), catch=catch, last=[act("f")]), act("after", {"ok": "<< try.succeeded >>"})])
    house.dies(in_step="c2")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "c1": 1, "c2": 2, "f": 1, "after": 1}
    assert house.outputs(name)["c1"] == {"why": "not yet"}
    assert house.outputs(name)["after"] == {"ok": False}


def test_finally_goes_on_after_its_last_finished_step(house: House) -> None:
    name = house.enqueue([trying(act("a"), last=[act("f1"), act("f2"), act("f3")]), act("after")])
    house.dies(in_step="f2")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "f1": 1, "f2": 2, "f3": 1, "after": 1}
    assert house.get(name).state is _S.SUCCESS


def test_a_failure_without_catch_still_fails_the_run_after_finally_was_cut_off(house: House) -> None:
    house.acts["a"] = failing(1)
    name = house.enqueue([trying(act("a"), last=[act("f1"), act("f2")]), act("never")])
    house.dies(in_step="f2")
    execution = house.ends()
    assert execution.state is _S.FAILED
    assert execution.error is not None
    assert execution.error["path"] == "a"
    assert house.ran == {"a": 1, "f1": 1, "f2": 2}
    assert house.records(name)["try"].state is StepState.FAILED


def test_a_return_cut_off_in_finally_returns_after_it(house: House) -> None:
    leave = step("leave", "core.return", {"n": "<< a.n >>"})
    name = house.enqueue([trying(act("a", {"n": 1}), leave, last=[act("f1"), act("f2")]), act("never")])
    house.dies(in_step="f2")
    execution = house.ends()
    assert (execution.state, execution.output) == (_S.SUCCESS, {"n": 1})
    assert house.ran == {"a": 1, "f1": 1, "f2": 2}
    assert house.records(name)["leave"].state is StepState.SUCCESS


def test_finally_is_left_to_the_next_owner_by_one_that_gives_the_execution_back(house: House) -> None:
    cancellation = Cancellation()

    def stop(call: StepCall, input: JsonObject) -> JsonObject:
        cancellation.cancel("released")
        return {}

    house.acts["a"] = stop
    name = house.enqueue([trying(act("a"), act("b"), last=[act("f")]), act("after")])
    released = Owner(house).deliver(cancellation=cancellation)
    assert released is not None
    assert released.state is _S.PENDING
    assert house.ran == {"a": 1}
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 1, "f": 1, "after": 1}
    assert house.records(name)["try"].state is StepState.SUCCESS


@pytest.mark.parametrize("reason", ["cancelled", "timed_out"])
def test_finally_runs_where_the_execution_ends(house: House, reason: Any) -> None:
    cancellation = Cancellation()

    def stop(call: StepCall, input: JsonObject) -> JsonObject:
        cancellation.cancel(reason)
        return {}

    house.acts["a"] = stop
    name = house.enqueue([trying(act("a"), act("b"), last=[act("f")]), act("after")])
    stopped = Owner(house).deliver(cancellation=cancellation)
    assert stopped is not None
    assert stopped.state.value == reason
    assert house.ran == {"a": 1, "f": 1}
    assert house.records(name)["f"].state is StepState.SUCCESS


def test_errors_of_an_earlier_delivery_are_seen(house: House) -> None:
    asked = {"count": "<< $errors.size >>", "path": "<< $errors[0].path >>", "last": "<< $errors.last.stepId >>"}
    inside = fail("broken", continueOnError=True)
    name = house.enqueue([loop("l", [0, 1], inside), act("a"), fail("more", onFailure="continue"), act("b", asked)])
    house.dies(in_step="a")
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert house.outputs(name)["b"] == {"count": 3, "path": "l[0].broken", "last": "more"}


# return


@pytest.mark.parametrize("made", [False, True])
def test_a_returned_run_returns_again_if_its_end_was_not_written(house: House, made: bool) -> None:
    inner = step("leave", "core.return", {"found": "<< $item >>"}, skipCondition="<< $item != 2 >>")
    steps = [loop("l", [1, 2, 3], act("a"), inner), act("never")]
    house.enqueue(steps)
    whole = Owner(house)
    whole.deliver()
    house.ran.clear()
    name = house.enqueue(steps)
    Owner(house, at_write=whole.writes, made=made).deliver()
    if not made:
        house.clock.forward(LEASE)
        house.ends()
    execution = house.get(name)
    assert (execution.state, execution.output) == (_S.SUCCESS, {"found": 2})
    assert house.ran == {"l[0].a": 1, "l[1].a": 1}
    records = house.records(name)
    assert records["l[1]"].state is records["l"].state is StepState.SUCCESS
    assert "l[2]" not in records
