"""``flo queues``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine import app
from flo.engine.clock import SystemClock
from flo.engine.commands.queues import worded_age
from flo.testing import FrozenClock

from .jobs import NO_TIME, claimed, dead, ended, enqueued, suspended


def test_list_counts_what_each_queue_has(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        claimed(engine, queue="mail")
        dead(engine, queue="mail")
        ended(engine, queue="mail")
        suspended(engine, queue="mail")
        enqueued(engine, queue="mail")
        enqueued(engine, queue="mail")
        enqueued(engine, queue="mail", delay=timedelta(hours=1))
        enqueued(engine, queue="sms")
    mail, sms = flo("queues", "list", "--store", shared_url, "--json").json
    counts = {name: mail[name] for name in ("due", "later", "running", "suspended", "dead", "finishedLastMinute")}
    assert counts == {"due": 2, "later": 1, "running": 1, "suspended": 1, "dead": 1, "finishedLastMinute": 2}
    assert (sms["name"], sms["due"], sms["limits"]) == ("sms", 1, {})
    header, row, _ = flo("queues", "list", "--store", shared_url).out.splitlines()
    assert header.split() == [
        "NAME", "PAUSED", "DUE", "LATER", "RUNNING", "SUSPENDED", "DEAD", "OLDEST", "LAST-MINUTE", "LIMITS",
    ]  # fmt: skip
    assert row.split()[:7] == ["mail", "-", "2", "1", "1", "1", "1"]


def test_without_queues_there_is_nothing_on_standard_output(flo: Any) -> None:
    answer = flo("queues", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "there are no queues" in answer.err
    assert flo("queues", "list", "--json").out == "[]\n"


def test_the_oldest_one_that_is_due_is_told_by_its_age(flo: Any, sqlite_url: str) -> None:
    with app.open(sqlite_url, clock=FrozenClock(SystemClock().now() - timedelta(hours=2, minutes=5))) as engine:
        enqueued(engine)
    assert "2h 5m" in flo("queues", "list", "--store", sqlite_url).out


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=59.9), "59s"),
        (timedelta(seconds=200), "3m 20s"),
        (timedelta(hours=23, minutes=59, seconds=59), "23h 59m"),
        (timedelta(days=2, hours=4), "2d 4h"),
    ],
)
def test_an_age_has_its_two_largest_units(age: timedelta, words: str) -> None:
    now = SystemClock().now()
    assert worded_age(now - age, now) == words


def test_a_paused_queue_gives_nothing_until_it_is_resumed(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        enqueued(engine, queue="mail")

        def claim() -> int:
            return len(engine.store.queue.claim(["mail"], worker="w", lease=NO_TIME, limit=1).deliveries)

        paused = flo("queues", "pause", "mail", "--store", shared_url)
        assert (paused.code, paused.out, paused.err) == (0, "", "queue 'mail' is paused: what runs goes on\n")
        assert claim() == 0
        assert flo("queues", "list", "--store", shared_url, "--json").json[0]["paused"] is True
        resumed = flo("queues", "resume", "mail", "--store", shared_url, "--json")
        assert [(info["name"], info["paused"]) for info in resumed.json] == [("mail", False)]
        assert claim() == 1


def test_a_queue_that_nobody_knows_can_be_paused_and_is_told_to_be_new(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        enqueued(engine, queue="mail")
    answer = flo("queues", "pause", "mial", "other", "--store", shared_url)
    assert answer.code == 0
    assert "queue 'mial' is paused: what runs goes on; it is new; did you mean 'mail'?" in answer.err
    listed = flo("queues", "list", "--store", shared_url, "--json").json
    assert {info["name"] for info in listed if info["paused"]} == {"mial", "other"}


def test_only_the_bounds_that_are_named_change(flo: Any, shared_url: str) -> None:
    def limit(*options: str) -> Any:
        return flo("queues", "limit", "mail", *options, "--store", shared_url, "--json").json["limits"]

    assert limit() == {}
    assert limit("--running", "5", "--per-key", "1") == {"running": 5, "runningPerKey": 1}
    rate = {"startsPerKey": 10, "perKeySeconds": 60.0}
    assert limit("--key-rate", "10/1m") == {"running": 5, "runningPerKey": 1, **rate}
    assert limit("--running", "none") == {"runningPerKey": 1, **rate}
    assert limit("--key-rate", "none", "--running", "7") == {"running": 7, "runningPerKey": 1}
    assert limit() == {"running": 7, "runningPerKey": 1}
    assert flo("queues", "limit", "mail", "--store", shared_url).out == "mail  running 7, per-key 1\n"
    assert limit("--running", "none", "--per-key", "none") == {}
    assert flo("queues", "limit", "mail", "--store", shared_url).out == "mail  no limits\n"


def test_a_bound_holds_for_the_next_claim(flo: Any, shared_url: str) -> None:
    flo("queues", "limit", "mail", "--running", "2", "--store", shared_url)
    with app.open(shared_url) as engine:
        for _ in range(3):
            enqueued(engine, queue="mail")
        hour = timedelta(hours=1)
        assert len(engine.store.queue.claim(["mail"], worker="w", lease=hour, limit=9).deliveries) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--running", "0"], "'0' is no number above zero; write one, or 'none'"),
        (["--running", "-1"], "'-1' is no number above zero"),
        (["--per-key", "many"], "'many' is no number above zero"),
        (["--per-key", "99999999999"], "'99999999999' is no number above zero"),
        (["--key-rate", "10"], "'10' is no rate; write a number for a time, such as 10/1m, or 'none'"),
        (["--key-rate", "none/5m"], "'none/5m' is no rate"),
        (["--key-rate", "10/soon"], "'soon' is no duration above zero"),
        (["--key-rate", "0/1m"], "'0' is no number above zero"),
    ],
)
def test_what_is_no_bound_is_refused(options: list[str], said: str, flo: Any) -> None:
    answer = flo("queues", "limit", "mail", *options)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


@pytest.mark.parametrize("command", [["pause"], ["resume"], ["limit"]])
def test_a_queue_has_a_name(command: list[str], flo: Any) -> None:
    answer = flo("queues", *command, "")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: a queue's name has 1 to 512 characters")
