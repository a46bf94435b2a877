"""The process in which the bodies of isolated step types run, one at a time.

``python -m flo.engine.isolation.process SOCKET GUARD TOLD``, three descriptors: see ``isolation.child``. Bodies run in
its main thread; another one reads. It ends with everything in its process group when its engine's process is gone: at
once by the kernel where that is Linux, even while a body holds the interpreter's lock, and elsewhere by the thread that
reads. It leaves SIGINT and SIGTERM to its engine.
"""

from __future__ import annotations

import faulthandler
import fcntl
import io
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NoReturn

from flo.engine.errors import RunCancelled, StepFailed, StoreError
from flo.engine.isolation.call import Asking, step_call
from flo.engine.isolation.frames import (
    IMPORTING,
    Answer,
    Ended,
    FrameBroken,
    Incoming,
    Setup,
    Work,
    framed,
    packed,
    packed_error,
    said,
    unpacked,
)
from flo.engine.jobs import LeaseLost
from flo.engine.step import Body, RunReturned, StepType, Suspended

_MEANT: Final = (StepFailed, RunCancelled, RunReturned, Suspended, LeaseLost, StoreError)
"""What a body raises for the engine; anything else is a mistake."""

_LOOK_SECONDS: Final = 1.0
"""How often it is looked at whether the engine's process lives: its forks, too, hold the other ends open."""

_PIECE: Final = 256 * 1024


class Isolated:
    """The process's end of the socket, and what it does with what comes."""

    def __init__(self, connection: socket.socket, told: int) -> None:
        self._socket, self._told = connection, told
        self._sending = threading.Lock()
        self._incoming = Incoming()
        self._messages: SimpleQueue[Any] = SimpleQueue()
        self._asking = Asking(self._send)
        self._cancelled = threading.Event()
        self._parent = os.getppid()
        self._types: Mapping[str, StepType] = {}
        threading.Thread(target=self._read, name="flo-isolated-reader", daemon=True).start()

    def serve(self) -> None:
        """Run what comes, until the engine ends this process."""
        setup: Setup = self._messages.get()
        if setup.parent != self._parent:
            _end_all()
        sys.path[:] = setup.import_path
        while True:
            work: Work = self._messages.get()
            process, threads = os.getpid(), set(threading.enumerate())
            payload, raised, trace = self._run(setup.source, work)
            if os.getpid() != process:  # forked by the body, which ended there too
                os._exit(1)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # closed by the body
                    stream.flush()
            clean = set(threading.enumerate()) <= threads and not _has_children()
            self._send_ended(Ended(payload, raised, clean, trace))

    def _run(self, source: str, work: Work) -> tuple[bytes, bool, str]:
        """Run one body: what it gave or raised, whether it raised, and the traceback of a mistake."""
        try:
            body = self._body(source, work.step_type)
            given = body(step_call(work, self._cancelled, self._asking), unpacked(work.input))
        except _MEANT as error:
            return _packed_error(error), True, ""
        except BaseException as error:
            return packed_error(StepFailed(said(error), code="step_error")), True, _trace(error)
        try:
            return packed(given), False, ""
        except Exception as error:
            return _unpicklable("gave", error), True, ""

    def _body(self, source: str, name: str) -> Body:
        """The body of a step type. Imports its source once."""
        if not self._types:
            from flo.engine.registry import load_source

            os.environ[IMPORTING] = source
            try:
                self._types = {found.name: found for found in load_source(source)}
            except BaseException as error:
                raise ImportError(f"{source} cannot be imported in a process of its own: {said(error)}") from error
            finally:
                os.environ.pop(IMPORTING, None)
        if name not in self._types:
            message = f"{source} has no step type {name!r} in the process of an isolated step"
            raise StepFailed(message, code="not_found", retryable=False)
        return self._types[name].body

    def _send_ended(self, ended: Ended) -> None:
        try:
            self._send(ended)
        except StepFailed as too_large:
            self._send(Ended(packed_error(too_large), True, ended.clean))

    def _send(self, message: object) -> None:
        content = framed(message)
        with self._sending:
            try:
                self._socket.sendall(content)
            except OSError:  # the engine is gone
                _end_all()

    def _read(self) -> None:
        """Take what comes in, whatever the body does."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._told, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(_LOOK_SECONDS * 1000):
                if descriptor == self._told:
                    poll.unregister(descriptor)
                    self._cancelled.set()
                elif not self._take():
                    poll.unregister(descriptor)
            if os.getppid() != self._parent:
                _end_all()

    def _take(self) -> bool:
        """Take a piece; false where the body has closed what is not its own, which the engine notices."""
        try:
            piece = self._socket.recv(_PIECE)
        except OSError:
            return False
        if not piece:
            _end_all()
        try:
            messages = [*self._incoming.feed(piece)]
        except FrameBroken:
            _end_all()
        for message in messages:
            if isinstance(message, Answer):
                self._asking.answered(message)
            else:
                self._messages.put(message)
        return True


def _packed_error(error: BaseException) -> bytes:
    try:
        return packed_error(error)
    except Exception as refused:  # what a run returns, for one
        return _unpicklable("raised", refused)


def _unpicklable(did: str, error: Exception) -> bytes:
    message = f"what the step {did} cannot leave its process: {said(error)}"
    return packed_error(StepFailed(message, code="invalid_output", retryable=False))


def _trace(error: BaseException) -> str:
    """Where a mistake was made, from the body on."""
    import traceback

    inner = error.__traceback__ and error.__traceback__.tb_next
    return "".join(traceback.format_exception(type(error), error, inner)).rstrip()


def _has_children() -> bool:
    """Whether the body left processes behind, running or not waited for."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _end_all() -> NoReturn:
    """End this process and everything in its group."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _end_with(guard: int) -> None:
    """Let the kernel kill the process group when the other end of ``guard`` is closed, where it can."""
    if hasattr(fcntl, "F_SETSIG"):
        with suppress(OSError):
            fcntl.fcntl(guard, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(guard, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(guard, fcntl.F_SETFL, fcntl.fcntl(guard, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(guard, select.POLLIN)
    if poll.poll(0):  # it was closed before the kernel knew
        _end_all()


def main(connection: int, guard: int, told: int) -> None:
    """The process itself."""
    if os.getpgrp() != os.getpid():
        raise SystemExit("it is started by an engine")
    for descriptor in (connection, guard, told):
        os.set_inheritable(descriptor, False)
    _end_with(guard)
    for number in (signal.SIGINT, signal.SIGTERM):  # a function, for what is ignored stays so in what a body starts
        signal.signal(number, lambda *_: None)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    Isolated(socket.socket(fileno=connection), told).serve()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
