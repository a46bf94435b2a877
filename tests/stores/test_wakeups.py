"""Workers hear of what came due by the act of somebody, in other processes too, and miss nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from flo.engine.clock import Clock
from flo.engine.jobs import LEASE, Limits, Parked, Released, Wait
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_connections import Address
from flo.engine.stores.postgres_wakeups import PostgresWakeups
from flo.engine.stores.queueing import Wakeups
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.sqlite_wakeups import SqliteWakeups
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import DOCUMENT, FAILURE, claimed_one, enqueued, held, request, waiting

LONG = 60.0
"""So many seconds nobody waits: a test that needs them has failed."""
PATIENCE = 30.0


@pytest.fixture(params=["sqlite", "postgresql"])
def pair(request: pytest.FixtureRequest, clock: FrozenClock, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores over the same data, as two processes have them."""

    def opened(clock: Clock) -> Store:
        if request.param == "sqlite":
            return SqliteStore.open(tmp_path / "flo.sqlite", clock, synchronous="OFF")
        return PostgresStore.open(request.getfixturevalue("postgres_url"), clock)

    first, second = opened(clock), opened(clock)
    first.migrate()
    yield first, second
    first.close()
    second.close()


@contextmanager
def listening(store: Store, *queues: str) -> Iterator[Wakeups]:
    wakeups = store.queue.wakeups(queues or ("default",))
    with closing(wakeups):
        yield wakeups


def settled(wakeups: Wakeups) -> None:
    """Hear of all that was before."""
    while wakeups.wait(0):
        pass


def test_what_is_enqueued_by_another_store_is_heard_of(pair: tuple[Store, Store]) -> None:
    mine, other = pair
    with listening(mine) as wakeups:
        assert not wakeups.wait(0)
        enqueued(other)
        assert wakeups.wait(LONG)
        settled(wakeups)
        assert not wakeups.wait(0)


def test_what_is_enqueued_by_the_same_store_is_heard_of(store: Store) -> None:
    with listening(store) as wakeups:
        enqueued(store)
        assert wakeups.wait(LONG)


def test_what_comes_between_two_waits_is_not_missed(pair: tuple[Store, Store]) -> None:
    mine, other = pair
    with listening(mine) as wakeups:
        for _ in range(5):
            settled(wakeups)
            enqueued(other)
            assert wakeups.wait(LONG)


def test_no_job_is_missed_by_a_worker_that_waits_whenever_there_is_none(pair: tuple[Store, Store]) -> None:
    mine, other = pair
    count, claims = 60, 0
    with listening(mine) as wakeups:
        producer = threading.Thread(target=lambda: [enqueued(other) for _ in range(count)])
        producer.start()
        while claims < count:
            found = mine.queue.claim(["default"], worker="w1", lease=LEASE, limit=7).deliveries
            claims += len(found)
            if not found:
                assert wakeups.wait(LONG)
        producer.join()


def parked(store: Store, wait: Wait) -> str:
    delivery = held(store)
    waiting(store, delivery.hold, wait)
    store.queue.conclude(delivery.hold, Parked())
    return delivery.execution.id


def _released(store: Store) -> Callable[[], object]:
    hold = held(store).hold
    return lambda: store.queue.conclude(hold, Released())


def _resumed(store: Store) -> Callable[[], object]:
    failed = store.queue.conclude(held(store).hold, FAILURE)
    return lambda: store.executions.resume(failed.id)


def _signalled(store: Store) -> Callable[[], object]:
    waiter = parked(store, Wait("go", "signal", "go"))
    return lambda: store.executions.signal(waiter, "go", {})


def _decided(store: Store) -> Callable[[], object]:
    waiter = parked(store, Wait("ask", "approval"))
    return lambda: store.executions.decide(waiter, "ask", {"approved": True})


def _cancelled_job(store: Store) -> Callable[[], object]:
    job = enqueued(store, queue="other")
    parked(store, Wait("job", "execution", job))
    return lambda: store.executions.cancel(job)


