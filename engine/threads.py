"""Threads for work that comes often and mostly ends soon. One that is done waits a moment for more: to start another
one takes as long as a few steps."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

_IDLE_SECONDS: Final = 1.0

_Work = tuple[str, contextvars.Context, Callable[[], object]]

_idle: Final[list[SimpleQueue[_Work]]] = []
"""Where threads wait that have nothing to do. Taken from and added to in one operation of the interpreter."""

if hasattr(os, "register_at_fork"):  # only the thread that forks goes on in the child
    os.register_at_fork(after_in_child=_idle.clear)


def run_beside(name: str, work: Callable[[], object]) -> None:
    """Begin ``work`` in another thread, which is called ``name`` meanwhile, in the context of who asks. It must not
    raise. Where it hangs it keeps neither the process nor other work. Raises ``RuntimeError`` where there are no more
    threads to be had."""
    try:
        given = _idle.pop()
    except IndexError:
        given = SimpleQueue()
        threading.Thread(target=_serve, args=(given,), name=name, daemon=True).start()
    given.put((name, contextvars.copy_context(), work))


def _serve(given: SimpleQueue[_Work]) -> None:
    thread = threading.current_thread()
    while (more := _come(given)) is not None:
        thread.name, context, work = more
        context.run(work)
        del more, context, work  # what they refer to is needed no more
        thread.name = "flo-idle"
        _idle.append(given)


def _come(given: SimpleQueue[_Work]) -> _Work | None:
    """Wait for a piece of work; gives None where none comes."""
    try:
        return given.get(timeout=_IDLE_SECONDS)
    except Empty:
        pass
    try:
        _idle.remove(given)
    except ValueError:  # somebody is about to give it some
        return given.get()
    return None
