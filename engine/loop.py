"""Loops: iterations with a scope of their own each, a bound on how many run at once, and results in input order."""

from __future__ import annotations

import contextvars
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from datetime import datetime
from typing import overload

from flo.engine.errors import FloError, RunCancelled
from flo.engine.events import LoopAdvanced
from flo.engine.executions import StepRecord, StepState
from flo.engine.language.scope import Missing, Scope
from flo.engine.pipeline import ChildFailed
from flo.engine.run import Frame
from flo.engine.step import Loop, RunReturned
from flo.engine.stores.base import ExecutionStore
from flo.engine.values import Json, JsonObject, LazyList, dump

KEPT_CHARACTERS = 256 * 1024
"""Results of a loop up to this size are kept in memory too; larger ones lie in the store alone."""

PAGE = 200

RunIteration = Callable[[Frame], bool]
"""Runs the children in a frame of their own; says whether any of them ran."""


class Results(LazyList):
    """The results of a loop's iterations, in input order: ``{index, status, output, error?}``."""

    def __init__(self, execution_id: str, path: str, store: ExecutionStore, flush: Callable[[], None]) -> None:
        self._execution_id, self._path = execution_id, path
        self._store, self._flush = store, flush
        self._kept: dict[int, str] | None = {}
        self._characters = 0
        self._length = 0
        self._lock = threading.Lock()
        self._page: tuple[int, Sequence[Json]] = (0, ())

    def add(self, index: int, result: JsonObject) -> int:
        """Take the result of one iteration; gives its size as JSON."""
        text = dump(result)
        with self._lock:
            self._length += 1
            self._characters += len(text)
            if self._characters > KEPT_CHARACTERS:
                self._kept = None
            if self._kept is not None:
                self._kept[index] = text
        return len(text)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | Sequence[Json]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self._length))]
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(index)
        if self._kept is not None:
            result: Json = json.loads(self._kept[at])
            return result
        start, page = self._page
        if not start <= at < start + len(page):
            start, page = self._page = self._read(at - at % PAGE)
        return page[at - start]

    def __iter__(self) -> Iterator[Json]:
        for index in range(self._length):
            yield self[index]

    def _read(self, start: int) -> tuple[int, Sequence[Json]]:
        self._flush()
        records = self._store.iterations(self._execution_id, self._path, start=start, limit=PAGE)
        return start, [_result(record) for record in records]


