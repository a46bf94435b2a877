"""Work that comes together is done together, by one of those who asked for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from flo.engine import joining
from flo.engine.joining import MOST, Joining

from .waiting_line import WaitingLine


class Gate:
    """Notes what is done together, and by which thread. A piece may be held up until it is let go."""

    def __init__(self) -> None:
        self.joining: Joining[str] = Joining()
        self.line = WaitingLine(self.joining)
        self.done: list[tuple[str, ...]] = []
        self.by: list[int] = []
        self.held, self._go = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, piece: str) -> threading.Thread:
        """Have a piece done by a thread of its own, which waits by now, or does it."""
        thread = threading.Thread(target=self.joining.do, args=(piece, self._together))
        self._threads.append(thread)
        thread.start()
        if piece == "hold":
            assert self.held.wait(30)
        else:
            self.line.wait_for_next()
        return thread

    def do(self, piece: str) -> None:
        """Have a piece done by this thread, or by another one."""
        self.joining.do(piece, self._together)

    def let_go(self) -> None:
        self._go.set()
        for thread in self._threads:
            thread.join(30)

    def _together(self, pieces: Sequence[str]) -> None:
        if pieces[0] == "hold":
            self.held.set()
            self._go.wait(30)
        self.done.append(tuple(pieces))
        self.by.append(threading.get_ident())


@pytest.fixture
def gate() -> Gate:
    return Gate()


def test_who_is_alone_does_its_work_at_once_and_itself(gate: Gate) -> None:
    gate.do("a")
    gate.do("b")
    assert gate.done == [("a",), ("b",)]
    assert set(gate.by) == {threading.get_ident()}


def test_those_that_wait_are_done_together_by_the_first_of_them(gate: Gate) -> None:
    gate.start("hold")
    first = gate.start("a")
    gate.start("b")
    gate.start("c")
    gate.let_go()
    assert gate.done == [("hold",), ("a", "b", "c")]
    assert gate.by[1] == first.ident


def test_so_many_are_done_together_and_the_others_next(gate: Gate) -> None:
    gate.start("hold")
    for number in range(MOST + 1):
        gate.start(str(number))
    gate.let_go()
    assert [len(pieces) for pieces in gate.done] == [1, MOST, 1]


def test_who_waits_behind_one_that_does_not_end_goes_on_beside_it(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PATIENCE_SECONDS", 0.01)
    gate.start("hold")
    gate.do("a")
    gate.do("b")
    assert gate.done == [("a",), ("b",)]
    gate.let_go()
    gate.do("c")
    assert gate.done == [("a",), ("b",), ("hold",), ("c",)]


def test_who_is_interrupted_while_it_waits_takes_nobody_along(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(place: object) -> bool:
        raise KeyboardInterrupt

    gate.start("hold")
    with monkeypatch.context() as patched:
        patched.setattr(joining, "PATIENCE_SECONDS", 0.0)
        patched.setattr(gate.joining, "_leads_instead", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gate.do("a")
    gate.start("b")
    gate.let_go()
    assert gate.done == [("hold",), ("b",)]
