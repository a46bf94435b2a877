"""What ``flo worker`` and ``flo serve`` share: their options, and what they say while they run."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Final

import click

from flo.engine.commands.options import duration
from flo.engine.commands.output import note, one_line
from flo.engine.commands.trigger_words import why_not
from flo.engine.events import ClaimEnded, Event, TriggerFired
from flo.engine.instants import parse_duration, write_instant
from flo.engine.jobs import LEASE
from flo.engine.opening import DEFAULT_URL
from flo.engine.triggers import Firing, Trigger

_SHORTEST_LEASE: Final = timedelta(seconds=1)


def lease(value: str) -> timedelta:
    """Read an option: a duration of a second or more."""
    found = duration(value)
    if found < _SHORTEST_LEASE:
        raise click.BadParameter(f"{value!r} is too short: it is renewed every third of it, so write 1 s or more")
    return found


def span(value: str) -> timedelta:
    """Read an option: a duration, zero included."""
    found = parse_duration(value) if parse_duration(value) is not None else parse_duration(f"{value}s")
    if found is None:
        raise click.BadParameter(f"{value!r} is no duration; write seconds, or 250ms, 90s, 5m")
    return found


queues_option = click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    help="A queue to serve; may be given several times. Default: default.",
)
concurrency_option = click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=4,
    show_default=True,
    help="So many executions at once.",
)
lease_option = click.option(
    "--lease",
    "lease_",
    type=lease,
    metavar="SECONDS",
    default=f"{LEASE.total_seconds():.0f}",
    show_default=True,
    help="A worker that is not heard of for so long loses its executions to others.",
)
grace_option = click.option(
    "--grace",
    "grace_",
    type=span,
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="What runs when the worker is stopped has so long to end; the rest is given back.",
)


def refuse_memory(store: str | None, why: str) -> None:
    """Refuse a store that no other process can open. ``why`` says what makes no sense on it."""
    url = store or os.environ.get("FLO_STORE") or DEFAULT_URL
    if url.partition(":")[0].lower() == "memory":
        raise click.UsageError(f"{why}; give --store sqlite:PATH or postgresql://…")


class Lines:
    """Says on standard error how executions end and what became of triggers, a line each; several threads may at
    once."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        match event:
            case ClaimEnded(execution, duration_ms, lost):
                state = "lost" if lost else execution.state.value
                name = execution.workflow or execution.handler or "-"
                why = f"  {execution.error.get('message', '')}" if execution.error and not lost else ""
                self.line(f"{state}  {execution.id}  {name}  {duration_ms / 1000:.2f} s{one_line(why)}")
            case TriggerFired(trigger, firing):
                self.line(one_line(_told(trigger, firing)), always=firing.outcome == "failed")

    def line(self, text: str, *, always: bool = False) -> None:
        """Say something, unless nothing is to be said."""
        if always or not self._quiet:
            with self._lock:
                note(text)


def _told(trigger: Trigger, firing: Firing) -> str:
    slot = firing.slot if firing.scheduled_at is None else write_instant(firing.scheduled_at)
    subject = f"{firing.outcome}  {trigger.full_name}  for {slot}"
    if firing.execution_id is not None:
        return f"{subject}  execution {firing.execution_id}"
    return f"{subject}  {why_not(firing)}"
