"""A run in the foreground: its progress, what it prints, and what the command ends with."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from typing import Final

import click

from flo.engine.app import Flo
from flo.engine.attended import RunResult
from flo.engine.commands.announcements import EventPrinter
from flo.engine.commands.garbage import collect_rarely
from flo.engine.commands.options import duration
from flo.engine.commands.output import ReaderGone, error, flush, note, print_json, steps_print_aside, warn
from flo.engine.commands.progress import Progress
from flo.engine.commands.signals import Stop
from flo.engine.events import Listener
from flo.engine.executions import ExecutionState
from flo.engine.frozen import frozen

_S = ExecutionState
TIMED_OUT: Final = 124

Work = Callable[[threading.Event, float | None], RunResult]
"""Runs something to its end. Takes what asks it to stop, and the milliseconds that it may take."""

timeout_option = click.option(
    "--timeout", type=duration, metavar="SECONDS", help="End the run after so long: seconds, or 90s, 5m."
)
fail_on_errors_option = click.option(
    "--fail-on-errors",
    "--fail-on-item-errors",
    is_flag=True,
    help="End with 3, not 0, where the run went on after failures.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress and no log lines.")
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Show log lines of level debug, and every step in a loop."
)


@frozen
class Manner:
    """What the options say of a run: what is shown of it, how long it may take, what it ends with."""

    as_json: bool = False
    as_events: bool = False
    quiet: bool = False
    verbose: bool = False
    timeout: timedelta | None = None
    fail_on_errors: bool = False


class Foreground:
    """Shows one run. ``listeners`` belong to the engine that it runs in."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._progress = Progress(sys.stderr, None if manner.quiet else "debug" if manner.verbose else "info")
        self._events = EventPrinter()

    @property
    def listeners(self) -> Sequence[Listener]:
        return [self._progress, *([self._events] if self._manner.as_events else [])]

    def run(self, engine: Flo, work: Work, *, named: bool) -> int:
        """Run ``work``, and give the exit code. ``named``: the call named the store, so that who reads on has to name
        it again."""
        manner = self._manner
        collect_rarely()
        with closing(self._progress), Stop(self._progress.say) as stop, steps_print_aside():
            result = work(stop.asked, None if manner.timeout is None else manner.timeout.total_seconds() * 1000)
        self._print(result)
        if not manner.quiet:
            note(_summary(result, engine.store.url, named))
        self._tell(result)
        self._events.check()
        return _exit_code(result, stop, manner.fail_on_errors)

    def _print(self, result: RunResult) -> None:
        """Print what was asked for. Where nobody reads it, how the run ended still counts."""
        with suppress(ReaderGone):
            if self._manner.as_json:
                print_json(result.as_json())
            elif result.output is not None and not self._manner.as_events:
                print_json(result.output)
            flush()

    def _tell(self, result: RunResult) -> None:
        """Say what went wrong, if something did."""
        if result.state is _S.COMPLETED_WITH_ERRORS:
            warn(f"completed with errors: {self._progress.tally()} failed")
        elif result.error is not None:
            step = f" in step {result.error['path']!r}" if "path" in result.error else ""
            error(f"the run {_WORDS.get(result.state, 'failed')}{step}: {result.error['message']}")


_WORDS = {_S.CANCELLED: "was stopped", _S.TIMED_OUT: "timed out", _S.REJECTED: "was rejected"}


def _summary(result: RunResult, kept_in: str, named: bool) -> str:
    count = len(result.steps)
    steps = f"{count} {'step' if count == 1 else 'steps'}"
    return f"{result.state} in {result.duration_ms / 1000:.2f} s: {steps}{_pointer(result, kept_in, named)}"


def _pointer(result: RunResult, kept_in: str, named: bool) -> str:
    """Where to read more, if it is worth it and still there. A store that the call named has to be named again."""
    if result.state is _S.SUCCESS or kept_in == "memory:":
        return ""
    where = f" --store {shlex.quote(kept_in)}" if named else ""
    return f"; 'flo executions show {result.execution_id}{where}' tells more"


def _exit_code(result: RunResult, stop: Stop, fail_on_errors: bool) -> int:
    match result.state:
        case _S.SUCCESS:
            return 0
        case _S.COMPLETED_WITH_ERRORS:
            return 3 if fail_on_errors else 0
        case _S.TIMED_OUT:
            return TIMED_OUT
        case _S.CANCELLED:
            return stop.exit_code
        case _S.REJECTED:
            return 1
        case _:
            return 3
