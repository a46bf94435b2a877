"""A list of steps: one after the other, or as a graph of those that wait for others."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from flo.engine.executions import StepState
from flo.engine.language.workflow import Block, Step
from flo.engine.pipeline import ChildFailed, End
from flo.engine.run import Frame

GRAPH_THREADS = 16
"""So many steps of one graph run at a moment, where nothing narrower is asked for."""

RunStep = Callable[[Frame, Step], End]
SkipStep = Callable[[Frame, Step], None]


def run_block(frame: Frame, block: Block, run_step: RunStep, skip_step: SkipStep) -> None:
    """Run a list to its end. Raises ``ChildFailed`` for the first failure that was not tolerated."""
    if not block.plain:
        run_graph(frame, block.steps, block.needs, run_step, skip_step, GRAPH_THREADS)
        return
    skipping = False
    for step in block.steps:
        if skipping:
            skip_step(frame, step)
            continue
        end = run_step(frame, step)
        if end.state is StepState.FAILED:
            skipping = _tolerated(frame, step, end) == "skip"


def run_graph(
    frame: Frame,
    steps: Sequence[Step],
    needs: Sequence[Sequence[int]],
    run_step: RunStep,
    skip_step: SkipStep,
    concurrency: int,
) -> None:
    """Run each step as soon as those it needs have ended, at most ``concurrency`` at a moment.

    After a failure that halts nothing new starts; what runs is waited for, then the failure is raised.
    """
    waiting = dict(enumerate(steps))
    ended: set[int] = set()
    skipped: set[int] = set()
    running: dict[Future[End], int] = {}
    halted: BaseException | None = None
    with ThreadPoolExecutor(min(concurrency, max(1, len(steps))), "flo-graph") as pool:
        while running or (waiting and halted is None):
            ready = [] if halted else [at for at in waiting if ended.issuperset(needs[at])]
            for at in ready[: max(0, concurrency - len(running))]:
                step = waiting.pop(at)
                if skipped.intersection(needs[at]):
                    skip_step(frame, step)
                    skipped.add(at)
                    ended.add(at)
                else:
                    carried = contextvars.copy_context()
                    running[pool.submit(carried.run, run_step, frame, step)] = at
            if not running:
                continue
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                at = running.pop(future)
                ended.add(at)
                try:
                    end = future.result()
                    if end.state is StepState.FAILED and _tolerated(frame, steps[at], end) == "skip":
                        skipped.add(at)
                except BaseException as error:
                    halted = halted or error
    if halted is not None:
        raise halted


def _tolerated(frame: Frame, step: Step, end: End) -> str:
    """Raise a failure that halts; else note that it was tolerated and say whether dependents are skipped."""
    assert end.failure is not None
    if step.on_failure == "halt" and frame.run.workflow.options.stop_on_error:
        raise ChildFailed(end.failure, end.retryable)
    frame.run.tolerate()
    return step.on_failure
