"""``flo steps new``: writes a distribution of step types that works, with its tests, to begin from."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from flo.engine.commands.options import json_option
from flo.engine.commands.output import print_json, write
from flo.engine.errors import FloError, InputInvalid
from flo.engine.frozen import frozen
from flo.engine.registry import Registry

_PART: Final = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_NAME: Final = re.compile(rf"({_PART})\.({_PART})")
_OURS: Final = "flo.steps."


@frozen
class _Names:
    """What a step type and everything around it is called."""

    step_type: str
    distribution: str
    package: str
    function: str
    file: str

    @classmethod
    def of(cls, category: str, name: str) -> _Names:
        function = name.replace("-", "_")
        return cls(
            step_type=f"{category}.{name}",
            distribution=f"{category}-{name}",
            package=f"{category}_{name}".replace("-", "_"),
            function=f"{function}_" if function in _taken() else function,
            file=name,
        )


@click.command(short_help="Begin a distribution of step types of one's own.")
@click.argument("name", metavar="CATEGORY.NAME")
@click.option(
    "--into",
    metavar="FOLDER",
    default=".",
    type=click.Path(path_type=Path),
    help="Where the folder of the distribution is made. Default: the working folder.",
)
@json_option
def new(name: str, into: Path, as_json: bool) -> None:
    """Write a distribution with one step type, its tests, a workflow that uses it, and what to do next. Nothing that is
    there is overwritten."""
    names = _checked(name)
    folder = into / names.distribution
    files = _files(names)
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FloError(
            f"{folder} is there already, and nothing is overwritten; choose another name, or --into"
        ) from None
    except OSError as error:
        raise InputInvalid(str(folder), f"it cannot be made: {error.strerror}") from error
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    written, following = [str(folder / file) for file in files], _following(folder, names)
    if as_json:
        print_json({"stepType": names.step_type, "folder": str(folder), "files": written, "next": following})
        return
    for file in written:
        write(f"wrote {file}\n")
    write("\nNext:\n")
    for command in following:
        write(f"  {command}\n")


def _checked(name: str) -> _Names:
    found = _NAME.fullmatch(name.lower())
    if found is None:
        what = "expected category.name, each of letters, digits and single hyphens, for instance acme.greet"
        raise click.BadParameter(f"{name!r} is no name for a step type; {what}")
    category, own = found.groups()
    registry = Registry.installed()
    if any(held.partition(".")[0] == category and registry.source(held).startswith(_OURS) for held in registry):
        raise click.BadParameter(f"the category {category!r} is flo's own; choose another, for instance acme.{own}")
    if name in registry:
        raise click.BadParameter(f"{name!r} is there already, from {registry.source(name)}")
    return _Names.of(category, own)


def _taken() -> frozenset[str]:
    """What the function cannot be called: names that Python has, and those that the modules written here need."""
    found = {*keyword.kwlist, *dir(builtins)}
    for template in (_MODULE, _TESTS):
        for node in ast.walk(ast.parse(re.sub(r"@([A-Z]+)@", r"\1", template))):
            match node:
                case ast.Name(id=name) | ast.arg(arg=name) | ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    found.add(name)
                case ast.alias(name=name, asname=asname):
                    found.add(asname or name)
    return frozenset(found)


def _following(folder: Path, names: _Names) -> list[str]:
    at = str(folder) if folder.is_absolute() else f"./{folder}"
    installed = shlex.quote(f"{at}[test]")
    return [
        f"pip install --editable {installed}",
        f"pytest {shlex.quote(str(folder))}",
        f"flo run {shlex.quote(str(folder / f'{names.file}.json'))}",
    ]


def _files(names: _Names) -> dict[str, str]:
    """The files of a distribution, by their paths in it."""
    texts = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        f"{names.file}.json": _WORKFLOW,
        f"src/{names.package}/__init__.py": _MODULE,
        f"src/{names.package}/py.typed": "",
        f"tests/test_{names.file.replace('-', '_')}.py": _TESTS,
    }
    words = {
        "STEP_TYPE": names.step_type,
        "DISTRIBUTION": names.distribution,
        "PACKAGE": names.package,
        "FUNCTION": names.function,
        "FILE": names.file,
        "FLO_VERSION": version("flo-engine"),
    }
    pattern = re.compile("@(" + "|".join(words) + ")@")
    return {path: pattern.sub(lambda found: words[found[1]], text) for path, text in texts.items()}


_PYPROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "@DISTRIBUTION@"
version = "0.1.0"
description = "The step type @STEP_TYPE@ for flo."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["flo-engine>=@FLO_VERSION@"]

[project.optional-dependencies]
test = ["pytest>=8"]

# each entry names a module; flo finds every step type in it
[project.entry-points."flo.steps"]
@DISTRIBUTION@ = "@PACKAGE@"

[tool.setuptools.package-data]
@PACKAGE@ = ["py.typed"]

[tool.pytest.ini_options]
addopts = ["--import-mode=importlib"]
testpaths = ["tests"]
pythonpath = ["src"]
filterwarnings = ["error"]

[tool.mypy]
strict = true

[tool.ruff]
src = ["src"]
"""