def run_loop(
    frame: Frame,
    path: str,
    step_type: str,
    items: Iterable[Json],
    run_iteration: RunIteration,
    results: Results,
    *,
    concurrency: int,
    tolerate: bool,
    before: Callable[[int], bool] | None,
) -> Loop:
    """Run ``run_iteration`` once for each item, at most ``concurrency`` at a moment; more are never taken from
    ``items``.

    After a failure nothing new starts unless ``tolerate``; what runs is waited for, then the failure of the lowest
    index is raised. A cancelled or returning run ends the loop likewise.
    """
    loop = _Iterations(frame, path, step_type, items, run_iteration, results, tolerate, before)
    workers = min(concurrency, loop.total) if loop.total is not None else concurrency
    if workers <= 1:
        loop.work()
    else:
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(loop.work,), name=f"flo-loop-{at}", daemon=True
            )
            for at in range(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return loop.ended()


class _Iterations:
    """A loop that runs: the items not yet taken, the counts, and why it stops."""

    def __init__(
        self,
        frame: Frame,
        path: str,
        step_type: str,
        items: Iterable[Json],
        run_iteration: RunIteration,
        results: Results,
        tolerate: bool,
        before: Callable[[int], bool] | None,
    ) -> None:
        self.total = len(items) if isinstance(items, Sized) else None
        self._frame, self._path, self._step_type = frame, path, step_type
        self._items = enumerate(iter(items))
        self._run_iteration, self._results = run_iteration, results
        self._tolerate, self._before = tolerate, before
        self._parent = _enclosing(frame.scope)
        self._counts = dict.fromkeys((StepState.SUCCESS, StepState.FAILED, StepState.SKIPPED), 0)
        self._stopped: dict[int, BaseException] = {}
        self._taking = threading.Lock()

    def work(self) -> None:
        """Take items and run their iterations until there are none, or the loop stops."""
        while (taken := self._take()) is not None:
            index, item = taken
            try:
                self._iterate(index, item)
            except BaseException as error:
                with self._taking:
                    self._stopped[index] = error
                return

    def ended(self) -> Loop:
        """Give how the loop ended, or raise why it stopped."""
        if self._stopped:
            raise self._stopped[min(self._stopped)]
        succeeded, failed, skipped = self._counts.values()
        count = succeeded + failed + skipped
        if count != len(self._results) or self.total not in (None, count):
            raise AssertionError(
                f"{self._path}: {count} iterations ended, {len(self._results)} results, {self.total} items"
            )
        return Loop(count, succeeded, failed, skipped, self._results)

    def _take(self) -> tuple[int, Json] | None:
        with self._taking:
            if self._stopped:
                return None
            try:
                self._frame.cancellation.check()
                index, item = next(self._items)
                if self._before is not None and not self._before(index):
                    return None
            except StopIteration:
                return None
            except (FloError, RunCancelled) as error:
                self._stopped[-1] = error
                return None
            return index, item

    def _iterate(self, index: int, item: Json) -> None:
        run = self._frame.run
        started_at, started = run.clock.now(), run.clock.monotonic()
        scope = self._frame.scope.child(
            {
                "$item": item,
                "$index": index,
                "$isFirst": index == 0,
                "$isLast": self.total is not None and index == self.total - 1,
                "$parent": self._parent,
            }
        )
        inside = Frame(run, scope, self._frame.cancellation, f"{self._path}[{index}].")
        failure: ChildFailed | None = None
        try:
            state = StepState.SUCCESS if self._run_iteration(inside) else StepState.SKIPPED
        except ChildFailed as error:
            failure, state = error, StepState.FAILED
        except RunReturned:
            self._record(index, scope, StepState.SUCCESS, None, started_at, started)
            raise
        except RunCancelled:
            self._record(index, scope, StepState.CANCELLED, None, started_at, started)
            raise
        self._record(index, scope, state, failure, started_at, started)
        with self._taking:
            self._counts[state] += 1
            done = sum(self._counts.values())
        run.bus.announce(LoopAdvanced(self._path, done, self.total))
        if failure is not None:
            if not self._tolerate:
                raise failure
            run.tolerate()

    def _record(
        self,
        index: int,
        scope: Scope,
        state: StepState,
        failure: ChildFailed | None,
        started_at: datetime,
        started: float,
    ) -> None:
        """Keep the result of an iteration, and record it."""
        run = self._frame.run
        record = StepRecord(
            execution_id=run.execution.id,
            path=f"{self._path}[{index}]",
            step_id=self._path.rpartition(".")[2],
            step_type=self._step_type,
            state=state,
            started_at=started_at,
            duration_ms=(run.clock.monotonic() - started) * 1000,
            output={name: value for name, value in scope.names.items() if not name.startswith("$")},
            error=None if failure is None else failure.failure.as_json(),
            loop=self._path,
            index=index,
        )
        run.ended_step(record, self._results.add(index, _result(record)))


def _result(record: StepRecord) -> JsonObject:
    result: dict[str, Json] = {"index": record.index, "status": record.state.value, "output": record.output}
    if record.error is not None:
        result["error"] = record.error
    return result


def _enclosing(scope: Scope) -> Json:
    """``$parent`` of a loop's iterations: the iteration around, null outside any."""
    item = scope.root("$item")
    if isinstance(item, Missing):
        return None
    names = {"item": "$item", "index": "$index", "isFirst": "$isFirst", "isLast": "$isLast", "parent": "$parent"}
    return {key: scope.root(name) for key, name in names.items()}  # type: ignore[misc]  # all four are there
