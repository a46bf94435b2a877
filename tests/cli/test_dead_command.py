"""``flo dead``."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from flo.engine import app
from flo.engine.clock import SystemClock
from flo.engine.executions import DeadReason, ExecutionState
from flo.testing import FrozenClock

from .jobs import GREET, dead, ended


def test_list_has_what_failed_for_good_and_why(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        ended(engine)
        first = dead(engine, queue="mail")
        second = dead(engine, DeadReason.NON_RETRYABLE)
    listed = flo("dead", "list", "--store", shared_url, "--json").json
    assert [(held["executionId"], held["reason"]) for held in listed] == [
        (second, "non_retryable"),
        (first, "max_attempts"),
    ]
    assert all("input" not in held for held in listed)
    of_queue = flo("dead", "list", "--queue", "mail", "--store", shared_url, "--json").json
    assert [held["executionId"] for held in of_queue] == [first]
    rows = flo("dead", "list", "--store", shared_url).out.splitlines()
    assert rows[0].split() == ["EXECUTION", "WORKFLOW", "QUEUE", "REASON", "ENDED", "ATTEMPTS", "ERROR"]
    assert rows[2].split()[:4] == [first, "greet", "mail", "max_attempts"]
    assert rows[2].endswith("boom")
    assert len(flo("dead", "list", "--limit", "1", "--store", shared_url, "--json").json) == 1


def test_a_dead_letter_that_a_workflow_enqueued_is_listed(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        job = dead(engine, parent_id=ended(engine, queue="main"), parent_path="send")
    assert [held["executionId"] for held in flo("dead", "list", "--store", shared_url, "--json").json] == [job]


def test_without_dead_letters_there_is_nothing_on_standard_output(flo: Any) -> None:
    for command in (["list"], ["replay", "--all"]):
        answer = flo("dead", *command)
        assert (answer.code, answer.out, answer.err) == (0, "", "there are no dead letters\n")
        assert flo("dead", *command, "--json").out == "[]\n"


def test_a_dead_letter_is_replayed_once(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        letter = dead(engine, queue="mail", input={"name": "Grace"})
    (first,) = flo("dead", "replay", letter[:30], "--store", shared_url, "--json").json
    assert (first["replayOf"], first["created"], first["status"]) == (letter, True, "pending")
    again = flo("dead", "replay", letter, "--store", shared_url)
    assert (again.code, again.out) == (0, "")
    assert again.err == f"{letter} was replayed already, as {first['executionId']}\n"
    assert flo("dead", "list", "--store", shared_url, "--json").json == []
    replayed = flo("executions", "show", first["executionId"], "--store", shared_url, "--json").json
    assert (replayed["queue"], replayed["input"], replayed["replayOf"]) == ("mail", {"name": "Grace"}, letter)


def test_a_replay_takes_the_newest_stored_version(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        engine.add(engine.load(json.dumps(GREET)))
        letter = dead(engine, version=1)
        engine.add(engine.load(json.dumps({**GREET, "initial": {"greeting": "hi"}})))
    (replayed,) = flo("dead", "replay", letter, "--store", shared_url, "--json").json
    assert flo("executions", "show", replayed["executionId"], "--store", shared_url, "--json").json["version"] == 2


def test_what_cannot_be_replayed_is_told_and_the_others_are(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        letter, fine = dead(engine), ended(engine)
    answer = flo("dead", "replay", "nothing", fine, letter, "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    told = answer.err.splitlines()
    assert told[0].startswith("error: nothing is not replayed: no execution 'nothing'")
    assert told[1] == f"error: {fine} is not replayed: no dead letter '{fine}'"
    assert told[2].startswith(f"{letter} is replayed as ")


def test_all_are_replayed_however_many_there_are(flo: Any, sqlite_url: str) -> None:
    with app.open(f"{sqlite_url}?synchronous=OFF") as engine:
        letters = {dead(engine, queue="mail") for _ in range(130)}
        other = dead(engine, queue="sms")
    answers = flo("dead", "replay", "--all", "--queue", "mail", "--store", sqlite_url, "--json").json
    assert {answer["replayOf"] for answer in answers} == letters
    assert [held["executionId"] for held in flo("dead", "list", "--store", sqlite_url, "--json").json] == [other]


def test_all_that_can_be_are_replayed_where_many_others_cannot(flo: Any, sqlite_url: str) -> None:
    with app.open(f"{sqlite_url}?synchronous=OFF") as engine:
        fine = {dead(engine) for _ in range(3)}
        step = {"stepId": "a", "stepType": "test.not-installed", "input": {}}
        engine.workflows.save("foreign", json.dumps({"name": "foreign", "steps": [step]}))
        foreign = {dead(engine, workflow="foreign", version=1) for _ in range(105)}
    answer = flo("dead", "replay", "--all", "--store", sqlite_url, "--json")
    assert answer.code == 1
    assert {held["replayOf"] for held in answer.json} == fine
    told = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert len(told) == 105
    assert {line.split()[1] for line in told} == foreign
    assert "test.not-installed" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give the ids of dead letters, or --all"),
        (["x", "--all"], "give the ids of dead letters, or --all"),
        (["x", "--queue", "mail"], "--queue goes with --all"),
    ],
)
def test_a_replay_says_of_what(arguments: list[str], said: str, flo: Any) -> None:
    answer = flo("dead", "replay", *arguments)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


def test_a_purge_without_yes_only_counts(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        dead(engine, queue="mail")
        dead(engine, queue="mail")
        dead(engine, queue="sms")
    answer = flo("dead", "purge", "--store", shared_url)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "error: there are 3 dead letters; --yes says that they are to be removed for good\n"
    assert "there is 1 dead letter;" in flo("dead", "purge", "--queue", "sms", "--store", shared_url).err
    assert len(flo("dead", "list", "--store", shared_url, "--json").json) == 3


def test_a_purge_removes_what_it_is_told_to(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        dead(engine, queue="mail")
        kept, fine = dead(engine, queue="sms"), ended(engine, ExecutionState.FAILED)
    answer = flo("dead", "purge", "--queue", "mail", "--yes", "--store", shared_url)
    assert (answer.code, answer.out, answer.err) == (0, "", "1 dead letter removed\n")
    left = {held["executionId"] for held in flo("executions", "list", "--store", shared_url, "--json").json}
    assert left == {kept, fine}
    assert flo("dead", "purge", "--yes", "--store", shared_url, "--json").json == {"removed": 1}


def test_a_purge_can_spare_the_young(flo: Any, sqlite_url: str) -> None:
    with app.open(sqlite_url, clock=FrozenClock(SystemClock().now() - timedelta(days=8))) as engine:
        dead(engine)
    with app.open(sqlite_url) as engine:
        young = dead(engine)
    counted = flo("dead", "purge", "--older-than", "7d", "--store", sqlite_url)
    assert "there is 1 dead letter as old as that; --yes" in counted.err
    assert flo("dead", "purge", "--older-than", "7d", "--yes", "--store", sqlite_url, "--json").json == {"removed": 1}
    assert [held["executionId"] for held in flo("dead", "list", "--store", sqlite_url, "--json").json] == [young]
