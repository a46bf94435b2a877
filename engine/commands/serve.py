"""``flo serve``: what a deployment runs, in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

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
from flo.engine.frozen import frozen
from flo.engine.serving import Service
from flo.engine.serving import serve as serve_all
from flo.engine.slots import Tally


@frozen
class _Settings:
    """What the options say."""

    queues: tuple[str, ...]
    concurrency: int
    lease: timedelta
    grace: timedelta


@frozen
class _Made:
    """A service that can be started, and what it does, in a few words."""

    said: str
    service: Service


def _scheduler(engine: app.Flo, settings: _Settings) -> _Made:
    count = sum(held.enabled and held.kind in ("schedule", "event") for held in engine.triggers.list())
    return _Made(f"scheduler of {count:,} trigger{'' if count == 1 else 's'}", engine.scheduler().run)


def _worker(engine: app.Flo, settings: _Settings) -> _Made:
    working = engine.worker(
        settings.queues,
        concurrency=settings.concurrency,
        lease=settings.lease,
        grace_seconds=settings.grace.total_seconds(),
    )
    said = f"worker {working.id} serves {', '.join(working.queues)}, {settings.concurrency} at once"
    return _Made(said, working.run)


_SERVICES: Final[Mapping[str, Callable[[app.Flo, _Settings], _Made]]] = {"scheduler": _scheduler, "worker": _worker}


@click.command(short_help="Fire schedules and run what is in queues, in one process, until it is stopped.")
@click.option(
    "--only",
    type=click.Choice(list(_SERVICES)),
    multiple=True,
    help="Only this part; may be given several times. Default: all of them.",
)
@queues_option
@concurrency_option
@lease_option
@grace_option
@store_option
@steps_option
@click.option("-q", "--quiet", is_flag=True, help="Say only which fires failed.")
@json_option
def serve(
    only: tuple[str, ...],
    queues: tuple[str, ...],
    concurrency: int,
    lease_: timedelta,
    grace_: timedelta,
    store: str | None,
    steps: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> int:
    """Fire schedules and run what is in queues, in one process, until it is stopped.

    It is a scheduler, which fires triggers, and a worker, which runs executions as 'flo worker' does. Any number of
    them may serve one store: a slot of a schedule is fired once, by one of them. Triggers that are added, changed or
    switched meanwhile are seen at once.

    Each fire is a line on standard error (fired, skipped or failed, the trigger, its slot, the execution or the
    reason), and so is each execution that ends. With --json the counts of executions are printed at the end, as one
    object by status, as by 'flo worker'.

    A first SIGINT or SIGTERM stops it: nothing is fired or claimed any more, what runs has the time of --grace to end,
    the rest is given back, and it ends with 130 or 143. A second one ends it at once; what ran is then delivered again
    when its lease runs out. A slot that comes due while nothing is served is caught up as its trigger's 'misfire' says.
    """
    refuse_memory(store, "nothing can be served on memory:, for nobody else can add a trigger or enqueue there")
    collect_rarely()
    settings = _Settings(queues or ("default",), concurrency, lease_, grace_)
    say = Lines(quiet)
    with app.open(store, steps=steps, listeners=[say]) as engine:
        made = {name: make(engine, settings) for name, make in _SERVICES.items() if not only or name in only}
        with Stop(say.line) as stop, steps_print_aside():
            say.line(f"serving: {'; '.join(one.said for one in made.values())}")
            results = serve_all({name: one.service for name, one in made.items()}, stop.asked)
            code = stop.exit_code if stop.asked.is_set() else 0
        if as_json:
            tally = results.get("worker")
            print_json(tally.as_json() if isinstance(tally, Tally) else {})
    return code
