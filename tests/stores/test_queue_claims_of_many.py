"""Claims of many: ahead of what can run at once where nothing has to be counted, and of many documents."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flo.engine.jobs import LEASE, Claimed, Limits, Parked
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import INSTANT, MINUTE, SECOND, START, SUCCESS, at_once, claimed, claimed_ids, enqueued, request


def claim(store: Store, limit: int, ahead: int, *queues: str, worker: str = "w1") -> Claimed:
    return store.queue.claim(queues or ("default",), worker=worker, lease=LEASE, limit=limit, ahead=ahead)


def ids_of(claimed: Claimed) -> Sequence[str]:
    return [delivery.execution.id for delivery in claimed.deliveries]


def test_a_claim_ahead_takes_more_than_can_run_now_in_the_one_order(store: Store, clock: FrozenClock) -> None:
    ids = []
    for priority in (0, 0, 2, 0, 1):
        clock.forward(SECOND)
        ids.append(enqueued(store, priority=priority))
    given = claim(store, 2, 2)
    assert ids_of(given) == [ids[2], ids[4], ids[0], ids[1]]
    assert given.next_due is not None
    assert given.next_due <= clock.now()
    assert ids_of(claim(store, 2, 2, worker="w2")) == [ids[3]]


def test_what_was_claimed_ahead_is_held_like_the_rest(store: Store, clock: FrozenClock) -> None:
    store.queue.enqueue([request() for _ in range(3)])
    holds = [delivery.hold for delivery in claim(store, 1, 2).deliveries]
    assert len({hold.token for hold in holds}) == 3
    clock.forward(LEASE - INSTANT)
    assert claimed_ids(store, worker="w2") == []
    assert set(store.queue.valid(holds)) == set(holds)
    assert store.queue.conclude(holds[2], SUCCESS).state.final
    clock.forward(INSTANT)
    assert len(claimed_ids(store, worker="w2")) == 2


def test_a_claim_ahead_that_finds_less_says_when_the_next_is_due(store: Store) -> None:
    first = enqueued(store)
    enqueued(store, run_at=START + MINUTE)
    given = claim(store, 1, 5)
    assert (ids_of(given), given.next_due) == ([first], START + LEASE)
    store.queue.conclude(given.deliveries[0].hold, Parked())
    assert claim(store, 1, 5).next_due == START + MINUTE


def test_where_a_queue_has_limits_nothing_is_claimed_ahead(store: Store) -> None:
    store.queue.enqueue([request() for _ in range(6)])
    store.queue.limit("default", Limits(running=5))
    assert len(claim(store, 1, 2).deliveries) == 1
    store.queue.limit("default", Limits())
    assert len(claim(store, 1, 2).deliveries) == 3


def test_where_a_queue_had_concurrency_keys_nothing_is_claimed_ahead(store: Store) -> None:
    store.queue.enqueue([request(concurrency_key="c"), *(request() for _ in range(5))])
    assert len(claim(store, 2, 3).deliveries) == 2


def test_one_queue_with_limits_holds_for_all_of_a_claim(store: Store) -> None:
    store.queue.enqueue([request(queue=queue) for queue in ("default", "default", "mail", "mail")])
    store.queue.limit("mail", Limits(running=9))
    assert len(claim(store, 1, 3, "default", "mail").deliveries) == 1
    assert len(claim(store, 1, 3).deliveries) == 1
    assert len(claim(store, 1, 3, "mail").deliveries) == 1


@pytest.mark.parametrize(("limits", "given"), [(Limits(), 2), (Limits(running=5), 0)])
def test_with_no_place_free_a_claim_is_all_ahead(store: Store, limits: Limits, given: int) -> None:
    store.queue.limit("default", limits)
    store.queue.enqueue([request() for _ in range(3)])
    assert len(claim(store, 0, 2).deliveries) == given


def test_a_paused_queue_gives_nothing_ahead(store: Store) -> None:
    enqueued(store)
    store.queue.pause("default")
    assert ids_of(claim(store, 1, 5)) == []


def test_claims_ahead_at_once_take_disjoint_executions(store: Store) -> None:
    store.queue.enqueue([request() for _ in range(120)])

    def drain(number: int) -> list[str]:
        ids: list[str] = []
        while taken := ids_of(claim(store, 3, number, worker=f"w{number}")):
            ids += taken
        return ids

    ids = [execution_id for taken in at_once(4, drain) for execution_id in taken]
    assert len(ids) == len(set(ids)) == 120


def test_lost_ones_and_new_ones_come_in_one_claim_each_with_its_own_past(store: Store, clock: FrozenClock) -> None:
    lost = enqueued(store)
    claim(store, 1, 0, worker="w1")
    clock.forward(LEASE)
    new = enqueued(store)
    first, second = claim(store, 1, 1, worker="w2").deliveries
    assert [first.execution.id, second.execution.id] == [lost, new]
    assert (first.begun, first.execution.expiries, first.hold.fence) == (True, 1, 2)
    assert (second.begun, second.execution.expiries, second.hold.fence) == (False, 0, 1)
    assert [one.outcome for one in store.executions.attempts(lost)] == ["expired"]
    assert list(store.executions.attempts(new)) == []


def test_each_execution_comes_with_its_own_document(store: Store) -> None:
    documents = {f"digest-{number}": f'{{"steps": [], "number": {number}}}' for number in range(70)}
    for _ in range(2):  # the second time they may be known
        store.queue.enqueue([request(digest=digest, definition=text) for digest, text in documents.items()])
        given = {one.execution.digest: one.execution.definition for one in claimed(store, limit=100)}
        assert given == documents
