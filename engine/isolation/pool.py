"""The processes of isolated steps: each is started for a call, and kept for later ones, never for two at a time.

What a body asks of its ``StepCall`` is done here, in the thread of the step. One thread watches all calls: it tells a
process that its call is cancelled, or that its time is over, and a second later ends it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flo.engine.clock import SystemClock
from flo.engine.errors import FloError, RunCancelled, StepFailed
from flo.engine.isolation.child import Child, ChildGone
from flo.engine.isolation.frames import IMPORTING, Answer, Ask, Ended, Work, packed, packed_error, said, unpacked
from flo.engine.isolation.output import Output
from flo.engine.step import Outcome, StepCall, StepType, Suspended
from flo.engine.values import JsonObject

GRACE_SECONDS: Final = 1.0
"""How long a body that was told to stop may take to do so, of real time."""

MAX_IDLE: Final = 4
"""So many processes are kept for later calls."""

IDLE_SECONDS: Final = 60.0
"""A process that nobody needs for so long is ended."""

_TICK_SECONDS: Final = 0.05
"""How often it is looked at whether a call is cancelled: an event cannot be waited for together with a socket."""

_FIELDS: Final = ("step_id", "path", "execution_id", "attempt", "idempotency_key")

DIED: Final = "process_died"
"""The code of a failure by which a process ended that nobody had told to."""


@dataclass(slots=True)
class _Busy:
    """A call under way. ``told_at`` is when its process was told to stop, on the machine's monotonic clock."""

    child: Child
    call: StepCall
    told_at: float | None = None

    def watch(self, now: float) -> None:
        """Tell the process to stop if it shall, and end it if it did not."""
        if self.told_at is not None:
            if now >= self.told_at + GRACE_SECONDS:
                self.child.kill()
        elif self.call.cancelled.is_set() or self.is_late():
            self.told_at = now
            self.child.tell()

    def is_late(self) -> bool:
        """Whether its time is over."""
        deadline = self.call.deadline
        return deadline is not None and self.call.clock.monotonic() >= deadline


