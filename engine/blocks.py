"""A list of steps: one after the other, or as a graph of those that wait for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue

from flo.engine.attempt import ChildFailed, End
from flo.engine.executions import StepState
from flo.engine.language.workflow import Block, Step
from flo.engine.run import Frame
from flo.engine.sharing import share_steps
from flo.engine.step import Suspended
from flo.engine.threads import run_beside

GRAPH_THREADS = 16
"""So many steps of one graph run at a moment, where nothing narrower is asked for."""

RunStep = Callable[[Frame, Step], End]
SkipStep = Callable[[Frame, Step], None]


def run_block(frame: Frame, block: Block, run_step: RunStep, skip_step: SkipStep) -> None:
    """Run a list to its end. Raises ``ChildFailed`` for the first failure that was not tolerated."""
    if not block.plain:
        run_graph(frame, block.steps, block.needs, run_step, skip_step, GRAPH_THREADS)
        return
    steps, at, skipping = block.steps, 0, False
    bets = frame.bet is None and not (frame.wary or frame.run.again)
    while at < len(steps):
        if bets and not skipping and (many := block.together[at]):
            shared = share_steps(frame, steps[at : at + many], run_step)
            bets = shared > 0
            at += shared
            continue
        step = steps[at]
        at += 1
        if skipping:
            skip_step(frame, step)
        elif (end := run_step(frame, step)).state is StepState.FAILED:
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

    After a failure that halts nothing new starts; what runs is waited for, then the failure is raised. A step that
    waits lets the others go on as far as they do not need it; then the list is suspended.
    """
    waiting = dict(enumerate(steps))
    ended: set[int] = set()
    skipped: set[int] = set()
    running = 0
    halted: BaseException | None = None
    suspended: list[Suspended] = []
    results: SimpleQueue[tuple[int, Frame, End | BaseException]] = SimpleQueue()
    while running or (waiting and halted is None):
        ready = [] if halted else [at for at in waiting if ended.issuperset(needs[at])]
        if not ready and not running:  # all that is left needs a step that waits
            break
        for at in ready[: concurrency - running]:
            step = waiting.pop(at)
            if skipped.intersection(needs[at]):
                skip_step(frame, step)
                skipped.add(at)
                ended.add(at)
            else:
                _start(frame.beside(), step, at, run_step, results)
                running += 1
        if not running:
            continue
        at, beside, end = results.get()
        running -= 1
        frame.strand.join(beside.strand)
        if isinstance(end, Suspended):
            suspended.append(end)
            continue
        ended.add(at)
        try:
            if isinstance(end, BaseException):
                raise end
            if end.state is StepState.FAILED and _tolerated(frame, steps[at], end) == "skip":
                skipped.add(at)
        except BaseException as error:  # raised again once what runs has ended
            halted = halted or error
    if halted is not None:
        raise halted
    if suspended:
        raise Suspended.first(suspended)


def _start(
    frame: Frame, step: Step, at: int, run_step: RunStep, results: SimpleQueue[tuple[int, Frame, End | BaseException]]
) -> None:
    """Run a step in another thread."""

    def body() -> None:
        try:
            results.put((at, frame, run_step(frame, step)))
        except BaseException as error:  # raised again in the thread of the list
            results.put((at, frame, error))

    run_beside(f"flo-step-{step.id}", body)


def _tolerated(frame: Frame, step: Step, end: End) -> str:
    """Raise a failure that halts; else note that it was tolerated and say whether dependents are skipped."""
    if step.on_failure == "halt" and frame.run.workflow.options.stop_on_error:
        raise ChildFailed(end)
    frame.tolerate()
    return step.on_failure
