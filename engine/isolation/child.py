"""One process of isolated steps, as its engine holds it: how it is started, spoken to, told to stop, and ended.

Three descriptors join the two: a socket for messages; ``told``, a pipe on which a byte says that the call is cancelled;
and ``guard``, a pipe on which nothing is ever written: its end says that the engine's process is gone. Standard output
and error are pipes too. The process leads a process group, and is ended with everything in it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final

from flo.engine import faults
from flo.engine.isolation.frames import FrameBroken, Incoming, Setup, framed
from flo.engine.isolation.output import Output
from flo.engine.step import StepLog

MODULE: Final = "flo.engine.isolation.process"

END_SECONDS: Final = 5.0
"""A process that was killed is waited for so long: one that hangs in the kernel is left to it."""

LAST_SECONDS: Final = 1.0
"""A process that speaks no more is given so long to end by itself, so that its own end can be told."""

_LOOK_SECONDS: Final = 0.5
"""How often it is looked at whether a process lives whose socket others hold open."""

_PIECE: Final = 256 * 1024


class ChildGone(Exception):
    """The process speaks no more; the message says what it did."""


class Child:
    """A process that runs the bodies of one source's step types, one at a time. One thread at a time speaks with it;
    ``tell``, ``kill`` and ``end`` may come from any."""

    def __init__(self, source: str) -> None:
        """Start it. Raises ``OSError``."""
        self.source = source
        self.told = False
        self.killed = False
        self._lock = threading.Lock()
        self._reaped = False
        self._closed = False
        self._incoming = Incoming()
        self._outgoing: deque[memoryview] = deque()
        import_path = tuple(entry or os.getcwd() for entry in sys.path)
        here, there = socket.socketpair()
        guard, self._guard = os.pipe()
        told, self._tell = os.pipe()
        try:
            self._process = _start(there.fileno(), guard, told)
        except BaseException:
            here.close()
            os.close(self._guard)
            os.close(self._tell)
            raise
        finally:
            there.close()
            os.close(guard)
            os.close(told)
        self._socket = here
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = self._process.stdout, self._process.stderr
        for held in (self._socket, *self._streams):
            os.set_blocking(held.fileno(), False)
        self.send(Setup(os.getpid(), import_path, source))

    def output(self, log: StepLog) -> Output:
        """What takes the lines of one call. What came before is nobody's."""
        stdout, stderr = (stream.fileno() for stream in self._streams)
        Output(lambda level, message, data=None: None, ((stdout, ""), (stderr, ""))).finish()
        return Output(log, ((stdout, "info"), (stderr, "warn")))

    def send(self, message: object) -> None:
        """Let a message go out, now or while ``receive`` waits. Raises ``StepFailed`` where it is too large."""
        self._outgoing.append(memoryview(framed(message)))
        self._flush()

    def receive(self, output: Output) -> list[Any]:
        """Wait for messages; gives one or more. What is written meanwhile goes to ``output``. Raises ``ChildGone``."""
        poll = select.poll()
        for stream in self._streams:
            poll.register(stream, select.POLLIN)
        messages: list[Any] = []
        while not messages:
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
            ready = poll.poll(_LOOK_SECONDS * 1000)
            if self.killed or (not ready and self._has_ended()):  # somebody may hold the socket open, and write
                raise ChildGone("ended")
            for descriptor, event in ready:
                if descriptor != self._socket.fileno():
                    if not output.read(descriptor):
                        poll.unregister(descriptor)
                    continue
                if event & ~select.POLLOUT:
                    messages += self._read()
                if event & select.POLLOUT:
                    self._flush()
        return messages

    def tell(self) -> None:
        """Say that the call is cancelled. Never waits."""
        with self._lock:
            if not self.told and not self._closed:
                self.told = True
                with suppress(OSError):  # the body has closed what is not its own
                    os.write(self._tell, b".")

    def kill(self) -> None:
        """End it and everything that it started, at once. Never waits."""
        with self._lock:
            self.killed = True
            if not self._reaped:  # its number is its own: nobody else has it while it is not waited for
                with suppress(ProcessLookupError, PermissionError):  # macOS: nothing is left that could be killed
                    os.killpg(self._process.pid, signal.SIGKILL)

    def last_words(self, gone: ChildGone) -> str:
        """How it ended that speaks no more: by itself, or else what it did for which it is killed now. What it wrote is
        still there to be read."""
        until = time.monotonic() + LAST_SECONDS
        while not self.killed and not self._has_ended() and time.monotonic() < until:
            time.sleep(0.005)
        by_itself = not self.killed and self._has_ended()
        self.end()
        code = self._process.returncode
        if code is None or not by_itself:
            return str(gone)
        return f"ended with exit code {code}" if code >= 0 else f"was killed by {_signal_name(-code)}"

    def close(self) -> None:
        """End it as ``end`` does, and let its descriptors go."""
        self.end()
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self._socket.close()
        for stream in self._streams:
            stream.close()
        os.close(self._tell)
        os.close(self._guard)

    def end(self) -> None:
        """End it, with everything that it started, and wait until it has ended. May come from any thread."""
        self.kill()
        with self._lock:
            self._reaped = True
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def is_spent(self) -> bool:
        """Whether no other call may have it: it was told to stop, has ended, or says what nobody asked for."""
        return self.told or self.killed or bool(self._incoming) or bool(self._outgoing) or self._has_ended()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing[0])
                if sent == len(self._outgoing[0]):
                    self._outgoing.popleft()
                else:
                    self._outgoing[0] = self._outgoing[0][sent:]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads any more: ``receive`` tells, after the last messages
            self._outgoing.clear()

    def _read(self) -> list[Any]:
        try:
            piece = self._socket.recv(_PIECE)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ChildGone("closed its connection") from error
        if not piece:
            raise ChildGone("closed its connection")
        try:
            return [*self._incoming.feed(piece)]
        except FrameBroken as error:
            self.kill()
            raise ChildGone("sent what is no message") from error

    def _has_ended(self) -> bool:
        """Whether it has ended. It is not waited for yet where the system can tell without."""
        if self._reaped or not hasattr(os, "waitid"):
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else waited for it
            return True


def _start(connection: int, guard: int, told: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, str(connection), str(guard), str(told)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != faults.VARIABLE},
        bufsize=0,
        pass_fds=(connection, guard, told),
        process_group=0,  # Ctrl-C and Ctrl-Z in a terminal are for the engine; the group is ended together
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"
