"""How queues stand: paused, idle, counted; and who waits for work is told of it, once and for certain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from flo.engine.executions import DeadReason, ExecutionState
from flo.engine.jobs import LEASE, Again, Ended, Limits, Parked, QueueInfo, Released, Wait
from flo.engine.opening import open_store
from flo.engine.stores.queueing import Wakeups
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    ERROR,
    FAILURE,
    MINUTE,
    SECOND,
    START,
    SUCCESS,
    claimed,
    claimed_ids,
    claimed_one,
    enqueued,
    held,
    request,
    started,
    waiting,
)

ENOUGH = 30.0
"""Seconds within which a wake-up has come, or was lost. Nothing waits so long while all is well."""


def test_a_paused_queue_gives_nothing_and_what_runs_goes_on(store: Store, clock: FrozenClock) -> None:
    running, ending = held(store), held(store)
    waits = enqueued(store)
    other = enqueued(store, queue="mail")
    store.queue.pause("default")
    store.queue.pause("default")
    claim = store.queue.claim(["default"], worker="w2", lease=LEASE, limit=9)
    assert list(claim.deliveries) == []
    assert claim.next_due is None or claim.next_due > START
    assert claimed_ids(store, "default", "mail") == [other]
    later = enqueued(store)
    assert list(store.queue.renew([running.hold], lease=LEASE)) == [running.hold]
    assert store.queue.conclude(ending.hold, SUCCESS).state is ExecutionState.SUCCESS
    clock.forward(LEASE)
    assert claimed_ids(store) == []
    store.queue.unpause("default")
    store.queue.unpause("default")
    assert set(claimed_ids(store)) == {running.execution.id, waits, later}


def test_a_queue_can_be_paused_before_anything_is_in_it(store: Store) -> None:
    store.queue.pause("mail")
    enqueued(store, queue="mail")
    assert claimed_ids(store, "mail") == []
    assert [(one.name, one.paused, one.due) for one in store.queue.queues()] == [("mail", True, 1)]


def test_a_pause_leaves_the_limits_alone(store: Store) -> None:
    limits = Limits(2, 1, 5, 60.0)
    store.queue.limit("default", limits)
    store.queue.pause("default")
    assert list(store.queue.queues()) == [QueueInfo("default", True, limits)]
    store.queue.limit("default", Limits(running=3))
    assert list(store.queue.queues()) == [QueueInfo("default", True, Limits(running=3))]
    store.queue.unpause("default")
    assert list(store.queue.queues()) == [QueueInfo("default", False, Limits(running=3))]


def test_queues_are_counted_by_name(store: Store, clock: FrozenClock) -> None:
    assert list(store.queue.queues()) == []
    started(store)
    parked, parked_until, retried = (held(store, lease=timedelta(days=1)) for _ in range(3))
    store.queue.conclude(parked.hold, Parked())
    store.queue.conclude(parked_until.hold, Parked(START + 60 * MINUTE))
    store.queue.conclude(retried.hold, Again(60 * MINUTE, ERROR))
    enqueued(store, run_at=START + 60 * MINUTE)
    held(store, lease=timedelta(days=1))
    dead = [held(store), held(store)]
    for delivery in dead:
        store.queue.conclude(delivery.hold, Ended(ExecutionState.FAILED, error=ERROR, reason=DeadReason.NO_HANDLER))
    store.executions.replay_dead(dead[0].execution.id, request(queue="again"))
    clock.forward(SECOND)
    enqueued(store)
    clock.forward(SECOND)
    enqueued(store, priority=9)
    enqueued(store, queue="away", run_at=START + 60 * MINUTE)
    default = QueueInfo(
        "default",
        due=2,
        later=2,
        running=1,
        suspended=2,
        dead=1,
        finished_last_minute=2,
        oldest_due=START + SECOND,
    )
    again, away = QueueInfo("again", due=1, oldest_due=START), QueueInfo("away", later=1)
    assert list(store.queue.queues()) == [again, away, default]


def test_what_ended_more_than_a_minute_ago_is_not_of_the_last_one(store: Store, clock: FrozenClock) -> None:
    store.queue.conclude(held(store).hold, SUCCESS)
    clock.forward(30 * SECOND)
    store.queue.conclude(held(store).hold, FAILURE)
    store.executions.cancel(enqueued(store))
    assert [one.finished_last_minute for one in store.queue.queues()] == [3]
    clock.forward(31 * SECOND)
    assert [one.finished_last_minute for one in store.queue.queues()] == [2]
    clock.forward(MINUTE)
    assert list(store.queue.queues()) == [QueueInfo("default")]


def test_a_queue_is_idle_when_nothing_is_due_or_runs(store: Store, clock: FrozenClock) -> None:
    def idle(*queues: str) -> bool:
        return store.queue.idle(queues or ("default",))

    assert idle()
    enqueued(store, run_at=START + 60 * MINUTE)
    enqueued(store, queue="mail")
    started(store)
    assert (idle(), idle("mail"), idle("default", "mail"), idle("nothing")) == (True, False, False, True)
    delivery = held(store)
    assert not idle()
    clock.forward(LEASE)
    assert not idle()
    delivery = claimed_one(store)
    store.queue.conclude(delivery.hold, Parked(START + 60 * MINUTE))
    assert idle()
    clock.time = START + 60 * MINUTE
    assert not idle()
    for delivery in claimed(store):
        store.queue.conclude(delivery.hold, SUCCESS)
    assert idle()
    store.queue.pause("mail")
    assert idle("default", "mail")
    store.queue.unpause("mail")
    assert not idle("default", "mail")


@contextmanager
def listening(store: Store, *queues: str) -> Iterator[Wakeups]:
    wakeups = store.queue.wakeups(queues or ("default",))
    try:
        yield wakeups
    finally:
        wakeups.close()


Act = Callable[[], object]


def enqueue(store: Store) -> Act:
    return lambda: enqueued(store)


def enqueue_as_owner(store: Store) -> Act:
    delivery = started(store)
    return lambda: store.queue.own(delivery.hold, lambda owned: owned.enqueue([request()]), exclusive=True)


def release(store: Store) -> Act:
    delivery = held(store)
    return lambda: store.queue.conclude(delivery.hold, Released())


def signal(store: Store) -> Act:
    delivery = held(store)
    waiting(store, delivery.hold, Wait("ask", "signal", "go"))
    store.queue.conclude(delivery.hold, Parked())
    return lambda: store.executions.signal(delivery.execution.id, "go", {})


def decide(store: Store) -> Act:
    delivery = held(store)
    waiting(store, delivery.hold, Wait("ask", "approval"))
    store.queue.conclude(delivery.hold, Parked())
    return lambda: store.executions.decide(delivery.execution.id, "ask", {"approved": True})


def park_what_is_answered(store: Store) -> Act:
    delivery = held(store)
    waiting(store, delivery.hold, Wait("ask", "signal", "go"))
    store.executions.signal(delivery.execution.id, "go", {})
    return lambda: store.queue.conclude(delivery.hold, Parked())


def end_what_is_waited_for(store: Store) -> Act:
    job, delivery = held(store, queue="mail"), held(store)
    waiting(store, delivery.hold, Wait("wait", "execution", job.execution.id))
    store.queue.conclude(delivery.hold, Parked())
    return lambda: store.queue.conclude(job.hold, SUCCESS)


def resume(store: Store) -> Act:
    ended = store.queue.conclude(held(store).hold, FAILURE)
    return lambda: store.executions.resume(ended.id)


def replay(store: Store) -> Act:
    ended = Ended(ExecutionState.FAILED, error=ERROR, reason=DeadReason.POISON)
    dead = store.queue.conclude(held(store).hold, ended)
    return lambda: store.executions.replay_dead(dead.id, request())


def unpause(store: Store) -> Act:
    store.queue.pause("default")
    enqueued(store)
    return lambda: store.queue.unpause("default")


def full(store: Store, **changes: Any) -> Any:
    store.queue.enqueue([request(**changes) for _ in range(2)])
    (delivery,) = claimed(store)
    return delivery


def end_in_a_full_queue(store: Store) -> Act:
    store.queue.limit("default", Limits(running=1))
    delivery = full(store)
    return lambda: store.queue.conclude(delivery.hold, SUCCESS)


def retry_with_a_full_key(store: Store) -> Act:
    delivery = full(store, concurrency_key="c", concurrency_limit=1)
    return lambda: store.queue.conclude(delivery.hold, Again(60 * MINUTE, ERROR))


def cancel_with_a_full_key(store: Store) -> Act:
    delivery = full(store, concurrency_key="c", concurrency_limit=1)
    return lambda: store.executions.cancel(delivery.execution.id)


def end_with_a_key_that_another_queue_fills(store: Store) -> Act:
    how: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 1}
    delivery = held(store, queue="mail", **how)
    enqueued(store, **how)
    assert claimed_ids(store) == []
    return lambda: store.queue.conclude(delivery.hold, SUCCESS)


def raise_the_limit(store: Store) -> Act:
    store.queue.limit("default", Limits(running=1))
    full(store)
    return lambda: store.queue.limit("default", Limits(running=2))


ACTS = [
    enqueue,
    enqueue_as_owner,
    release,
    signal,
    decide,
    park_what_is_answered,
    end_what_is_waited_for,
    resume,
    replay,
    unpause,
    end_in_a_full_queue,
    retry_with_a_full_key,
    cancel_with_a_full_key,
    end_with_a_key_that_another_queue_fills,
    raise_the_limit,
]


@pytest.mark.parametrize("prepare", ACTS, ids=lambda act: act.__name__)
def test_what_comes_due_by_an_act_is_told(store: Store, prepare: Callable[[Store], Act]) -> None:
    """Also when it happens before the listener waits."""
    act = prepare(store)
    assert claimed_ids(store) == []
    with listening(store) as wakeups:
        act()
        assert wakeups.wait(ENOUGH)
        assert len(claimed_ids(store)) == 1


def test_nothing_is_told_when_nothing_happens(store: Store) -> None:
    enqueued(store)
    with listening(store, "mail") as wakeups:
        assert not wakeups.wait(0.05)


def test_a_wait_under_way_ends_with_a_wake_up(store: Store) -> None:
    with listening(store) as wakeups:
        told: list[bool] = []
        thread = threading.Thread(target=lambda: told.append(wakeups.wait(ENOUGH)))
        thread.start()
        enqueued(store)
        thread.join()
    assert told == [True]


def test_every_listener_is_told(store: Store) -> None:
    with listening(store) as one, listening(store, "default", "mail") as two, listening(store, "mail") as three:
        store.queue.enqueue([request(), request(queue="mail")])
        assert [wakeups.wait(ENOUGH) for wakeups in (one, two, three)] == [True, True, True]


def test_a_wait_can_be_ended_from_another_thread(store: Store) -> None:
    with listening(store) as wakeups:
        thread = threading.Thread(target=wakeups.wait, args=(600,))
        thread.start()
        while thread.is_alive():  # it may not have begun to wait yet
            wakeups.wake()
            thread.join(0.01)


def test_no_wake_up_is_lost_however_the_moments_fall(store: Store) -> None:
    """One thread claims and waits, others publish: each execution is claimed without any wait timing out."""
    count, got, timed_out = 60, [0], [0]

    def consume() -> None:
        with listening(store) as wakeups:
            ready.set()
            while got[0] < count and not timed_out[0]:
                deliveries = claimed(store, limit=2)
                got[0] += len(deliveries)
                for delivery in deliveries:
                    store.queue.conclude(delivery.hold, SUCCESS)
                if not deliveries and got[0] < count and not wakeups.wait(ENOUGH):
                    timed_out[0] += 1

    def produce(worker: int) -> None:
        for _ in range(count // 3):
            enqueued(store)

    ready = threading.Event()
    consumer = threading.Thread(target=consume)
    consumer.start()
    ready.wait()
    producers = [threading.Thread(target=produce, args=(worker,)) for worker in range(3)]
    for thread in [*producers]:
        thread.start()
    for thread in [*producers, consumer]:
        thread.join()
    assert (got, timed_out) == ([count], [0])


def test_what_was_undone_is_never_claimed(store: Store) -> None:
    delivery = started(store)

    def fail(owned: Any) -> None:
        owned.enqueue([request()])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.queue.own(delivery.hold, fail, exclusive=True)
    assert claimed_ids(store) == []
    assert list(store.queue.queues()) == []


def test_a_closed_listener_leaves_the_store_sound(store: Store) -> None:
    for _ in range(40):
        with listening(store):
            pass
    assert enqueued(store) == claimed_one(store).execution.id


class Interrupted(FrozenClock):
    """A clock that lets something happen just after it was read, and then goes on by a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], object] | None = None

    def now(self) -> datetime:
        read = super().now()
        self.forward(timedelta(microseconds=1))
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return read


def test_a_queue_is_not_idle_while_something_is_given_back(sqlite_url: str) -> None:
    """What runs when the clock is read, and is due a moment later, is one or the other. Elsewhere the clock is read
    with the rows."""
    clock = Interrupted()
    store = open_store(sqlite_url, clock)
    store.migrate()
    hold = held(store).hold
    clock.then = lambda: store.queue.conclude(hold, Released())
    assert not store.queue.idle(["default"])
    assert clock.then is None
    store.close()
