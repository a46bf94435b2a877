"""Claims and guarded updates against the same statement by hand, and claims beside many finished rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial

from benchmarks.databases import Database, Server
from benchmarks.floors import ByHand
from benchmarks.measuring import Line, Way, compare
from benchmarks.sizes import Sizes
from benchmarks.stepping import with_call
from flo.engine.step import Outcome, StepCall
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.values import Json, JsonObject

BY_HAND = "by hand"
STORE = "store"
STEP = "step type"
HOLDER = "benchmark"

_CLAIMS_OF_10 = 20
"""A round leaves most of the pending rows."""

_PENDING: Json = [{"field": "status", "operator": "equals", "value": "pending"}]
_OLDEST: Json = {"field": "createdAt", "direction": "asc"}
_DONE: Json = [{"field": "status", "operation": "set", "value": "done"}]
_MINE: Json = [{"field": "claimedBy", "operator": "equals", "value": HOLDER}]


def claim_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """Claims of 100 and of 1: the store, and the step type, against the statement by hand."""
    for make in server.each():
        with make() as database, closing(database.by_hand()) as hand:
            for limit, times in ((100, sizes.claims_of_100), (1, sizes.claims_of_1)):
                yield from with_call(
                    database.engine, partial(_claims, database, hand, limit=limit, times=times, rounds=sizes.rounds)
                )


def _claims(database: Database, hand: ByHand, call: StepCall, *, limit: int, times: int, rounds: int) -> list[Line]:
    """Every way has a table of its own, with as many rows as all its rounds take."""
    data, body = database.engine.data, database.engine.registry["data-store.atomic-claim"].body
    where, order = parse_where(_PENDING), parse_order(_OLDEST)
    tables = {name: f"{name}-{limit}" for name in (STORE, STEP, BY_HAND)}
    for table in tables.values():
        database.fill(table, limit * times * (rounds + 1))
    given: JsonObject = {"tableName": tables[STEP], "where": _PENDING, "orderBy": _OLDEST, "limit": limit}

    def by_store() -> int:
        return len(data.claim(tables[STORE], where, order, limit=limit, holder=HOLDER, changes=()))

    def by_step() -> int:
        return _count(body(call, given), "count")

    def by_hand() -> int:
        return len(hand.claim(tables[BY_HAND], limit, HOLDER))

    def way(name: str, claim: Callable[[], int]) -> Way:
        return Way(name, lambda: _check(sum(claim() for _ in range(times)), limit * times))

    return compare(
        f"claim of {limit}",
        database.store,
        [way(STORE, by_store), way(STEP, by_step)],
        [way(BY_HAND, by_hand)],
        operations=times,
        rounds=rounds,
    )


def history_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """Claims of 10 among 1,000 pending rows, with many finished ones beside them against none."""
    for make in server.each():
        with ExitStack() as stack:
            ways = []
            for done in (sizes.history, 0):
                database = stack.enter_context(make())
                if done:
                    database.fill("queue", done, "done")
                database.fill("queue", 1_000)
                ways.append(_claims_of_10(database, f"{done:,} done rows"))
            yield from compare(
                "claim of 10",
                database.store,
                ways[:1],
                ways[1:],
                operations=_CLAIMS_OF_10,
                rounds=sizes.rounds,
                wanted=0.5,
            )


def _claims_of_10(database: Database, name: str) -> Way:
    data, where, order = database.engine.data, parse_where(_PENDING), parse_order(_OLDEST)

    def claim() -> None:
        claims = (data.claim("queue", where, order, limit=10, holder=HOLDER, changes=()) for _ in range(_CLAIMS_OF_10))
        _check(sum(map(len, claims)), 10 * _CLAIMS_OF_10)

    return Way(name, claim, lambda: database.reopen("queue", "in_flight", "pending"))


def update_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """Guarded updates one by one: the store, and the step type, against the statement by hand."""
    for make in server.each():
        with make() as database, closing(database.by_hand()) as hand:
            yield from with_call(
                database.engine, partial(_updates, database, hand, times=sizes.updates, rounds=sizes.rounds)
            )


def _updates(database: Database, hand: ByHand, call: StepCall, *, times: int, rounds: int) -> list[Line]:
    data, body = database.engine.data, database.engine.registry["data-store.atomic-update"].body
    where, changes = parse_where(_MINE), parse_changes(_DONE)
    keys = [f"in_flight-{number}" for number in range(1, times + 1)]
    for table in (STORE, STEP, BY_HAND):
        database.fill(table, times, "in_flight", HOLDER)

    def by_store(key: str) -> int:
        return data.update(STORE, key, where, changes).updated

    def by_step(key: str) -> int:
        return _count(body(call, {"tableName": STEP, "key": key, "where": _MINE, "set": _DONE}), "updated")

    def by_hand(key: str) -> int:
        return hand.finish(BY_HAND, key, HOLDER)

    def way(name: str, update: Callable[[str], int]) -> Way:
        return Way(
            name, lambda: _check(sum(map(update, keys)), times), lambda: database.reopen(name, "done", "in_flight")
        )

    return compare(
        "guarded update",
        database.store,
        [way(STORE, by_store), way(STEP, by_step)],
        [way(BY_HAND, by_hand)],
        operations=times,
        rounds=rounds,
    )


def _count(output: JsonObject | Outcome, key: str) -> int:
    """A number, or a boolean as one, of a step's output."""
    held = output.get(key) if isinstance(output, Mapping) else None
    return held if isinstance(held, int) else 0


def _check(rows: int, wanted: int) -> None:
    if rows != wanted:
        raise AssertionError(f"{rows} rows, {wanted} are wanted")
