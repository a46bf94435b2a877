"""Triggers under several processes at once, some of them killed: each slot is fired once, as the trigger is then."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flo.engine.clock import SystemClock
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store

from .jobs import MINUTE, START
from .processes import processes, said
from .wanted import HOURLY, declared, found, slot

CLAIMANT = Path(__file__).with_name("trigger_claimant.py")
SLOTS = 100
ALL = 10_000


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    """The store that the processes share, by the real clock."""
    made: Store
    if shared_url.startswith("sqlite:"):
        made = SqliteStore.open(Path(shared_url.removeprefix("sqlite:")), SystemClock(), synchronous="OFF")
    else:
        made = PostgresStore.open(shared_url)
    made.migrate()
    declared(made, HOURLY)
    # slots lie at the start of the tests' time
    made.triggers.fire(slot(found(made), 0, request=None, slot="0", revision=None, cursor=START))
    yield made
    made.close()


def fired(store: Store) -> list[tuple[int, int]]:
    """Slot and revision of the executions of the trigger, in the order in which they were fired; each is recorded."""
    trigger = found(store)
    executions = {one.id: one for one in store.executions.list(limit=ALL)}
    firings = [one for one in reversed(store.triggers.firings(trigger.id, limit=ALL)) if one.slot != "0"]
    assert {(one.outcome, one.reason) for one in firings} <= {("fired", None)}
    assert {one.execution_id for one in firings} == set(executions)
    assert {one.trigger_id for one in executions.values()} <= {trigger.id}
    inputs: list[Any] = [executions[one.execution_id].input for one in firings if one.execution_id is not None]
    assert [str(one["slot"]) for one in inputs] == [one.slot for one in firings]
    return [(one["slot"], one["revision"]) for one in inputs]


def test_processes_that_fire_the_same_slots_fire_each_once(store: Store, shared_url: str) -> None:
    trigger = found(store)
    with processes(CLAIMANT, *[(shared_url, "slots", trigger.id, str(SLOTS))] * 4) as running:
        claims = [number for process in running for number in said(process)]
    assert sorted(claims) == list(range(1, SLOTS + 1))
    assert fired(store) == [(number, 1) for number in range(1, SLOTS + 1)]
    assert found(store).cursor == START + SLOTS * MINUTE


def test_nothing_is_fired_as_a_trigger_was_before_a_change(store: Store, shared_url: str) -> None:
    """Nor twice, while it is changed and switched all the time."""
    trigger = found(store)
    firing = [(shared_url, "chase", trigger.id, str(SLOTS))] * 3
    with processes(CLAIMANT, (shared_url, "change", trigger.id, "20"), *firing) as running:
        changes, *claims = map(said, running)
    assert sorted(number for one in claims for number in one) == list(range(1, SLOTS + 1))
    revisions = [revision for _, revision in fired(store)]
    assert len(revisions) == SLOTS
    assert revisions == sorted(revisions)
    assert [revision for revision, *_ in changes] == list(range(2, 62))
    assert not set(revisions) & {revision for revision, enabled, _ in changes if not enabled}
    for revision, _, firings in changes:
        assert all(later >= revision for later in revisions[firings - 1 :]), "the first one is not of these"
    assert len(set(revisions)) > 2, "nothing was fired while it was changed"


@pytest.mark.parametrize(("point", "done"), [("fire.before-commit", 2), ("fire.committed", 3)])
def test_a_process_that_is_killed_while_it_fires_leaves_nothing_half_done(
    store: Store, shared_url: str, point: str, done: int
) -> None:
    trigger = found(store)
    with processes(CLAIMANT, (shared_url, "slots", trigger.id, "5"), fault=f"{point}:3") as (process,):
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
    assert fired(store) == [(number, 1) for number in range(1, done + 1)]
    assert found(store).cursor == START + done * MINUTE
    with processes(CLAIMANT, (shared_url, "slots", trigger.id, "5")) as (process,):
        assert said(process) == list(range(done + 1, 6))
    assert fired(store) == [(number, 1) for number in range(1, 6)]
