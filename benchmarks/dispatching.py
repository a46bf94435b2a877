"""The dispatcher recipe until its queue is empty, against a loop of the same statements by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from benchmarks.databases import Database, Server
from benchmarks.floors import ByHand
from benchmarks.measuring import Line, Way, compare
from benchmarks.sizes import Sizes
from flo.engine.app import Flo

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "async-queue-dispatcher.json"
TABLE = "pending_ops"
LIMIT = 100
CONCURRENCY = 5
"""What the recipe says itself."""

HOLDER = "benchmark"


def dispatcher_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """The recipe against one connection, and on PostgreSQL also against five; on SQLite five would wait for one
    another."""
    for make in server.each():
        with make() as database, ExitStack() as stack:
            hands = [stack.enter_context(closing(database.by_hand())) for _ in range(CONCURRENCY)]
            rows = sizes.dispatched
            floors = [_way(database, rows, "by hand, 1 connection", partial(_drain, hands[0]))]
            if database.store == "PostgreSQL":
                floors.append(_way(database, rows, f"by hand, {CONCURRENCY} connections", partial(_share, hands)))
            recipe = _way(database, rows, "recipe", partial(_run_until_empty, database.engine))
            yield from compare(
                "dispatcher", database.store, [recipe], floors, operations=rows, rounds=sizes.long_rounds
            )


def _way(database: Database, rows: int, name: str, drain: Callable[[], int]) -> Way:
    """Drain a queue that was filled anew, and see that nothing is left."""

    def prepare() -> None:
        database.clear(TABLE)
        database.fill(TABLE, rows)

    def work() -> None:
        if (done := drain()) != rows:
            raise AssertionError(f"{name}: {done} of {rows} rows are done")

    return Way(name, work, prepare)


def _run_until_empty(engine: Flo) -> int:
    workflow = engine.load(RECIPE)
    done = 0
    while True:
        result = engine.run(workflow, {"limit": LIMIT})
        loop = result.steps["process-each"]
        assert isinstance(loop, dict)
        succeeded = loop["output"]["succeeded"]
        assert isinstance(succeeded, int)
        if not succeeded:
            return done
        done += succeeded


def _work(key: str, value: dict[str, object]) -> str:
    return f"working on {key}: {value['payload']}"


def _drain(hand: ByHand) -> int:
    done = 0
    while rows := hand.claim(TABLE, LIMIT, HOLDER):
        for key, value in rows:
            _work(key, value)
            done += hand.finish(TABLE, key, HOLDER)
    return done


def _share(hands: list[ByHand]) -> int:
    """As ``_drain``, with each batch shared among threads that have a connection each."""

    def finish(hand: ByHand, rows: list[tuple[str, dict[str, object]]]) -> int:
        done = 0
        for key, value in rows:
            _work(key, value)
            done += hand.finish(TABLE, key, HOLDER)
        return done

    done = 0
    with ThreadPoolExecutor(len(hands)) as pool:
        while rows := hands[0].claim(TABLE, LIMIT, HOLDER):
            shares = [rows[at :: len(hands)] for at in range(len(hands))]
            done += sum(pool.map(finish, hands, shares))
    return done
