"""Writes what is generated: the schemas of the step types, the schema for editors, and the reference in ``docs/``.

``python docs/generate.py`` writes the files, ``--check`` names those that are out of date and ends with 1.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import flo.steps
from flo.engine.commands.editor_schema import editor_schema
from flo.engine.commands.reference import command_reference
from flo.engine.language.filters import FILTERS, Filter
from flo.engine.registry import Registry, declared_in
from flo.engine.step import StepType

ROOT = Path(__file__).resolve().parent.parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
REMEDY = "python docs/generate.py"
STEPS_INTRODUCTION = """\
# Step types

Generated from the step types themselves; `flo steps show TYPE` prints the same. A template may stand for any value of
an input, but for lists of steps and whole workflows; what it gives is checked when the step runs.
"""
FILTERS_INTRODUCTION = """\
# Filters

Generated from the filters themselves, by name. [The language](../language.md#filters) says what holds for all of them.
Arguments in brackets may be left out: `<< initial.text | truncate: 20 >>`.

| filter | arguments | |
|---|---|---|
"""


def shipped() -> Registry:
    """The step types that flo brings along, whatever else is installed."""
    modules = [importlib.import_module(f"flo.steps.{found.name}") for found in pkgutil.iter_modules(flo.steps.__path__)]
    return Registry(step_type for module in modules for step_type in declared_in(module))


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file and what belongs in it."""
    registry = shipped()
    step_types = [registry[name] for name in sorted(registry)]
    for step_type in step_types:
        yield ROOT / "schemas" / "steps" / f"{step_type.name}.json", as_json(schema_of(step_type))
    yield ROOT / "schemas" / "workflow-editor.schema.json", as_json(editor_schema(registry))
    yield ROOT / "docs" / "reference" / "steps.md", step_reference(step_types)
    yield ROOT / "docs" / "reference" / "filters.md", filter_reference()
    yield ROOT / "docs" / "reference" / "command.md", command_reference()


def schema_of(step_type: StepType) -> Mapping[str, Any]:
    """A step type as one JSON Schema: that of its input, with that of its output in ``$defs/output``."""
    schema: Mapping[str, Any] = step_type.schema
    said = " ".join(part for part in (step_type.summary, schema.get("description", "")) if part)
    definitions = {**schema.get("$defs", {}), "output": step_type.output_schema}
    head = {"$schema": DIALECT, "title": step_type.name, "description": said}
    return {**head, **schema, "description": said, "examples": [step_type.example], "$defs": definitions}


def as_json(value: Any) -> str:
    """JSON as the repository keeps it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def step_reference(step_types: list[StepType]) -> str:
    """The page about the step types."""
    rows = "".join(f"| [`{held.name}`](#{anchor(held.name)}) | {cell(held.summary)} |\n" for held in step_types)
    sections = "".join(section(step_type) for step_type in step_types)
    return f"{STEPS_INTRODUCTION}\n| type | |\n|---|---|\n{rows}{sections}"


def section(step_type: StepType) -> str:
    """What the page says about one step type."""
    text = f"\n## {step_type.name}\n\n{step_type.summary}\n"
    if step_type.description:
        text += f"\n{step_type.description}\n"
    text += f"\n**Input**\n\n{fields(step_type.schema, demands=True)}"
    text += f"\n**Output**\n\n{fields(step_type.output_schema, demands=False)}"
    example = {"stepId": "example", "stepType": step_type.name, "input": step_type.example}
    return f"{text}\n**Example**\n\n```json\n{as_json(example)}```\n"


def fields(schema: Mapping[str, Any], *, demands: bool) -> str:
    """The fields of an object as a table, those inside it as paths. ``demands``: whether to say which are required."""
    said = f"{schema['description']}\n" if "description" in schema else ""
    rows = "".join(
        f"| `{name}` | {cell(kind)} | {cell(what)} |\n" for name, kind, what in described(schema, "", demands)
    )
    if not rows:
        return said or "Nothing.\n"
    blank = "\n" if said else ""
    return f"{said}{blank}| field | type | |\n|---|---|---|\n{rows}"


def described(schema: Mapping[str, Any], prefix: str, demands: bool) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each field."""
    for name, field in schema.get("properties", {}).items():
        required = "Required." if demands and name in schema.get("required", ()) else ""
        default = f"Default: `{json.dumps(field['default'])}`." if "default" in field else ""
        path = f"{prefix}{name}"
        yield path, kind(field), " ".join(filter(None, (required, field.get("description", ""), default)))
        yield from described(field.get("items", {}), f"{path}[].", demands)


def kind(field: Mapping[str, Any]) -> str:
    """The type of a field in few words."""
    if "enum" in field:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in field["enum"])
    if "anyOf" in field:
        return " or ".join(kind(choice) for choice in field["anyOf"])
    kinds = field.get("type", "any")
    text = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    bounds = [
        f"{words} {field[key]}"
        for key, words in (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
        if key in field
    ]
    return f"{text} {' '.join(bounds)}" if bounds else text


def filter_reference() -> str:
    """The page about the filters."""
    rows = (f"| `{name}` | {arguments(FILTERS[name])} | {cell(meaning(FILTERS[name]))} |\n" for name in sorted(FILTERS))
    return FILTERS_INTRODUCTION + "".join(rows)


def arguments(held: Filter) -> str:
    """The names of a filter's arguments, those in brackets that may be left out."""
    found: list[str] = []
    for at, parameter in enumerate(list(inspect.signature(held.function).parameters.values())[1:]):
        if parameter.kind is parameter.VAR_POSITIONAL:
            found.append(f"{parameter.name}…")
        elif parameter.kind is parameter.KEYWORD_ONLY:
            found.append(f"[{parameter.name}:]")
        else:
            found.append(parameter.name if at < held.least else f"[{parameter.name}]")
    return ", ".join(found)


def meaning(held: Filter) -> str:
    """The first paragraph of a filter's docstring."""
    return inspect.cleandoc(held.function.__doc__ or "").partition("\n\n")[0].replace("``", "`")


def anchor(title: str) -> str:
    """The address of a heading, as Markdown viewers make it."""
    return title.lower().replace(".", "").replace(" ", "-")


def cell(text: str) -> str:
    """Text as it stands in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: list[str]) -> int:
    """Write the files, or check them. Files of step types that are gone are removed."""
    wanted = dict(generated())
    present = set((ROOT / "schemas" / "steps").glob("*.json"))
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    gone = sorted(present - wanted.keys())
    if arguments == ["--check"]:
        for path in [*stale, *gone]:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date; run: {REMEDY}\n")
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
