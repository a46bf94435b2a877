"""What an operator does with an execution: stop it, let it go on, run it anew, answer what it waits for."""

from __future__ import annotations

import getpass
from datetime import timedelta
from typing import Final

import click

from flo.engine import app
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import error, note, print_json, write
from flo.engine.commands.running import (
    Foreground,
    Manner,
    fail_on_errors_option,
    quiet_option,
    timeout_option,
    verbose_option,
)
from flo.engine.commands.sources import find_execution, object_argument
from flo.engine.comparison import identical
from flo.engine.errors import FloError, InputInvalid, StoreError
from flo.engine.executions import Execution, ExecutionState, IllegalMove
from flo.engine.instants import write_instant
from flo.engine.values import JsonObject

_S = ExecutionState


@click.command(short_help="Stop executions, and what they started.")
@click.argument("executions", metavar="ID...", nargs=-1, required=True)
@store_option
@json_option
def cancel(executions: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Stop executions, waiting or running ones, and everything unfinished that they started. Prints the ids of what is
    cancelled now. What a worker still does for them is not stored. ID may be the beginning of an id.

    Ends with 1 where one of them has ended already; the others are cancelled all the same.
    """
    cancelled: list[str] = []
    code = 0
    with app.open(store) as engine:
        for execution_id in executions:
            try:
                held = find_execution(engine, execution_id)
                if held.id not in cancelled:  # as what another one of them started
                    cancelled += engine.cancel(held.id)
            except StoreError:
                raise
            except IllegalMove as ended:
                code = 1
                error(f"execution {ended.execution_id} is {ended.current}: it has ended, and cannot be cancelled")
            except FloError as refused:
                code = 1
                error(str(refused))
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        for execution_id in cancelled:
            write(f"{execution_id}\n")
    return code


@click.command(short_help="Let a failed execution go on from where it failed.")
@click.argument("execution", metavar="ID")
@click.option("--input", "input_", metavar="JSON|@FILE|-", help="Refused, unless it is the input that it started with.")
@store_option
@steps_option
@json_option
@timeout_option
@fail_on_errors_option
@quiet_option
@verbose_option
def resume(
    execution: str,
    input_: str | None,
    store: str | None,
    steps: tuple[str, ...],
    as_json: bool,
    timeout: timedelta | None,
    fail_on_errors: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Let a failed or timed out execution go on after the last step that ended, with the workflow and the input that it
    started with. ID may be the beginning of an id.

    A job goes back to its queue. What 'flo run' ran goes on here and now, as under 'flo run': also one that was killed,
    and one that was suspended, once what it waits for is there.
    """
    given = None if input_ is None else object_argument(input_, "--input")
    foreground = Foreground(Manner(as_json, False, quiet, verbose, timeout, fail_on_errors))
    with app.open(store, steps=steps, listeners=foreground.listeners) as engine:
        engine.store.queue.bury()  # what was killed has failed
        held = find_execution(engine, execution)
        if not (held.queue is None and held.parent_id is None and held.state in (_S.PENDING, _S.SUSPENDED)):
            held = _resumed(engine, held, given)
        elif given is not None and not identical(given, held.input):
            raise InputInvalid(
                "--input", "it is not the input that the execution started with; 'flo run' takes another"
            )
        if newer := _newer_version(engine, held):
            note(f"goes on with version {held.version}, as it started; version {newer} is stored")
        if held.queue is None:
            return foreground.run(
                engine,
                lambda cancelled, timeout_ms: engine.run_pending(held.id, cancelled=cancelled, timeout_ms=timeout_ms),
                named=store is not None,
            )
    if as_json:
        print_json({"executionId": held.id, "status": held.state.value, "queue": held.queue})
    else:
        note(f"execution {held.id} is {held.state} in queue {held.queue!r}, for attempt {held.attempt}")
    return 0


def _resumed(engine: app.Flo, held: Execution, given: JsonObject | None) -> Execution:
    try:
        return engine.resume(held.id, given)
    except IllegalMove as refused:
        raise FloError(f"{_standing(held)}; only what failed or timed out can be resumed") from refused


def _standing(held: Execution) -> str:
    """How an execution stands, and who has it."""
    until = "" if held.lease_until is None else f" until {write_instant(held.lease_until)}, or longer"
    holder = f": worker {held.worker!r} holds it{until}" if held.state is _S.RUNNING else ""
    return f"execution {held.id} is {held.state}{holder}"


def _newer_version(engine: app.Flo, held: Execution) -> int | None:
    """The newest stored version of an execution's workflow, where it started with an older one."""
    if held.workflow is None or held.version is None:
        return None
    stored = engine.workflows.get(held.workflow)
    return stored.version if stored is not None and stored.version > held.version else None


@click.command(short_help="Run an execution's workflow anew, with the same input.")
@click.argument("execution", metavar="ID")
@store_option
@steps_option
@json_option
@timeout_option
@fail_on_errors_option
@quiet_option
@verbose_option
def replay(
    execution: str,
    store: str | None,
    steps: tuple[str, ...],
    as_json: bool,
    timeout: timedelta | None,
    fail_on_errors: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run an execution's workflow anew, from the start, with the same input and the newest stored version of the
    workflow: another execution. ID may be the beginning of an id.

    A job is enqueued anew, in the same queue. What 'flo run' ran is run here and now, as under 'flo run'.
    """
    foreground = Foreground(Manner(as_json, False, quiet, verbose, timeout, fail_on_errors))
    with app.open(store, steps=steps, listeners=foreground.listeners) as engine:
        held = find_execution(engine, execution)
        if held.queue is None:
            return foreground.run(
                engine,
                lambda cancelled, timeout_ms: engine.replay_here(held.id, cancelled=cancelled, timeout_ms=timeout_ms),
                named=store is not None,
            )
        enqueued = engine.replay(held.id)
    if as_json:
        print_json(enqueued.as_json())
    else:
        write(f"{enqueued.execution_id}\n")
        note(f"execution {held.id} is replayed in queue {held.queue!r}")
    return 0


@click.command(short_help="Send a signal to an execution.")
@click.argument("execution", metavar="ID")
@click.argument("name")
@click.option("--payload", metavar="JSON|@FILE|-", help="What the step that waits for it gets: an object. Default: {}.")
@store_option
@json_option
def signal(execution: str, name: str, payload: str | None, store: str | None, as_json: bool) -> None:
    """Send a signal to an execution. A step that waits for a signal of this name goes on with the payload; one that no
    step waits for yet is kept. ID may be the beginning of an id."""
    given = object_argument(payload, "--payload")
    with app.open(store) as engine:
        held = find_execution(engine, execution)
        engine.signal(held.id, name, given)
        awaited = any(wait.kind == "signal" and wait.name == name for wait in engine.executions.waits(held.id))
    if as_json:
        print_json({"executionId": held.id, "signal": name, "payload": given})
    else:
        note(f"execution {held.id} has the signal {name!r}{'' if awaited else '; no step of it waits for that yet'}")
    if _is_attached(held):
        _note_attached(held)


@click.command(short_help="Decide an approval that an execution waits for.")
@click.argument("execution", metavar="ID")
@click.option("--step", "path", metavar="PATH", help="The step that waits, where several do.")
@click.option("--as", "actor", metavar="ACTOR", help="Who decides. Default: the name you are logged in with.")
@click.option("--reject", is_flag=True, help="Decide against it.")
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the decision.")
@store_option
@json_option
def approve(
    execution: str,
    path: str | None,
    actor: str | None,
    reject: bool,
    reason: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Decide an approval that an execution waits for: approve it, or with --reject reject it. The decision, with who
    made it and when, is kept and final. Ends with 1 where ACTOR is no approver of the step. ID may be the beginning of
    an id."""
    who = _login_name() if actor is None else actor
    with app.open(store) as engine:
        held = find_execution(engine, execution)
        wait = engine.approve(held.id, actor=who, approved=not reject, reason=reason, path=path)
    if as_json:
        print_json({"executionId": held.id, **wait.as_json()})
    else:
        note(f"{who} {'rejected' if reject else 'approved'} step {wait.path!r} of execution {held.id}")
    if _is_attached(held):
        _note_attached(held)


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user of this number, or a system without such a list
        raise FloError("nobody knows who you are: there is no login name; give one with --as ACTOR") from None


def _is_attached(held: Execution) -> bool:
    """Whether no worker takes up an execution that is suspended: the process that started it does."""
    return held.queue is None and held.parent_id is None and held.state is _S.SUSPENDED


def _note_attached(held: Execution) -> None:
    note(f"no queue delivers it: where its 'flo run' is gone, 'flo executions resume {held.id}' lets it go on")


COMMANDS: Final = (cancel, resume, replay, signal, approve)
