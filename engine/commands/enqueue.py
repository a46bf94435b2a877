"""``flo enqueue``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import click

from flo.engine import app
from flo.engine.commands.options import duration, env_option, instant, json_option, steps_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, warn, write
from flo.engine.commands.sources import check_file, find_stored, names_file, object_argument, one_stdin
from flo.engine.errors import did_you_mean
from flo.engine.executions import ExecutionState
from flo.engine.instants import parse_duration, parse_instant
from flo.engine.jobs import MAX_BATCH, Enqueued, JobOptions
from flo.engine.language.workflow import Workflow
from flo.engine.values import JsonObject

_PRIORITIES = click.IntRange(-(2**31), 2**31 - 1)


def instant_or_duration(value: str) -> datetime | timedelta:
    """Read an option: an RFC 3339 instant, or a duration from now on."""
    if found := parse_duration(value) or parse_duration(f"{value}s"):
        return found
    if moment := parse_instant(value):
        return moment
    raise click.BadParameter(
        f"{value!r} is no instant with a zone and no duration above zero; write 2030-01-31T09:00:00Z or 90s, 5m, 2h"
    )


@click.command(short_help="Put a workflow or a step type into a queue, for workers to run.")
@click.argument("workflow", metavar="NAME|FILE|-")
@click.option("--input", "input_", metavar="JSON|@FILE|-", help="The input: an object, merged over 'initial'.")
@click.option("--queue", metavar="NAME", default="default", show_default=True, help="The queue.")
@click.option("--priority", type=_PRIORITIES, metavar="N", default=0, show_default=True, help="Higher comes first.")
@click.option(
    "--run-at", type=instant, metavar="INSTANT", help="Not before this instant, such as 2030-01-31T09:00:00Z."
)
@click.option("--delay", type=duration, metavar="SECONDS", help="Not before so long: seconds, or 90s, 5m, 2h.")
@click.option(
    "--deadline",
    type=instant_or_duration,
    metavar="INSTANT|SECONDS",
    help="Ends as timed_out, wherever it stands, at this instant or after so long.",
)
@click.option("--key", metavar="TEXT", help="Idempotency: the same request with the same key is stored once.")
@click.option(
    "--concurrency-key", metavar="TEXT", help="At most so many of one key run at once as the workflow says, or 1."
)
@click.option(
    "--count",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="So many of it; with --key their keys are KEY-1, KEY-2, …",
)
@env_option
@store_option
@steps_option
@json_option
def enqueue(
    workflow: str,
    input_: str | None,
    queue: str,
    priority: int,
    run_at: datetime | None,
    delay: timedelta | None,
    deadline: datetime | timedelta | None,
    key: str | None,
    concurrency_key: str | None,
    count: int | None,
    environment: str | None,
    store: str | None,
    steps: tuple[str, ...],
    as_json: bool,
) -> None:
    """Put a workflow or a step type into a queue, for workers to run ('flo worker').

    The workflow is a stored one by its name, a file, or standard input (-); a step type is named as in a workflow. Its
    execution's id is printed. With --json: executionId, created (false where the key was there already) and status;
    with --count a list of these. A thousand at a time are stored together, all or none.
    """
    one_stdin(workflow, input_)
    if run_at is not None and delay is not None:
        raise click.UsageError("--run-at and --delay cannot be given together")
    if key is not None and count is not None and count > MAX_BATCH:
        raise click.UsageError(
            f"with --key --count can be {MAX_BATCH:,} at most: those are stored together, all or none"
        )
    initial = object_argument(input_, "--input")
    with app.open(store, steps=steps) as engine:
        found = _find(engine, workflow)
        until = engine.data.now() + deadline if isinstance(deadline, timedelta) else deadline
        options = JobOptions(queue, priority, run_at, delay, until, key, concurrency_key, environment=environment)
        batches = _batches(engine, found, initial, options, count or 1)
        if as_json and count is not None:
            print_json_list(made.as_json() for batch in batches for made in batch)
            return
        told: Counter[str] = Counter()
        for made in (made for batch in batches for made in batch):
            if as_json:
                print_json(made.as_json())
            else:
                write(f"{made.execution_id}\n")
                told[_worded(made, options)] += 1
    for what, times in told.items():
        note(what if count is None else f"{times:,} times: {what}")


def _find(engine: app.Flo, name: str) -> Workflow | str:
    """What is to run. A step type that is not installed here may be known to a worker."""
    if names_file(name):
        checked = check_file(engine, name)
        for warning in checked.warnings:
            warn(str(warning))
        return checked.workflow
    if engine.workflows.get(name) is not None or name in engine.registry:
        return name
    if "." not in name:
        return find_stored(engine, name)
    warn(f"no step type {name!r} is installed here, a worker has to know it{did_you_mean(name, engine.registry)}")
    return name


def _batches(
    engine: app.Flo, found: Workflow | str, initial: JsonObject, options: JobOptions, count: int
) -> Iterator[Sequence[Enqueued]]:
    """Enqueue so many."""
    for start in range(0, count, MAX_BATCH):
        yield engine.enqueue_many(found, [initial] * min(MAX_BATCH, count - start), options)


def _worded(made: Enqueued, options: JobOptions) -> str:
    """What became of a request."""
    if made.state is ExecutionState.REJECTED:
        return "warning: it is rejected, for as many of its concurrency key as may run are there"
    if made.created:
        return f"enqueued in {options.queue!r}"
    return f"the key was there already: it is {made.state}"
