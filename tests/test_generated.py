"""What is generated is what the code says now."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from flo.engine.commands.tree import flo
from flo.engine.language.filters import FILTERS
from flo.engine.registry import Registry

ROOT = Path(__file__).resolve().parent.parent
EDITOR: Any = json.loads((ROOT / "schemas" / "workflow-editor.schema.json").read_text(encoding="utf-8"))
RECIPES = sorted((ROOT / "recipes").glob("*.json"))


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / "docs" / "generate.py", *arguments], capture_output=True, text=True)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder into which everything generated was written anew."""
    (tmp_path / "docs").mkdir()
    for module in (ROOT / "docs").glob("*.py"):
        shutil.copy(module, tmp_path / "docs")
    (tmp_path / "schemas" / "steps").mkdir(parents=True)
    assert generate(tmp_path).returncode == 0
    return tmp_path


def test_nothing_generated_is_out_of_date() -> None:
    checked = generate(ROOT, "--check")
    assert checked.stderr == ""
    assert checked.returncode == 0


def test_a_file_that_is_out_of_date_or_not_wanted_is_named_with_the_remedy(copied: Path) -> None:
    (copied / "docs" / "reference" / "steps.md").write_text("old", encoding="utf-8")
    (copied / "schemas" / "steps" / "core.gone.json").write_text("{}", encoding="utf-8")
    (copied / "schemas" / "steps" / "core.log.json").unlink()
    checked = generate(copied, "--check")
    assert checked.returncode == 1
    stale = ("schemas/steps/core.log.json", "docs/reference/steps.md", "schemas/steps/core.gone.json")
    assert checked.stderr.splitlines() == [f"{path} is out of date; run: python docs/generate.py" for path in stale]
    assert generate(copied).returncode == 0
    assert generate(copied, "--check").returncode == 0


def test_every_step_type_has_a_file_with_the_schemas_of_its_input_and_output() -> None:
    files = {
        file.stem: json.loads(file.read_text(encoding="utf-8")) for file in (ROOT / "schemas/steps").glob("*.json")
    }
    for name, schema in files.items():
        Draft202012Validator.check_schema(schema)
        assert schema["title"] == name
        assert schema["$defs"]["output"] == Registry.installed()[name].output_schema
    assert files.keys() >= {"core.log", "core.for-each", "data-store.atomic-claim"}


def test_every_filter_and_step_type_is_in_the_reference() -> None:
    filters = (ROOT / "docs" / "reference" / "filters.md").read_text(encoding="utf-8")
    assert [name for name in FILTERS if f"\n| `{name}` | " not in filters] == []
    steps = (ROOT / "docs" / "reference" / "steps.md").read_text(encoding="utf-8")
    assert [file.stem for file in (ROOT / "schemas/steps").glob("*.json") if f"\n## {file.stem}\n" not in steps] == []


def test_every_command_and_each_of_its_options_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "command.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (flo [^\n]*)\n(.*?)(?=^## |\Z)", reference, re.DOTALL | re.MULTILINE))
    commands = dict(leaves(flo, "flo"))
    assert commands.keys() == sections.keys()
    for path, command in commands.items():
        names = [name for option in command.params if isinstance(option, click.Option) for name in option.opts]
        assert [name for name in names if f"`{name}`" not in sections[path]] == [], path
        assert all(option.help for option in command.params if isinstance(option, click.Option)), path
        assert command.help, path


def leaves(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command


def test_the_schema_for_editors_accepts_every_recipe() -> None:
    Draft202012Validator.check_schema(EDITOR)
    validator = Draft202012Validator(EDITOR)
    assert RECIPES
    for recipe in RECIPES:
        assert list(validator.iter_errors(json.loads(recipe.read_text(encoding="utf-8")))) == [], recipe.name


@pytest.mark.parametrize(
    "step",
    [
        {"stepType": "core.for-each", "input": {"itmes": [], "steps": []}},
        {"stepType": "core.for-each", "input": {"items": "text", "steps": []}},
        {"stepType": "core.for-each", "input": {"items": [], "steps": [], "concurrency": 0}},
        {"stepType": "core.foreach", "input": {"items": [], "steps": []}},
        {"stepType": "core.if", "input": {"condition": 5}},
        {"stepType": "core.if", "input": {"condition": True, "then": [{"stepId": "b", "stepType": "core.lgo"}]}},
        {"stepType": "core.repeat", "input": {"steps": []}},
        {"stepType": "data-store.set", "input": {"tableName": "t", "key": "k"}},
        {"stepType": "core.log", "input": {"message": "x"}, "retyr": {}},
        {"stepType": "core.log", "input": {"message": "x", "level": "loud"}},
        {"stepType": "core.sub-workflow", "input": {"workflow": {"steps": [{"stepId": "b", "stepType": "core.lgo"}]}}},
        {"stepType": "core.sub-workflow", "input": {"workflow": "<< initial.workflow >>"}},
    ],
    ids=str,
)
def test_the_schema_for_editors_refuses_what_checking_refuses(step: dict[str, Any]) -> None:
    assert not Draft202012Validator(EDITOR).is_valid({"steps": [{"stepId": "a", **step}]})


@pytest.mark.parametrize(
    "step",
    [
        {
            "stepType": "core.for-each",
            "input": {"items": "<< initial.x >>", "steps": [], "concurrency": "{{ $vars.n }}"},
        },
        {"stepType": "CORE__LOG", "input": {"message": "x"}},
        {"stepType": "core.if", "input": {"condition": {"!": [{"var": "initial.x"}]}, "continueOnError": True}},
        {"stepType": "core.log", "input": {"message": "x", "level": "<< initial.level >>"}},
        {"stepType": "core.sub-workflow", "input": {"workflow": {"steps": []}, "inputs": "<< initial >>"}},
    ],
    ids=str,
)
def test_the_schema_for_editors_accepts_templates_and_other_spellings(step: dict[str, Any]) -> None:
    assert Draft202012Validator(EDITOR).is_valid({"steps": [{"stepId": "a", **step}]})
