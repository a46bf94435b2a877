"""``flo run``."""

from __future__ import annotations

from datetime import timedelta

import click

from flo.engine import app
from flo.engine.commands.options import env_option, json_option, steps_option, store_option
from flo.engine.commands.output import warn
from flo.engine.commands.running import (
    Foreground,
    Manner,
    fail_on_errors_option,
    quiet_option,
    timeout_option,
    verbose_option,
)
from flo.engine.commands.sources import check_file, find_stored, names_file, object_argument, one_stdin
from flo.engine.language.workflow import Workflow


@click.command(short_help="Run a workflow now, in this process, to its end.")
@click.argument("workflow", metavar="FILE|NAME|-")
@click.option("--input", "input_", metavar="JSON|@FILE|-", help="The run's input: an object, merged over 'initial'.")
@env_option
@store_option
@steps_option
@json_option
@click.option("--events", "as_events", is_flag=True, help="Print each event of the run as a line of JSON.")
@timeout_option
@fail_on_errors_option
@quiet_option
@verbose_option
def run(
    workflow: str,
    input_: str | None,
    environment: str | None,
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
    shown = Foreground(Manner(as_json, as_events, quiet, verbose, timeout, fail_on_errors))
    with app.open(store, steps=steps, listeners=shown.listeners) as engine:
        found = _find(engine, workflow)
        return shown.run(
            engine,
            lambda cancelled, timeout_ms: engine.run(
                found, initial, cancelled=cancelled, timeout_ms=timeout_ms, environment=environment
            ),
            named=store is not None,
        )


def _find(engine: app.Flo, name: str) -> Workflow | str:
    if not names_file(name):
        return find_stored(engine, name)
    checked = check_file(engine, name)
    for warning in checked.warnings:
        warn(str(warning))
    return checked.workflow
