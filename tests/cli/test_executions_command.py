"""``flo executions``: looking at runs and jobs."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from typing import Any

from flo.engine import app
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Again, Entries, Wait

from .jobs import NO_TIME, claimed, dead, ended, enqueued, request, started, suspended


def listed(flo: Any, url: str, *options: str) -> list[str]:
    return [held["executionId"] for held in flo("executions", "list", *options, "--store", url, "--json").json]


def test_list_shows_runs_newest_first_and_filters(flo: Any, save: Any, ran: dict[str, Any]) -> None:
    second = flo("run", save([{"stepId": "a", "stepType": "core.log", "input": {"message": "x"}}]), "--json").json
    listed = flo("executions", "list", "--json").json
    assert [held["executionId"] for held in listed] == [second["executionId"], ran["executionId"]]
    assert [held["status"] for held in listed] == ["success", "failed"]
    by_status = flo("executions", "list", "--status", "failed", "--json").json
    by_name = flo("executions", "list", "--workflow", "greet", "--json").json
    assert (
        [held["executionId"] for held in by_status] == [ran["executionId"]] == [held["executionId"] for held in by_name]
    )
    rows = flo("executions", "list").out.splitlines()
    assert rows[0].split() == ["EXECUTION", "WORKFLOW", "STATUS", "QUEUE", "CREATED", "TOOK"]
    assert rows[2].split()[:4] == [ran["executionId"], "greet", "failed", "-"]


def test_list_names_the_queue_and_what_a_job_calls(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        enqueued(engine, queue="mail")
        enqueued(engine, workflow=None, handler="core.log")
    rows = flo("executions", "list", "--store", shared_url).out.splitlines()
    assert rows[1].split()[1:4] == ["core.log", "pending", "default"]
    assert rows[2].split()[1:4] == ["greet", "pending", "mail"]


def test_list_can_be_narrowed_to_a_queue_a_parent_and_dead_letters(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        mail = enqueued(engine, queue="mail")
        letter = dead(engine, queue="main")
        parent = claimed(engine, queue="main")
        child = engine.store.queue.adopt(
            parent.hold,
            request(engine, queue=None, parent_id=parent.execution.id, parent_path="a"),
            lease=LEASE,
        )
        job = enqueued(engine, queue="sms", parent_id=parent.execution.id, parent_path="b")
    assert listed(flo, shared_url) == [parent.execution.id, letter, mail]
    assert listed(flo, shared_url, "--queue", "mail") == [mail]
    assert listed(flo, shared_url, "--queue", "sms") == [job]
    assert listed(flo, shared_url, "--parent", parent.execution.id[:30]) == [job, child.execution.id]
    assert listed(flo, shared_url, "--dead") == [letter]


def test_a_run_whose_process_is_gone_is_listed_and_shown_as_failed(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        first, second = (started(engine, lease=NO_TIME).execution.id for _ in range(2))
    shown = flo("executions", "show", first, "--store", shared_url, "--json").json
    assert (shown["status"], shown["error"]["code"]) == ("failed", "crashed")
    assert listed(flo, shared_url, "--status", "failed") == [second, first]


def test_show_has_input_error_and_steps_and_the_iterations_when_asked_for(flo: Any, ran: dict[str, Any]) -> None:
    shown = flo("executions", "show", ran["executionId"], "--json").json
    assert (shown["status"], shown["input"], shown["error"]["message"]) == ("failed", {"x": 1}, "boom")
    assert [step["path"] for step in shown["steps"]] == ["a", "c"]
    assert (shown["attempts"], shown["waits"], shown["children"]) == ([], [], [])
    whole = flo("executions", "show", ran["executionId"], "--all", "--json").json
    assert {"a[0]", "a[0].b", "a[1]", "a[1].b"} <= {step["path"] for step in whole["steps"]}
    text = flo("executions", "show", ran["executionId"]).out
    assert re.search(r"^status +failed$", text, re.MULTILINE)
    assert "boom" in text
    assert "ATTEMPTS\n" not in text


def test_show_tells_who_has_a_running_one_and_until_when(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        execution = claimed(engine, worker="w7", lease=timedelta(hours=1)).execution
    assert execution.lease_until is not None
    shown = flo("executions", "show", execution.id, "--store", shared_url, "--json").json
    assert (shown["status"], shown["worker"]) == ("running", "w7")
    assert shown["leaseUntil"] is not None
    text = flo("executions", "show", execution.id, "--store", shared_url).out
    assert re.search(r"^worker +w7$", text, re.MULTILINE)
    assert re.search(rf"^leaseUntil +{shown['leaseUntil']}$", text, re.MULTILINE)


def test_show_has_the_claims_that_did_not_end_it(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        delivery = claimed(engine, worker="w7")
        failure = {"code": "busy", "message": "not now"}
        engine.store.queue.conclude(delivery.hold, Again(timedelta(hours=1), failure), Entries())
    shown = flo("executions", "show", delivery.execution.id, "--store", shared_url, "--json").json
    (attempt,) = shown["attempts"]
    assert (attempt["worker"], attempt["outcome"], attempt["error"]["message"]) == ("w7", "retrying", "not now")
    text = flo("executions", "show", delivery.execution.id, "--store", shared_url).out
    assert re.search(r"\nATTEMPTS\nCLAIM  WORKER .*\n1 +w7 .* retrying +not now\n", text)


def test_show_tells_what_a_suspended_one_waits_for_and_the_commands_that_answer_it(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = suspended(
            engine,
            Wait("pay", "signal", "payment received"),
            Wait("check", "approval", details={"message": "ok?", "approvers": ["ann", "bob"]}),
        )
    waits = flo("executions", "show", job, "--store", shared_url, "--json").json["waits"]
    assert [(wait["step"], wait["kind"], wait["answer"]) for wait in waits] == [
        ("pay", "signal", None),
        ("check", "approval", None),
    ]
    answer = flo("executions", "show", job, "--store", shared_url)
    assert re.search(
        r"\npay +waiting +for the signal 'payment received'\ncheck +waiting +for an approval\n", answer.out
    )
    told = answer.err.splitlines()
    assert told[0].startswith("step 'pay' waits for the signal 'payment received': ")
    signal = shlex.split(told[0].partition(": ")[2])
    assert signal[:-2] == ["flo", "executions", "signal", job, "payment received", "--payload", "JSON"]
    assert told[1].startswith("step 'check' waits for an approval of ann, bob, or a rejection (--reject): ")
    approve = shlex.split(told[1].partition(": ")[2])
    assert flo(*approve[1:], "--as", "bob").code == 0
    (left,) = flo("executions", "show", job, "--store", shared_url).err.splitlines()
    assert left == told[0]


def test_show_has_the_children(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        parent = ended(engine)
        child = enqueued(engine, queue="sms", parent_id=parent, parent_path="b")
    shown = flo("executions", "show", parent, "--store", shared_url, "--json").json
    assert [(held["executionId"], held["queue"], held["parentStep"]) for held in shown["children"]] == [
        (child, "sms", "b")
    ]
    text = flo("executions", "show", parent, "--store", shared_url).out
    assert re.search(rf"\n→ {child} +greet +pending +queue sms\n", text)


def test_an_id_may_be_cut(flo: Any, ran: dict[str, Any]) -> None:
    assert flo("executions", "show", ran["executionId"][:20], "--json").json["executionId"] == ran["executionId"]
    answer = flo("executions", "show", "nothing")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: no execution 'nothing'")


def test_logs_are_in_order_and_stay_on_their_lines(flo: Any, ran: dict[str, Any]) -> None:
    lines = flo("executions", "logs", ran["executionId"], "--json").json
    assert [line["message"] for line in lines] == ["item 1\nagain", "item 2\nagain", "boom"]
    assert [line["level"] for line in lines] == ["info", "info", "error"]
    assert lines[0]["data"] == {"n": 1}
    text = flo("executions", "logs", ran["executionId"]).out.splitlines()
    assert len(text) == 5
    assert "a[0].b: item 1" in text[0]
    assert text[1].strip() == 'again  {"n":1}'


def test_the_states_of_the_filter_are_those_of_executions(flo: Any) -> None:
    help_ = flo("executions", "list", "--help").out
    assert [state for state in ExecutionState if state.value not in help_] == []
