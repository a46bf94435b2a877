"""Threads for short work: one that is done takes the next piece, and one that hangs keeps nobody."""

from __future__ import annotations

import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

import pytest

from flo.engine import threads
from flo.engine.threads import run_beside

T = TypeVar("T")

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread of another test waits for work."""
    monkeypatch.setattr(threads, "_idle", [])


def beside(work: Callable[[], T], name: str = "flo-test") -> T:
    """What work gives in another thread, once that waits for more."""
    given: SimpleQueue[T] = SimpleQueue()
    run_beside(name, lambda: given.put(work()))
    result = given.get(timeout=30)
    while not threads._idle:
        os.sched_yield()
    return result


def test_one_thread_does_one_piece_after_the_other_under_the_name_of_each() -> None:
    names = [beside(lambda: threading.current_thread().name, f"flo-{at}") for at in range(3)]
    idents = {beside(threading.get_ident) for _ in range(3)}
    assert names == ["flo-0", "flo-1", "flo-2"]
    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_pieces_that_come_at_once_run_at_once() -> None:
    all_here = threading.Barrier(5, timeout=30)
    for _ in range(4):
        run_beside("flo-test", all_here.wait)
    all_here.wait()


def test_one_that_hangs_keeps_nobody() -> None:
    go = threading.Event()
    run_beside("flo-test", go.wait)
    assert beside(lambda: "done") == "done"
    go.set()


def test_work_sees_the_context_of_who_asked_and_leaves_it_alone() -> None:
    def name() -> str:
        held = NAME.get()
        NAME.set("changed")
        return held

    assert beside(name) == "nobody"
    token = NAME.set("somebody")
    try:
        assert beside(name) == "somebody"
        assert NAME.get() == "somebody"
    finally:
        NAME.reset(token)
    assert beside(name) == "nobody"


def test_a_thread_keeps_nothing_of_what_it_did() -> None:
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    beside(lambda held=held: None)  # type: ignore[misc]
    del held
    gc.collect()
    assert gone() is None


def test_a_thread_that_nobody_needs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.0)
    seen: SimpleQueue[threading.Thread] = SimpleQueue()
    run_beside("flo-test", lambda: seen.put(threading.current_thread()))
    thread = seen.get(timeout=30)
    thread.join(30)
    assert not thread.is_alive()
    assert threads._idle == []


def test_work_that_comes_as_a_thread_gives_up_waiting_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is taken from those that wait, its time is over, and only then it is given the work."""
    taken: SimpleQueue[str] = SimpleQueue()

    class Late(list[object]):
        def remove(self, value: object) -> None:
            super().remove(value)
            if taken.empty():
                value.put(("flo-late", contextvars.copy_context(), lambda: taken.put("late")))  # type: ignore[attr-defined]
                raise ValueError

    monkeypatch.setattr(threads, "_idle", Late())
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.0)
    run_beside("flo-test", lambda: None)
    while taken.empty():
        os.sched_yield()


def test_a_forked_process_has_threads_of_its_own() -> None:
    script = (
        "import os, threading\n"
        "from queue import SimpleQueue\n"
        "from flo.engine.threads import run_beside\n"
        "done = SimpleQueue()\n"
        "run_beside('flo-test', lambda: done.put(1))\n"
        "done.get(timeout=30)\n"
        "from flo.engine import threads\n"
        "while not threads._idle: os.sched_yield()\n"
        "child = os.fork()\n"
        "run_beside('flo-test', lambda: done.put(2))\n"
        "assert done.get(timeout=30) == 2\n"
        "if child: raise SystemExit(os.waitpid(child, 0)[1])\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