_README: Final = """\
# @DISTRIBUTION@

The step type `@STEP_TYPE@` for workflows of flo.

```sh
pip install --editable '.[test]'
pytest
flo steps show @STEP_TYPE@
flo run @FILE@.json
```

The step type is a function in `src/@PACKAGE@/__init__.py`; add more of them there. Its
input and output are dataclasses, from which the JSON Schemas are derived.
"""

_WORKFLOW: Final = """\
{
  "name": "@DISTRIBUTION@",
  "description": "Shows what @STEP_TYPE@ does.",
  "initial": {"name": "Ada"},
  "steps": [
    {
      "stepId": "hello",
      "stepType": "@STEP_TYPE@",
      "input": {"name": "<< initial.name >>", "times": 2}
    },
    {
      "stepId": "result",
      "stepType": "core.return",
      "input": {"text": "<< hello.text >>"}
    }
  ]
}
"""

_MODULE: Final = '''\
"""Step types for flo: @STEP_TYPE@."""

from __future__ import annotations

from dataclasses import dataclass

from flo import StepCall, StepFailed, step_type


@dataclass(frozen=True)
class Greeting:
    """Who to greet."""

    name: str
    """Their name."""

    times: int = 1
    """How often."""


@dataclass(frozen=True)
class Said:
    text: str
    """What was said."""


@step_type("@STEP_TYPE@")
def @FUNCTION@(call: StepCall, input: Greeting) -> Said:
    """Say hello.

    The first line is the summary that `flo steps list` shows.
    """
    if input.times < 1:
        message = f"times is {input.times}, expected 1 or more"
        raise StepFailed(message, code="invalid_times", retryable=False)
    call.log("info", f"greeting {input.name}")
    return Said(text="hello " * input.times + input.name)
'''

_TESTS: Final = '''\
"""What @STEP_TYPE@ promises."""

from __future__ import annotations

from pathlib import Path

import pytest
from flo import StepFailed
from flo.testing import run_step, run_workflow

from @PACKAGE@ import @FUNCTION@

WORKFLOW = Path(__file__).parent.parent / "@FILE@.json"


def test_it_says_hello_as_often_as_it_is_told() -> None:
    result = run_step(@FUNCTION@, {"name": "Ada", "times": 3})
    assert result.output == {"text": "hello hello hello Ada"}
    assert [line.message for line in result.logs] == ["greeting Ada"]


def test_it_refuses_what_makes_no_sense() -> None:
    with pytest.raises(StepFailed, match="times is 0") as failure:
        run_step(@FUNCTION@, {"name": "Ada", "times": 0})
    assert failure.value.code == "invalid_times"
    with pytest.raises(StepFailed, match="'name' is required"):
        run_step(@FUNCTION@, {})


def test_the_workflow_beside_it_runs() -> None:
    result = run_workflow(WORKFLOW, {"name": "Grace"}, steps=[@FUNCTION@])
    assert result.status == "success"
    assert result.output == {"text": "hello hello Grace"}
'''
