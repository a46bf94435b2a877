"""``flo enqueue``: what is put into a queue, when it is due, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flo.engine import app
from flo.engine.executions import Execution, ExecutionState

Save = Callable[..., str]

LOG = {"stepId": "a", "stepType": "core.log", "input": {"message": "hello << initial.name >>"}}
NAMED = {"name": "greet", "steps": [LOG], "initial": {"name": "Ada"}}


def stored(execution_id: str) -> Execution:
    with app.open() as engine:
        found = engine.executions.get(execution_id)
    assert found is not None
    return found


def count() -> int:
    with app.open() as engine:
        return len(engine.executions.list(limit=10_000))


def test_a_file_is_enqueued_and_its_id_printed(flo: Any, save: Save) -> None:
    answer = flo("enqueue", save(NAMED), "--input", '{"more": 1}')
    assert (answer.code, answer.err) == (0, "enqueued in 'default'\n")
    execution = stored(answer.out.strip())
    assert (execution.state, execution.queue, execution.workflow) == (ExecutionState.PENDING, "default", "greet")
    assert execution.input == {"name": "Ada", "more": 1}


def test_json_has_the_agreed_fields(flo: Any, save: Save) -> None:
    answer = flo("enqueue", save(NAMED), "--json")
    assert list(answer.json) == ["executionId", "created", "status"]
    assert (answer.json["created"], answer.json["status"], answer.err) == (True, "pending", "")


def test_a_stored_workflow_goes_by_its_name_and_keeps_its_version(flo: Any, save: Save) -> None:
    flo("add", save(NAMED))
    execution = stored(flo("enqueue", "greet").out.strip())
    assert (execution.workflow, execution.version) == ("greet", 1)


def test_the_workflow_may_come_from_standard_input(flo: Any) -> None:
    assert stored(flo("enqueue", "-", stdin=json.dumps(NAMED)).out.strip()).workflow == "greet"
    assert flo("enqueue", "-", "--input", "-", stdin=json.dumps(NAMED)).code == 1


def test_a_step_type_is_a_job_too(flo: Any) -> None:
    answer = flo("enqueue", "core.log", "--input", '{"message": "x"}')
    assert stored(answer.out.strip()).handler == "core.log"


def test_a_step_type_that_is_not_installed_here_is_warned_about(flo: Any) -> None:
    answer = flo("enqueue", "core.lgo", "--input", "{}")
    assert answer.code == 0
    assert "warning: no step type 'core.lgo' is installed here" in answer.err
    assert "did you mean 'core.log'?" in answer.err


def test_a_name_that_nothing_has_is_refused(flo: Any, save: Save) -> None:
    flo("add", save(NAMED))
    answer = flo("enqueue", "gret")
    assert (answer.code, answer.out) == (1, "")
    assert "did you mean 'greet'?" in answer.err


def test_the_options_are_those_of_the_job(flo: Any, save: Save) -> None:
    answer = flo(
        "enqueue", save(NAMED), "--queue", "mail", "--priority", "7", "--run-at", "2999-01-01T10:00:00+01:00",
        "--deadline", "2999-01-02T00:00:00Z", "--key", "k", "--concurrency-key", "c",
    )  # fmt: skip
    execution = stored(answer.out.strip())
    assert (execution.queue, execution.priority, execution.key, execution.concurrency_key) == ("mail", 7, "k", "c")
    assert execution.run_at == datetime(2999, 1, 1, 9, tzinfo=UTC)
    assert execution.deadline == datetime(2999, 1, 2, tzinfo=UTC)


def test_delays_and_deadlines_count_from_now(flo: Any, save: Save) -> None:
    execution = stored(flo("enqueue", save(NAMED), "--delay", "2h", "--deadline", "1d").out.strip())
    assert execution.run_at is not None
    assert execution.deadline is not None
    assert timedelta(minutes=119) < execution.run_at - execution.created_at <= timedelta(minutes=120)
    assert timedelta(hours=23) < execution.deadline - execution.created_at <= timedelta(hours=24)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--run-at", "2999-01-01T10:00:00"], "'2999-01-01T10:00:00' is no instant with a zone"),
        (["--run-at", "tomorrow"], "'tomorrow' is no instant with a zone"),
        (["--deadline", "2999-02-30T00:00:00Z"], "is no instant with a zone and no duration"),
        (["--delay", "0"], "'0' is no duration above zero"),
        (["--run-at", "2999-01-01T10:00:00Z", "--delay", "5"], "--run-at and --delay cannot be given together"),
        (["--count", "0"], "0 is not in the range"),
        (["--count", "1001", "--key", "k"], "with --key --count can be 1,000 at most"),
        (["--input", "[1]"], "--input: it must be an object, a list came"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_enqueued(
    options: list[str], said: str, flo: Any, save: Save
) -> None:
    answer = flo("enqueue", save(NAMED), *options)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert count() == 0


def test_the_same_key_gives_the_same_execution(flo: Any, save: Save) -> None:
    file = save(NAMED)
    first = flo("enqueue", file, "--key", "k", "--json").json
    again = flo("enqueue", file, "--key", "k", "--json").json
    assert (first["created"], again["created"]) == (True, False)
    assert first["executionId"] == again["executionId"]
    assert "the key was there already: it is pending" in flo("enqueue", file, "--key", "k").err


def test_the_same_key_for_another_request_is_a_conflict(flo: Any, save: Save) -> None:
    file = save(NAMED)
    flo("enqueue", file, "--key", "k")
    answer = flo("enqueue", file, "--key", "k", "--input", '{"name": "Eve"}')
    assert (answer.code, answer.out) == (1, "")
    assert "the key 'k' belongs to execution" in answer.err
    assert count() == 1


def test_a_count_enqueues_so_many_and_gives_a_list(flo: Any, save: Save) -> None:
    answer = flo("enqueue", save(NAMED), "--count", "3", "--key", "k", "--json")
    ids = [made["executionId"] for made in answer.json]
    assert [stored(name).key for name in ids] == ["k-1", "k-2", "k-3"]
    assert len(flo("enqueue", save(NAMED), "--count", "1", "--json").json) == 1


def test_more_than_a_batch_is_enqueued_too(flo: Any, save: Save) -> None:
    answer = flo("enqueue", save(NAMED), "--count", "1001")
    assert len(set(answer.out.split())) == 1001
    assert answer.err == "1,001 times: enqueued in 'default'\n"
    assert count() == 1001
