"""What the page about HTTP says is what ``core.http`` has."""

from __future__ import annotations

import re
from pathlib import Path

from flo.engine import app
from flo.steps.http_addresses import LINK_LOCAL, PRIVATE, VARIABLE
from flo.steps.http_connections import FIELDS
from flo.steps.http_schemas import INPUT, OUTPUT

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")


def first_column(title: str) -> list[str]:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, title
    cells = re.findall(r"^\| ([^|]*) \|", found[1], re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_field_of_input_output_and_connections_is_described() -> None:
    assert first_column("Inputs") == [*INPUT["properties"]]  # type: ignore[index, call-overload, list-item]
    assert first_column("The answer") == [*OUTPUT["properties"]]  # type: ignore[index, call-overload, list-item]
    assert first_column("Connections") == [*FIELDS]
    assert first_column("Which addresses are reached") == [VARIABLE, LINK_LOCAL, PRIVATE]


def test_every_code_of_a_failure_is_described() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "steps").glob("http_*.py"))
    raised = set(re.findall(r'(?:\.fails\(\s*|code=)"([a-z_]+)"', source))
    assert set(first_column("Failures")) == raised


def test_the_workflows_on_the_page_pass_every_check() -> None:
    shown = re.findall(r"^```json\n(\{\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(shown) == 2
    with app.open("memory:") as engine:
        for block in shown:
            assert engine.check(block).warnings == ()
