"""What the engine announces: frozen records and a bus. Others word them, count them, show them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flo.engine.executions import Execution, LogLine, StepRecord
from flo.engine.frozen import frozen
from flo.engine.jobs import Wait
from flo.engine.triggers import Firing, Trigger


@frozen
class ExecutionStarted:
    """An execution began to run."""

    execution: Execution


@frozen
class ExecutionEnded:
    """An execution reached a final state. ``execution`` has its state, output and error; ``finished_at`` is the store's
    to know."""

    execution: Execution
    duration_ms: float


@frozen
class ClaimEnded:
    """A worker's claim on an execution ended. ``execution`` is as it then stands: final, ``retrying``, ``suspended``,
    or ``pending``, given back. Where the claim was ``lost`` it is as the worker got it."""

    execution: Execution
    duration_ms: float
    lost: bool = False


@frozen
class StepStarted:
    """A step is about to run. ``path`` as in ``StepRecord``. It is announced again where what it did is undone, because
    of a step that shared its transaction."""

    path: str
    step_id: str
    step_type: str


@frozen
class StepEnded:
    """A step, or an iteration of a loop, ended."""

    record: StepRecord


@frozen
class StepRetried:
    """An attempt failed and another one follows after ``delay_seconds``."""

    path: str
    attempt: int
    delay_seconds: float
    message: str


@frozen
class LoopAdvanced:
    """A loop has ``done`` of ``total`` iterations behind it (``total`` None: not known)."""

    path: str
    done: int
    total: int | None


@frozen
class LineLogged:
    """A line was written to the execution's log."""

    line: LogLine


@frozen
class ExecutionWaits:
    """An execution that this process runs is suspended: ``waits`` are those of it that have no answer yet."""

    execution_id: str
    waits: Sequence[Wait]


@frozen
class TriggerFired:
    """A scheduler dealt with a slot of a trigger: ``firing`` says how."""

    trigger: Trigger
    firing: Firing


Event = (
    ExecutionStarted
    | ExecutionEnded
    | ExecutionWaits
    | ClaimEnded
    | StepStarted
    | StepEnded
    | StepRetried
    | LoopAdvanced
    | LineLogged
    | TriggerFired
)
Listener = Callable[[Event], None]


class Bus:
    """Hands every event to every listener, in the announcing thread. Listeners must not raise, and must be quick."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)
        self.heard = bool(listeners)
        """Whether anybody listens: what is announced often is not made for nobody."""
        self._held: dict[int, list[Event]] = {}
        """By thread: what it announces while that is held back."""

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)
        self.heard = True

    @contextmanager
    def held(self) -> Iterator[list[Event]]:
        """Hold back what this thread announces inside, for whoever announces it once it is known to stand. Only that a
        step is about to run is told at once."""
        thread = threading.get_ident()
        events = self._held[thread] = []
        try:
            yield events
        finally:
            del self._held[thread]

    def announce(self, event: Event) -> None:
        held = self._held.get(threading.get_ident()) if self._held else None
        if held is not None and not isinstance(event, StepStarted):
            held.append(event)
            return
        for listener in self._listeners:
            listener(event)
