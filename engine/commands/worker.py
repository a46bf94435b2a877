"""``flo worker``."""

from __future__ import annotations

import os
import threading
from datetime import timedelta

import click

from flo.engine import app
from flo.engine.commands.options import duration, json_option, steps_option, store_option
from flo.engine.commands.output import note, one_line, print_json
from flo.engine.commands.signals import Stop
from flo.engine.events import ClaimEnded, Event
from flo.engine.instants import parse_duration
from flo.engine.jobs import LEASE
from flo.engine.opening import DEFAULT_URL

_SHORTEST_LEASE = timedelta(seconds=1)


def lease(value: str) -> timedelta:
    """Read an option: a duration of a second or more."""
    found = duration(value)
    if found < _SHORTEST_LEASE:
        raise click.BadParameter(f"{value!r} is too short: it is renewed every third of it, so write 1 s or more")
    return found


def grace(value: str) -> timedelta:
    """Read an option: a duration, zero included."""
    found = parse_duration(value) if parse_duration(value) is not None else parse_duration(f"{value}s")
    if found is None:
        raise click.BadParameter(f"{value!r} is no duration; write seconds, or 250ms, 90s, 5m")
    return found


@click.command(short_help="Run what is in queues, many executions at once, until it is stopped.")
@click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    help="A queue to serve; may be given several times. Default: default.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=4,
    show_default=True,
    help="So many executions at once.",
)
@click.option(
    "--lease",
    "lease_",
    type=lease,
    metavar="SECONDS",
    default=f"{LEASE.total_seconds():.0f}",
    show_default=True,
    help="A worker that is not heard of for so long loses its executions to others.",
)
@click.option(
    "--grace",
    "grace_",
    type=grace,
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="What runs when the worker is stopped has so long to end; the rest is given back.",
)
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
    url = store or os.environ.get("FLO_STORE") or DEFAULT_URL
    if url.partition(":")[0].lower() == "memory":
        raise click.UsageError(
            "a worker on memory: has nothing to do, for nobody else can enqueue there; "
            "give --store sqlite:PATH or postgresql://…"
        )
    say = _Lines(quiet)
    with app.open(store, steps=steps, listeners=[say]) as engine:
        working = engine.worker(
            queues or ("default",), concurrency=concurrency, lease=lease_, grace_seconds=grace_.total_seconds()
        )
        with Stop(say.line) as stop:
            say.line(f"worker {working.id} serves {', '.join(working.queues)}, {concurrency} at once")
            tally = working.run(stop.asked, drain=drain)
            code = stop.exit_code if stop.asked.is_set() else 0
        if as_json:
            print_json(tally.as_json())
    return code


class _Lines:
    """Says on standard error how executions end, a line each; several threads may at once."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClaimEnded):
            execution = event.execution
            state = "lost" if event.lost else execution.state.value
            name = execution.workflow or execution.handler or "-"
            why = f"  {execution.error.get('message', '')}" if execution.error and not event.lost else ""
            self.line(f"{state}  {execution.id}  {name}  {event.duration_ms / 1000:.2f} s{one_line(why)}")

    def line(self, text: str) -> None:
        """Say something, unless nothing is to be said."""
        if not self._quiet:
            with self._lock:
                note(text)
