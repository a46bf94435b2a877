"""Waiting inside a workflow: short waits in place, long ones by leaving the worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flo.engine.jobs import Wait
from flo.engine.run import Frame
from flo.engine.step import Suspended
from flo.engine.stores.queueing import Owned
from flo.engine.values import JsonObject

IN_PLACE: Final = timedelta(seconds=1)
"""What ends within so long is waited for on the spot: to leave a worker and to come back costs more."""


def wait(frame: Frame, wanted: Wait) -> JsonObject | None:
    """Wait at one step, once in its execution. Gives the answer, None once the time is over; else ``Suspended``.

    What is waited for is registered first, so that a time is kept through every delivery, and an answer that comes
    meanwhile is not lost.
    """

    def register(owned: Owned) -> tuple[Wait, timedelta | None]:
        registered = owned.wait(wanted)
        return registered, None if registered.until is None else registered.until - owned.now()

    registered, left = frame.strand.own(register, exclusive=True)
    if registered.answer is not None:
        return registered.answer
    if left is not None and left <= timedelta():
        return None
    if wanted.kind == "time" and left is not None and left <= IN_PLACE:
        frame.run.clock.wait(frame.cancellation.event, left.total_seconds())
        frame.cancellation.check()
        return None
    raise Suspended(registered.until)
