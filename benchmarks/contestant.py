"""A contestant in a process of its own: ``python -m benchmarks.contestant MODULE URL DESCRIPTOR``.

``MODULE`` has a class ``Contestant`` that is made with the URL of a database. The descriptor is a connection to the
process that measures, which asks for methods by name. Each answer says how long the call took, by the clock that all
processes of a machine share, and the most memory that this process had meanwhile.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave. ``began`` and ``ended`` are of the system's monotonic clock, in seconds."""

    value: Any
    began: float
    ended: float
    peak: int

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Taken:
    """What a method returns that says itself when its work began and ended, since not all of what it did counts."""

    began: float
    ended: float
    value: Any = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last line of an error, for the table, and all of it, for the log."""

    reason: str


def main(module: str, url: str, descriptor: int) -> None:
    asking = Connection(descriptor)
    try:
        contestant = import_module(module).Contestant(url)
        asking.send(Answer(None, 0.0, 0.0, peak_bytes()))
    except Exception as error:
        asking.send(_refusal(error))
        return
    try:
        while True:
            name, values = asking.recv()
            try:
                asking.send(_call(getattr(contestant, name), values))
            except Exception as error:
                asking.send(_refusal(error))
    except EOFError:
        contestant.close()


def _call(method: Any, values: tuple[Any, ...]) -> Answer:
    gc.collect()
    forget_peak()
    began = time.monotonic()
    value = method(*values)
    ended = time.monotonic()
    if isinstance(value, Taken):
        return Answer(value.value, value.began, value.ended, peak_bytes())
    return Answer(value, began, ended, peak_bytes())


def _refusal(error: Exception) -> Refusal:
    traceback.print_exc()
    return Refusal(f"{type(error).__name__}: {error}".partition("\n")[0][:120])


def forget_peak() -> None:
    """Let the peak begin anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """The most memory that this process has had.

    Linux counts that of the process which started this one into ``getrusage``, so its own figure comes first.
    """
    if (found := _status("VmHWM")) is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_bytes() -> int:
    """The memory that this process has now; its peak where the system does not say."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def _status(name: str) -> int | None:
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(rf"^{name}:\s*(\d+) kB", status.read_text(), re.MULTILINE)):
        return int(found[1]) * 1024
    return None


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    # by its full name, so that what it sends is known to the one that measures
    import_module("benchmarks.contestant").main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
