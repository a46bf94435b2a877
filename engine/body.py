"""The work on one delivery, in a thread that can be given up, and the one who watches it."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Final

from flo.engine.cancellation import Cancellation
from flo.engine.interpreter import Interpreter
from flo.engine.requests import JOB_STEP
from flo.engine.run import Frame
from flo.engine.values import Json

TIMEOUT_GRACE_SECONDS: Final = 0.5
"""A run past its timeout is given so long to end by itself; then what still hangs is given up."""

GRACE_SECONDS: Final = 10.0
"""A run that is asked to stop is given so long."""


class Body:
    """The interpreter's work on one delivery. ``raised`` is what it came back with, if not with its ``output``."""

    def __init__(self, interpreter: Interpreter, frame: Frame) -> None:
        self._interpreter, self._frame = interpreter, frame
        self.done = False
        self.output: Json = None
        self.raised: BaseException | None = None
        self._woken = threading.Event()
        frame.cancellation.tell(self._woken.set)

    def run(
        self, *, timeout_seconds: float | None, grace_seconds: float, look: Callable[[], float | None] | None = None
    ) -> None:
        """Work, until it is done or given up.

        Timeouts go by the machine's own time, so that a clock which is held still cannot keep a hanging run alive.
        ``look`` is called now and then, in the thread that watches; it gives the seconds until it wants to be called
        again.
        """
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._work,), name="flo-run", daemon=True).start()
        cancellation = self._frame.cancellation
        try:
            self._watch(cancellation, timeout_seconds, look)
        except BaseException:  # an interrupt of the waiting thread: what runs is stopped, and its end recorded
            cancellation.cancel()
            self._give_time(grace_seconds)
            raise
        if not self.done:
            self._give_time(TIMEOUT_GRACE_SECONDS if cancellation.reason == "timed_out" else grace_seconds)

    def _watch(
        self, cancellation: Cancellation, timeout_seconds: float | None, look: Callable[[], float | None] | None
    ) -> None:
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.done and not cancellation.event.is_set():
            again = None if look is None else look()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                cancellation.cancel("timed_out")
                return
            waits = [seconds for seconds in (again, left) if seconds is not None]
            self._woken.wait(min(waits) if waits else None)

    def _give_time(self, seconds: float) -> None:
        """Let what was asked to stop come to its end."""
        deadline = time.monotonic() + seconds
        while not self.done and (left := deadline - time.monotonic()) > 0:
            self._woken.clear()
            if not self.done:
                self._woken.wait(left)

    def _work(self) -> None:
        try:
            output: Json = self._interpreter.run(self._frame)
            if self._frame.run.execution.handler is not None:
                output = self._frame.scope.names.get(JOB_STEP)
            self.output = output
        except BaseException as error:  # the one who watches gives the verdict
            self.raised = error
        finally:
            self.done = True
            self._woken.set()
