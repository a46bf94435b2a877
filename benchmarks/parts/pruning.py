"""Claims while another process removes very many executions, and how fast it does."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

from benchmarks import tables
from benchmarks.contestants import child_environment
from benchmarks.databases import POSTGRES, SQLITE
from benchmarks.ground import Ground
from benchmarks.lines import Against, Line, compared
from benchmarks.measuring import Sample, Series
from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Ended

_EXECUTIONS: Final[Mapping[str, Sequence[str]]] = {
    "sqlite": (
        """
        INSERT INTO executions (id, digest, input, state, output, handler, queue, run_at, created_at, started_at,
                                finished_at, root_id)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
        SELECT 'old-' || n, 'none', :input, 'success', '{}', 'benchmark.nothing', 'old', :at, :at, :at, :at, 'old-' || n
        FROM numbers
        """,
    ),
    "postgresql": (
        """
        INSERT INTO flo.executions (id, digest, input, state, output, handler, queue, run_at, created_at, started_at,
                                    finished_at, root_id)
        SELECT 'old-' || n, 'none', %(input)s::json, 'success', '{}', 'benchmark.nothing', 'old', %(at)s::timestamptz,
               %(at)s::timestamptz, %(at)s::timestamptz, %(at)s::timestamptz, 'old-' || n
        FROM generate_series(1, %(count)s) AS n
        """,
    ),
}
_STEPS: Final = """
    INSERT INTO {}execution_steps (execution_id, path, step_id, step_type, state, started_at, duration_ms, output)
    SELECT id, 'job', 'job', 'benchmark.nothing', 'success', created_at, 1, '{{}}' FROM {}executions
    WHERE queue = 'old'
"""
_RECORDS: Final = {"sqlite": (_STEPS.format("", ""),), "postgresql": (_STEPS.format("flo.", "flo."),)}


def pruning_lines(ground: Ground) -> Iterator[Line]:
    """The longest claim while ``flo prune`` removes very many executions, against the longest without."""
    count = ground.sizes.pruned
    for store in (SQLITE, POSTGRES):
        with ground.server.fresh(store) as url, app.open(url) as engine:
            _add_old(url, count)
            beside, seconds = _beside_a_prune(url, engine, count)
            alone = _claims(engine, partial(operator.gt, len(beside)))
        note = (
            f"of {len(beside):,} claims, median {median(beside) * 1e3:.1f} and {median(alone) * 1e3:.1f} ms;"
            f" pruned in {seconds:.0f} s"
        )
        own, other = Series([Sample(max(beside))]), Series([Sample(max(alone))])
        what = f"longest claim while {count:,} executions are pruned"
        yield from compared(what, store, own, [(Against("afterwards"), other)], note=note)


def _add_old(url: str, count: int) -> None:
    """Add executions that ended long ago, with a record of a step each."""
    given = '{"payload": "' + "x" * 500 + '"}'
    tables.run(url, _EXECUTIONS, {"count": count, "input": given, "at": "2025-01-01T00:00:00.000000Z"})
    tables.run(url, _RECORDS)
    tables.settle(url)


def _beside_a_prune(url: str, engine: Flo, count: int) -> tuple[list[float], float]:
    """How long each claim took while another process pruned, and how long that took."""
    command = [sys.executable, "-m", "flo.cli", "prune", "--store", url, "--json"]
    begun = time.perf_counter()
    pruning = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())
    taken = _claims(engine, lambda done: pruning.poll() is None)
    seconds = time.perf_counter() - begun
    if (told := json.loads(pruning.communicate()[0])) != {"removed": count}:
        raise AssertionError(f"the prune told {told}")
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
