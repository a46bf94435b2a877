"""``flo steps``: the step types that are there, and a beginning for those that are not yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from flo.engine import app
from flo.engine.commands.group import CommandGroup, Deferred
from flo.engine.commands.options import json_option, steps_option
from flo.engine.commands.output import print_json, print_json_list, print_table, warn, write
from flo.engine.errors import NotFound
from flo.engine.registry import Registry
from flo.engine.step import StepType
from flo.engine.values import JsonObject, dump

Rows = Iterator[tuple[str, str, str]]
_DEEPEST: Final = 3


NEW: Final = Deferred("flo.engine.commands.steps_new:new", "Begin a distribution of step types of one's own.")


@click.group(cls=CommandGroup, deferred={"new": NEW})
def steps() -> None:
    """The step types that are installed, and new ones."""


@steps.command("list", short_help="List the step types.")
@steps_option
@json_option
def list_steps(steps: tuple[str, ...], as_json: bool) -> None:
    """List the step types, by name, and the modules or files that they come from. What could not be loaded is told too:
    where it broke, and why."""
    registry = _registry(steps)
    found = [registry[name] for name in sorted(registry)]
    if as_json:
        print_json_list([*(_entry(step_type, registry) for step_type in found), *_broken(registry)])
        return
    rows = [(step_type.name, registry.source(step_type.name), step_type.summary) for step_type in found]
    print_table(("STEP TYPE", "FROM", "WHAT IT DOES"), rows)
    for plugin in registry.broken:
        warn(str(plugin))


@steps.command(short_help="Show a step type: its input, its output, an example.")
@click.argument("step_type", metavar="TYPE")
@steps_option
@json_option
def show(step_type: str, steps: tuple[str, ...], as_json: bool) -> None:
    """Show a step type: what it does, the fields of its input and output, and an example. With --json: its schemas."""
    registry = _registry(steps)
    try:
        found = registry[step_type]
    except NotFound:
        for plugin in registry.broken:  # it may be among what is missing
            warn(str(plugin))
        raise
    if as_json:
        print_json(
            {
                "name": found.name,
                "source": registry.source(found.name),
                "summary": found.summary,
                "description": found.description,
                "input": found.schema,
                "output": found.output_schema,
                "example": found.example,
            }
        )
        return
    write(f"{found.name}: {found.summary}\n")
    if found.description:
        write(f"\n{found.description}\n")
    for title, schema in (("Input", found.schema), ("Output", found.output_schema)):
        write(f"\n{title}\n")
        _print_fields(schema)
    write("\nExample\n")
    step: JsonObject = {"stepId": found.name.rpartition(".")[2], "stepType": found.name, "input": found.example}
    print_json(step, indented=True)


def _registry(steps: tuple[str, ...]) -> Registry:
    with app.open("memory:", steps=steps) as engine:
        return engine.registry


def _entry(step_type: StepType, registry: Registry) -> JsonObject:
    source = registry.source(step_type.name)
    return {"name": step_type.name, "status": "ok", "summary": step_type.summary, "source": source}


def _broken(registry: Registry) -> Iterator[JsonObject]:
    for plugin in registry.broken:
        yield {"name": plugin.name, "status": "broken", "place": plugin.place, "message": plugin.message}


def _print_fields(schema: JsonObject) -> None:
    rows = list(_fields(schema))
    if rows:
        print_table(("  FIELD", "TYPE", ""), [(f"  {name}", kind, said) for name, kind, said in rows])
    else:
        write(f"  {schema.get('description', 'any keys')}\n")


def _fields(schema: Mapping[str, Any]) -> Rows:
    """The fields of an object and of the objects in it: name, type, and what is said of it."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    for name, field, required in _properties(schema, definitions, ""):
        said = [field["description"]] if field.get("description") else []
        if required:
            said.insert(0, "required.")
        if "default" in field:
            said.append(f"Default: {dump(field['default'])}.")
        yield name, _kind(field), " ".join(said)


def _properties(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield f"{prefix}{name}", _shown(field, definitions), name in required
        if prefix.count(".") < _DEEPEST:
            inside, between = (field["items"], "[].") if isinstance(field.get("items"), Mapping) else (field, ".")
            yield from _properties(inside, definitions, f"{prefix}{name}{between}")


def _shown(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field that is described elsewhere in the schema, as it is there."""
    reference = str(field.get("$ref", ""))
    return {**definitions.get(reference.rpartition("/")[2], {}), **field} if reference else field


def _kind(field: Mapping[str, Any]) -> str:
    """A field's type in a word or two."""
    if "enum" in field:
        return " | ".join(dump(value) for value in field["enum"])
    kind = field.get("type", "object" if "$ref" in field else "")
    if isinstance(kind, list):
        return " | ".join(kind)
    if kind == "array" and isinstance(field.get("items"), Mapping) and field["items"].get("type"):
        inner = field["items"]["type"]
        return f"array of {inner if isinstance(inner, str) else ' | '.join(inner)}"
    choices = field.get("oneOf") or field.get("anyOf")
    if not kind and choices:
        return " | ".join(dict.fromkeys(_kind(choice) for choice in choices if isinstance(choice, Mapping)))
    return kind or "any"