def _ended_job(store: Store) -> Callable[[], object]:
    job = held(store, queue="other")
    parked(store, Wait("job", "execution", job.execution.id))
    return lambda: store.queue.conclude(job.hold, FAILURE)


def _unpaused(store: Store) -> Callable[[], object]:
    store.queue.pause("default")
    return lambda: store.queue.unpause("default")


def _limited(store: Store) -> Callable[[], object]:
    store.queue.limit("default", Limits(running=1))
    return lambda: store.queue.limit("default", Limits())


def _freed(store: Store) -> Callable[[], object]:
    store.queue.limit("default", Limits(running=1))
    hold = held(store).hold
    enqueued(store)
    return lambda: store.queue.conclude(hold, FAILURE)


def _freed_by_cancelling(store: Store) -> Callable[[], object]:
    store.queue.limit("default", Limits(running=1))
    first = held(store).execution.id
    enqueued(store)
    return lambda: store.executions.cancel(first)


def _freed_for_the_key(store: Store) -> Callable[[], object]:
    first = held(store, queue="other", concurrency_key="c", concurrency_limit=1).execution.id
    enqueued(store, concurrency_key="c", concurrency_limit=1)
    return lambda: store.executions.cancel(first)


ACTS = (
    _released, _resumed, _signalled, _decided, _cancelled_job, _ended_job, _unpaused, _limited, _freed,
    _freed_by_cancelling, _freed_for_the_key,
)  # fmt: skip


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__.strip("_"))
def test_every_act_that_makes_something_due_is_heard_of(
    store: Store, act: Callable[[Store], Callable[[], object]]
) -> None:
    make_due = act(store)
    with listening(store) as wakeups:
        make_due()
        assert wakeups.wait(LONG)


@pytest.mark.parametrize("store", ["memory", "postgresql"], indirect=True)
def test_what_comes_into_other_queues_is_not_heard_of(store: Store) -> None:
    with listening(store, "mail", "print") as wakeups:
        enqueued(store, queue="default")
        assert not wakeups.wait(0.05)
        enqueued(store, queue="print")
        assert wakeups.wait(LONG)


@pytest.mark.parametrize("store", ["memory", "postgresql"], indirect=True)
def test_what_is_undone_is_not_heard_of(store: Store) -> None:
    hold = held(store).hold

    def work(owned: object) -> None:
        owned.enqueue([request()])  # type: ignore[attr-defined]
        raise ZeroDivisionError

    with listening(store) as wakeups:
        with suppress(ZeroDivisionError):
            store.queue.own(hold, work)
        assert not wakeups.wait(0.05)


def test_a_wait_ends_after_its_time(store: Store) -> None:
    with listening(store) as wakeups:
        assert not wakeups.wait(0.01)
        assert not wakeups.wait(0)
        assert not wakeups.wait(-1)


def test_a_wait_is_ended_from_another_thread(store: Store) -> None:
    with listening(store) as wakeups:
        ended = threading.Event()

        def wait() -> None:
            wakeups.wait(LONG)
            ended.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        wakeups.wake()
        assert ended.wait(PATIENCE)
        waiter.join()


def test_waking_nobody_does_no_harm(store: Store) -> None:
    wakeups = store.queue.wakeups(["default"])
    for _ in range(100_000 if isinstance(store, PostgresStore) else 10):
        wakeups.wake()
    settled(wakeups)
    assert not wakeups.wait(0)
    wakeups.close()
    wakeups.wake()
    wakeups.close()