class Pool:
    """Runs bodies of step types. ``source`` gives where a process can import one from, by its name. Safe to use from
    many threads."""

    def __init__(self, source: Callable[[str], str]) -> None:
        self._source = source
        self._idle: list[tuple[float, Child]] = []
        """With when each became idle, the longest idle first."""
        self._busy: list[_Busy] = []
        self._closed = False
        self._watcher: threading.Thread | None = None
        self._changed = threading.Condition()

    def run(self, step_type: StepType, call: StepCall, input: JsonObject) -> JsonObject | Outcome:
        """As ``IsolatedSteps.run``."""
        work = _work(step_type, call, input)
        busy = _Busy(self._child(self._source(step_type.name)), call)
        reusable = False
        try:
            self._watch_over(busy)
            output = busy.child.output(call.log)
            busy.child.send(work)
            ended = _serve(busy, output)
            reusable = ended.clean
        except ChildGone as gone:
            how = busy.child.last_words(gone)
            output.finish()
            raise self._failure(busy, how) from None
        finally:
            self._release(busy, reusable)
        try:
            return _given(ended, call)
        except RunCancelled as cancelled:
            if call.cancelled.is_set() or not busy.is_late():
                raise
            raise StepFailed("over its timeout; it gave way", code="timeout") from cancelled

    def close(self) -> None:
        """As ``IsolatedSteps.close``; ends the thread that watches them too."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = [held.child for held in self._busy]
            for child in busy:
                child.kill()
            self._changed.notify_all()
        for child in busy:  # their descriptors are for the threads of their calls to close
            child.end()
        for _, child in idle:
            child.close()
        if self._watcher is not None:
            self._watcher.join()

    def _child(self, source: str) -> Child:
        """A process that nobody else has: one that is kept, or a new one."""
        while True:
            with self._changed:
                fitting = [entry for entry in self._idle if entry[1].source == source]
                if not fitting:
                    break
                self._idle.remove(fitting[-1])
            child = fitting[-1][1]
            if not child.is_spent():
                return child
            child.close()
        if IMPORTING in os.environ:
            message = "started while its own module is imported; guard that code with `if __name__ == '__main__'`"
            raise StepFailed(message, code="not_supported", retryable=False)
        try:
            return Child(source)
        except OSError as error:
            raise StepFailed(f"its process could not be started: {error}", code=DIED) from error

    def _watch_over(self, busy: _Busy) -> None:
        with self._changed:
            if self._closed:
                raise RunCancelled("the engine was closed")
            self._busy.append(busy)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="flo-isolated-steps", daemon=True)
                self._watcher.start()
            self._changed.notify()

    def _release(self, busy: _Busy, reusable: bool) -> None:
        """Keep the process of a call that has ended, or end it."""
        over = [busy.child]
        with self._changed:
            if busy in self._busy:
                self._busy.remove(busy)
            if reusable and not self._closed and not busy.child.is_spent():
                self._idle.append((time.monotonic(), busy.child))
                over = [child for _, child in self._idle[:-MAX_IDLE]]
                del self._idle[:-MAX_IDLE]
                self._changed.notify()
        for child in over:
            child.close()

    def _watch(self) -> None:
        """Watch calls, and end processes that nobody needs, until the engine is closed."""
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                for busy in self._busy:
                    busy.watch(now)
                over = [entry for entry in self._idle if now - entry[0] >= IDLE_SECONDS]
                self._idle = [entry for entry in self._idle if entry not in over]
                if not over:
                    self._changed.wait(self._pause(now))
            for _, child in over:
                child.close()

    def _pause(self, now: float) -> float | None:
        if self._busy:
            return _TICK_SECONDS
        return self._idle[0][0] + IDLE_SECONDS - now if self._idle else None

    def _failure(self, busy: _Busy, how: str) -> FloError:
        """Why a call has no result whose process is gone."""
        if self._closed:
            return RunCancelled("the engine was closed")
        if busy.told_at is None:
            return StepFailed(f"its process {how}", code=DIED)
        if busy.call.cancelled.is_set():
            return RunCancelled("cancelled")
        return StepFailed("over its timeout; its process was ended", code="timeout")


def _work(step_type: StepType, call: StepCall, input: JsonObject) -> Work:
    try:
        content = packed(input)
    except FloError:  # what lies in the store could not be read
        raise
    except Exception as error:
        message = f"the input cannot be given to the step's process: {said(error)}"
        raise StepFailed(message, code="invalid_input", retryable=False) from error
    fields = {name: getattr(call, name) for name in _FIELDS}
    return Work(step_type.name, fields, call.deadline, type(call.clock) is SystemClock, content)


def _serve(busy: _Busy, output: Output) -> Ended:
    """Do what the body asks for until it has ended. Raises ``ChildGone``."""
    while True:
        for message in busy.child.receive(output):
            match message:
                case Ask():
                    _answer(busy, message)
                case Ended():
                    output.finish()
                    return message
                case _:
                    raise ChildGone("sent what is no message")


def _answer(busy: _Busy, ask: Ask) -> None:
    """Do one thing that the body asks for, and tell what it gave."""
    try:
        answer = Answer(ask.number, packed(_asked(busy.call, ask)), raised=False)
        busy.child.send(answer)
    except (Exception, Suspended) as error:
        busy.child.send(Answer(ask.number, _packed_error(error), raised=True))


def _asked(call: StepCall, ask: Ask) -> Any:
    arguments, named = unpacked(ask.arguments)
    if (ask.target, ask.method) == ("clock", "wait"):
        with_cancelled, seconds = arguments
        return (
            call.clock.wait(call.cancelled, seconds) and with_cancelled
        )  # the call is over then, whatever it waits for
    return getattr(getattr(call, ask.target), ask.method)(*arguments, **named)


def _packed_error(error: BaseException) -> bytes:
    try:
        return packed_error(error)
    except Exception:  # it holds what cannot be pickled
        return packed_error(StepFailed(said(error), code="step_error"))


def _given(ended: Ended, call: StepCall) -> JsonObject | Outcome:
    """What the body gave. Raises what it raised."""
    if ended.trace:
        call.log("debug", ended.trace)
    try:
        given = unpacked(ended.payload)
    except Exception as error:
        message = f"what the step gave cannot be read outside of its process: {said(error)}"
        raise StepFailed(message, code="invalid_output", retryable=False) from error
    if ended.raised:
        raise given
    result: JsonObject | Outcome = given
    return result
