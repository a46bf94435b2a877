"""The process that renews claims where their owner's interpreter may be blocked, and the owner's end of its pipe.

``python -m flo.engine.renewal_process``. Lines of JSON, in: ``{"open": "module:function", "url", "parent"}`` first,
then ``{"add": {number: {"lease", "hold"}}, "due"}`` or with ``"rows"``, and ``{"remove": [numbers]}``; out:
``{"ready"}``, ``{"renewed", "lost"}`` and ``{"log", "level"}``. ``due`` is on the machine's monotonic clock, which all
its processes share. It ends when its input does: with its owner, however that dies.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from flo.engine import faults
from flo.engine.clock import SystemClock
from flo.engine.jobs import Hold
from flo.engine.renewal import Reports, StartDeputy
from flo.engine.upkeep import Claim, Lease, Rows, Turn, Upkeep

log = logging.getLogger("flo.renewal")

OPENER: Final = "flo.engine.opening:open_store"

SEND_SECONDS: Final = 2.0
"""A process that does not read for so long is given up."""

CLOSE_SECONDS: Final = 2.0

_IGNORED: Final = (signal.SIGINT, signal.SIGTERM)
"""They are for the owner to act on, who needs its claims until it has."""


def starter(url: str, opener: str = OPENER) -> StartDeputy | None:
    """What starts a renewal process on the store of ``url``, whose password goes through the pipe; None where there
    can be none.

    A relative path in it is one of the working folder of now. ``opener`` is the function that opens it, by name: one
    that is called would have to be imported from above.
    """
    if not sys.executable or not hasattr(select, "poll"):  # embedded in a program; Windows
        return None
    folder = os.getcwd()
    return lambda reports: RenewalProcess(url, opener, folder, reports)


class RenewalProcess:
    """The owner's end: what is to be renewed goes in, what was renewed comes out, to ``reports``."""

    def __init__(self, url: str, opener: str, folder: str, reports: Reports) -> None:
        self._reports = reports
        self._closing = False
        self._sending = threading.Lock()
        self._ready = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name != faults.VARIABLE},
            bufsize=0,
            process_group=0,  # Ctrl-C and Ctrl-Z in a terminal are for the owner
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._send({"open": opener, "url": url, "parent": os.getpid()})
        self._reader = threading.Thread(target=self._read, name="flo-renewal-process", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def add(self, claims: Mapping[int, Claim], wait: float) -> None:
        """Renew claims, by their numbers, the first time in ``wait`` seconds."""
        added = {number: _claim_as_json(claim) for number, claim in claims.items()}
        self._send({"add": added, "due": time.monotonic() + wait})

    def remove(self, numbers: Sequence[int]) -> None:
        """Renew these no more."""
        self._send({"remove": list(numbers)})

    def wait(self, seconds: float) -> None:
        """Wait until it is ready to renew, or has ended, or for so long."""
        self._ready.wait(seconds)

    def close(self) -> None:
        """End it, and wait until it has ended."""
        self._closing = True
        assert self._process.stdin is not None
        with self._sending:
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        if self._reader is not threading.current_thread():
            self._reader.join(CLOSE_SECONDS)

    def _send(self, message: Mapping[str, Any]) -> None:
        """Write one line. A process that is gone, or reads no more, is ended; its reader tells that."""
        line = memoryview(json.dumps(message).encode() + b"\n")
        assert self._process.stdin is not None
        with self._sending:
            if self._process.stdin.closed:
                return
            try:
                room = select.poll()
                room.register(self._process.stdin, select.POLLOUT)
                while line:
                    if not room.poll(SEND_SECONDS * 1000):
                        raise BrokenPipeError
                    line = line[os.write(self._process.stdin.fileno(), line[: select.PIPE_BUF]) :]
            except OSError:
                self._process.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with io.BufferedReader(self._process.stdout) as lines:  # type: ignore[type-var]  # it is a raw file
            for line in lines:
                message = _parsed(line)
                if "renewed" in message:
                    self._reports.process_turned(Turn(message["renewed"], message["lost"]))
                elif "log" in message:
                    log.log(message["level"], "%s", message["log"])
                elif "ready" in message:
                    self._ready.set()
        code = self._process.wait()
        self._ready.set()
        if not self._closing:
            with self._sending:
                assert self._process.stdin is not None
                self._process.stdin.close()
            self._reports.process_ended(f"exit code {code}" if code >= 0 else f"signal {-code}")


def _parsed(line: bytes) -> Mapping[str, Any]:
    """One report. A full pipe drops reports, and may cut a long one."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _claim_as_json(claim: Claim) -> dict[str, Any]:
    if isinstance(claim, Rows):
        return {"rows": {"table": claim.table, "holder": claim.holder, "rows": claim.rows, "every": claim.every}}
    hold = claim.hold
    return {
        "lease": claim.length.total_seconds(),
        "hold": {
            "execution_id": hold.execution_id, "token": hold.token, "fence": hold.fence, "worker": hold.worker,
        },
    }  # fmt: skip


def _claim_from_json(message: Mapping[str, Any]) -> Claim:
    if "rows" in message:
        return Rows(**message["rows"])
    return Lease(Hold(**message["hold"]), timedelta(seconds=message["lease"]))


def main() -> None:
    """The process itself. It reads from the first moment on, so that its owner never waits for it, and ends at the end
    of what it reads, whatever else it is doing."""
    first = json.loads(sys.stdin.buffer.readline() or "null")
    if first is None:
        return
    os.set_blocking(sys.stdout.fileno(), False)
    logging.getLogger().addHandler(_Telling())
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_work, args=(first, lines), daemon=True).start()
    for line in sys.stdin.buffer:
        lines.put(line)


def _work(first: Mapping[str, Any], lines: SimpleQueue[bytes]) -> None:
    """Open the store, and do what the lines say."""
    try:
        module, _, function = first["open"].partition(":")
        upkeep = Upkeep(
            getattr(importlib.import_module(module), function)(first["url"]),
            SystemClock(),
            after=lambda turn: _tell({"renewed": turn.renewed, "lost": turn.lost}),
            allowed=lambda: _may_renew(first["parent"]),
        )
        _tell({"ready": True})
        while True:
            message = json.loads(lines.get())
            if "add" in message:
                added = {int(number): _claim_from_json(claim) for number, claim in message["add"].items()}
                upkeep.add(added, due=message["due"])
            else:
                upkeep.remove(message["remove"])
    except Exception as error:
        _tell({"log": f"the renewal process failed: {type(error).__name__}: {error}", "level": logging.WARNING})
        os._exit(1)


def _tell(message: Mapping[str, Any]) -> None:
    """Write one report. The owner may be blocked for long: where the pipe is full the report is dropped."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


class _Telling(logging.Handler):
    """Sends log lines to the owner, who knows where they belong."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell({"log": record.getMessage(), "level": record.levelno})


def _may_renew(parent: int) -> bool:
    """Whether the owner runs: one that is stopped (SIGSTOP, Ctrl-Z) shall lose its claims. Ends with an owner that is
    gone: the pipe may outlive it, for its forks have it too."""
    if os.getppid() != parent:
        os._exit(0)
    return _process_state(parent) not in ("T", "t", "Z", "X")


def _process_state(process: int) -> str:
    """The letter that the system gives the state of a process; empty where that is not known."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
        return text.rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        pass
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(
            ["ps", "-o", "state=", "-p", str(process)], capture_output=True, text=True, timeout=5, check=False
        )
        return asked.stdout.strip()[:1]
    return ""


if __name__ == "__main__":
    for _number in _IGNORED:
        signal.signal(_number, signal.SIG_IGN)
    main()
    os._exit(0)  # at once, whatever its thread is doing
