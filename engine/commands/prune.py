"""``flo prune``: remove executions that ended long ago."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import click

from flo.engine import app
from flo.engine.commands.options import duration, json_option, store_option
from flo.engine.commands.output import note, print_json
from flo.engine.jobs import Retention

_USUAL: Final = Retention()
assert _USUAL.age is not None
assert _USUAL.count is not None


@click.command(short_help="Remove executions that ended long ago.")
@click.option(
    "--older-than",
    type=duration,
    metavar="DURATION",
    help=f"Remove those that ended so long ago: 90m, 7d. Default: {_USUAL.age.days}d.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Of those that ended keep the newest N at most. Default: {_USUAL.count}.",
)
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@store_option
@json_option
def prune(
    older_than: timedelta | None, keep: int | None, workflow: str | None, store: str | None, as_json: bool
) -> None:
    """Remove executions that ended, with their steps and their log: those that are older, and those that are more, than
    is kept. What has not ended is never touched.

    For the executions of a workflow that says so itself its options.retention holds, unless --workflow names it and a
    bound is given. Workers do the same all the time.
    """
    given = (
        None
        if older_than is None and keep is None
        else Retention(_USUAL.age if older_than is None else older_than, _USUAL.count if keep is None else keep)
    )
    with app.open(store) as engine:
        removed = engine.prune(given, workflow=workflow)
    if as_json:
        print_json({"removed": removed})
    else:
        note(f"{removed:,} {'execution' if removed == 1 else 'executions'} removed")
