"""Sealed settings, and the environment of an execution, in every store alike."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from flo.engine.executions import DeadReason, ExecutionState
from flo.engine.jobs import Ended, Released
from flo.engine.stores.settings import Kind, Setting
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import ERROR, MINUTE, START, adopted, claimed_one, enqueued, found, held, request, started


def names(store: Store, kind: Kind, owner: str | None = None) -> list[tuple[str, str, str]]:
    return [(row.owner, row.name, row.sealed) for row in store.settings.find(kind, owner)]


@pytest.fixture
def filled(store: Store) -> Store:
    for owner, name in (("prod", "b"), ("dev", "a"), ("prod", "_"), ("prod", "B"), ("prod", "a-1")):
        store.settings.put("environment", owner, name, f"{owner}.{name}")
    store.settings.put("connection", "prod", "", "whole")
    return store


def test_values_are_found_by_kind_and_owner_in_the_order_of_their_names(filled: Store) -> None:
    prod = [("prod", name, f"prod.{name}") for name in ("B", "_", "a-1", "b")]
    assert names(filled, "environment") == [("dev", "a", "dev.a"), *prod]
    assert names(filled, "environment", "prod") == prod
    assert names(filled, "connection") == [("prod", "", "whole")]
    assert names(filled, "environment", "Prod") == names(filled, "connection", "dev") == []


def test_a_value_takes_the_place_of_the_one_of_the_same_name(store: Store, clock: FrozenClock) -> None:
    store.settings.put("environment", "prod", "key", "one")
    clock.forward(MINUTE)
    store.settings.put("environment", "prod", "key", "two")
    assert store.settings.find("environment") == [Setting("environment", "prod", "key", "two", START + MINUTE)]


def test_removing_says_how_many_there_were(filled: Store) -> None:
    settings = filled.settings
    assert settings.remove("environment", "prod", "b") == 1
    assert settings.remove("environment", "prod", "b") == 0
    assert settings.remove("environment", "prod") == 3
    assert settings.remove("environment", "prod") == 0
    assert names(filled, "environment") == [("dev", "a", "dev.a")]
    assert settings.remove("connection", "prod") == 1


def test_a_value_is_sealed_anew_only_if_nobody_changed_it(store: Store, clock: FrozenClock) -> None:
    settings = store.settings
    settings.put("environment", "prod", "key", "one")
    settings.put("environment", "prod", "other", "one")
    (old, _) = settings.find("environment")
    clock.forward(MINUTE)
    assert settings.reseal(old, "one again")
    assert names(store, "environment") == [("prod", "key", "one again"), ("prod", "other", "one")]
    assert settings.find("environment")[0].updated_at == START
    assert not settings.reseal(old, "late")
    settings.remove("environment", "prod", "key")
    assert not settings.reseal(old, "later")
    assert names(store, "environment") == [("prod", "other", "one")]


def test_of_several_that_seal_one_value_anew_one_does(store: Store) -> None:
    store.settings.put("environment", "prod", "key", "old")
    (old,) = store.settings.find("environment")
    begin, won = threading.Barrier(4), []

    def seal(text: str) -> None:
        begin.wait()
        if store.settings.reseal(old, text):
            won.append(text)

    threads = [threading.Thread(target=seal, args=(f"new {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(store, "environment") == [("prod", "key", *won)]


def test_an_execution_keeps_its_environment_wherever_it_goes(store: Store) -> None:
    waiting = enqueued(store, environment="prod")
    assert found(store, waiting).environment == "prod"
    assert [each.environment for each in store.executions.list()] == ["prod"]
    claimed = claimed_one(store)
    assert claimed.execution.environment == "prod"
    child = adopted(store, claimed.hold, environment="prod")
    assert (child.execution.environment, found(store, child.execution.id).environment) == ("prod", "prod")
    store.queue.conclude(child.hold, Ended(ExecutionState.SUCCESS, {}))
    store.queue.conclude(claimed.hold, Released(timedelta()))
    assert claimed_one(store).execution.environment == "prod"
    assert started(store, environment="dev").execution.environment == "dev"
    assert started(store).execution.environment is None


def test_a_dead_letter_is_replayed_in_the_environment_of_the_request(store: Store) -> None:
    dead = held(store, environment="prod")
    store.queue.conclude(dead.hold, Ended(ExecutionState.FAILED, error=ERROR, reason=DeadReason.MAX_ATTEMPTS))
    became = store.executions.replay_dead(dead.execution.id, request(environment="prod"))
    assert found(store, became.execution_id).environment == "prod"
    assert found(store, became.execution_id).as_json()["environment"] == "prod"
