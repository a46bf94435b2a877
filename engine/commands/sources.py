"""Where an argument's content comes from: the argument itself, a file, standard input, the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flo.engine.commands.output import note, warn
from flo.engine.errors import FloError, InputInvalid, NotFound, WorkflowInvalid, caret, did_you_mean
from flo.engine.reading import parse_json, read_text
from flo.engine.values import Json, JsonObject, kind_of

if TYPE_CHECKING:
    from flo.engine.app import Flo
    from flo.engine.checking.load import Checked
    from flo.engine.executions import Execution

STDIN = "-"


def read_argument(argument: str, name: str) -> tuple[bytes, str]:
    """The content of ``TEXT``, ``@FILE`` or ``-``, and what to call it in messages."""
    if argument == STDIN:
        return read_stdin(), "standard input"
    if argument.startswith("@"):
        return read_path(argument[1:]), argument[1:]
    return os.fsencode(argument), name


def json_argument(argument: str, name: str) -> Json:
    """The JSON of ``JSON``, ``@FILE`` or ``-``. Raises ``InputInvalid`` that shows the place."""
    data, source = read_argument(argument, name)
    return parse_shown(data, source)


def object_argument(argument: str | None, name: str) -> JsonObject:
    """As ``json_argument``, of an object; without an argument an empty one."""
    value = {} if argument is None else json_argument(argument, name)
    if not isinstance(value, dict):
        raise InputInvalid(name, f"it must be an object, {kind_of(value)} came")
    return value


def text_argument(argument: str, name: str) -> str:
    """The text of ``TEXT``, ``@FILE`` or ``-``; the line break that ends a file is not part of it."""
    data, source = read_argument(argument, name)
    text = read_text(data, source)
    return text.removesuffix("\n").removesuffix("\r") if argument == STDIN or argument.startswith("@") else text


def one_stdin(*arguments: str | None) -> None:
    """Refuse to read two things from standard input."""
    if arguments.count(STDIN) > 1:
        raise click.UsageError("only one argument can be read from standard input")


def read_stdin() -> bytes:
    """All of standard input."""
    if sys.stdin is None:
        raise InputInvalid("standard input", "it is closed")
    if sys.stdin.isatty():
        note("reading from the terminal: end with Ctrl-D on a line of its own")
    return sys.stdin.buffer.read()


def read_path(name: str) -> bytes:
    """The content of a file. Raises ``InputInvalid`` that names the nearest one."""
    from flo.engine.app import read_file

    return read_file(Path(name))


def parse_shown(data: bytes, source: str) -> Json:
    """As ``parse_json``; the message shows the line that is wrong."""
    with pointing_into(data):
        return parse_json(data, source)


@contextmanager
def pointing_into(data: bytes) -> Iterator[None]:
    """Add the line, and a caret under the place, to what is said of a text that is no JSON."""
    try:
        yield
    except InputInvalid as wrong:
        raise InputInvalid(wrong.source, _pointed(data, wrong), wrong.line, wrong.column) from None
    except WorkflowInvalid as invalid:
        cause = invalid.__cause__
        if not isinstance(cause, InputInvalid):
            raise
        problems = [replace(problem, message=_pointed(data, cause)) for problem in invalid.problems]
        raise WorkflowInvalid(invalid.source, problems) from None


def _pointed(data: bytes, wrong: InputInvalid) -> str:
    if not wrong.line:
        return wrong.message
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    lines = data.decode(encoding, "replace").split("\n")
    line = lines[wrong.line - 1].replace("\t", " ") if wrong.line <= len(lines) else ""
    return f"{wrong.message}\n{caret(line, wrong.column - 1)}" if line.strip() else wrong.message


def names_file(name: str) -> bool:
    """Whether ``FILE|NAME|-`` means a file or standard input, not a stored workflow."""
    return name == STDIN or "/" in name or "\\" in name or name.lower().endswith(".json") or Path(name).is_file()


def check_file(engine: Flo, name: str) -> Checked:
    """Read and check a workflow from a file or standard input. What is wrong with it may come from step types that
    could not be loaded: these are told first."""
    data, source = (read_stdin(), "standard input") if name == STDIN else (read_path(name), name)
    try:
        with pointing_into(data):
            return engine.check(data, source)
    except WorkflowInvalid:
        for plugin in engine.registry.broken:
            warn(f"{plugin.name} could not be loaded: {plugin.place}: {plugin.message}")
        raise


def find_stored(engine: Flo, name: str) -> str:
    """Give ``name`` where a workflow is stored under it. Raises ``FloError`` that names the nearest: a stored one, a
    file, a recipe."""
    if engine.workflows.get(name) is not None:
        return name
    stored = [held.name for held in engine.workflows.list()]
    raise FloError(f"no file and no stored workflow {name!r}{_nearest(name, stored)}")


def find_execution(engine: Flo, execution_id: str) -> Execution:
    """Give the execution of an id, or of the beginning of one. Raises ``NotFound`` that names the nearest."""
    found = engine.executions.get(execution_id)
    if found is None:
        raise NotFound("execution", execution_id, (held.id for held in engine.executions.list()))
    return found


def _nearest(name: str, stored: list[str]) -> str:
    from flo.engine.commands.recipes import recipe_names

    recipes = recipe_names()
    if name in recipes:
        return f"; it is a recipe: 'flo recipes copy {name}', then 'flo run {name}.json'"
    if Path(name).is_dir():
        return "; there is a folder of that name: name a file in it"
    files = [str(path) for path in Path().glob("*.json")]
    near = did_you_mean(name, [*stored, *files]) or did_you_mean(f"{name}.json", files)
    if near:
        return near
    recipe = did_you_mean(name, recipes)
    return f"{recipe} that is a recipe: 'flo recipes list' shows them" if recipe else ""
