"""The work on one delivery, in a thread that can be given up, and who watches it: another thread, or alarms."""

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
from flo.engine.threads import run_beside
from flo.engine.values import Json

TIMEOUT_GRACE_SECONDS: Final = 0.5
"""A run past its timeout is given so long to end by itself; then what still hangs is given up."""

GRACE_SECONDS: Final = 10.0
"""A run that is asked to stop is given so long."""


class Body:
    """The interpreter's work on one delivery. ``raised`` is what it came back with, if not with its ``output``.

    Timeouts go by the machine's own time, so that a clock which is held still cannot keep a hanging run alive.
    """

    def __init__(self, interpreter: Interpreter, frame: Frame) -> None:
        self._interpreter, self._frame = interpreter, frame
        self.done = False
        self.output: Json = None
        self.raised: BaseException | None = None
        self._settling = threading.Lock()
        self._settled = False

    def run(
        self, *, timeout_seconds: float | None, grace_seconds: float, look: Callable[[], float | None] | None = None
    ) -> None:
        """Work in another thread, until that is done or given up.

        ``look`` is called now and then, in the thread that watches; it gives the seconds until it wants to be called
        again.
        """
        cancellation, woken = self._frame.cancellation, threading.Event()
        cancellation.tell(woken.set)

        def work() -> None:
            self._work()
            woken.set()

        run_beside("flo-run", work)
        try:
            self._watch(cancellation, woken, timeout_seconds, look)
        except BaseException:  # an interrupt of the waiting thread: what runs is stopped, and its end recorded
            cancellation.cancel()
            self._give_time(woken, grace_seconds)
            raise
        if not self.done:
            self._give_time(woken, _grace(cancellation, grace_seconds))
        cancellation.hush()

    def run_here(self, *, timeout_seconds: float | None, grace_seconds: float, given_up: Callable[[], None]) -> bool:
        """Work in this thread; gives whether the end of it is the caller's to see to. Where it does not come to its
        end in time, ``given_up`` is called, once and in another thread: then it is not."""
        cancellation = self._frame.cancellation
        alarms: list[threading.Timer] = []

        def give_up() -> None:
            if self._settle():
                given_up()

        def stop_soon() -> None:
            alarms.append(_alarm(_grace(cancellation, grace_seconds), give_up))

        cancellation.tell(stop_soon)
        if timeout_seconds is not None:
            alarms.append(_alarm(timeout_seconds, lambda: cancellation.cancel("timed_out")))
        contextvars.copy_context().run(self._work)
        mine = self._settle()
        cancellation.hush()
        for alarm in alarms:
            alarm.cancel()
        return mine

    def _settle(self) -> bool:
        """Whether this is the first one who sees to the end."""
        with self._settling:
            first, self._settled = not self._settled, True
        return first

    def _watch(
        self,
        cancellation: Cancellation,
        woken: threading.Event,
        timeout_seconds: float | None,
        look: Callable[[], float | None] | None,
    ) -> None:
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.done and not cancellation.event.is_set():
            again = None if look is None else look()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                cancellation.cancel("timed_out")
                return
            waits = [seconds for seconds in (again, left) if seconds is not None]
            woken.wait(min(waits) if waits else None)

    def _give_time(self, woken: threading.Event, seconds: float) -> None:
        """Let what was asked to stop come to its end."""
        deadline = time.monotonic() + seconds
        while not self.done and (left := deadline - time.monotonic()) > 0:
            woken.clear()
            if not self.done:
                woken.wait(left)

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


def _grace(cancellation: Cancellation, seconds: float) -> float:
    """How long a run has that was asked to stop."""
    return TIMEOUT_GRACE_SECONDS if cancellation.reason == "timed_out" else seconds


def _alarm(seconds: float, act: Callable[[], None]) -> threading.Timer:
    """Do something in so many seconds, in a thread that does not keep the process."""
    timer = threading.Timer(max(seconds, 0.0), act)
    timer.daemon = True
    timer.start()
    return timer
