"""What the pages promise is what the code has."""

import re
from pathlib import Path

import pytest

from flo.engine import app
from flo.engine.language.blocks import TAGS
from flo.engine.language.filters import FILTERS
from flo.engine.language.scope import ROOTS
from flo.engine.stores.changes import Operation
from flo.engine.stores.filters import Operator

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LANGUAGE = (DOCS / "language.md").read_text(encoding="utf-8")
RUNTIME = (DOCS / "runtime.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


def named_in_first_column(text: str) -> set[str]:
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_filter_is_named() -> None:
    table = "\n".join(re.findall(r"^\| .*$", section(LANGUAGE, "Filters"), re.MULTILINE))
    assert set(re.findall(r"`([^`]+)`", table)) == set(FILTERS)


def test_every_root_is_described() -> None:
    assert named_in_first_column(section(LANGUAGE, "Roots")) == ROOTS


def test_every_block_tag_is_described() -> None:
    assert set(TAGS) <= set(re.findall(r"[a-z]+", section(LANGUAGE, "Block tags")))


def test_every_operator_of_conditions_is_described() -> None:
    spellings = {"eq", "ne"}
    assert named_in_first_column(section(RUNTIME, "Conditions on rows")) >= set(Operator) | spellings


def test_every_operation_of_changes_is_described() -> None:
    assert named_in_first_column(section(RUNTIME, "Changes")) == set(Operation)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "language.md"], ids=lambda page: page.name)
def test_the_workflows_on_a_page_pass_every_check(page: Path) -> None:
    shown = re.findall(r"^```json\n(\{\n.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert shown
    with app.open("memory:") as engine:
        for block in shown:
            assert engine.load(block).block.steps


def test_the_readme_runs_a_recipe_that_ships() -> None:
    (command,) = re.findall(r"^.*\.venv/bin/flo run (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    with app.open("memory:") as engine:
        assert engine.run(ROOT / command).output == {"written": 10, "claimed": 10, "done": 10, "left": 0}


def test_the_programs_on_the_page_for_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "library.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(programs) == 3
    for program in programs:
        exec(compile(program, "library.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"It prints `([^`]+)`", page)
