"""What has ended goes after its time, a bounded number of rows at once, and nothing else goes."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flo.engine.executions import DeadReason, ExecutionState
from flo.engine.jobs import Again, Delivery, Ended, Entries, Parked, Retention, Wait
from flo.engine.stores import sql_retention
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sql_retention import GOING
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .jobs import (
    ERROR,
    FAILURE,
    INSTANT,
    MINUTE,
    SECOND,
    SUCCESS,
    adopted,
    at_once,
    claimed_one,
    enqueued,
    found,
    held,
    line,
    recorded,
    started,
    state_of,
    step,
    waiting,
)

NOTHING_IS_KEPT = Retention(age=None, count=0)
DEAD = Ended(ExecutionState.FAILED, error=ERROR, reason=DeadReason.POISON)
TABLES = ("steps", "lines", "attempts", "effects", "waits", "signals")
DURABLE = ("sqlite", "postgresql")


def ended(store: Store, clock: FrozenClock, count: int = 1, **changes: Any) -> list[str]:
    """Executions that ended one second after the other."""
    ids = []
    for _ in range(count):
        ids.append(store.queue.conclude(started(store, **changes).hold, SUCCESS).id)
        clock.forward(SECOND)
    return ids


def there(store: Store, ids: list[str]) -> list[str]:
    return [one for one in ids if store.executions.get(one) is not None]


def full(store: Store) -> Delivery:
    """An execution with a record of every kind, which runs."""
    first = held(store)
    identity = first.execution.id
    recorded(store, first.hold, Entries([step(identity, "a")], [line(identity, 1)]))
    store.queue.own(first.hold, lambda owned: owned.keep_effect("b", "set", 1, {"n": 1}))
    waiting(store, first.hold, Wait("ask", "approval"))
    store.executions.signal(identity, "go", {})
    store.queue.conclude(first.hold, Again(timedelta(), ERROR))
    return claimed_one(store)


def rows(store: Store, table: str) -> int:
    assert isinstance(store, SqliteStore | PostgresStore)
    count: int = store._database.read(f"SELECT count(*) FROM {table}")[0][0]
    return count


def test_what_is_older_than_its_age_goes_the_oldest_first(store: Store, clock: FrozenClock) -> None:
    ids = ended(store, clock, 5)
    assert store.executions.prune(Retention(timedelta(seconds=3), None), limit=1) == 1
    assert there(store, ids) == ids[1:]
    assert store.executions.prune(Retention(timedelta(seconds=3), None)) == 1
    assert there(store, ids) == ids[2:]
    assert store.executions.prune(Retention(timedelta(seconds=3), None)) == 0


def test_the_newest_so_many_stay(store: Store, clock: FrozenClock) -> None:
    ids = ended(store, clock, 5)
    assert store.executions.prune(Retention(None, 5)) == 0
    assert store.executions.prune(Retention(None, 2)) == 3
    assert there(store, ids) == ids[3:]
    assert store.executions.prune(NOTHING_IS_KEPT) == 2
    assert there(store, ids) == []


def test_what_one_of_the_bounds_does_not_allow_goes(store: Store, clock: FrozenClock) -> None:
    ids = ended(store, clock, 5)
    assert store.executions.prune(Retention(timedelta(seconds=4), 4)) == 1
    assert store.executions.prune(Retention(timedelta(seconds=2), 4)) == 2
    assert there(store, ids) == ids[3:]


def test_without_bounds_everything_stays(store: Store, clock: FrozenClock) -> None:
    ids = ended(store, clock, 2)
    clock.forward(timedelta(days=10_000))
    assert store.executions.prune(Retention(None, None)) == 0
    assert there(store, ids) == ids


def test_workflows_are_counted_apart(store: Store, clock: FrozenClock) -> None:
    own, other = ended(store, clock, 2, workflow="own"), ended(store, clock, 2, workflow="other")
    nameless = ended(store, clock, 2, workflow=None, version=None, handler="core.log")
    assert store.executions.prune(Retention(None, 1), workflow="own") == 1
    assert store.executions.prune(Retention(None, 1), apart=["own"]) == 3
    assert there(store, [*own, *other, *nameless]) == [own[1], nameless[1]]
    assert store.executions.prune(Retention(None, 1), apart=["own", "other"]) == 0


def test_what_has_not_ended_is_never_touched(store: Store, clock: FrozenClock) -> None:
    waits = held(store)
    store.queue.conclude(waits.hold, Parked())
    ids = [enqueued(store, queue="other"), started(store).execution.id, waits.execution.id]
    before = [found(store, one) for one in ids]
    clock.forward(timedelta(days=10_000))
    assert store.executions.prune(Retention(timedelta(), 0)) == 0
    assert [found(store, one) for one in ids] == before


def test_a_part_of_what_has_not_ended_stays_and_goes_with_it(store: Store, clock: FrozenClock) -> None:
    root = started(store)
    part = adopted(store, root.hold)
    deep = adopted(store, part.hold)
    for hold in (deep.hold, part.hold):
        store.queue.conclude(hold, SUCCESS)
        clock.forward(SECOND)
    assert store.executions.prune(NOTHING_IS_KEPT) == 0
    store.queue.conclude(root.hold, SUCCESS)
    clock.forward(SECOND)
    assert store.executions.prune(NOTHING_IS_KEPT) == 3
    assert there(store, [one.execution.id for one in (root, part, deep)]) == []


def test_dead_letters_count_like_the_others(store: Store, clock: FrozenClock) -> None:
    dead = store.queue.conclude(held(store).hold, DEAD).id
    clock.forward(SECOND)
    ids = ended(store, clock, 2)
    assert store.executions.prune(Retention(None, 2)) == 1
    assert there(store, [dead, *ids]) == ids


def test_all_that_was_kept_of_an_execution_goes_with_it(store: Store, clock: FrozenClock) -> None:
    delivery = full(store)
    identity = delivery.execution.id
    store.queue.conclude(delivery.hold, FAILURE)
    clock.forward(SECOND)
    assert store.executions.prune(NOTHING_IS_KEPT) == 1
    look = store.executions
    assert [*look.steps(identity), *look.lines(identity), *look.attempts(identity), *look.waits(identity)] == []
    if isinstance(store, SqliteStore | PostgresStore):
        assert [rows(store, f"execution_{table}") for table in TABLES] == [0] * len(TABLES)
    assert enqueued(store, id=identity) == identity
    assert list(look.steps(identity)) == []


def test_the_key_of_what_is_gone_is_free(store: Store, clock: FrozenClock) -> None:
    (first,) = ended(store, clock, key="k", identity="one")
    store.executions.prune(NOTHING_IS_KEPT)
    assert enqueued(store, key="k", identity="another") != first


def test_dead_letters_are_purged_the_oldest_first(store: Store, clock: FrozenClock) -> None:
    letters = []
    for number in range(4):
        queue = "mail" if number % 2 else "print"
        letters.append(store.queue.conclude(held(store, queue=queue).hold, DEAD).id)
        clock.forward(SECOND)
    failed = store.queue.conclude(held(store).hold, FAILURE).id
    assert store.executions.purge_dead(queue="mail", limit=1) == 1
    assert there(store, letters) == [letters[0], letters[2], letters[3]]
    ended_at = found(store, letters[2]).finished_at
    assert ended_at is not None
    assert store.executions.purge_dead(before=ended_at) == 1
    assert store.executions.purge_dead(before=ended_at + INSTANT) == 1
    assert there(store, letters) == [letters[3]]
    assert store.executions.purge_dead() == 1
    assert there(store, [*letters, failed]) == [failed]


def test_a_dead_letter_is_purged_with_its_parts(store: Store) -> None:
    root = held(store)
    part = adopted(store, root.hold)
    deep = adopted(store, part.hold)
    job = enqueued(store, queue="other", parent_id=root.execution.id, parent_path="job")
    store.queue.conclude(deep.hold, FAILURE)
    store.queue.conclude(part.hold, FAILURE)
    store.queue.conclude(root.hold, DEAD)
    assert store.executions.purge_dead() == 1
    assert there(store, [one.execution.id for one in (root, part, deep)]) == []
    assert state_of(store, job) is ExecutionState.PENDING


def test_many_that_prune_at_once_remove_each_execution_once(store: Store, clock: FrozenClock) -> None:
    ids = ended(store, clock, 30)

    def prune(number: int) -> int:
        gone = 0
        while there(store, ids):
            gone += store.executions.prune(NOTHING_IS_KEPT, limit=5)
        return gone

    assert sum(at_once(4, prune)) == len(ids)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """So few records go in one transaction."""
    monkeypatch.setattr(sql_retention, "_ROWS", 10)
    return 10


@pytest.fixture
def large(store: Store) -> Delivery:
    """An execution with many records, which has a failed part with many. It runs."""
    root = held(store)
    part = adopted(store, root.hold)
    for hold in (part.hold, root.hold):
        identity = hold.execution_id
        steps = [step(identity, f"s{number}") for number in range(25)]
        recorded(store, hold, Entries(steps, [line(identity, number + 1) for number in range(15)]))
    store.queue.conclude(part.hold, FAILURE)
    return root


@pytest.mark.parametrize("store", DURABLE, indirect=True)
def test_each_transaction_removes_a_bounded_number_of_rows(
    store: Store, large: Delivery, few: int, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, SqliteStore | PostgresStore)
    store.queue.conclude(large.hold, SUCCESS)
    clock.forward(SECOND)
    tables = ["executions", *(f"execution_{table}" for table in TABLES)]
    counts = [sum(rows(store, table) for table in tables)]
    write = store._database.write

    def counted(work: Callable[..., object], **how: Any) -> object:
        result = write(work, **how)
        counts.append(sum(rows(store, table) for table in tables))
        return result

    monkeypatch.setattr(store._database, "write", counted)
    assert store.executions.prune(NOTHING_IS_KEPT) == 2
    removed = [before - after for before, after in pairwise(counts)]
    assert max(removed) <= few + 2
    assert counts[-1] == 0


@pytest.mark.parametrize("store", DURABLE, indirect=True)
def test_what_is_half_removed_is_not_resumed_and_goes_the_next_time(
    store: Store, large: Delivery, few: int, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, SqliteStore | PostgresStore)
    identity = large.execution.id
    store.queue.conclude(large.hold, DEAD)
    clock.forward(SECOND)
    interrupt_after(store, monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        store.executions.prune(NOTHING_IS_KEPT)
    monkeypatch.undo()
    assert len(store.executions.steps(identity)) < 25
    assert store._database.read("SELECT DISTINCT lease_token FROM executions") == [(GOING,)]
    with pytest.raises(Exception, match=f"no execution '{identity}'"):
        store.executions.resume(identity)
    assert store.executions.prune(NOTHING_IS_KEPT) == 2
    assert rows(store, "execution_steps") + rows(store, "execution_lines") == 0


@pytest.mark.parametrize("store", DURABLE, indirect=True)
def test_a_dead_letter_whose_parts_are_half_removed_is_purged_the_next_time(
    store: Store, large: Delivery, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.queue.conclude(large.hold, DEAD)
    interrupt_after(store, monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        store.executions.purge_dead()
    monkeypatch.undo()
    with pytest.raises(Exception, match="no execution"):
        store.executions.resume(large.execution.id)
    assert store.executions.purge_dead() == 1
    assert rows(store, "executions") + rows(store, "execution_steps") == 0


def interrupt_after(store: Store, monkeypatch: pytest.MonkeyPatch, transactions: int) -> None:
    """Let the caller be interrupted when so many transactions are done."""
    assert isinstance(store, SqliteStore | PostgresStore)
    write, left = store._database.write, iter(range(transactions))

    def interrupted(work: Callable[..., object], **how: Any) -> object:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return write(work, **how)

    monkeypatch.setattr(store._database, "write", interrupted)


@pytest.fixture
def swollen(tmp_path: Path, clock: FrozenClock) -> Iterator[tuple[SqliteStore, Path]]:
    """A SQLite store whose file is mostly what an ended execution left."""
    path = tmp_path / "flo.sqlite"
    store = SqliteStore.open(path, clock, synchronous="OFF")
    store.migrate()
    hold = started(store).hold
    identity = hold.execution_id
    steps = [step(identity, f"s{number}", output="x" * 20_000) for number in range(1_500)]
    recorded(store, hold, Entries(steps))
    store.queue.conclude(hold, SUCCESS)
    clock.forward(SECOND)
    yield store, path
    store.close()


def size(path: Path) -> int:
    return path.stat().st_size + path.with_name(f"{path.name}-wal").stat().st_size


def test_a_sqlite_file_and_its_log_shrink(swollen: tuple[SqliteStore, Path]) -> None:
    store, path = swollen
    assert size(path) > 30_000_000
    assert store.executions.prune(NOTHING_IS_KEPT) == 1
    assert size(path) < 15_000_000


def test_somebody_who_reads_keeps_nobody_from_pruning(swollen: tuple[SqliteStore, Path], clock: FrozenClock) -> None:
    store, path = swollen
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM execution_steps").fetchone() == (1_500,)
        assert store.executions.prune(NOTHING_IS_KEPT) == 1
        assert reader.execute("SELECT count(*) FROM execution_steps").fetchone() == (1_500,)
    ended(store, clock)
    assert store.executions.prune(NOTHING_IS_KEPT) == 1
    assert size(path) < 15_000_000


def test_the_age_is_of_the_stores_clock(store: Store, clock: FrozenClock) -> None:
    (identity,) = ended(store, clock)
    finished: datetime | None = found(store, identity).finished_at
    assert finished is not None
    clock.forward(finished + MINUTE - clock.now())
    assert store.executions.prune(Retention(MINUTE, None)) == 0
    clock.forward(INSTANT)
    assert store.executions.prune(Retention(MINUTE, None)) == 1


@pytest.mark.parametrize("store", DURABLE, indirect=True)
def test_what_somebody_resumes_meanwhile_stays(
    store: Store, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, SqliteStore | PostgresStore)
    identity = store.queue.conclude(held(store).hold, FAILURE).id
    clock.forward(SECOND)
    read = store._database.read

    def resumed(sql: str, values: Any = dataclasses.MISSING) -> list[tuple[Any, ...]]:
        rows = read(sql) if values is dataclasses.MISSING else read(sql, values)
        if "LIMIT :limit" in sql:
            store.executions.resume(identity)
        return rows

    monkeypatch.setattr(store._database, "read", resumed)
    assert store.executions.prune(NOTHING_IS_KEPT) == 0
    monkeypatch.undo()
    assert state_of(store, identity) is ExecutionState.PENDING
