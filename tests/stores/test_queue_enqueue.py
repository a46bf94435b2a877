"""Executions come into a queue: all of a batch or none, once for a key, and due when they were asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import FloError, StoreError
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import MAX_BATCH, Again, Enqueued, KeyConflict, Parked
from flo.engine.stores.store import Store
from flo.engine.values import dump
from flo.testing import FrozenClock

from .jobs import (
    DIGEST,
    DOCUMENT,
    ERROR,
    FAILURE,
    MINUTE,
    START,
    SUCCESS,
    at_once,
    claimed,
    claimed_ids,
    enqueued,
    found,
    held,
    request,
    started,
    state_of,
    stored,
)

PENDING, REJECTED = ExecutionState.PENDING, ExecutionState.REJECTED


def test_what_was_enqueued_is_stored_whole(store: Store) -> None:
    asked = request(
        queue="mail",
        priority=-3,
        deadline=START + MINUTE,
        key="k",
        identity="i",
        concurrency_key="c",
        concurrency_limit=2,
        trigger="schedule",
        replay_of="another",
    )
    assert store.queue.enqueue([asked]) == [Enqueued(asked.id, True, PENDING)]
    assert found(store, asked.id) == Execution(
        id=asked.id,
        workflow="greet",
        version=3,
        digest=DIGEST,
        definition=DOCUMENT,
        input={"name": "Ada", "big": 2**70, "whole": 1.0},
        state=PENDING,
        created_at=START,
        trigger="schedule",
        queue="mail",
        priority=-3,
        run_at=START,
        due_at=START,
        deadline=START + MINUTE,
        key="k",
        concurrency_key="c",
        concurrency_limit=2,
        root_id=asked.id,
        replay_of="another",
    )


def test_what_nothing_has_to_be_looked_up_for_is_stored_whole_too(store: Store) -> None:
    text = '" \\ \n \t \x7f é 😀 \\u0000 </script>'
    asked = request(
        workflow=None,
        version=None,
        handler="core.log",
        input={text: [text, 2**70, -0.0, 1e300, True, None, {}]},
        queue="mail",
        priority=3,
        run_at=START + MINUTE,
        deadline=START + 2 * MINUTE,
        identity="i",
        concurrency_limit=2,
        trigger="event",
        trigger_id="t",
        led_by=4,
        replay_of="another",
        environment="staging",
        environment_chosen=True,
    )
    assert store.queue.enqueue([asked]) == [Enqueued(asked.id, True, PENDING)]
    assert found(store, asked.id) == Execution(
        id=asked.id,
        workflow=None,
        version=None,
        digest=DIGEST,
        definition=DOCUMENT,
        input=asked.input,
        state=PENDING,
        created_at=START,
        trigger="event",
        trigger_id="t",
        handler="core.log",
        queue="mail",
        priority=3,
        run_at=START + MINUTE,
        due_at=START + MINUTE,
        deadline=START + 2 * MINUTE,
        concurrency_limit=2,
        root_id=asked.id,
        depth=5,
        replay_of="another",
        environment="staging",
        environment_chosen=True,
    )


def test_requests_that_differ_in_their_inputs_alone_are_stored_each_with_its_own(store: Store) -> None:
    inputs: list[dict[str, Any]] = [{"n": 2**70}, {}, {'" \\ é': [-0.0, None, "\\u0000"]}, {"n": 1e300}]
    batch = [request(input=given, input_text=dump(given), led_by=2, run_at=START + MINUTE) for given in inputs]
    assert [one.execution_id for one in store.queue.enqueue(batch)] == [one.id for one in batch]
    stored_ones = [found(store, one.id) for one in batch]
    assert [one.input for one in stored_ones] == inputs
    assert [repr(one.input) for one in stored_ones] == list(map(repr, inputs))
    assert {(one.depth, one.due_at, one.root_id == one.id) for one in stored_ones} == {(3, START + MINUTE, True)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workflow", "other"), ("version", 4), ("handler", "core.log"), ("priority", 7), ("run_at", START + MINUTE),
        ("deadline", START + MINUTE), ("concurrency_limit", 5), ("trigger", "event"), ("trigger_id", "t"),
        ("replay_of", "another"), ("environment", "staging"), ("environment_chosen", True), ("queue", "mail"),
    ],
)  # fmt: skip
def test_of_requests_that_differ_in_one_thing_each_keeps_its_own(store: Store, name: str, value: object) -> None:
    usual, other = request(), request(**{name: value})
    store.queue.enqueue([usual, other, request()])
    assert getattr(found(store, usual.id), name) == getattr(found(store, enqueued(store)), name) != value
    assert getattr(found(store, other.id), name) == value


def test_a_request_that_comes_twice_in_a_batch_is_refused(store: Store) -> None:
    asked = request()
    with pytest.raises(StoreError):
        store.queue.enqueue([asked, asked])
    assert stored(store) == 0


def test_requests_of_every_kind_go_in_one_batch(store: Store) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"queue": "mail", "priority": 2},
        {"delay": MINUTE},
        {"key": "k", "identity": "i"},
        {"concurrency_key": "c"},
        {"digest": "other", "definition": '{"steps": []}'},
        {"input": {"text": "x" * 9_000_000}},
        {"input": {"text": "y" * 9_000_000}},
    ]
    batch = [request(**kind) for kind in kinds]
    assert [one.created for one in store.queue.enqueue(batch)] == [True] * len(batch)
    stored_ones = [found(store, asked.id) for asked in batch]
    assert [one.definition for one in stored_ones] == [asked.definition for asked in batch]
    assert [one.input for one in stored_ones] == [asked.input for asked in batch]
    assert [one.due_at for one in stored_ones] == [START + (asked.delay or timedelta()) for asked in batch]
    assert [(one.queue, one.priority, one.key, one.concurrency_key) for one in stored_ones] == [
        (asked.queue, asked.priority, asked.key, asked.concurrency_key) for asked in batch
    ]


def test_a_single_step_type_is_enqueued_like_a_workflow(store: Store) -> None:
    execution = found(store, enqueued(store, workflow=None, version=None, handler="core.log"))
    assert (execution.workflow, execution.version, execution.handler) == (None, None, "core.log")
    assert claimed_ids(store) == [execution.id]


@pytest.mark.parametrize(
    ("asked", "due"),
    [
        ({"run_at": START + 2 * MINUTE}, START + 2 * MINUTE),
        ({"delay": MINUTE}, START + MINUTE),
        ({"delay": MINUTE, "run_at": START + timedelta(days=9)}, START + MINUTE),
        ({"delay": timedelta()}, START),
    ],
)
def test_a_time_to_come_is_when_it_is_due(store: Store, asked: dict[str, Any], due: object) -> None:
    execution = found(store, enqueued(store, **asked))
    assert (execution.run_at, execution.due_at, execution.created_at) == (due, due, START)


def test_a_delay_counts_from_the_stores_now(store: Store, clock: FrozenClock) -> None:
    asked = request(delay=MINUTE)
    clock.forward(MINUTE)
    store.queue.enqueue([asked])
    assert found(store, asked.id).due_at == START + 2 * MINUTE


def test_a_batch_says_what_became_of_each_in_order(store: Store) -> None:
    known = enqueued(store, key="k", identity="i")
    first, last = request(), request(queue="mail")
    became = store.queue.enqueue([first, request(key="k", identity="i"), last])
    assert became == [
        Enqueued(first.id, True, PENDING),
        Enqueued(known, False, PENDING),
        Enqueued(last.id, True, PENDING),
    ]
    assert stored(store) == 3


def test_no_requests_are_a_batch_too(store: Store) -> None:
    assert list(store.queue.enqueue([])) == []


def test_a_thousand_requests_are_stored_together(store: Store) -> None:
    asked = [request(input={"n": number}) for number in range(MAX_BATCH)]
    became = store.queue.enqueue(asked)
    assert [one.execution_id for one in became] == [one.id for one in asked]
    assert all(one.created for one in became)
    assert stored(store) == MAX_BATCH
    assert {found(store, one.id).input["n"] for one in asked[::333]} == {0, 333, 666, 999}


def test_one_more_is_refused_and_nothing_stored(store: Store) -> None:
    with pytest.raises(FloError) as raised:
        store.queue.enqueue([request() for _ in range(MAX_BATCH + 1)])
    assert raised.value.exit_code == 1
    assert stored(store) == 0


def test_a_key_stands_for_its_execution_also_when_that_has_ended(store: Store, clock: FrozenClock) -> None:
    first = held(store, key="k", identity="i", input={"first": True})
    again = request(key="k", identity="i")
    assert store.queue.enqueue([again]) == [Enqueued(first.execution.id, False, ExecutionState.RUNNING)]
    store.queue.conclude(first.hold, SUCCESS)
    clock.forward(MINUTE)
    assert store.queue.enqueue([again]) == [Enqueued(first.execution.id, False, ExecutionState.SUCCESS)]
    assert found(store, first.execution.id).input == {"first": True}
    assert store.executions.get(again.id) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_key_of_another_request_is_a_conflict_and_nothing_of_the_batch_is_stored(store: Store, place: int) -> None:
    known = enqueued(store, key="k", identity="i")
    batch = [request(key="new"), request()]
    batch.insert(place, request(key="k", identity="other"))
    with pytest.raises(KeyConflict) as raised:
        store.queue.enqueue(batch)
    assert (raised.value.key, raised.value.execution_id) == ("k", known)
    assert stored(store) == 1
    assert store.queue.enqueue([request(key="new")])[0].created


def test_a_conflict_in_the_middle_of_a_thousand_stores_none_of_them(store: Store) -> None:
    enqueued(store, key="k500", identity="other")
    with pytest.raises(KeyConflict):
        store.queue.enqueue([request(key=f"k{number}", identity="i") for number in range(MAX_BATCH)])
    assert stored(store) == 1


def test_a_key_twice_in_a_batch_is_one_execution(store: Store) -> None:
    first, other = request(key="k", identity="i"), request(key="k", identity="i")
    became = store.queue.enqueue([first, other])
    assert became == [Enqueued(first.id, True, PENDING), Enqueued(first.id, False, PENDING)]
    assert stored(store) == 1


def test_a_key_twice_in_a_batch_for_two_requests_is_a_conflict(store: Store) -> None:
    with pytest.raises(KeyConflict):
        store.queue.enqueue([request(key="k", identity="i"), request(key="k", identity="other")])
    assert stored(store) == 0


def test_keys_are_told_apart_to_the_letter_and_hold_over_all_queues(store: Store) -> None:
    keys = ["k", "K", "k ", "é", "e\u0301", ""]
    became = store.queue.enqueue([request(key=key, identity="i") for key in keys])
    assert [one.created for one in became] == [True] * len(keys)
    assert not store.queue.enqueue([request(key="k", identity="i", queue="mail")])[0].created


def test_requests_without_a_key_are_never_the_same(store: Store) -> None:
    became = store.queue.enqueue([request(identity="i"), request(identity="i")])
    assert [one.created for one in became] == [True, True]


def test_of_many_calls_at_once_with_one_key_one_creates(store: Store) -> None:
    became = at_once(8, lambda _: store.queue.enqueue([request(key="k", identity="i")])[0])
    assert sorted(one.created for one in became) == [False] * 7 + [True]
    assert len({one.execution_id for one in became}) == 1
    assert stored(store) == 1


def test_batches_at_once_that_share_keys_in_opposite_orders_create_each_once(store: Store) -> None:
    def enqueue(number: int) -> int:
        batch = [request(key=f"k{key:02}", identity="i") for key in range(50)]
        return sum(one.created for one in store.queue.enqueue(batch[:: (-1) ** number]))

    assert sum(at_once(6, enqueue)) == 50
    assert stored(store) == 50


def test_who_fills_a_concurrency_key_is_whatever_is_unfinished(store: Store) -> None:
    how: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 4, "when_full": "reject"}
    ids = [enqueued(store, **how) for _ in range(4)]
    running, retrying, suspended = (delivery.hold for delivery in claimed(store, limit=3))
    store.queue.conclude(retrying, Again(MINUTE, ERROR))
    store.queue.conclude(suspended, Parked())
    states = {state_of(store, execution_id) for execution_id in ids}
    assert states == {PENDING, ExecutionState.RUNNING, ExecutionState.RETRYING, ExecutionState.SUSPENDED}
    refused = request(**how)
    assert store.queue.enqueue([refused]) == [Enqueued(refused.id, True, REJECTED)]
    execution = found(store, refused.id)
    assert (execution.state, execution.finished_at, execution.due_at) == (REJECTED, START, None)
    store.queue.conclude(running, FAILURE)
    assert store.queue.enqueue([request(**how)])[0].state is PENDING


def test_a_rejected_execution_is_never_claimed(store: Store) -> None:
    how: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 1, "when_full": "reject"}
    first, second = store.queue.enqueue([request(**how), request(**how)])
    assert [first.state, second.state] == [PENDING, REJECTED]
    assert claimed_ids(store) == [first.execution_id]
    assert (
        store.queue.enqueue([request(concurrency_key="other", concurrency_limit=1, when_full="reject")])[0].state
        is PENDING
    )


def test_a_full_key_rejects_nothing_that_may_wait(store: Store) -> None:
    became = store.queue.enqueue([request(concurrency_key="c", concurrency_limit=1) for _ in range(3)])
    assert [one.state for one in became] == [PENDING] * 3


def test_calls_at_once_never_fill_a_key_beyond_its_limit(store: Store) -> None:
    how: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 3, "when_full": "reject"}
    became = at_once(8, lambda _: store.queue.enqueue([request(**how)])[0].state)
    assert sorted(became) == [PENDING] * 3 + [REJECTED] * 5


def test_a_job_of_an_execution_is_a_tree_of_its_own_one_deeper(store: Store) -> None:
    parent = started(store)
    made = found(store, enqueued(store, parent_id=parent.execution.id, parent_path="send", queue="mail"))
    assert (made.parent_id, made.parent_path) == (parent.execution.id, "send")
    assert (made.root_id, made.depth) == (made.id, 2)
    assert claimed_ids(store, "mail") == [made.id]
