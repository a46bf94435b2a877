"""Loops: iterations with a scope of their own each, a bound on how many run at once, and results in input order."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Sized
from datetime import datetime

from flo.engine.attempt import ChildFailed
from flo.engine.errors import FloError, RunCancelled
from flo.engine.events import LoopAdvanced
from flo.engine.executions import StepRecord, StepState
from flo.engine.language.scope import Missing, Scope
from flo.engine.outputs import outputs_inside
from flo.engine.results import Results
from flo.engine.run import Frame
from flo.engine.step import Loop, RunReturned, Suspended
from flo.engine.values import Json

RunIteration = Callable[[Frame], bool]
"""Runs the children in a frame of their own; says whether any of them ran."""


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
    index is raised. A cancelled or returning run ends the loop likewise. An iteration that waits keeps its place among
    those that run: once all that run wait, the loop is suspended.
    """
    loop = _Iterations(frame, path, step_type, items, run_iteration, results, tolerate, before)
    workers = min(concurrency, loop.total) if loop.total is not None else concurrency
    if workers <= 1:
        loop.work(frame)
        return loop.ended()
    frames = [frame.beside() for _ in range(workers)]
    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(loop.work, beside), name=f"flo-loop-{at}", daemon=True
        )
        for at, beside in enumerate(frames)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for beside in frames:
        frame.strand.join(beside.strand)
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
        self._parent = enclosing(frame.scope)
        self._counts = dict.fromkeys((StepState.SUCCESS, StepState.FAILED, StepState.SKIPPED), 0)
        self._stopped: dict[int, BaseException] = {}
        self._waiting: list[Suspended] = []
        self._taking = threading.Lock()
        self._history = None if frame.history is None else frame.history.loop(path)

    def work(self, frame: Frame) -> None:
        """Take items and run their iterations until there are none, or the loop stops."""
        while (taken := self._take()) is not None:
            index, item = taken
            try:
                self._iterate(frame, index, item)
            except Suspended as waits:
                with self._taking:
                    self._waiting.append(waits)
                return
            except BaseException as error:
                with self._taking:
                    self._stopped[index] = error
                return

    def ended(self) -> Loop:
        """Give how the loop ended, or raise why it stopped."""
        if self._stopped:
            raise self._stopped[min(self._stopped)]
        if self._waiting:
            raise Suspended.first(self._waiting)
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
                while self._ended_before(index):
                    index, item = next(self._items)
                if self._before is not None and not self._begun_before(index) and not self._before(index):
                    return None
            except StopIteration:
                return None
            except (FloError, RunCancelled) as error:
                self._stopped[-1] = error
                return None
            return index, item

    def _ended_before(self, index: int) -> bool:
        """Whether an iteration ended in an earlier delivery; it is counted as it ended."""
        state = None if self._history is None else self._history.ended(index, self._tolerate)
        if state is None:
            return False
        self._counts[state] += 1
        self._results.stored(1)
        return True

    def _begun_before(self, index: int) -> bool:
        """Whether steps of an iteration ended in an earlier delivery: that it may run was decided then."""
        return self._history is not None and index in self._history.begun

    def _iterate(self, frame: Frame, index: int, item: Json) -> None:
        run = frame.run
        started_at, started = run.clock.now(), run.clock.monotonic()
        scope = frame.scope.child(
            {
                "$item": item,
                "$index": index,
                "$isFirst": index == 0,
                "$isLast": self.total is not None and index == self.total - 1,
                "$parent": self._parent,
            }
        )
        prefix = f"{self._path}[{index}]."
        history = None
        if frame.history is not None and self._begun_before(index):
            history = frame.history.inside(prefix)
        inside = Frame(run, scope, frame.cancellation, frame.strand, history, prefix)
        failure: ChildFailed | None = None
        try:
            state = StepState.SUCCESS if self._run_iteration(inside) else StepState.SKIPPED
        except ChildFailed as error:
            failure, state = error, StepState.FAILED
            if self._tolerate:  # before the record, which implies it
                frame.tolerate()
        except RunReturned:
            self._record(inside, index, StepState.SUCCESS, None, started_at, started, returned=True)
            raise
        except RunCancelled:
            self._record(inside, index, StepState.CANCELLED, None, started_at, started)
            raise
        self._record(inside, index, state, failure, started_at, started)
        with self._taking:
            self._counts[state] += 1
            done = sum(self._counts.values())
        if run.bus.heard:
            run.bus.announce(LoopAdvanced(self._path, done, self.total))
        if failure is not None and not self._tolerate:
            raise failure

    def _record(
        self,
        inside: Frame,
        index: int,
        state: StepState,
        failure: ChildFailed | None,
        started_at: datetime,
        started: float,
        *,
        returned: bool = False,
    ) -> None:
        """Keep the result of an iteration, and record it."""
        run = inside.run
        output, text = outputs_inside(inside)
        record = StepRecord(
            execution_id=run.execution.id,
            path=f"{self._path}[{index}]",
            step_id=self._path.rpartition(".")[2],
            step_type=self._step_type,
            state=state,
            started_at=started_at,
            duration_ms=(run.clock.monotonic() - started) * 1000,
            output=output,
            error=None if failure is None else failure.failure.as_json(),
            loop=self._path,
            index=index,
            execution_attempt=run.execution.attempt,
            output_text=text,
        )
        self._results.add(index, record)
        inside.ended_step(record, returned=returned)


def enclosing(scope: Scope) -> Json:
    """``$parent`` of a loop's iterations: the iteration around, null outside any."""
    item = scope.root("$item")
    if isinstance(item, Missing):
        return None
    names = {"item": "$item", "index": "$index", "isFirst": "$isFirst", "isLast": "$isLast", "parent": "$parent"}
    return {key: scope.root(name) for key, name in names.items()}  # type: ignore[misc]  # all four are there
