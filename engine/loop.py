"""Loops: iterations with a scope of their own each, a bound on how many run at once, and results in input order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from queue import SimpleQueue

from flo.engine.attempt import ChildFailed
from flo.engine.errors import FloError, RunCancelled
from flo.engine.events import LoopAdvanced
from flo.engine.executions import StepRecord, StepState
from flo.engine.language.scope import Missing, Scope
from flo.engine.outputs import outputs_inside
from flo.engine.results import Results
from flo.engine.run import Frame
from flo.engine.sharing import MOST, MOST_ABREAST, NOT_MADE, Item, Shared, share
from flo.engine.step import Loop, RunReturned, Suspended
from flo.engine.threads import run_beside
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
    shares: bool,
) -> Loop:
    """Run ``run_iteration`` once for each item, at most ``concurrency`` at a moment; more are never taken from
    ``items``. Where it ``shares``, iterations run in one thread, up to ``MOST`` of them in one transaction.

    After a failure nothing new starts unless ``tolerate``; what runs is waited for, then the failure of the lowest
    index is raised. A cancelled or returning run ends the loop likewise. An iteration that waits keeps its place among
    those that run: once all that run wait, the loop is suspended.
    """
    loop = _Iterations(frame, path, step_type, items, run_iteration, results, tolerate, before)
    workers = concurrency if loop.total is None else min(concurrency, loop.total)
    if shares and before is None and loop.total is not None:  # a lazy source may depend on what iterations do
        loop.share(frame, workers)
    elif workers <= 1:
        loop.work(frame)
    else:
        _abreast(frame, loop.work, workers)
    return loop.ended()


def _abreast(frame: Frame, work: Callable[[Frame], None], workers: int) -> None:
    """Have several threads work, each in a strand of its own."""
    frames = [frame.beside() for _ in range(workers)]
    ended: SimpleQueue[None] = SimpleQueue()

    def body(beside: Frame) -> None:
        try:
            work(beside)
        finally:
            ended.put(None)

    for at, beside in enumerate(frames):
        run_beside(f"flo-loop-{at}", partial(body, beside))
    for _ in frames:
        ended.get()
    for beside in frames:
        frame.strand.join(beside.strand)


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
        self._put_back: deque[Item] = deque()
        self._plan: list[int] = []
        """Of iterations that share: how many to run next, the last number first; then as many as may."""
        self._losses = 0
        """How many bets were lost since one on as many as may share was won."""
        self._run_iteration, self._results = run_iteration, results
        self._tolerate, self._before = tolerate, before
        self._width = 1
        """So many of those that share are under way at a time."""
        self._parent = enclosing(frame.scope)
        self._counts = dict.fromkeys((StepState.SUCCESS, StepState.FAILED, StepState.SKIPPED), 0)
        self._stopped: dict[int, BaseException] = {}
        self._waiting: list[Suspended] = []
        self._taking = threading.Lock()
        self._history = None if frame.history is None else frame.history.loop(path)

    def work(self, frame: Frame) -> None:
        """Take items and run their iterations until there are none, or the loop stops."""
        while (taken := self._take()) is not None:
            if not self._try(frame, [taken]):
                return

    def share(self, frame: Frame, width: int) -> None:
        """As ``work``, but with many iterations in one transaction: as many as go well, up to ``width`` at a time."""
        self._width = min(width, MOST_ABREAST)
        while True:
            planned = self._plan.pop() if self._plan else None
            taken = list(islice(iter(self._take, None), planned or MOST))
            if not taken or not self._try(frame, taken, planned):
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

    def _take(self) -> Item | None:
        with self._taking:
            if self._stopped:
                return None
            try:
                self._frame.cancellation.check()
                if self._put_back:
                    return self._put_back.popleft()
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

    def _try(self, frame: Frame, taken: Sequence[Item], planned: int | None = None) -> bool:
        """Run the first of some iterations, or several in one transaction, and put the others back. Where one did not
        go well, those before it are to share next, and it is to run by itself then; after each loss in a row more of
        them do. ``planned`` is how many were to be taken, None for as many as may. False where who ran them is to take
        nothing more."""
        try:
            shared = self._share(frame, taken)
            ended = len(shared.records)
            if shared.late:
                self._width = max(self._width // 2, 1)
            if ended and planned is None:
                self._losses = 0
            elif shared.made and not ended:
                self._losses += 1
                self._plan += [1] * min(2**self._losses - 2, MOST)
            if shared.well:
                self._plan += [1, shared.well]
            elif not ended:
                self._iterate(replace(frame, wary=shared.made or planned == 1), *taken[0])
                ended = 1
            self._put_back.extendleft(reversed(taken[ended:]))
            return True
        except Suspended as waits:
            with self._taking:
                self._waiting.append(waits)
        except BaseException as error:
            with self._taking:
                self._stopped[taken[0][0]] = error
        return False

    def _share(self, frame: Frame, taken: Sequence[Item]) -> Shared:
        """Run iterations in one transaction."""
        if len(taken) == 1 or any(self._begun_before(index) for index, _ in taken):
            return NOT_MADE
        shared = share(frame, taken, lambda inside, held: self._iterate_within(inside, *held), self._width)
        for record in shared.records:
            assert record.index is not None
            self._results.add(record.index, record)
            self._counts[record.state] += 1
        if shared.records and frame.run.bus.heard:
            frame.run.bus.announce(LoopAdvanced(self._path, sum(self._counts.values()), self.total))
        return shared

    def _iterate_within(self, frame: Frame, index: int, item: Json) -> StepRecord:
        """Run an iteration in a transaction that others share. Raises where something is not as it should be."""
        begun = frame.run.clock.now(), frame.run.clock.monotonic()
        inside = self._inside(frame, index, item)
        state = StepState.SUCCESS if self._run_iteration(inside) else StepState.SKIPPED
        record = self._record(inside, index, state, None, begun)
        inside.ended_step(record)
        return record

    def _inside(self, frame: Frame, index: int, item: Json) -> Frame:
        """Where the steps of an iteration run."""
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
        return Frame(frame.run, scope, frame.cancellation, frame.strand, history, prefix, frame.bet, frame.wary)

    def _iterate(self, frame: Frame, index: int, item: Json) -> None:
        begun = frame.run.clock.now(), frame.run.clock.monotonic()
        inside = self._inside(frame, index, item)
        failure: ChildFailed | None = None
        try:
            state = StepState.SUCCESS if self._run_iteration(inside) else StepState.SKIPPED
        except ChildFailed as error:
            failure, state = error, StepState.FAILED
            if self._tolerate:  # before the record, which implies it
                frame.tolerate()
        except RunReturned:
            self._keep(inside, self._record(inside, index, StepState.SUCCESS, None, begun), returned=True)
            raise
        except RunCancelled:
            self._keep(inside, self._record(inside, index, StepState.CANCELLED, None, begun))
            raise
        self._keep(inside, self._record(inside, index, state, failure, begun))
        with self._taking:
            self._counts[state] += 1
            done = sum(self._counts.values())
        if frame.run.bus.heard:
            frame.run.bus.announce(LoopAdvanced(self._path, done, self.total))
        if failure is not None and not self._tolerate:
            raise failure

    def _record(
        self,
        inside: Frame,
        index: int,
        state: StepState,
        failure: ChildFailed | None,
        begun: tuple[datetime, float],
    ) -> StepRecord:
        """How an iteration ended that has ``begun`` then, by the calendar and by the monotonic clock."""
        run = inside.run
        output, text = outputs_inside(inside)
        return StepRecord(
            execution_id=run.execution.id,
            path=f"{self._path}[{index}]",
            step_id=self._path.rpartition(".")[2],
            step_type=self._step_type,
            state=state,
            started_at=begun[0],
            duration_ms=(run.clock.monotonic() - begun[1]) * 1000,
            output=output,
            error=None if failure is None else failure.failure.as_json(),
            loop=self._path,
            index=index,
            execution_attempt=run.execution.attempt,
            output_text=text,
        )

    def _keep(self, inside: Frame, record: StepRecord, *, returned: bool = False) -> None:
        """Keep the result of an iteration, and record it."""
        assert record.index is not None
        self._results.add(record.index, record)
        inside.ended_step(record, returned=returned)


def enclosing(scope: Scope) -> Json:
    """``$parent`` of a loop's iterations: the iteration around, null outside any."""
    item = scope.root("$item")
    if isinstance(item, Missing):
        return None
    names = {"item": "$item", "index": "$index", "isFirst": "$isFirst", "isLast": "$isLast", "parent": "$parent"}
    return {key: scope.root(name) for key, name in names.items()}  # type: ignore[misc]  # all four are there
