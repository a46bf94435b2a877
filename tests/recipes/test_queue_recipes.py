"""The dispatcher, the producer, the recovery and the poison rows, alone and against each other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.executions import ExecutionState
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY
from flo.engine.values import Json

Recipe = Callable[[str], Path]
AtOnce = Callable[..., list[list[dict[str, Any]]]]
KilledAt = Callable[[str, Path, dict[str, Any]], None]

ROWS = 10_000 if "FLO_TEST_FULL" in os.environ else 3_000
STALE_AT_ONCE = {"staleAfter": "0s"}


def enqueue(engine: Flo, count: int) -> None:
    entries: list[tuple[str, Json]] = [
        (f"op-{number:05}", {"status": "pending", "payload": {"number": number}}) for number in range(count)
    ]
    engine.data.set_many("pending_ops", entries)


def statuses(engine: Flo, table: str = "pending_ops") -> Counter[str]:
    rows = engine.data.query(table, EVERY, limit=20_000).rows
    return Counter(row.value["status"] for row in rows)  # type: ignore[index,call-overload,misc]


def test_quick_start_fills_and_drains(engine: Flo, recipe: Recipe) -> None:
    result = engine.run(recipe("quick-start"))
    assert result.output == {"written": 10, "claimed": 10, "done": 10, "left": 0}
    assert statuses(engine, "quick_start") == {"done": 10}


def test_a_producer_adds_a_row_at_each_run(engine: Flo, recipe: Recipe) -> None:
    for number in range(3):
        engine.run(recipe("producer"), {"payload": {"number": number}})
    rows = engine.data.query("pending_ops", EVERY, limit=10).rows
    assert [row.value for row in rows] == [{"status": "pending", "payload": {"number": n}} for n in range(3)]


def test_the_dispatcher_drains_the_oldest_first(engine: Flo, recipe: Recipe) -> None:
    enqueue(engine, 25)
    claimed: list[str] = []
    for expected in (10, 10, 5, 0):
        result: Any = engine.run(recipe("async-queue-dispatcher"))
        assert result.state is ExecutionState.SUCCESS
        rows = result.steps["drain"]["output"]["claimed"]
        assert len(rows) == expected
        claimed += [row["key"] for row in rows]
    assert claimed == [f"op-{number:05}" for number in range(25)]
    assert statuses(engine) == {"done": 25}


def test_the_dispatcher_leaves_a_row_alone_that_another_run_has_taken_meanwhile(engine: Flo, recipe: Recipe) -> None:
    """The row is taken away between claim and mark by the work itself."""
    enqueue(engine, 1)
    workflow: Any = engine.load(recipe("async-queue-dispatcher")).document
    children = workflow["steps"][1]["input"]["steps"]
    children[0] = {
        "stepId": "steal",
        "stepType": "data-store.atomic-update",
        "input": {
            "tableName": "pending_ops",
            "key": "<< $item.key >>",
            "set": [{"field": "claimedBy", "operation": "set", "value": "another run"}],
        },
    }
    assert engine.run(workflow).success
    assert statuses(engine) == {"in_flight": 1}


@pytest.mark.parametrize("shared_url", ["postgresql"], indirect=True)
def test_eight_dispatchers_share_thousands_of_rows_on_postgresql(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    drain_together(shared, recipe, at_once, processes=8)


@pytest.mark.parametrize("shared_url", ["sqlite"], indirect=True)
def test_four_dispatchers_share_thousands_of_rows_on_sqlite(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    drain_together(shared, recipe, at_once, processes=4)


def drain_together(shared: Flo, recipe: Recipe, at_once: AtOnce, *, processes: int) -> None:
    """Every key is claimed once, by one of them, and nothing is left."""
    enqueue(shared, ROWS)
    file = recipe("async-queue-dispatcher")
    ended = at_once(processes, file, {"limit": 100}, "--until-empty", "drain")
    keys = Counter(
        row["key"] for one in ended for result in one for row in result["steps"]["drain"]["output"]["claimed"]
    )
    assert len(keys) == ROWS
    assert set(keys.values()) == {1}
    assert statuses(shared) == {"done": ROWS}


def test_recovery_finishes_what_a_killed_dispatcher_left(
    shared: Flo, recipe: Recipe, at_once: AtOnce, killed_at: KilledAt
) -> None:
    enqueue(shared, 12)
    killed_at("process-each[0].mark-done", recipe("async-queue-dispatcher"), {})
    left = statuses(shared)
    assert left["pending"] == 2
    assert left["in_flight"] >= 1
    at_once(1, recipe("async-queue-dispatcher"), {}, "--until-empty", "drain")
    ((result,),) = at_once(1, recipe("stale-claim-recovery"), STALE_AT_ONCE)
    assert result["steps"]["reclaim-stale"]["output"]["count"] == left["in_flight"]
    assert statuses(shared) == {"done": 12}


def test_recovery_leaves_claims_alone_that_are_not_old(engine: Flo, recipe: Recipe) -> None:
    enqueue(engine, 3)
    engine.data.claim("pending_ops", EVERY, (), limit=3, holder="a run that lives", changes=())
    result: Any = engine.run(recipe("stale-claim-recovery"))
    assert result.steps["reclaim-stale"]["output"] == {"claimed": [], "count": 0}
    assert statuses(engine) == {"in_flight": 3}


def test_recoveries_at_the_same_moment_share_the_rows(shared: Flo, recipe: Recipe, at_once: AtOnce) -> None:
    enqueue(shared, 200)
    long_ago = parse_changes([{"field": "claimedAt", "operation": "set", "value": "2020-01-01T00:00:00Z"}])
    shared.data.claim("pending_ops", EVERY, (), limit=200, holder="a dead run", changes=long_ago)
    ended = at_once(4, recipe("stale-claim-recovery"), {"limit": 20}, "--until-empty", "reclaim-stale")
    keys = Counter(
        row["key"] for one in ended for result in one for row in result["steps"]["reclaim-stale"]["output"]["claimed"]
    )
    assert len(keys) == 200
    assert set(keys.values()) == {1}
    assert statuses(shared) == {"done": 200}


def test_a_row_that_kills_its_workers_ends_in_the_dead_table_and_the_others_are_done(
    shared: Flo, recipe: Recipe, at_once: AtOnce, killed_at: KilledAt
) -> None:
    enqueue(shared, 10)
    bounds = {**STALE_AT_ONCE, "maxClaims": 3}
    killed_at("process-each[0].do-work", recipe("async-queue-dispatcher"), {"limit": 10})
    for _ in range(2):
        killed_at("process-recovered[0].do-recovered-work", recipe("stale-claim-recovery"), {**bounds, "limit": 1})
    at_once(1, recipe("stale-claim-recovery"), bounds)
    assert statuses(shared) == {"done": 9, "in_flight": 1}

    for step in ("write-dead", "mark-dead"):
        killed_at(f"bury-each[0].{step}", recipe("poison-rows"), bounds)
        assert statuses(shared) == {"done": 9, "in_flight": 1}
    ((result,),) = at_once(1, recipe("poison-rows"), bounds)
    assert result["output"] == {"buried": 1}
    assert statuses(shared) == {"done": 9, "dead": 1}
    (dead,) = shared.data.query("dead_ops", EVERY, limit=10).rows
    value: Any = dead.value
    assert (dead.key, value["payload"], value["claims"]) == ("op-00000", {"number": 0}, 6)


def test_poison_rows_takes_pending_rows_too_and_leaves_live_claims_alone(engine: Flo, recipe: Recipe) -> None:
    enqueue(engine, 3)
    for _ in range(5):
        engine.data.claim("pending_ops", EVERY, (), limit=2, holder="a run that lives", changes=())
    given_back = parse_changes([{"field": "status", "operation": "set", "value": "pending"}])
    engine.data.update("pending_ops", "op-00001", EVERY, given_back)
    assert engine.run(recipe("poison-rows")).output == {"buried": 1}
    rows = engine.data.query("pending_ops", EVERY, limit=10).rows
    assert [row.value["status"] for row in rows] == ["in_flight", "dead", "pending"]  # type: ignore[index,call-overload]