def sessions(url: str) -> list[int]:
    """The sessions that listen."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        return [pid for (pid,) in rows.fetchall()]


def end_session(url: str, pid: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore.open(postgres_url)
    yield store
    store.close()


def test_a_listener_whose_session_is_ended_makes_another_and_tells(postgres: PostgresStore, postgres_url: str) -> None:
    with listening(postgres) as wakeups:
        (pid,) = sessions(postgres_url)
        end_session(postgres_url, pid)
        enqueued(postgres)
        assert wakeups.wait(LONG)
        assert len(sessions(postgres_url)) == 1
        assert sessions(postgres_url) != [pid]
        settled(wakeups)
        enqueued(postgres)
        assert wakeups.wait(LONG)


def test_a_listener_is_told_of_the_end_of_its_session_while_it_waits(
    postgres: PostgresStore, postgres_url: str
) -> None:
    with listening(postgres) as wakeups:
        (pid,) = sessions(postgres_url)
        told: list[bool] = []
        waiter = threading.Thread(target=lambda: told.append(wakeups.wait(LONG)))
        waiter.start()
        end_session(postgres_url, pid)
        waiter.join(PATIENCE)
        assert told == [True]


def test_a_listener_holds_none_of_the_sessions_that_statements_need(postgres_url: str) -> None:
    store = PostgresStore.open(postgres_url, connections=1)
    with closing(store), listening(store) as wakeups:
        enqueued(store)
        assert wakeups.wait(LONG)
        assert claimed_one(store).execution.definition == DOCUMENT


def test_a_listener_gives_its_session_back(postgres: PostgresStore, postgres_url: str) -> None:
    with listening(postgres):
        assert len(sessions(postgres_url)) == 1
    deadline = time.monotonic() + PATIENCE
    while sessions(postgres_url) and time.monotonic() < deadline:
        pass  # the server sees the end a moment later
    assert sessions(postgres_url) == []


def test_a_server_that_is_away_is_waited_for_without_an_error() -> None:
    with closing(PostgresWakeups(Address("postgresql://flo@127.0.0.1:1/flo"), ["default"])) as wakeups:
        assert not wakeups.wait(0.5)
        ended = threading.Event()
        waiter = threading.Thread(target=lambda: (wakeups.wait(LONG), ended.set()))
        waiter.start()
        wakeups.wake()
        assert ended.wait(PATIENCE)
        waiter.join()


def test_a_listener_that_reaches_its_server_late_tells_that_it_may_have_missed_something(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = Address("postgresql://flo@127.0.0.1:1/flo")
    with closing(PostgresWakeups(nowhere, ["default"])) as wakeups:
        assert not wakeups.wait(0)
        monkeypatch.setattr(nowhere, "_parameters", Address(postgres_url)._parameters)
        assert wakeups.wait(LONG)
        assert not wakeups.wait(0)


def test_a_file_that_is_away_is_waited_for_without_an_error(tmp_path: Path, clock: FrozenClock) -> None:
    path = tmp_path / "later" / "flo.sqlite"
    with closing(SqliteWakeups(path)) as wakeups:
        assert not wakeups.wait(0.02)
        store = SqliteStore.open(path, clock, synchronous="OFF")
        assert wakeups.wait(LONG)
        settled(wakeups)
        store.migrate()
        assert wakeups.wait(LONG)
        store.close()


def test_a_file_is_asked_less_and_less_often_while_nothing_happens(
    tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open(tmp_path / "flo.sqlite", clock, synchronous="OFF")
    store.migrate()
    with closing(store), closing(SqliteWakeups(tmp_path / "flo.sqlite")) as wakeups:
        pauses: list[float] = []

        def pause(seconds: float) -> bool:
            pauses.append(seconds)
            return len(pauses) == 30

        monkeypatch.setattr(wakeups._woken, "wait", pause)
        wakeups.wait(LONG)
        assert pauses[0] < 0.01
        assert 0.19 < pauses[-1] < 0.31
        del pauses[:29]
        wakeups.wait(LONG)
        assert pauses[1] < 0.01


def test_what_is_enqueued_for_later_is_heard_of_so_that_workers_learn_when(store: Store) -> None:
    with listening(store) as wakeups:
        enqueued(store, delay=timedelta(hours=1))
        assert wakeups.wait(LONG)
