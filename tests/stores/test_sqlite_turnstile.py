"""The turn to write goes round: nobody has it twice while another one waits."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flo.engine.stores.sqlite_turnstile import Turnstile

HOLD = """
import sys
from pathlib import Path
from flo.engine.stores.sqlite_turnstile import Turnstile
with Turnstile(Path(sys.argv[1])).turn():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def turnstile(tmp_path: Path) -> Iterator[Callable[[], Turnstile]]:
    """Gives one more writer's turnstile to the same file."""
    made: list[Turnstile] = []

    def another() -> Turnstile:
        made.append(Turnstile(tmp_path / "flo.sqlite"))
        return made[-1]

    yield another
    for held in made:
        held.close()


def test_one_has_the_turn_at_a_time(turnstile: Callable[[], Turnstile]) -> None:
    first, second = turnstile(), turnstile()
    with first.turn() as had, second.turn(wait=False) as at_once:
        assert (had, at_once) == (True, False)
    with second.turn(wait=False) as at_once:
        assert at_once


def wait_for_a_waiter(folder: Path) -> None:
    """Return when somebody waits for the turn with the queue's lock in hand."""
    file = os.open(folder / "flo.sqlite-queue", os.O_RDWR)
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)


def test_who_waits_comes_before_who_comes_back(turnstile: Callable[[], Turnstile], tmp_path: Path) -> None:
    first, second = turnstile(), turnstile()
    turns: list[str] = []

    def write() -> None:
        with second.turn():
            turns.append("second")

    for _ in range(20):
        waiter = threading.Thread(target=write)
        with first.turn():
            turns.append("first")
            waiter.start()
            wait_for_a_waiter(tmp_path)
            with turnstile().turn(wait=False) as at_once:
                assert not at_once
        with first.turn():
            turns.append("first again")
        waiter.join()
    assert turns == ["first", "second", "first again"] * 20


def test_a_killed_process_leaves_its_turn(turnstile: Callable[[], Turnstile], tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "flo.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with turnstile().turn(wait=False) as had:
            assert not had
        process.send_signal(signal.SIGKILL)
        process.wait()
    with turnstile().turn(wait=False) as had:
        assert had


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_keep_its_parents_turn(turnstile: Callable[[], Turnstile]) -> None:
    first, second = turnstile(), turnstile()
    (goes_on, ends), (runs, running) = os.pipe(), os.pipe()
    fcntl.flock(first._files[1], fcntl.LOCK_EX)
    if not (child := os.fork()):
        os.close(ends)
        os.write(running, b"!")
        os.read(goes_on, 1)
        os._exit(0)
    assert os.read(runs, 1) == b"!"
    first.close()  # as when the parent dies
    with second.turn(wait=False) as had:
        assert had
    for end in (ends, goes_on, runs, running):
        os.close(end)
    assert os.waitpid(child, 0)[1] == 0


def test_without_lock_files_everyone_may_pass(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path / "no folder" / "flo.sqlite")
    with turnstile.turn() as waited, turnstile.turn(wait=False) as at_once:
        assert (waited, at_once) == (True, True)
