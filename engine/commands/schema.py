"""``flo schema``."""

from __future__ import annotations

import click

from flo.engine import app
from flo.engine.commands.editor_schema import editor_schema
from flo.engine.commands.options import json_anyway_option, steps_option
from flo.engine.commands.output import print_json


@click.command(short_help="Print a JSON Schema: of workflows, or of a step's input.")
@click.argument("step_type", metavar="TYPE", required=False)
@steps_option
@json_anyway_option
def schema(step_type: str | None, steps: tuple[str, ...]) -> None:
    """Print a JSON Schema for editors: of workflows, the input of every step type in it; with TYPE that of one step
    type's input alone."""
    with app.open("memory:", steps=steps) as engine:
        registry = engine.registry
    print_json(editor_schema(registry) if step_type is None else registry[step_type].schema)
