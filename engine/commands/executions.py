"""``flo executions``: runs, how they ended, and what they logged."""

from __future__ import annotations

from collections.abc import Iterator

import click

from flo.engine import app
from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, shown_text, write
from flo.engine.errors import NotFound
from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord
from flo.engine.instants import write_instant
from flo.engine.stores.base import ExecutionStore
from flo.engine.values import JsonObject, dump

_PAGE = 500


@click.group(cls=CommandGroup)
def executions() -> None:
    """Look at runs: how they ended, and their log."""


@executions.command("list", short_help="List runs, the newest first.")
@click.option("--status", type=click.Choice([state.value for state in ExecutionState]), help="Only those that are so.")
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="At most so many."
)
@store_option
@json_option
def list_executions(status: str | None, workflow: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """List runs, the newest first."""
    state = None if status is None else ExecutionState(status)
    with app.open(store) as engine:
        found = engine.executions.list(state=state, workflow=workflow, limit=limit)
    if as_json:
        print_json_list(_summary(execution) for execution in found)
    elif found:
        rows = [
            (held.id, held.workflow or "-", held.state.value, write_instant(held.created_at), _seconds(held))
            for held in found
        ]
        print_table(("EXECUTION", "WORKFLOW", "STATUS", "CREATED", "TOOK"), rows)
    else:
        note("no such execution")


@executions.command(short_help="Show a run and its steps.")
@click.argument("execution", metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Also the iterations of loops, and the steps in them.")
@store_option
@json_option
def show(execution: str, everything: bool, store: str | None, as_json: bool) -> None:
    """Show a run: its input and output, how it ended, and its steps. ID may be the beginning of an id."""
    with app.open(store) as engine:
        found = _find(engine.executions, execution)
        steps = [step for step in engine.executions.steps(found.id) if everything or "[" not in step.path]
    if as_json:
        print_json({**found.as_json(), "steps": [step.as_json() for step in steps]})
        return
    for name, value in found.as_json().items():
        if value is not None:
            write(f"{name:<12} {shown_text(value if isinstance(value, str) else dump(value), ' ' * 13)}\n")
    if steps:
        write("\n")
        print_table(("STEP", "TYPE", "STATUS", "TOOK", "ATTEMPTS", "ERROR"), [_step_row(step) for step in steps])


@executions.command(short_help="Print a run's log.")
@click.argument("execution", metavar="ID")
@store_option
@json_option
def logs(execution: str, store: str | None, as_json: bool) -> None:
    """Print a run's log, in the order in which it was written. ID may be the beginning of an id."""
    with app.open(store) as engine:
        lines = _lines(engine.executions, _find(engine.executions, execution).id)
        if as_json:
            print_json_list(line.as_json() for line in lines)
            return
        for line in lines:
            step = f"{line.step}: " if line.step else ""
            data = "" if line.data is None else f"  {dump(line.data)}"
            write(f"{write_instant(line.at)} {line.level:<5} {step}{shown_text(line.message, ' ' * 34)}{data}\n")


def _find(store: ExecutionStore, execution_id: str) -> Execution:
    found = store.get(execution_id)
    if found is None:
        raise NotFound("execution", execution_id, (held.id for held in store.list()))
    return found


def _lines(store: ExecutionStore, execution_id: str) -> Iterator[LogLine]:
    after = 0
    while page := store.lines(execution_id, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


def _summary(execution: Execution) -> JsonObject:
    """All but what may be large."""
    return {key: value for key, value in execution.as_json().items() if key not in ("input", "output")}


def _seconds(execution: Execution) -> str:
    if execution.started_at is None or execution.finished_at is None:
        return "-"
    return f"{(execution.finished_at - execution.started_at).total_seconds():.2f} s"


def _step_row(step: StepRecord) -> tuple[str, ...]:
    error = str(step.error["message"]) if step.error else ""
    took = f"{step.duration_ms:.0f} ms"
    return (step.path, step.step_type, step.state.value, took, str(step.attempts), error)
