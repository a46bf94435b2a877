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

from filter_examples import EXAMPLES

import flo.steps
from flo.engine.commands.editor_schema import editor_schema
from flo.engine.commands.reference import command_reference
from flo.engine.language.filters import FILTERS, Filter
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import compile_template
from flo.engine.registry import Registry, declared_in
from flo.engine.step import StepType
from flo.engine.values import Json

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
Arguments in brackets may be left out: `<< initial.text | truncate: 20 >>`. What an example gives is written as JSON.

| filter | arguments | | example | gives |
|---|---|---|---|---|
"""
NEW_LINE = "\n"


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
    said = " ".join(filter(None, (schema.get("description", ""), *(choices(schema) if demands else ()))))
    rows = "".join(
        f"| `{name}` | {cell(kind)} | {cell(what)} |\n" for name, kind, what in described(schema, "", demands)
    )
    if not rows:
        return f"{said or 'Nothing.'}\n"
    return f"{said}{2 * NEW_LINE if said else ''}| field | type | |\n|---|---|---|\n{rows}"


def described(schema: Mapping[str, Any], prefix: str, demands: bool) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each field, of what lies in it too."""
    for name, field in schema.get("properties", {}).items():
        required = "Required." if demands and name in schema.get("required", ()) else ""
        examples = ", ".join(f"`{json.dumps(example)}`" for example in field.get("examples", ()))
        notes = (
            required,
            field.get("description", ""),
            *(choices(field) if demands else ()),
            f"Such as {examples}." if examples else "",
            f"Default: `{json.dumps(field['default'])}`." if "default" in field else "",
        )
        path = f"{prefix}{name}"
        yield path, kind(field), " ".join(filter(None, notes))
        yield from inside(field, path, demands)


def inside(field: Mapping[str, Any], path: str, demands: bool) -> Iterator[tuple[str, str, str]]:
    """The fields of the objects that a field may hold: as ``path[].name`` those of a list, as ``path.{}.name`` those
    under any key. What may also stand alone in the place of a list is told once."""
    items, values = field.get("items", {}), field.get("additionalProperties")
    if items:
        yield from inside(items, f"{path}[]", demands)
    if field.get("properties") != items.get("properties"):
        yield from described(field, f"{path}.", demands)
    if isinstance(values, Mapping):
        yield from inside(values, f"{path}.{{}}", demands)
    for choice in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        yield from inside(choice, path, demands)


def choices(schema: Mapping[str, Any]) -> Iterator[str]:
    """What a schema says about fields together: which of them exclude or need one another."""
    for key, words in (("oneOf", "Exactly one of"), ("anyOf", "At least one of")):
        groups = [choice for choice in schema.get(key, ()) if not choice.get("properties")]
        named = ["`" + "` and `".join(group["required"]) + "`" for group in groups if group.get("required")]
        if len(named) == len(groups) and named:
            yield f"{words} {', '.join(named)}."
        elif named and key == "oneOf" and all(group.get("required") or "not" in group for group in groups):
            yield f"At most one of {', '.join(named)}."
    for part in schema.get("allOf", ()):
        yield from choices(part)


def kind(field: Mapping[str, Any]) -> str:
    """The type of a field in few words."""
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in field["enum"])
    for several in ("anyOf", "oneOf"):
        if "type" not in field and any("required" not in choice for choice in field.get(several, ())):
            return " or ".join(dict.fromkeys(kind(choice) for choice in field[several]))
    kinds = field.get("type", "any")
    named = [kinds] if isinstance(kinds, str) else kinds
    text = " or ".join(f"list of {kind(field['items'])}" if is_list(field, name) else name for name in named)
    return " ".join(filter(None, (text.replace("array", "list"), *bounds(field))))


def is_list(field: Mapping[str, Any], name: str) -> bool:
    """Whether a type is a list of which is known what it holds."""
    return name == "array" and bool(field.get("items", {}).keys() & {"type", "enum"})


def bounds(field: Mapping[str, Any]) -> Iterator[str]:
    """What the values of a field are held to, in few words."""
    for key, words in (
        ("minimum", "from"),
        ("exclusiveMinimum", "above"),
        ("maximum", "to"),
        ("exclusiveMaximum", "below"),
    ):
        if key in field:
            yield f"{words} {field[key]}"
    if field.get("format") == "date-time":
        yield "(an instant)"
    if field.get("minItems") == 1:
        yield "(not empty)"
    if "maxLength" in field:
        yield f"(up to {field['maxLength']} characters)"


def filter_reference() -> str:
    """The page about the filters."""
    rows = (
        f"| `{name}` | {arguments(FILTERS[name])} | {cell(meaning(FILTERS[name]))} | {code(EXAMPLES[name])}"
        f" | {code(json.dumps(given(EXAMPLES[name]), ensure_ascii=False))} |\n"
        for name in sorted(FILTERS)
    )
    return FILTERS_INTRODUCTION + "".join(rows)


def given(expression: str) -> Json:
    """What an expression gives that refers to nothing."""
    return compile_template(f"<< {expression} >>").resolve(Scope({}), refused)


def refused(missing: Missing) -> None:
    """Let no example refer to what is not there."""
    raise ValueError(f"an example refers to {missing.path}")


def code(text: str) -> str:
    """Text as code in a table."""
    marks = "``" if "`" in text else "`"
    return cell(f"{marks}{text}{marks}")


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
