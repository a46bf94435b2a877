"""``flo executions``: runs and jobs, how they stand or ended, and what they logged."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import click

from flo.engine import app
from flo.engine.commands import execution_acts
from flo.engine.commands.execution_tree import Line, all_records, print_tree, records_of, took, tree
from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, shown_text, write
from flo.engine.commands.sources import find_execution
from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.jobs import Attempt, Wait
from flo.engine.stores.base import ExecutionStore
from flo.engine.values import JsonObject, dump

_PAGE = 500
_SHOWN_CHILDREN = 100


@click.group(cls=CommandGroup)
def executions() -> None:
    """Runs and jobs: look at them, act on them."""


@executions.command("list", short_help="List runs and jobs, the newest first.")
@click.option("--status", type=click.Choice([state.value for state in ExecutionState]), help="Only those that are so.")
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option("--queue", metavar="NAME", help="Only those of this queue.")
@click.option("--parent", metavar="ID", help="Only those that this execution started.")
@click.option("--dead", is_flag=True, help="Only dead letters that were not replayed.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="At most so many."
)
@store_option
@json_option
def list_executions(
    status: str | None,
    workflow: str | None,
    queue: str | None,
    parent: str | None,
    dead: bool,
    limit: int,
    store: str | None,
    as_json: bool,
) -> None:
    """List runs and jobs, the newest first; without --queue, --parent or --dead those that no other one started."""
    state = None if status is None else ExecutionState(status)
    with app.open(store) as engine:
        engine.store.queue.bury()  # so that what was left behind does not look alive
        found = engine.executions.list(
            state=state,
            workflow=workflow,
            queue=queue,
            parent=None if parent is None else find_execution(engine, parent).id,
            dead=dead,
            limit=limit,
        )
    if as_json:
        print_json_list(summary(execution) for execution in found)
    elif found:
        print_executions(found)
    else:
        note("no such execution")


@executions.command(short_help="Show a run or job and its steps.")
@click.argument("execution", metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Every iteration of loops, and the steps in them.")
@store_option
@json_option
def show(execution: str, everything: bool, store: str | None, as_json: bool) -> None:
    """Show a run or job: its input and output, how it stands or ended, and its steps as a tree; the earlier claims of
    it, and the commands that answer what it waits for. ID may be the beginning of an id.

    Of a loop the tree tells how many iterations ended how, and shows the first ones that failed, wait, or started other
    executions.
    """
    with app.open(store) as engine:
        engine.store.queue.bury()
        picture = _picture(engine, find_execution(engine, execution), everything, draw=not as_json)
        kept_in = engine.store.url
    if as_json:
        print_json(picture.as_json())
        return
    for name, value in {**picture.execution.as_json(), "took": took(picture.execution) or None}.items():
        if value is not None:
            write(f"{name:<14} {shown_text(value if isinstance(value, str) else dump(value), ' ' * 15)}\n")
    _print_sections(picture)
    where = "" if store is None else f" --store {shlex.quote(kept_in)}"
    for line in _ways_on(picture, where):
        note(line)


@executions.command(short_help="Print the log of a run or job.")
@click.argument("execution", metavar="ID")
@store_option
@json_option
def logs(execution: str, store: str | None, as_json: bool) -> None:
    """Print the log of a run or job, in the order in which it was written. ID may be the beginning of an id."""
    with app.open(store) as engine:
        lines = _lines(engine.executions, find_execution(engine, execution).id)
        if as_json:
            print_json_list(line.as_json() for line in lines)
            return
        for line in lines:
            step = f"{line.step}: " if line.step else ""
            data = "" if line.data is None else f"  {dump(line.data)}"
            write(f"{write_instant(line.at)} {line.level:<5} {step}{shown_text(line.message, ' ' * 34)}{data}\n")


for act in execution_acts.COMMANDS:
    executions.add_command(act)


def print_executions(found: Sequence[Execution]) -> None:
    """Print executions as a table."""
    rows = [
        (
            held.id,
            held.workflow or held.handler or "-",
            _status(held),
            held.queue or "-",
            write_instant(held.created_at),
            took(held) or "-",
        )
        for held in found
    ]
    print_table(("EXECUTION", "WORKFLOW", "STATUS", "QUEUE", "CREATED", "TOOK"), rows)


def summary(execution: Execution) -> JsonObject:
    """All but what may be large."""
    return {key: value for key, value in execution.as_json().items() if key not in ("input", "output")}


@frozen
class _Picture:
    """What is shown of an execution."""

    execution: Execution
    steps: Sequence[StepRecord]
    attempts: Sequence[Attempt]
    waits: Sequence[Wait]
    children: Sequence[Execution]
    tree: Sequence[Line]

    def as_json(self) -> JsonObject:
        return {
            **self.execution.as_json(),
            "steps": [step.as_json() for step in self.steps],
            "attempts": [attempt.as_json() for attempt in self.attempts],
            "waits": [wait.as_json() for wait in self.waits],
            "children": [summary(child) for child in self.children],
        }


def _picture(engine: app.Flo, execution: Execution, everything: bool, *, draw: bool) -> _Picture:
    """Read what is shown. Without ``everything`` what is read does not grow with the iterations of loops, but for how
    each one ended; ``draw`` says whether the tree is wanted."""
    store = engine.executions
    steps = store.steps(execution.id) if everything else store.checkpoints(execution.id, "")
    attempts, waits = store.attempts(execution.id), store.waits(execution.id)
    children = store.list(parent=execution.id, limit=10_000 if everything else _SHOWN_CHILDREN)
    records = all_records(steps) if everything else records_of(store, execution.id, steps)
    lines = tree(execution, engine.registry, records, waits, children) if draw else ()
    return _Picture(execution, steps, attempts, waits, children, lines)


def _print_sections(picture: _Picture) -> None:
    """Print the tree of its steps, and what there is of earlier claims."""
    if picture.tree:
        write("\n")
        print_tree(picture.tree)
    if picture.attempts:
        write("\nATTEMPTS\n")
        print_table(
            ("CLAIM", "WORKER", "FROM", "TO", "OUTCOME", "ERROR"), [_attempt_row(one) for one in picture.attempts]
        )


def _ways_on(picture: _Picture, where: str) -> Iterator[str]:
    """What an unfinished execution is in want of, and the command for it. ``where`` is the ``--store`` of the call."""
    execution = picture.execution
    if len(picture.children) == _SHOWN_CHILDREN:
        yield f"there may be more children: flo executions list --parent {execution.id} --limit 10000{where}"
    if execution.state is ExecutionState.FAILED:
        yield f"its log: flo executions logs {execution.id}{where}"
    if execution.state.final:
        return
    for wait in picture.waits:
        if wait.answer is None:
            yield f"step {wait.path!r} waits for {_awaited(execution.id, wait, where)}"
    for child in picture.children:
        if child.state is ExecutionState.SUSPENDED:
            yield f"a child is suspended: flo executions show {child.id}{where}"


def _awaited(execution_id: str, wait: Wait, where: str) -> str:
    until = "" if wait.until is None else f", until {write_instant(wait.until)}"
    match wait.kind:
        case "signal":
            command = f"flo executions signal {execution_id} {shlex.quote(wait.name)} --payload JSON{where}"
            return f"the signal {wait.name!r}{until}: {command}"
        case "approval":
            approvers = wait.details.get("approvers")
            who = f" of {', '.join(map(str, approvers))}" if isinstance(approvers, list | tuple) and approvers else ""
            command = f"flo executions approve {execution_id} --step {shlex.quote(wait.path)}{where}"
            return f"an approval{who}{until}, or a rejection (--reject): {command}"
        case "execution":
            return f"the end of {wait.name}{until}: flo executions show {wait.name}{where}"
        case _:
            return f"its time{until}"


def _lines(store: ExecutionStore, execution_id: str) -> Iterator[LogLine]:
    after = 0
    while page := store.lines(execution_id, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


def _status(execution: Execution) -> str:
    """How it stands, and why where no step failed: ``failed (crashed)``, ``failed (poison)``."""
    code = (execution.error or {}).get("code")
    lost = execution.state is ExecutionState.FAILED and code in ("crashed", "poison")
    return f"{execution.state.value} ({code})" if lost else execution.state.value


def _attempt_row(attempt: Attempt) -> tuple[str, ...]:
    return (
        str(attempt.fence),
        attempt.worker or "-",
        "-" if attempt.claimed_at is None else write_instant(attempt.claimed_at),
        write_instant(attempt.ended_at),
        attempt.outcome,
        _message(attempt.error),
    )


def _message(error: JsonObject | None) -> str:
    return str(error.get("message", "")) if error else ""
