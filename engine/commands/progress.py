"""How a run shows itself on standard error: a line for each step and log line, and a bar for long loops."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Final, TextIO

from flo.engine.commands.output import one_line, shown_text
from flo.engine.events import Event, ExecutionWaits, LineLogged, LoopAdvanced, StepEnded
from flo.engine.executions import LogLine, StepRecord, StepState
from flo.engine.instants import write_instant
from flo.engine.jobs import Wait
from flo.engine.values import dump

LEVELS: Final = ("debug", "info", "warn", "error")
BAR_SECONDS: Final = 0.1
LINE_SECONDS: Final = 10.0
"""Where there is no terminal, a loop that takes long says at most so often how far it is."""

_BAR_WIDTH: Final = 24
_MAX_DATA: Final = 200
_INDEX = re.compile(r"\[\d+\]")
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Listens to a run. Log lines of ``level`` and above are shown, and the ends of steps: those outside of loops, or
    under ``debug`` all. ``level`` None shows nothing, and still counts.

    ``tally`` says afterwards what failed on the way.
    """

    def __init__(
        self,
        stream: TextIO,
        level: str | None = "info",
        *,
        terminal: bool | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._shown = () if level is None else LEVELS[LEVELS.index(level) :]
        self._terminal = stream.isatty() if terminal is None else terminal
        self._monotonic = monotonic
        self._drawn_at = monotonic()
        self._bar = ""
        self._lock = threading.Lock()
        self._ended: Counter[str] = Counter()
        self._failed_items: Counter[str] = Counter()
        self._failed_inside: Counter[str] = Counter()
        self._failed_steps: list[str] = []

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case LineLogged(line):
                    if line.level in self._shown:
                        self._say(_worded(line))
                case StepEnded(record):
                    self._count(record)
                    if record.index is None and ("debug" in self._shown or (self._shown and "[" not in record.path)):
                        duration = f"{record.duration_ms:.0f} ms"
                        self._say(f"{_clock()} {record.path}  {record.state}  {duration}")
                case LoopAdvanced(path, done, total):
                    if self._shown and "[" not in path:
                        self._advance(path, done, total)
                case ExecutionWaits(execution_id, waits):
                    for wait in waits if self._shown else ():
                        self._say(f"{_clock()} {_awaited(execution_id, wait)}")
                case _:
                    pass

    def say(self, text: str) -> None:
        """Show a line, whatever the level."""
        with self._lock:
            self._say(text)

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._erase()

    def tally(self) -> str:
        """What failed: ``3 of 10 items of process-each, step call-api``; empty where nothing did."""
        items = [f"{count} of {self._ended[loop]} items of {loop}" for loop, count in self._failed_items.items()]
        steps = [f"step {path}" for path in self._failed_steps]
        inside = [f"{count} times step {path}" for path, count in self._failed_inside.items()]
        return ", ".join([*items, *steps] or inside)

    def _count(self, record: StepRecord) -> None:
        """Count iterations, and steps that failed by themselves, not by a child."""
        failed = record.state is StepState.FAILED
        if record.loop is not None:
            loop = _INDEX.sub("", record.loop)
            self._ended[loop] += 1
            if failed:
                self._failed_items[loop] += 1
        elif failed and record.error and record.error["path"] == record.path:
            if "[" in record.path:
                self._failed_inside[_INDEX.sub("", record.path)] += 1
            else:
                self._failed_steps.append(record.path)

    def _advance(self, path: str, done: int, total: int | None) -> None:
        now = self._monotonic()
        finished = done == total
        if now - self._drawn_at < (BAR_SECONDS if self._terminal else LINE_SECONDS) and not finished:
            return
        text = f"{path}  {done:,}" if total is None else f"{path}  {done:,} of {total:,}"
        if self._terminal:
            self._drawn_at = now
            self._erase()
            columns = shutil.get_terminal_size().columns
            self._bar = "" if finished else f"{text}{_drawn(done, total)}"[: columns - 1]
            self._put(self._bar)
        elif not finished:
            self._drawn_at = now
            self._say(f"{_clock()} {text}")

    def _say(self, text: str) -> None:
        bar = self._bar
        self._erase()
        self._put(text + "\n" + bar)
        self._bar = bar

    def _erase(self) -> None:
        if self._bar:
            self._put(_CLEAR)
            self._bar = ""

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it; the run goes on
            self._shown = ()


def _worded(line: LogLine) -> str:
    """A log line. What the engine, or a step, finds wrong says where; plain lines are left as they are."""
    where = f"{line.step}: " if line.step and line.level in ("warn", "error") else ""
    text = f"{_clock(line.at)} {line.level:<5}  {where}{shown_text(line.message, ' ' * 16)}"
    if line.data is None:
        return text
    data = one_line(dump(line.data))
    return f"{text}  {data if len(data) <= _MAX_DATA else data[: _MAX_DATA - 1] + '…'}"


def _awaited(execution_id: str, wait: Wait) -> str:
    """What a suspended run waits for; what people answer says where that is told."""
    until = "" if wait.until is None else f", until {write_instant(wait.until)}"
    match wait.kind:
        case "time":
            return f"{wait.path}  waits{until}"
        case "execution":
            return f"{wait.path}  waits for the end of execution {wait.name}{until}"
        case _:
            what = f"the signal {wait.name!r}" if wait.kind == "signal" else "an approval"
            return f"{wait.path}  waits for {what}{until}; 'flo executions show {execution_id}' tells how to give it"


def _drawn(done: int, total: int | None) -> str:
    if not total:
        return ""
    filled = done * _BAR_WIDTH // total
    return f"  [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done * 100 // total} %"


def _clock(at: datetime | None = None) -> str:
    """The time of day where the reader is."""
    return (at or datetime.now().astimezone()).astimezone().strftime("%H:%M:%S")
