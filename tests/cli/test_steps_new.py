"""``flo steps new`` writes a distribution that works, and never over anything."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from flo.testing import run_workflow


def checked(distribution: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a distribution, as its author would."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(distribution)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_what_is_written_is_sound_tested_and_runs(flo: Any, folder: Path) -> None:
    answer = flo("steps", "new", "acme-labs.class", "--into", "made", "--json").json
    made = folder / "made" / "acme-labs-class"
    assert answer["stepType"] == "acme-labs.class"
    assert {folder / file for file in answer["files"]} == {file for file in made.rglob("*") if file.is_file()}
    settings = tomllib.loads((made / "pyproject.toml").read_text("utf-8"))
    assert settings["project"]["entry-points"]["flo.steps"] == {"acme-labs-class": "acme_labs_class"}
    assert any(extra.startswith("pytest") for extra in settings["project"]["optional-dependencies"]["test"])
    for command in (["format", "--check"], ["check", "--select", "E,F,I,B,UP,RUF,SIM,PT,C4,PIE,RET,T20"]):
        lint = [sys.executable, "-m", "ruff", *command, "--no-cache", str(made)]
        linted = subprocess.run(lint, cwd=folder, capture_output=True, text=True, check=False)
        assert linted.returncode == 0, linted.stdout
    module = made / "src" / "acme_labs_class" / "__init__.py"
    assert run_workflow(made / "class.json", {"name": "Bob"}, steps=[str(module)]).output == {"text": "hello hello Bob"}
    assert checked(made).returncode == 0
    module.write_text(module.read_text("utf-8").replace('"hello "', '"hullo "').replace("input.times < 1", "False"))
    broken = checked(made)
    assert broken.returncode == 1
    assert "3 failed" in broken.stdout


def test_a_name_that_the_files_themselves_use_works(flo: Any, folder: Path) -> None:
    assert flo("steps", "new", "test.result").code == 0  # the tests have a 'result', and pytest imports test_result.py
    answer = checked(folder / "test-result")
    assert answer.returncode == 0, answer.stdout


def test_it_says_what_to_do_next(flo: Any, folder: Path) -> None:
    answer = flo("steps", "new", "acme.greet")
    assert answer.code == 0
    assert answer.out.endswith(
        "\nNext:\n  pip install --editable './acme-greet[test]'\n  pytest acme-greet\n  flo run acme-greet/greet.json\n"
    )


def test_nothing_is_overwritten(flo: Any, folder: Path) -> None:
    kept = folder / "acme-greet" / "mine.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    answer = flo("steps", "new", "acme.greet")
    assert answer.code == 1
    assert "acme-greet is there already, and nothing is overwritten" in answer.err
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("greet", "expected category.name"),
        ("acme.2x", "expected category.name"),
        ("acme.gr__eet", "expected category.name"),
        ("acme..greet", "expected category.name"),
        ("../up.greet", "expected category.name"),
        ("acme.greet-", "expected category.name"),
        ("core.greet", "the category 'core' is flo's own"),
        ("Data-Store.greet", "the category 'data-store' is flo's own"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(name: str, said: str, flo: Any, folder: Path) -> None:
    answer = flo("steps", "new", name)
    assert answer.code == 1
    assert said in answer.err
    assert not list(folder.iterdir())
