"""``flo worker``."""

from __future__ import annotations

from datetime import timedelta

import click

from flo.engine import app
from flo.engine.commands.garbage import collect_rarely
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import print_json, steps_print_aside
from flo.engine.commands.services import (
    Lines,
    concurrency_option,
    grace_option,
    lease_option,
    queues_option,
    refuse_memory,
)
from flo.engine.commands.signals import Stop


@click.command(short_help="Run what is in queues, many executions at once, until it is stopped.")
@queues_option
@concurrency_option
@lease_option
@grace_option
@click.option("--drain", is_flag=True, help="End when nothing is due or running in the queues.")
@store_option
@steps_option
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of executions that end.")
@json_option
def worker(
    queues: tuple[str, ...],
    concurrency: int,
    lease_: timedelta,
    grace_: timedelta,
    drain: bool,
    store: str | None,
    steps: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> int:
    """Run what is in queues, many executions at once, until it is stopped.

    Each execution that ends, or leaves the worker for now, is a line on standard error: how it stands, its id, what it
    ran, how long. With --json the counts of these are printed at the end, as one object by status; 'pending' are those
    that were given back, 'lost' those that were cancelled or taken over.

    A first SIGINT or SIGTERM stops it: it claims nothing any more, what runs has the time of --grace to end, the rest
    is given back for another worker, and it ends with 130 or 143. A second one ends it at once; what ran is then
    delivered again when its lease runs out.
    """
    refuse_memory(store, "a worker on memory: has nothing to do, for nobody else can enqueue there")
    collect_rarely()
    say = Lines(quiet)
    with app.open(store, steps=steps, listeners=[say]) as engine:
        working = engine.worker(
            queues or ("default",), concurrency=concurrency, lease=lease_, grace_seconds=grace_.total_seconds()
        )
        with Stop(say.line) as stop, steps_print_aside():
            say.line(f"worker {working.id} serves {', '.join(working.queues)}, {concurrency} at once")
            tally = working.run(stop.asked, drain=drain)
            code = stop.exit_code if stop.asked.is_set() else 0
        if as_json:
            print_json(tally.as_json())
    return code
