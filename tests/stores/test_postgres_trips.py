"""How often a server is waited for: it may be far away, and each wait takes as long as the way there and back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest

from flo.engine.abreast import abreast
from flo.engine.executions import Execution
from flo.engine.jobs import Delivery, Ending, Entries, LeaseLost
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.queueing import Owned

from .jobs import SUCCESS, claimed, held, line, request, started, step


@pytest.fixture
def server(postgres_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore.open(postgres_url)) as store:
        yield store


def told(store: PostgresStore, work: Callable[[], object]) -> Sequence[str]:
    """What goes to the server and comes from it while ``work`` is done, once its statements are prepared: the names of
    the messages."""
    for _ in range(2):
        work()
    with tempfile.TemporaryFile() as trace:
        with store._database._connections.lend() as session:
            session.connection.pgconn.trace(trace.fileno())
        work()
        with store._database._connections.lend() as session:
            session.connection.pgconn.untrace()
        trace.seek(0)
        lines = [line.decode().split("\t") for line in trace]
        return [line[3].split()[0] for line in lines if len(line) > 3]


def trips(store: PostgresStore, work: Callable[[], object]) -> int:
    """How often the server is waited for while ``work`` is done."""
    return sum(message in ("Flush", "Sync") for message in told(store, work))


def test_a_run_is_started_in_one(server: PostgresStore) -> None:
    assert trips(server, lambda: started(server)) == 1


def test_what_an_owner_records_is_written_in_one(server: PostgresStore) -> None:
    delivery = held(server)
    entries = Entries([step(delivery.execution.id, "a")], [line(delivery.execution.id, 1)])
    assert trips(server, lambda: server.queue.own(delivery.hold, lambda owned: owned.record(entries))) == 1


def test_that_a_claim_is_lost_comes_back_with_the_commit(server: PostgresStore) -> None:
    delivery = held(server)
    server.queue.conclude(delivery.hold, SUCCESS)

    def write() -> None:
        with pytest.raises(LeaseLost, match="it is success"):
            server.queue.own(delivery.hold, lambda owned: owned.record(Entries([step(delivery.execution.id, "a")])))

    assert trips(server, write) == 2, "the second one undoes it"
    assert list(server.executions.steps(delivery.execution.id)) == []


def test_what_waits_abreast_is_asked_before_the_first_answer_is_read(server: PostgresStore) -> None:
    delivery = held(server)

    def write(owned: Owned) -> None:
        keys = iter("abcde")

        def piece() -> bool:
            if (key := next(keys, None)) is not None:
                owned.data.set("t", key, 1)
            return key is not None

        abreast(piece, 5)

    messages = told(server, lambda: server.queue.own(delivery.hold, write))
    asked = [message for message in messages if message in ("Flush", "DataRow")]
    assert asked == ["Flush"] * 5 + ["DataRow"] * 6, "that the claim stands, and the rows"


@pytest.mark.parametrize("count", [1, 100])
def test_however_many_end_it_takes_two(server: PostgresStore, count: int) -> None:
    def end() -> None:
        ends = server.queue.conclude_many([_ending(one) for one in claimed(server, limit=count)])
        assert [type(one) for one in ends] == [Execution] * count

    server.queue.enqueue([request() for _ in range(4 * count)])
    claims = trips(server, lambda: claimed(server, limit=count))
    server.queue.enqueue([request() for _ in range(3 * count)])
    assert trips(server, end) - claims == 2


def _ending(delivery: Delivery) -> Ending:
    name = delivery.execution.id
    return Ending(delivery.hold, SUCCESS, Entries([step(name, "a")], [line(name, 1)]), delivery.execution)
