"""Jobs of a queue against the least SQL by hand, going on after a kill, and claims beside a prune."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from typing import Any, Final

from benchmarks.databases import Database, Server
from benchmarks.measuring import Line, Way, compare
from benchmarks.queue_floors import HANDLER, JobsByHand, jobs_by_hand
from benchmarks.sizes import Sizes
from flo.engine.app import Flo
from flo.engine.events import Event, LoopAdvanced
from flo.engine.jobs import LEASE, Ended, ExecutionState
from flo.engine.registry import Registry
from flo.engine.step import StepCall, step_type
from flo.engine.values import Json, JsonObject

BATCH: Final = 1_000
CONCURRENCY: Final = 8

_RECORDS: Final = ("executions", "execution_steps", "execution_lines")
_CLEAR: Final = {
    "SQLite": tuple(f"DELETE FROM {table}" for table in _RECORDS),
    "PostgreSQL": (f"TRUNCATE {', '.join(f'flo.{table}' for table in _RECORDS)}", "VACUUM (ANALYZE) flo.executions"),
}
_OLD: Final = {
    "SQLite": (
        """
        INSERT INTO executions (id, digest, input, state, output, handler, queue, run_at, created_at, started_at,
                                finished_at, root_id)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
        SELECT 'old-' || n, 'none', :input, 'success', '{}', 'benchmark.nothing', 'old', :at, :at, :at, :at, 'old-' || n
        FROM numbers
        """,
        """
        INSERT INTO execution_steps (execution_id, path, step_id, step_type, state, started_at, duration_ms, output)
        SELECT id, 'job', 'job', 'benchmark.nothing', 'success', created_at, 1, '{}' FROM executions
        WHERE queue = 'old'
        """,
    ),
    "PostgreSQL": (
        """
        INSERT INTO flo.executions (id, digest, input, state, output, handler, queue, run_at, created_at, started_at,
                                    finished_at, root_id)
        SELECT 'old-' || n, 'none', %(input)s::json, 'success', '{}', 'benchmark.nothing', 'old', %(at)s::timestamptz,
               %(at)s::timestamptz, %(at)s::timestamptz, %(at)s::timestamptz, 'old-' || n
        FROM generate_series(1, %(count)s) AS n
        """,
        """
        INSERT INTO flo.execution_steps (execution_id, path, step_id, step_type, state, started_at, duration_ms, output)
        SELECT id, 'job', 'job', 'benchmark.nothing', 'success', created_at, 1, '{}' FROM flo.executions
        WHERE queue = 'old'
        """,
    ),
}

_NO_VALUES: Final[Mapping[str, Any]] = {}

_LOOP: Final[JsonObject] = {
    "steps": [
        {
            "stepId": "each",
            "stepType": "core.for-each",
            "input": {
                "items": "<< initial.items >>",
                "steps": [
                    {"stepId": "look", "stepType": "core.if", "input": {"condition": "<< $item >= 0 >>"}},
                    {"stepId": "weigh", "stepType": "core.if", "input": {"condition": "<< look.conditionResult >>"}},
                    {
                        "stepId": "write",
                        "stepType": "data-store.set",
                        "input": {"tableName": "items", "key": "item-<< $index >>", "value": "<< $item >>"},
                    },
                ],
            },
        }
    ]
}


@step_type(HANDLER, schema={"type": "object"}, output={"type": "object"}, example={}, touches=False)
def nothing(call: StepCall, input: JsonObject) -> JsonObject:
    """Do nothing."""
    return {}


def queue_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """Enqueue, claim and conclude, and the time from one to the other."""
    for make in server.each():
        with make() as database, closing(jobs_by_hand(database.url)) as hand:
            yield from _enqueues(database, hand, sizes)
            for concurrency in (1, CONCURRENCY):
                yield from _jobs(database, concurrency, sizes)
            yield from _latency(database, hand, sizes)


def _enqueues(database: Database, hand: JobsByHand, sizes: Sizes) -> Iterator[Line]:
    """One by one, and in batches; the time is that of one job."""
    engine = _with(database.engine, nothing)
    for name, size, times in (("enqueue", 1, sizes.enqueued), (f"enqueue of {BATCH:,}", BATCH, sizes.batches)):
        inputs: list[JsonObject] = [{"n": number} for number in range(size)]

        def by_engine(inputs: Sequence[JsonObject] = inputs, times: int = times) -> None:
            for _ in range(times):
                engine.enqueue_many(HANDLER, inputs)

        def by_hand(inputs: Sequence[Any] = inputs, times: int = times) -> None:
            for _ in range(times):
                hand.enqueue(inputs)

        clear = partial(_clear, database)
        yield from compare(
            name,
            database.store,
            [Way("engine", by_engine, clear)],
            [Way("by hand", by_hand, clear)],
            operations=size * times,
            rounds=sizes.rounds,
        )


def _jobs(database: Database, concurrency: int, sizes: Sizes) -> Iterator[Line]:
    """One worker until its queue is empty. By hand, on PostgreSQL with as many connections, on SQLite with one: several
    would wait for one another."""
    engine, jobs = _with(database.engine, nothing), sizes.jobs
    inputs: list[Any] = [{"n": number} for number in range(min(jobs, BATCH))]

    def prepare(enqueue: Callable[[Sequence[Any]], object]) -> None:
        _clear(database)
        for _ in range(0, jobs, len(inputs)):
            enqueue(inputs)

    def work() -> None:
        tally = engine.worker(concurrency=concurrency).run(threading.Event(), drain=True)
        _check(tally.counts.get("success", 0), jobs)

    with ExitStack() as stack:
        connections = 1 if database.store == "SQLite" else concurrency
        hands = [stack.enter_context(closing(jobs_by_hand(database.url))) for _ in range(connections)]
        pool = stack.enter_context(ThreadPoolExecutor(connections))
        floor = f"by hand, {connections} connection{'s' if connections > 1 else ''}"
        yield from compare(
            "claim and conclude",
            database.store,
            [Way(f"worker, concurrency {concurrency}", work, lambda: prepare(partial(engine.enqueue_many, HANDLER)))],
            [Way(floor, lambda: _check(sum(pool.map(_drain, hands)), jobs), lambda: prepare(hands[0].enqueue))],
            operations=jobs,
            rounds=sizes.long_rounds,
        )


def _drain(hand: JobsByHand) -> int:
    done = 0
    while (job := hand.claim()) is not None:
        hand.finish(job[0])
        done += 1
    return done


def _latency(database: Database, hand: JobsByHand, sizes: Sizes) -> Iterator[Line]:
    """From the call of ``enqueue`` to the start of the step, with a worker that sleeps; by hand one who knows at once
    that there is something to claim."""
    started = threading.Event()

    @step_type("benchmark.start", schema={"type": "object"}, output={"type": "object"}, example={}, touches=False)
    def start(call: StepCall, input: JsonObject) -> JsonObject:
        """Tell that it has started."""
        started.set()
        return {}

    engine, stop = _with(database.engine, start), threading.Event()

    def work() -> None:
        engine.enqueue("benchmark.start")
        _check(started.wait(30), True)

    def prepare() -> None:
        started.clear()
        time.sleep(0.1)  # the worker has ended the one before, and sleeps

    def by_hand() -> None:
        hand.enqueue([{}])
        _check(hand.claim() is not None, True)

    _clear(database)
    worker = threading.Thread(target=engine.worker().run, args=(stop,))
    worker.start()
    try:
        yield from compare(
            "from enqueue to start",
            database.store,
            [Way("idle worker", work, prepare)],
            [Way("by hand, at once", by_hand)],
            operations=1,
            rounds=sizes.latencies,
        )
    finally:
        stop.set()
        worker.join()


def resume_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """Kill the worker of a long loop half way, and see when the next one has done its first iteration."""
    for make in server.each():
        with make() as database:
            items: list[Json] = list(range(sizes.resumed))
            execution_id = database.engine.enqueue(_LOOP, {"items": items}).execution_id
            at_start = _to_next_iteration(database.engine, execution_id)
            _work_and_die(database, f"item-{sizes.resumed // 2}")
            at_half = _to_next_iteration(database.engine, execution_id)
            yield Line(
                f"go on, loop of {sizes.resumed:,}",
                database.store,
                "at half, after a kill",
                "at its start",
                at_half,
                at_start,
                (at_start / at_half,),
                note="from the claim to the first iteration that ends; wanted: below 5 s",
            )


def _to_next_iteration(engine: Flo, execution_id: str) -> float:
    """Let a worker claim an execution, do one iteration of its loop, and give it back; gives the seconds from its claim
    to the end of the iteration."""
    stop, ended = threading.Event(), []

    def listen(event: Event) -> None:
        if isinstance(event, LoopAdvanced) and not ended:
            ended.append(time.time())
            stop.set()

    heard = _with(engine)
    heard.bus.subscribe(listen)
    heard.worker(concurrency=1, grace_seconds=0.0).run(stop)
    execution = engine.executions.get(execution_id)
    if execution is None or execution.claimed_at is None:
        raise AssertionError("nothing was claimed")
    return ended[0] - execution.claimed_at.timestamp()


def _work_and_die(database: Database, key: str) -> None:
    """Let a worker of another process work until a row is there, and kill it."""
    command = [sys.executable, "-m", "flo.cli", "worker", "--store", database.url, "--lease", "2", "--quiet"]
    worker = subprocess.Popen(command)
    while database.engine.data.get("items", key) is None:
        _check(worker.poll(), None)
        time.sleep(0.05)
    worker.kill()
    worker.wait()


def pruning_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """The longest claim while ``flo prune`` removes very many executions, against the longest without."""
    for make in server.each():
        with make() as database:
            _add_old(database, sizes.pruned)
            beside, seconds = _beside_a_prune(database, sizes.pruned)
            alone = _claims(database.engine, partial(operator.gt, len(beside)))
            yield Line(
                f"longest claim, prune of {sizes.pruned:,}",
                database.store,
                "meanwhile",
                "afterwards",
                max(beside),
                max(alone),
                (max(alone) / max(beside),),
                note=f"of {len(beside):,} claims, median {median(beside) * 1e3:.1f} and {median(alone) * 1e3:.1f} ms;"
                f" pruned in {seconds:.0f} s",
            )


def _add_old(database: Database, count: int) -> None:
    """Add executions that ended long ago, with a record of a step each."""
    executions, steps = _OLD[database.store]
    given = '{"payload": "' + "x" * 500 + '"}'
    database.run(executions, {"count": count, "input": given, "at": "2025-01-01T00:00:00.000000Z"})
    database.run(steps, _NO_VALUES)


def _beside_a_prune(database: Database, count: int) -> tuple[list[float], float]:
    """How long each claim took while another process pruned, and how long that took."""
    command = [sys.executable, "-m", "flo.cli", "prune", "--store", database.url, "--json"]
    begun = time.perf_counter()
    pruning = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    taken = _claims(database.engine, lambda done: pruning.poll() is None)
    seconds = time.perf_counter() - begun
    _check(json.loads(pruning.communicate()[0]), {"removed": count})
    return taken, seconds


def _claims(engine: Flo, goes_on: Callable[[int], bool]) -> list[float]:
    """Enqueue, claim and conclude, one at a time; gives how long each claim took."""
    taken: list[float] = []
    queue = engine.store.queue
    while goes_on(len(taken)):
        engine.enqueue("core.log", {"message": "hello"})
        begun = time.perf_counter()
        [delivery] = queue.claim(["default"], worker="benchmark", lease=LEASE, limit=1).deliveries
        taken.append(time.perf_counter() - begun)
        queue.conclude(delivery.hold, Ended(ExecutionState.SUCCESS))
    return taken


def _with(engine: Flo, *more: Any) -> Flo:
    """An engine over the same store that knows more step types."""
    return Flo(engine.store, Registry([*(engine.registry[name] for name in engine.registry), *more]), engine.clock)


def _clear(database: Database) -> None:
    for sql in _CLEAR[database.store]:
        database.run(sql, _NO_VALUES)


def _check(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found} came, {wanted} is wanted")
