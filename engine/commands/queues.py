"""``flo queues``: how the queues stand, and what holds them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import click

from flo.engine import app
from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import duration, json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, write
from flo.engine.errors import did_you_mean
from flo.engine.jobs import Limits, QueueInfo
from flo.engine.stores.limits import check_name

_NONE: Final = "none"
_HEADERS: Final = (
    "NAME", "PAUSED", "DUE", "LATER", "RUNNING", "SUSPENDED", "DEAD", "OLDEST", "LAST-MINUTE", "LIMITS",
)  # fmt: skip


@click.group(cls=CommandGroup)
def queues() -> None:
    """See how the queues stand; hold them back, bound them."""


@queues.command("list", short_help="List the queues, and how they stand.")
@store_option
@json_option
def list_queues(store: str | None, as_json: bool) -> None:
    """List the queues that have executions, are paused or have limits: how many are due, come due later (retries too),
    run, are suspended and are dead; for how long the oldest has been due; how many ended within the last minute."""
    with app.open(store) as engine:
        found, now = engine.store.queue.queues(), engine.data.now()
    if as_json:
        print_json_list(info.as_json() for info in found)
    elif found:
        print_queues(found, now)
    else:
        note("there are no queues; 'flo enqueue' makes one")


@queues.command(short_help="Give nothing of queues to workers.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_option
@json_option
def pause(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Give nothing of these queues to any worker until they are resumed. What runs goes on, and jobs are taken in."""
    with app.open(store) as engine:
        _hold_back(engine, names, True, as_json)


@queues.command(short_help="Give jobs of queues to workers again.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_option
@json_option
def resume(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Give jobs of these queues to workers again."""
    with app.open(store) as engine:
        _hold_back(engine, names, False, as_json)


def _count(value: str) -> int:
    """Read a bound; 0 for none."""
    if value == _NONE:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value)):
        raise click.BadParameter(f"{value!r} is no number above zero; write one, or 'none'")
    return int(value)


def _rate(value: str) -> tuple[int, float]:
    """Read so many starts in so many seconds; 0 for no bound."""
    count, slash, period = value.partition("/")
    if bool(slash) == (count == _NONE):
        raise click.BadParameter(f"{value!r} is no rate; write a number for a time, such as 10/1m, or 'none'")
    return _count(count), duration(period).total_seconds() if slash else 0.0


@queues.command(short_help="Bound what runs of a queue, or show its bounds.")
@click.argument("name")
@click.option("--running", type=_count, metavar="N|none", help="So many run at a moment.")
@click.option("--per-key", type=_count, metavar="N|none", help="So many of one concurrency key run at a moment.")
@click.option(
    "--key-rate",
    type=_rate,
    metavar="N/DURATION|none",
    help="So many of one concurrency key start within a time: 10/1m.",
)
@store_option
@json_option
def limit(
    name: str,
    running: int | None,
    per_key: int | None,
    key_rate: tuple[int, float] | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Bound how many jobs of a queue workers get, from now on, and print all its bounds. What is not named stays as it
    is; 'none' lifts a bound."""
    _check_names([name])
    with app.open(store) as engine:
        info = _infos(engine, [name])[0]
        limits = info.limits
        if running is not None:
            limits = replace(limits, running=running or None)
        if per_key is not None:
            limits = replace(limits, running_per_key=per_key or None)
        if key_rate is not None:
            limits = replace(limits, starts_per_key=key_rate[0] or None, per_key_seconds=key_rate[1] or None)
        if limits != info.limits:
            engine.store.queue.limit(name, limits)
            info = replace(info, limits=limits)
    if as_json:
        print_json(info.as_json())
    else:
        write(f"{name}  {worded_limits(limits)}\n")


def print_queues(found: Sequence[QueueInfo], now: datetime) -> None:
    """Print queues as a table."""
    print_table(_HEADERS, [_row(info, now) for info in found])


def worded_limits(limits: Limits) -> str:
    """The bounds of a queue as the options of ``flo queues limit`` spell them."""
    said: list[str] = []
    if limits.running is not None:
        said.append(f"running {limits.running}")
    if limits.running_per_key is not None:
        said.append(f"per-key {limits.running_per_key}")
    if limits.starts_per_key is not None:
        said.append(f"key-rate {limits.starts_per_key}/{limits.per_key_seconds:g}s")
    return ", ".join(said) or "no limits"


def worded_age(since: datetime | None, now: datetime) -> str:
    """How long ago something was: ``42s``, ``3m 20s``, ``5h 1m``, ``2d 4h``."""
    if since is None:
        return "-"
    seconds = max(0, int((now - since).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"


def _hold_back(engine: app.Flo, names: Sequence[str], pause: bool, as_json: bool) -> None:
    _check_names(names)
    known = [info.name for info in engine.store.queue.queues()]
    for name in names:
        (engine.store.queue.pause if pause else engine.store.queue.unpause)(name)
        if not as_json:
            unknown = "" if name in known else f"; it is new{did_you_mean(name, known)}"
            note(f"queue {name!r} {'is paused: what runs goes on' if pause else 'gives jobs again'}{unknown}")
    if as_json:
        print_json_list(info.as_json() for info in _infos(engine, names))


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        check_name("queue's name", name)


def _infos(engine: app.Flo, names: Iterable[str]) -> Sequence[QueueInfo]:
    """How queues stand; one that nobody has heard of is empty."""
    found = {info.name: info for info in engine.store.queue.queues()}
    return [found.get(name, QueueInfo(name)) for name in names]


def _row(info: QueueInfo, now: datetime) -> tuple[str, ...]:
    return (
        info.name,
        "yes" if info.paused else "-",
        *(f"{count:,}" for count in (info.due, info.later, info.running, info.suspended, info.dead)),
        worded_age(info.oldest_due, now),
        f"{info.finished_last_minute:,}",
        worded_limits(info.limits) if info.limits != Limits() else "-",
    )
