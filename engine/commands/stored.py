"""``flo add``, ``flo list`` and ``flo show``: stored workflows."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from flo.engine import app
from flo.engine.commands.diagram import diagram
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, warn, write
from flo.engine.commands.sources import check_file
from flo.engine.commands.trigger_words import next_fires, standing
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.reading import parse_json
from flo.engine.stores.base import StoredWorkflow
from flo.engine.values import JsonObject


@click.command(short_help="Store a workflow under its name: a new version.")
@click.argument("files", metavar="FILE|-", nargs=-1, required=True)
@store_option
@steps_option
@json_option
def add(files: tuple[str, ...], store: str | None, steps: tuple[str, ...], as_json: bool) -> None:
    """Store workflows under their names. The same name again makes a new version; the same document does not.
    Their triggers are brought in step, and how each stands is told; with --json their names stand under 'triggers'.

    Every file is checked before the first one is stored. 'flo add -' reads from standard input: paste.
    """
    with app.open(store, steps=steps) as engine:
        checked = [check_file(engine, file) for file in files]
        for warning in (warning for one in checked for warning in one.warnings):
            warn(str(warning))
        added = [_Added.of(engine, engine.add(one.workflow)) for one in checked]
    if as_json:
        answers = [{**_as_json(one.stored), "triggers": list(one.triggers)} for one in added]
        print_json(answers[0] if len(answers) == 1 else answers)
    else:
        for one in added:
            note(f"{one.stored.name!r} is stored, version {one.stored.version}")
            for name, stands in one.triggers.items():
                note(f"{name!r} {stands}")


@click.command("list", short_help="List the stored workflows.")
@store_option
@json_option
def list_stored(store: str | None, as_json: bool) -> None:
    """List the stored workflows, the newest version of each, by name."""
    with app.open(store) as engine:
        found = engine.workflows.list()
    if as_json:
        print_json_list(_as_json(stored) for stored in found)
    elif found:
        rows = [(held.name, str(held.version), write_instant(held.created_at), held.id) for held in found]
        print_table(("NAME", "VERSION", "STORED", "ID"), rows)
    else:
        note("no workflow is stored; 'flo add FILE' stores one")


@click.command(short_help="Print a stored workflow as it was added.")
@click.argument("name")
@click.option("--version", type=click.IntRange(min=1), metavar="N", help="An older version.")
@click.option("--diagram", "as_picture", is_flag=True, help="Print a Mermaid flowchart of it instead.")
@store_option
@steps_option
@json_option
def show(
    name: str, version: int | None, as_picture: bool, store: str | None, steps: tuple[str, ...], as_json: bool
) -> None:
    """Print a stored workflow exactly as it was added. With --json: what is kept of it, and its document.

    With --diagram: its steps, what waits for what, and what starts it, as Mermaid. A dashed arrow goes on after a
    failure, too; a dashed frame is a step of a type that is not installed here.
    """
    if as_picture and as_json:
        raise click.UsageError("--diagram prints Mermaid; it cannot be together with --json")
    with app.open(store, steps=steps) as engine:
        stored = engine.stored(name, version)
        picture = diagram(stored.document, engine.registry, name) if as_picture else None
    if picture is not None:
        write(picture)
    elif as_json:
        print_json({**_as_json(stored), "document": parse_json(stored.document, name)})
    else:
        write(stored.document)
        if sys.stdout.isatty() and not stored.document.endswith("\n"):
            write("\n")


@frozen
class _Added:
    """A workflow that was stored, and how each of its triggers stands now, by its full name."""

    stored: StoredWorkflow
    triggers: Mapping[str, str]

    @staticmethod
    def of(engine: app.Flo, stored: StoredWorkflow) -> _Added:
        held = engine.triggers.list(stored.name)
        now = engine.data.now() if held else stored.created_at
        stands = {one.full_name: standing(one, next_fires(engine.triggers, one, now)) for one in held}
        return _Added(stored, stands)


def _as_json(stored: StoredWorkflow) -> JsonObject:
    return {
        "id": stored.id,
        "name": stored.name,
        "version": stored.version,
        "digest": stored.digest,
        "createdAt": write_instant(stored.created_at),
    }
