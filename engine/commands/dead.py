"""``flo dead``: jobs that failed for good, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import click

from flo.engine import app
from flo.engine.commands.executions import summary
from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import duration, json_option, steps_option, store_option
from flo.engine.commands.output import error, note, print_json, print_json_list, print_table
from flo.engine.commands.sources import find_execution
from flo.engine.errors import FloError, StoreError
from flo.engine.executions import Execution
from flo.engine.instants import write_instant
from flo.engine.jobs import Enqueued
from flo.engine.values import JsonObject

_BATCH: Final = 100
_COUNTED: Final = 1_000
"""So many dead letters are looked at to say how many are older than something."""

_queue_option = click.option("--queue", metavar="NAME", help="Only those of this queue.")


@click.group(cls=CommandGroup)
def dead() -> None:
    """Jobs that failed for good: run them anew, or remove them."""


@dead.command("list", short_help="List dead letters, the newest first.")
@_queue_option
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="At most so many."
)
@store_option
@json_option
def list_dead(queue: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """List dead letters that were not replayed, the newest first: jobs that failed for good, and why.

    max_attempts: their attempts are used up; non_retryable: trying again is no use; no_handler: no worker knows what
    they call; poison: worker after worker was lost with them. 'flo executions show ID' tells all of one.
    """
    with app.open(store) as engine:
        engine.store.queue.bury()
        found = engine.executions.list(queue=queue, dead=True, limit=limit)
    if as_json:
        print_json_list(summary(execution) for execution in found)
    elif found:
        print_table(
            ("EXECUTION", "WORKFLOW", "QUEUE", "REASON", "ENDED", "ATTEMPTS", "ERROR"), [_row(held) for held in found]
        )
    else:
        note("there are no dead letters")


@dead.command(short_help="Enqueue dead letters anew.")
@click.argument("executions", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that were not replayed, those of --queue if it is given.")
@click.option("--queue", metavar="NAME", help="With --all: only those of this queue.")
@store_option
@steps_option
@json_option
def replay(
    executions: tuple[str, ...],
    everything: bool,
    queue: str | None,
    store: str | None,
    steps: tuple[str, ...],
    as_json: bool,
) -> int:
    """Enqueue dead letters anew, each once, with the same input and the newest stored version of its workflow. One that
    was replayed already is left alone, and said as what. ID may be the beginning of an id.

    Ends with 1 where one of them cannot be replayed; the others are all the same.
    """
    if everything == bool(executions):
        raise click.UsageError("give the ids of dead letters, or --all")
    if queue is not None and not everything:
        raise click.UsageError("--queue goes with --all")
    answers: list[JsonObject] = []
    count = failed = 0
    with app.open(store, steps=steps) as engine:
        ids = _all_dead(engine, queue) if everything else iter(dict.fromkeys(executions))
        for execution_id in ids:
            try:
                held = find_execution(engine, execution_id)
                enqueued = engine.replay_dead(held.id)
            except StoreError:
                raise
            except FloError as refused:
                failed += 1
                error(f"{execution_id} is not replayed: {refused}")
                continue
            if as_json:
                answers.append({"replayOf": held.id, **enqueued.as_json()})
            else:
                note(_told(held, enqueued))
            count += 1
    if as_json:
        print_json_list(answers)
    elif not count + failed:
        note("there are no dead letters")
    return 1 if failed else 0


@dead.command(short_help="Remove dead letters for good.")
@_queue_option
@click.option("--older-than", type=duration, metavar="DURATION", help="Only those that ended so long ago: 90s, 5m, 7d.")
@click.option("--yes", is_flag=True, help="Remove them; without it they are only counted.")
@store_option
@json_option
def purge(queue: str | None, older_than: timedelta | None, yes: bool, store: str | None, as_json: bool) -> None:
    """Remove dead letters with their steps and their log, those that were replayed too. There is no way back: without
    --yes nothing is removed, and the number of those that are not replayed is told."""
    with app.open(store) as engine:
        before = None if older_than is None else engine.data.now() - older_than
        if not yes:
            raise FloError(f"{_counted(engine, queue, before)}; --yes says that they are to be removed for good")
        removed = 0
        while count := engine.executions.purge_dead(queue=queue, before=before):
            removed += count
    if as_json:
        print_json({"removed": removed})
    else:
        note(f"{removed:,} {_letters(removed)} removed")


def _all_dead(engine: app.Flo, queue: str | None) -> Iterator[str]:
    """The ids of the dead letters of this moment, not of those that die meanwhile. What was replayed is gone from the
    next page; what could not be is on it again, and is passed by."""
    now = engine.data.now()
    seen: set[str] = set()
    limit = _BATCH
    while True:
        page = engine.executions.list(queue=queue, dead=True, limit=limit)
        fresh = [held for held in page if held.id not in seen]
        for held in fresh:
            seen.add(held.id)
            if held.finished_at is None or held.finished_at <= now:
                yield held.id
        if not fresh and len(page) < limit:
            return
        limit = _BATCH + len(page) - len(fresh)


def _counted(engine: app.Flo, queue: str | None, before: datetime | None) -> str:
    """How many dead letters a purge is about."""
    count = sum(info.dead for info in engine.store.queue.queues() if queue is None or info.name == queue)
    if before is not None and count <= _COUNTED:
        letters = engine.executions.list(queue=queue, dead=True, limit=_COUNTED)
        count = sum(held.finished_at is not None and held.finished_at < before for held in letters)
    elif before is not None:
        return f"there are {count:,} dead letters, not all of them as old as that"
    old = "" if before is None else " as old as that"
    return f"there {'is' if count == 1 else 'are'} {count:,} {_letters(count)}{old}"


def _letters(count: int) -> str:
    return "dead letter" if count == 1 else "dead letters"


def _told(held: Execution, enqueued: Enqueued) -> str:
    if not enqueued.created:
        return f"{held.id} was replayed already, as {enqueued.execution_id}"
    return f"{held.id} is replayed as {enqueued.execution_id}"


def _row(held: Execution) -> tuple[str, ...]:
    return (
        held.id,
        held.workflow or held.handler or "-",
        held.queue or "-",
        "-" if held.reason is None else held.reason.value,
        "-" if held.finished_at is None else write_instant(held.finished_at),
        str(held.attempt),
        str(held.error.get("message", "")) if held.error else "",
    )
