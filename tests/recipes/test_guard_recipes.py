"""The lease, the idempotent consumer, the rate limiter and the counter, under contention."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import ExecutionState
from flo.engine.stores.filters import EVERY
from flo.engine.values import Json
from flo.testing import FrozenClock

Recipe = Callable[[str], Path]
AtOnce = Callable[..., list[list[dict[str, Any]]]]
KilledAt = Callable[[str, Path, dict[str, Any]], None]

FAIL = {"stepId": "break", "stepType": "core.fail", "input": {"message": "it broke", "code": "broken"}}


def with_step(file: Path, step_id: str, put: dict[str, Any]) -> dict[str, Any]:
    """The recipe with another step in the place of ``step_id``, as its page tells people to do."""

    def replaced(value: Any) -> Any:
        if isinstance(value, list):
            return [replaced(held) for held in value]
        if isinstance(value, dict):
            return put if value.get("stepId") == step_id else {key: replaced(held) for key, held in value.items()}
        return value

    document: dict[str, Any] = replaced(json.loads(file.read_text(encoding="utf-8")))
    return document


def enqueue(engine: Flo, count: int) -> None:
    entries: list[tuple[str, Json]] = [
        (f"op-{number:03}", {"status": "pending", "payload": number}) for number in range(count)
    ]
    engine.data.set_many("pending_ops", entries)


def status(engine: Flo, table: str, key: str) -> object:
    row = engine.data.get(table, key)
    assert row is not None
    assert isinstance(row.value, dict)
    return row.value["status"]


def test_never_two_holders_of_a_lease(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    """A holder has the lease at least from the end of its claim to the start of its release."""
    enqueue(shared, 300)
    ended = at_once(6, recipe("leader-election-lease"), {}, "--times", "15")
    led = [result for one in ended for result in one if result["output"]["led"]]
    assert led
    terms = sorted(result["output"]["term"] for result in led)
    assert terms == list(range(1, len(led) + 1))

    held = []
    for result in led:
        records = {record.path: record for record in shared.executions.steps(result["executionId"])}
        taken, released = records["take-lease"], records["release-lease"]
        held.append((taken.started_at + timedelta(milliseconds=taken.duration_ms), released.started_at))
    for (_, released_at), (taken_at, _) in pairwise(sorted(held)):
        assert released_at <= taken_at
    done = sum(result["output"]["processed"] for result in led)
    assert done == min(300, 10 * len(led))
    assert status(shared, "leases", "async-queue-dispatcher") == "free"


def test_who_finds_the_lease_taken_stands_by(engine: Flo, recipe: Recipe) -> None:
    enqueue(engine, 1)
    engine.data.set("leases", "async-queue-dispatcher", {"status": "free"})
    engine.data.claim("leases", EVERY, (), limit=1, holder="a run that lives", changes=())
    assert engine.run(recipe("leader-election-lease")).output == {"led": False, "term": 0, "processed": 0}
    assert status(engine, "pending_ops", "op-000") == "pending"


def test_a_holder_that_fails_gives_the_lease_back(engine: Flo, recipe: Recipe) -> None:
    enqueue(engine, 15)
    failing = with_step(recipe("leader-election-lease"), "do-work", FAIL)
    failed = engine.run(failing)
    assert failed.state is ExecutionState.FAILED
    assert failed.error is not None
    assert failed.error["code"] == "broken"
    assert status(engine, "leases", "async-queue-dispatcher") == "free"
    assert engine.run(recipe("leader-election-lease")).output == {"led": True, "term": 2, "processed": 5}


def test_the_lease_of_a_dead_holder_is_taken_when_it_has_run_out(
    shared: Flo, recipe: Recipe, killed_at: KilledAt
) -> None:
    enqueue(shared, 15)
    file = recipe("leader-election-lease")
    killed_at("process-each[0].do-work", file, {})
    assert shared.run(file).output == {"led": False, "term": 0, "processed": 0}
    assert shared.run(file, {"staleAfter": "0s"}).output == {"led": True, "term": 2, "processed": 5}


def test_a_holder_that_lost_its_lease_does_not_free_that_of_its_successor(engine: Flo, recipe: Recipe) -> None:
    enqueue(engine, 1)
    take_over = {
        "stepId": "take-over",
        "stepType": "data-store.atomic-update",
        "input": {
            "tableName": "leases",
            "key": "<< initial.lease >>",
            "set": [{"field": "claimedBy", "operation": "set", "value": "the successor"}],
        },
    }
    assert engine.run(with_step(recipe("leader-election-lease"), "do-work", take_over)).success
    assert status(engine, "leases", "async-queue-dispatcher") == "in_flight"


def test_ten_consumers_of_one_event_have_one_effect(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    ended = at_once(10, recipe("idempotent-consumer"), {"eventId": "payment-77"}, "--times", "3")
    outcomes = Counter(result["output"]["outcome"] for one in ended for result in one)
    assert outcomes["handled"] == 1
    assert outcomes.total() == 30
    lines = [
        line.message
        for one in ended
        for result in one
        for line in shared.executions.lines(result["executionId"])
        if line.message.startswith("handling event payment-77")
    ]
    assert len(lines) == 1
    assert shared.run(recipe("idempotent-consumer"), {"eventId": "payment-77"}).output == {"outcome": "duplicate"}


def test_an_event_whose_effect_failed_is_handled_at_the_next_delivery(engine: Flo, recipe: Recipe) -> None:
    file = recipe("idempotent-consumer")
    assert engine.run(with_step(file, "handle", FAIL)).state is ExecutionState.FAILED
    assert engine.run(file).output == {"outcome": "handled"}
    assert engine.run(file).output == {"outcome": "duplicate"}
    assert engine.run(file, {"eventId": "another"}).output == {"outcome": "handled"}


def test_an_event_whose_consumer_died_is_busy_until_the_claim_is_old(
    shared: Flo, recipe: Recipe, killed_at: KilledAt
) -> None:
    file = recipe("idempotent-consumer")
    killed_at("mark-handled", file, {})
    assert shared.run(file).output == {"outcome": "busy"}
    assert shared.run(file, {"staleAfter": "0s"}).output == {"outcome": "handled"}


def test_never_more_than_the_limit_in_a_window(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    window = {"client": "ada", "limit": 30, "windowSeconds": 3600}
    ended = at_once(5, recipe("rate-limiter"), window, "--times", "12")
    allowed = Counter(result["output"]["allowed"] for one in ended for result in one)
    assert allowed == {True: 30, False: 30}


def test_each_client_has_a_window_of_its_own_and_a_new_one_when_it_ends(recipe: Recipe) -> None:
    clock = FrozenClock()
    with app.open("memory:", clock=clock) as engine:

        def allowed(client: str) -> object:
            output: Any = engine.run(recipe("rate-limiter"), {"client": client, "limit": 2}).output
            return output["allowed"]

        assert [allowed("ada") for _ in range(3)] == [True, True, False]
        assert allowed("grace") is True
        clock.forward(timedelta(seconds=59))
        assert allowed("ada") is False
        clock.forward(timedelta(seconds=1))
        assert [allowed("ada") for _ in range(3)] == [True, True, False]


def test_no_count_is_lost(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    ended = at_once(5, recipe("counter"), {"counter": "downloads"}, "--times", "50")
    counts = sorted(result["output"]["count"] for one in ended for result in one)
    assert counts == list(range(1, 251))


def test_a_lease_that_is_renewed_stays_with_its_holder(recipe: Recipe) -> None:
    clock = FrozenClock()
    with app.open("memory:", clock=clock) as engine:
        enqueue(engine, 1)
        engine.data.set("leases", "async-queue-dispatcher", {"status": "free"})
        engine.data.claim("leases", EVERY, (), limit=1, holder="a run that lives", changes=())
        for _ in range(10):
            clock.forward(timedelta(minutes=4))
            assert engine.data.renew("leases", {"async-queue-dispatcher": 1}, holder="a run that lives")
            output: Any = engine.run(recipe("leader-election-lease")).output
            assert output["led"] is False
        clock.forward(timedelta(minutes=5, seconds=1))
        output = engine.run(recipe("leader-election-lease")).output
        assert output["led"] is True


@pytest.mark.parametrize("by", [3, -2, 0.5])
def test_a_counter_adds_what_it_is_told(engine: Flo, recipe: Recipe, by: float) -> None:
    engine.run(recipe("counter"))
    assert engine.run(recipe("counter"), {"by": by}).output == {"count": 1 + by}


def test_a_counter_that_is_no_number_is_left_as_it_is(engine: Flo, recipe: Recipe) -> None:
    engine.data.set("counters", "visits", {"count": "many"})
    assert engine.run(recipe("counter")).state is ExecutionState.FAILED
    row = engine.data.get("counters", "visits")
    assert row is not None
    assert row.value == {"count": "many"}
