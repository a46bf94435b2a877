"""The command and its sub-commands: what each does in a line, and where it lies."""

from __future__ import annotations

from typing import Final

import click

from flo.engine.commands.group import CommandGroup, Deferred

COMMANDS: Final = {
    "run": Deferred("flo.engine.commands.run:run", "Run a workflow now, in this process, to its end."),
    "validate": Deferred("flo.engine.commands.validate:validate", "Check a workflow, and tell every problem at once."),
    "add": Deferred("flo.engine.commands.stored:add", "Store a workflow under its name: a new version."),
    "list": Deferred("flo.engine.commands.stored:list_stored", "List the stored workflows."),
    "show": Deferred("flo.engine.commands.stored:show", "Print a stored workflow as it was added."),
    "enqueue": Deferred(
        "flo.engine.commands.enqueue:enqueue", "Put a workflow or a step type into a queue, for workers to run."
    ),
    "worker": Deferred(
        "flo.engine.commands.worker:worker", "Run what is in queues, many executions at once, until it is stopped."
    ),
    "serve": Deferred(
        "flo.engine.commands.serve:serve",
        "Fire schedules and run what is in queues, in one process, until it is stopped.",
    ),
    "triggers": Deferred(
        "flo.engine.commands.triggers:triggers", "Schedules, and what else starts workflows by itself."
    ),
    "data": Deferred("flo.engine.commands.data:data", "Read and write the rows of the store."),
    "env": Deferred("flo.engine.commands.env:env", "Environments: the values that workflows read from $env."),
    "connections": Deferred(
        "flo.engine.commands.connections:connections", "Connections: how steps reach other services."
    ),
    "executions": Deferred("flo.engine.commands.executions:executions", "Runs and jobs: look at them, act on them."),
    "dead": Deferred("flo.engine.commands.dead:dead", "Jobs that failed for good: run them anew, or remove them."),
    "queues": Deferred("flo.engine.commands.queues:queues", "See how the queues stand; hold them back, bound them."),
    "recipes": Deferred("flo.engine.commands.recipes:recipes", "The workflows that come with flo."),
    "steps": Deferred("flo.engine.commands.steps:steps", "The step types that are installed, and new ones."),
    "schema": Deferred("flo.engine.commands.schema:schema", "Print a JSON Schema: of workflows, or of a step's input."),
    "logic": Deferred("flo.engine.commands.tools:logic", "Print what a JSONLogic rule gives."),
    "render": Deferred("flo.engine.commands.tools:render", "Print what a template gives."),
    "prune": Deferred("flo.engine.commands.prune:prune", "Remove executions that ended long ago."),
    "doctor": Deferred("flo.engine.commands.doctor:doctor", "Look at the installation and the store."),
    "migrate": Deferred("flo.engine.commands.doctor:migrate", "Bring the store's schema up to date."),
}


@click.group(
    cls=CommandGroup,
    deferred=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 a mistake in the call, 2 no store, 3 an invalid workflow or a failed run, "
    "124 timed out, 130 and 143 stopped by a signal.",
)
@click.version_option(package_name="flo-engine", message="flo %(version)s")
def flo() -> None:
    """Run workflows written as JSON."""
