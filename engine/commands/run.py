"""``flo run``."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing, suppress
from datetime import timedelta

import click

from flo.engine import app
from flo.engine.commands.announcements import EventPrinter
from flo.engine.commands.options import duration, json_option, steps_option, store_option
from flo.engine.commands.output import ReaderGone, error, flush, note, print_json, warn
from flo.engine.commands.progress import Progress
from flo.engine.commands.signals import Stop
from flo.engine.commands.sources import check_file, find_stored, names_file, object_argument, one_stdin
from flo.engine.executions import ExecutionState
from flo.engine.language.workflow import Workflow
from flo.engine.lifecycle import RunResult

_S = ExecutionState
TIMED_OUT = 124


@click.command(short_help="Run a workflow now, in this process, to its end.")
@click.argument("workflow", metavar="FILE|NAME|-")
@click.option("--input", "input_", metavar="JSON|@FILE|-", help="The run's input: an object, merged over 'initial'.")
@store_option
@steps_option
@json_option
@click.option("--events", "as_events", is_flag=True, help="Print each event of the run as a line of JSON.")
@click.option("--timeout", type=duration, metavar="SECONDS", help="End the run after so long: seconds, or 90s, 5m.")
@click.option(
    "--fail-on-errors",
    "--fail-on-item-errors",
    is_flag=True,
    help="End with 3, not 0, where the run went on after failures.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no log lines.")
@click.option("-v", "--verbose", is_flag=True, help="Show log lines of level debug, and every step in a loop.")
def run(
    workflow: str,
    input_: str | None,
    store: str | None,
    steps: tuple[str, ...],
    as_json: bool,
    as_events: bool,
    timeout: timedelta | None,
    fail_on_errors: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run a workflow now, in this process, to its end.

    The workflow is a file, standard input (-), or a stored one by its name. What it returns (core.return) is printed
    on standard output as JSON; progress and log lines go to standard error. With --json one object is printed:
    executionId, workflow, status, success, output, steps, error, durationMilliseconds.

    A first SIGINT or SIGTERM asks the run to stop: nothing new starts, steps under way are given time to end, and rows
    in flight stay for the recovery. A second one ends at once.
    """
    one_stdin(workflow, input_)
    if as_json and as_events:
        raise click.UsageError("--json and --events cannot be given together")
    initial = object_argument(input_, "--input")
    progress = Progress(sys.stderr, None if quiet else "debug" if verbose else "info")
    events = EventPrinter()
    with app.open(store, steps=steps, listeners=[progress, *([events] if as_events else [])]) as engine:
        found = _find(engine, workflow)
        with closing(progress), Stop(progress.say) as stop:
            result = engine.run(
                found,
                initial,
                cancelled=stop.asked,
                timeout_ms=None if timeout is None else timeout.total_seconds() * 1000,
            )
        _print(result, as_json, as_events)
        kept_in = engine.store.url
    if not quiet:
        note(_summary(result, kept_in, named=store is not None))
    _tell(result, progress)
    events.check()
    return _exit_code(result, stop, fail_on_errors)


def _find(engine: app.Flo, name: str) -> Workflow | str:
    if not names_file(name):
        return find_stored(engine, name)
    checked = check_file(engine, name)
    for warning in checked.warnings:
        warn(str(warning))
    return checked.workflow


def _print(result: RunResult, as_json: bool, as_events: bool) -> None:
    """Print what was asked for. Where nobody reads it, how the run ended still counts."""
    with suppress(ReaderGone):
        if as_json:
            print_json(result.as_json())
        elif result.output is not None and not as_events:
            print_json(result.output)
        flush()


def _summary(result: RunResult, kept_in: str, *, named: bool) -> str:
    count = len(result.steps)
    steps = f"{count} {'step' if count == 1 else 'steps'}"
    return f"{result.state} in {result.duration_ms / 1000:.2f} s: {steps}{_pointer(result, kept_in, named)}"


def _pointer(result: RunResult, kept_in: str, named: bool) -> str:
    """Where to read more, if it is worth it and still there. A store that the call named has to be named again."""
    if result.state is _S.SUCCESS or kept_in == "memory:":
        return ""
    where = f" --store {shlex.quote(kept_in)}" if named else ""
    return f"; 'flo executions show {result.execution_id}{where}' tells more"


def _tell(result: RunResult, progress: Progress) -> None:
    """Say what went wrong, if something did."""
    if result.state is _S.COMPLETED_WITH_ERRORS:
        warn(f"completed with errors: {progress.tally()} failed")
    elif result.error is not None:
        step = f" in step {result.error['path']!r}" if "path" in result.error else ""
        error(f"the run {_WORDS.get(result.state, 'failed')}{step}: {result.error['message']}")


_WORDS = {_S.CANCELLED: "was stopped", _S.TIMED_OUT: "timed out", _S.REJECTED: "was rejected"}


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
