"""``flo executions``: stopping, going on, running anew, answering."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Ended, Wait

from .jobs import GREET, NO_TIME, claimed, ended, enqueued, request, started, suspended

_S = ExecutionState

STEPS = """
from pathlib import Path

from flo.engine.errors import StepFailed
from flo.engine.step import step_type

ANY = {"type": "object"}

@step_type("test.count", schema=ANY, output=ANY, example={})
def count(call, input):
    with open("counted", "a") as file:
        file.write("x")
    return {}

@step_type("test.flaky", schema=ANY, output=ANY, example={})
def flaky(call, input):
    if not Path("well").exists():
        raise StepFailed("not well")
    return {"was": Path("well").read_text()}
"""

FLAKY = {
    "name": "flaky",
    "steps": [
        {"stepId": "first", "stepType": "test.count", "input": {}},
        {"stepId": "second", "stepType": "test.flaky", "input": {}},
        {"stepId": "end", "stepType": "core.return", "input": {"was": "<< second.was >>", "x": "<< initial.x >>"}},
    ],
}


def shown(flo: Any, execution_id: str, url: str) -> Any:
    return flo("executions", "show", execution_id, "--store", url, "--json").json


@pytest.fixture
def failed(flo: Any, save: Any, folder: Path, shared_url: str) -> str:
    """A run of ``FLAKY`` that failed; it goes well as soon as there is a file ``well``."""
    folder.joinpath("flaky.py").write_text(STEPS)
    file = save(FLAKY)
    answer = flo("run", file, "--store", shared_url, "--steps", "flaky.py", "--input", '{"x": 1}', "--json")
    assert answer.code == 3, answer.err
    execution_id: str = answer.json["executionId"]
    return execution_id


def test_cancel_prints_what_is_cancelled_children_too(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        parent = claimed(engine)
        job = enqueued(engine, queue="sms", parent_id=parent.execution.id, parent_path="b")
        other = enqueued(engine, queue="mail")
        untouched = enqueued(engine, queue="mail")
    answer = flo("executions", "cancel", parent.execution.id[:30], other, "--store", shared_url)
    assert (answer.code, answer.err) == (0, "")
    assert set(answer.out.splitlines()) == {parent.execution.id, job, other}
    assert [shown(flo, one, shared_url)["status"] for one in (parent.execution.id, job, other, untouched)] == [
        "cancelled", "cancelled", "cancelled", "pending",
    ]  # fmt: skip


def test_what_has_ended_cannot_be_cancelled_and_the_others_are(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        over, waiting = ended(engine), enqueued(engine)
    answer = flo("executions", "cancel", over, "nothing", waiting, "--store", shared_url, "--json")
    assert answer.code == 1
    assert answer.json == {"cancelled": [waiting]}
    told = answer.err.splitlines()
    assert told[0] == f"error: execution {over} is success: it has ended, and cannot be cancelled"
    assert told[1].startswith("error: no execution 'nothing'")


def test_a_child_may_be_named_beside_its_parent(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        parent = enqueued(engine)
        child = enqueued(engine, parent_id=parent, parent_path="b")
    answer = flo("executions", "cancel", parent, child, "--store", shared_url, "--json")
    assert (answer.code, set(answer.json["cancelled"])) == (0, {parent, child})


def test_a_job_that_is_resumed_goes_back_to_its_queue(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = ended(engine, _S.FAILED, queue="mail")
    answer = flo("executions", "resume", job[:30], "--store", shared_url)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"execution {job} is pending in queue 'mail', for attempt 2\n"
    assert shown(flo, job, shared_url)["status"] == "pending"
    with app.open(shared_url) as engine:
        other = ended(engine, _S.TIMED_OUT, queue="sms")
    resumed = flo("executions", "resume", other, "--store", shared_url, "--json").json
    assert resumed == {"executionId": other, "status": "pending", "queue": "sms"}


def test_a_job_goes_on_with_the_version_that_it_started_with(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        engine.add(engine.load(json.dumps(GREET)))
        job = ended(engine, _S.FAILED, version=1)
        engine.add(engine.load(json.dumps({**GREET, "initial": {"greeting": "hi"}})))
    answer = flo("executions", "resume", job, "--store", shared_url)
    assert "goes on with version 1, as it started; version 2 is stored\n" in answer.err
    assert shown(flo, job, shared_url)["version"] == 1


@pytest.mark.parametrize("state", [_S.SUCCESS, _S.CANCELLED])
def test_only_what_failed_can_be_resumed(state: ExecutionState, flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = ended(engine, state)
    answer = flo("executions", "resume", job, "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"error: execution {job} is {state}; only what failed or timed out can be resumed\n"


def test_a_running_one_is_not_resumed_and_its_worker_is_named(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = claimed(engine, worker="w7").execution.id
    answer = flo("executions", "resume", job, "--store", shared_url)
    assert answer.code == 1
    assert f"execution {job} is running: worker 'w7' holds it until " in answer.err


def test_a_resume_with_another_input_is_refused(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = ended(engine, _S.FAILED, input={"name": "Ada"})
    answer = flo("executions", "resume", job, "--input", '{"name": "Grace"}', "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    assert "input" in answer.err
    assert shown(flo, job, shared_url)["status"] == "failed"
    assert flo("executions", "resume", job, "--input", '{"name": "Ada"}', "--store", shared_url).code == 0


def test_what_flo_run_ran_goes_on_here_from_the_step_that_failed(
    flo: Any, folder: Path, shared_url: str, failed: str
) -> None:
    resume = ("executions", "resume", failed[:30], "--store", shared_url, "--steps", "flaky.py")
    again = flo(*resume)
    assert (again.code, again.out) == (3, "")
    assert again.err.splitlines()[-1] == "error: the run failed in step 'second': not well"
    folder.joinpath("well").write_text("fine")
    answer = flo(*resume, "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["executionId"], answer.json["status"]) == (failed, "success")
    assert answer.json["output"] == {"was": "fine", "x": 1}
    assert "second  success" in answer.err
    assert folder.joinpath("counted").read_text() == "x"
    over = flo(*resume)
    assert (over.code, over.out) == (1, "")
    assert f"execution {failed} is success; only" in over.err


def test_a_resumed_run_prints_what_it_returns(flo: Any, folder: Path, shared_url: str, failed: str) -> None:
    folder.joinpath("well").write_text("fine")
    answer = flo("executions", "resume", failed, "--store", shared_url, "--steps", "flaky.py", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, '{"was":"fine","x":1}\n', "")


def test_a_run_that_was_killed_can_go_on(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        run = started(engine, lease=NO_TIME).execution.id
    answer = flo("executions", "resume", run, "--store", shared_url)
    assert (answer.code, answer.out) == (0, '{"hello":"Ada"}\n')


def test_a_part_of_another_execution_is_not_resumed_by_itself(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        parent = started(engine)
        child = engine.store.queue.adopt(
            parent.hold,
            request(engine, queue=None, parent_id=parent.execution.id, parent_path="a"),
            lease=LEASE,
        )
        engine.store.queue.conclude(child.hold, Ended(_S.FAILED, error={"code": "x", "message": "boom"}))
    answer = flo("executions", "resume", child.execution.id, "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    assert parent.execution.id in answer.err


def test_a_replayed_job_is_enqueued_anew_with_the_newest_version(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        engine.add(engine.load(json.dumps(GREET)))
        job = ended(engine, version=1, queue="mail", input={"name": "Grace"})
        engine.add(engine.load(json.dumps({**GREET, "initial": {"greeting": "hi"}})))
    enqueued_ = flo("executions", "replay", job[:30], "--store", shared_url, "--json").json
    assert (enqueued_["created"], enqueued_["status"]) == (True, "pending")
    replayed = shown(flo, enqueued_["executionId"], shared_url)
    assert (replayed["queue"], replayed["input"]["name"], replayed["version"]) == ("mail", "Grace", 2)
    assert replayed["replayOf"] == job
    text = flo("executions", "replay", job, "--store", shared_url)
    assert text.code == 0
    assert shown(flo, text.out.strip(), shared_url)["status"] == "pending"


def test_what_flo_run_ran_is_replayed_here_from_the_start(flo: Any, folder: Path, shared_url: str, failed: str) -> None:
    folder.joinpath("well").write_text("fine")
    answer = flo("executions", "replay", failed, "--store", shared_url, "--steps", "flaky.py", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["executionId"] != failed
    assert answer.json["output"] == {"was": "fine", "x": 1}
    assert folder.joinpath("counted").read_text() == "xx"
    assert shown(flo, answer.json["executionId"], shared_url)["replayOf"] == failed
    assert shown(flo, failed, shared_url)["status"] == "failed"


def test_a_signal_makes_the_execution_due_that_waits_for_it(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(engine, Wait("pay", "signal", "paid"))
        answer = flo("executions", "signal", job[:30], "paid", "--payload", '{"amount": 7}', "--store", shared_url)
        assert (answer.code, answer.out, answer.err) == (0, "", f"execution {job} has the signal 'paid'\n")
        (delivery,) = engine.store.queue.claim(["default"], worker="w", lease=LEASE, limit=1).deliveries
        wait = engine.store.queue.own(delivery.hold, lambda owned: owned.wait(Wait("pay", "signal", "paid")))
        assert wait.answer == {"amount": 7}


def test_a_signal_may_come_from_standard_input_and_without_a_payload(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = enqueued(engine)
    piped = flo("executions", "signal", job, "a", "--payload", "-", "--store", shared_url, "--json", stdin='{"n": 1}')
    assert piped.json == {"executionId": job, "signal": "a", "payload": {"n": 1}}
    assert flo("executions", "signal", job, "b", "--store", shared_url, "--json").json["payload"] == {}
    early = flo("executions", "signal", job, "a", "--store", shared_url)
    assert early.err == f"execution {job} has the signal 'a'; no step of it waits for that yet\n"
    wrong = flo("executions", "signal", job, "c", "--payload", "[1]", "--store", shared_url)
    assert (wrong.code, wrong.err) == (1, "error: --payload: it must be an object, a list came\n")


def test_what_has_ended_takes_no_signal(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = ended(engine)
    answer = flo("executions", "signal", job, "paid", "--store", shared_url)
    assert answer.code == 1
    assert f"execution {job} is success" in answer.err


def approval(path: str = "check", *approvers: str) -> Wait:
    return Wait(path, "approval", details={"message": "ok?", **({"approvers": list(approvers)} if approvers else {})})


def test_an_approval_is_kept_with_who_decided_and_why(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(engine, approval("check", "ann", "bob"))
    options = ("--as", "ann", "--reason", "looks fine", "--store", shared_url)
    answer = flo("executions", "approve", job[:30], *options)
    assert (answer.code, answer.out, answer.err) == (0, "", f"ann approved step 'check' of execution {job}\n")
    (wait,) = shown(flo, job, shared_url)["waits"]
    decision = wait["answer"]
    assert (decision["approved"], decision["actor"], decision["reason"]) == (True, "ann", "looks fine")
    assert decision["at"].endswith("Z")
    again = flo("executions", "approve", job, "--step", "check", *options)
    assert again.code == 1


def test_an_approval_may_be_a_rejection(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(engine, approval())
    answer = flo("executions", "approve", job, "--reject", "--as", "ann", "--store", shared_url, "--json")
    assert (answer.json["executionId"], answer.json["step"]) == (job, "check")
    (wait,) = shown(flo, job, shared_url)["waits"]
    assert (wait["answer"]["approved"], wait["answer"]["reason"]) == (False, None)


def test_who_is_no_approver_is_told_who_is(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(engine, approval("check", "ann", "bob"))
    answer = flo("executions", "approve", job, "--as", "eve", "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    for name in ("eve", "ann", "bob"):
        assert name in answer.err
    (wait,) = shown(flo, job, shared_url)["waits"]
    assert wait["answer"] is None


def test_where_several_approvals_wait_the_step_has_to_be_named(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(engine, approval("legal"), approval("money"))
    answer = flo("executions", "approve", job, "--as", "ann", "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    assert "legal" in answer.err
    assert "money" in answer.err
    named = flo("executions", "approve", job, "--step", "money", "--as", "ann", "--store", shared_url, "--json")
    assert named.json["step"] == "money"
    # the other one is the only one that waits by now
    assert flo("executions", "approve", job, "--as", "ann", "--store", shared_url, "--json").json["step"] == "legal"


def test_without_an_approval_there_is_nothing_to_decide(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(engine, Wait("pay", "signal", "paid"))
    answer = flo("executions", "approve", job, "--as", "ann", "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    assert job in answer.err


def test_the_actor_is_the_login_name_unless_one_is_given(
    flo: Any, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    with app.open(shared_url) as engine:
        job = suspended(engine, approval())
    assert flo("executions", "approve", job, "--store", shared_url).err.startswith("grace approved step 'check'")


def test_without_a_login_name_one_has_to_be_given(flo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise OSError("no username set in the environment")

    monkeypatch.setattr(getpass, "getuser", nobody)
    answer = flo("executions", "approve", "x")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "error: nobody knows who you are: there is no login name; give one with --as ACTOR\n"
