"""``flo prune``."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from flo.engine import app
from flo.engine.clock import SystemClock
from flo.testing import FrozenClock

from .jobs import GREET, claimed, ended, enqueued


@pytest.fixture
def history(sqlite_url: str) -> dict[str, str]:
    """Jobs of 20, 10 and 0 days ago, by their age; one of another workflow; and unfinished ones of 20 days ago."""
    made: dict[str, str] = {}
    for age in (20, 10, 0):
        with app.open(sqlite_url, clock=FrozenClock(SystemClock().now() - timedelta(days=age))) as engine:
            made[f"{age}"] = ended(engine)
            if age == 20:
                made["other"] = ended(engine, workflow="other")
                made["running"] = claimed(engine, queue="long", lease=timedelta(days=30)).execution.id
                made["waiting"] = enqueued(engine, queue="nobody")
    return made


@pytest.fixture
def left(flo: Any, sqlite_url: str, history: dict[str, str]) -> Any:
    """Which of them are left."""
    names = {execution_id: name for name, execution_id in history.items()}
    return lambda: {
        names[held["executionId"]] for held in flo("executions", "list", "--store", sqlite_url, "--json").json
    }


def test_by_default_what_ended_two_weeks_ago_goes(flo: Any, sqlite_url: str, left: Any) -> None:
    answer = flo("prune", "--store", sqlite_url)
    assert (answer.code, answer.out, answer.err) == (0, "", "2 executions removed\n")
    assert left() == {"10", "0", "running", "waiting"}
    assert flo("prune", "--store", sqlite_url, "--json").json == {"removed": 0}


def test_age_and_count_can_be_given(flo: Any, sqlite_url: str, left: Any) -> None:
    assert flo("prune", "--older-than", "5d", "--store", sqlite_url, "--json").json == {"removed": 3}
    assert left() == {"0", "running", "waiting"}
    assert flo("prune", "--keep", "0", "--store", sqlite_url).err == "1 execution removed\n"
    assert left() == {"running", "waiting"}


def test_one_workflow_can_be_pruned_alone(flo: Any, sqlite_url: str, left: Any) -> None:
    assert flo("prune", "--workflow", "other", "--keep", "0", "--store", sqlite_url, "--json").json == {"removed": 1}
    assert left() == {"20", "10", "0", "running", "waiting"}


def test_the_retention_of_a_workflow_comes_first(flo: Any, sqlite_url: str, left: Any) -> None:
    with app.open(sqlite_url) as engine:
        engine.add(engine.load(json.dumps({**GREET, "options": {"retention": {"days": 365}}})))
    assert flo("prune", "--store", sqlite_url, "--json").json == {"removed": 1}
    assert left() == {"20", "10", "0", "running", "waiting"}
    assert flo("prune", "--workflow", "greet", "--store", sqlite_url, "--json").json == {"removed": 0}
    bounded = flo("prune", "--workflow", "greet", "--older-than", "14d", "--store", sqlite_url, "--json")
    assert bounded.json == {"removed": 1}
    assert left() == {"10", "0", "running", "waiting"}


@pytest.mark.parametrize(("option", "value"), [("--older-than", "0"), ("--older-than", "soon"), ("--keep", "-1")])
def test_what_is_no_bound_is_refused(option: str, value: str, flo: Any) -> None:
    answer = flo("prune", option, value)
    assert (answer.code, answer.out) == (1, "")
    assert option in answer.err
