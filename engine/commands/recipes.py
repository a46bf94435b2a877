"""``flo recipes``: the workflows that come with flo."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import json_anyway_option, json_option
from flo.engine.commands.output import note, print_json_list, print_table, write
from flo.engine.errors import FloError, NotFound
from flo.engine.reading import parse_json


@click.group(cls=CommandGroup)
def recipes() -> None:
    """The workflows that come with flo."""


@recipes.command("list", short_help="List the recipes.")
@json_option
def list_recipes(as_json: bool) -> None:
    """List the recipes, and what each is for."""
    found = [(name, _description(name)) for name in recipe_names()]
    if as_json:
        print_json_list({"name": name, "description": description} for name, description in found)
    else:
        print_table(("NAME", "WHAT IT DOES"), found)


@recipes.command(short_help="Print a recipe.")
@click.argument("name")
@json_anyway_option
def show(name: str) -> None:
    """Print a recipe as it ships."""
    write(recipe_text(name))


@recipes.command(short_help="Copy recipes into a folder, to be changed and run.")
@click.argument("names", metavar="NAME... [DESTINATION]", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def copy(names: tuple[str, ...], force: bool) -> None:
    """Copy recipes, to be changed and run: each into NAME.json in the working folder.

    The last argument may be a destination instead: a folder, or for a single recipe a file. It is one if it holds a
    slash, ends in .json, or is a folder that is there. Nothing is overwritten without --force.
    """
    wanted, destination = _destination(names)
    texts = {name: recipe_text(name) for name in wanted}
    single = destination if destination.suffix == ".json" and not destination.is_dir() else None
    if single and len(texts) > 1:
        raise FloError(f"{str(single)!r} is a file, and {len(texts)} recipes are to be copied: name a folder")
    targets = {name: single or destination / f"{name}.json" for name in texts}
    there = [str(target) for target in targets.values() if target.exists()]
    if there and not force:
        raise FloError(f"{', '.join(map(repr, there))} is there already; --force overwrites")
    for name, target in targets.items():
        _write(target, texts[name])
        note(f"{name!r} is copied to {target}")


def recipe_names() -> list[str]:
    """The names of the recipes, in order."""
    shipped = [held.name for held in files("flo.recipes").iterdir()]
    return sorted(name.removesuffix(".json") for name in shipped if name.endswith(".json"))


def recipe_text(name: str) -> str:
    """A recipe's JSON as it ships. Raises ``NotFound``."""
    known = recipe_names()
    name = name.removesuffix(".json")
    if name not in known:
        raise NotFound("recipe", name, known)
    return files("flo.recipes").joinpath(f"{name}.json").read_text(encoding="utf-8")


def _description(name: str) -> str:
    document = parse_json(recipe_text(name), name)
    return str(document.get("description", "")) if isinstance(document, dict) else ""


def _destination(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], Path]:
    """Tell names from a destination as the last argument."""
    *names, last = arguments
    is_place = "/" in last or "\\" in last or last.endswith(".json") or Path(last).is_dir()
    if names and is_place and last not in recipe_names():
        return tuple(names), Path(last)
    return arguments, Path()


def _write(target: Path, text: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
    except OSError as failed:
        raise FloError(f"{target} cannot be written: {failed.strerror}") from failed
