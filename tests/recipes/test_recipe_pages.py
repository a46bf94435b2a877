"""Each recipe that ships has a page which shows exactly that recipe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.json"))
PAGES = ROOT / "docs" / "recipes"

SECTIONS = ["The workflow", "Set-up", "How it works", "What to change first"]


@pytest.fixture(params=RECIPES, ids=lambda path: path.stem)
def recipe_file(request: pytest.FixtureRequest) -> Path:
    file: Path = request.param
    return file


def test_the_page_shows_the_file(recipe_file: Path) -> None:
    page = (PAGES / f"{recipe_file.stem}.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert shown == recipe_file.read_text(encoding="utf-8")


def test_the_page_has_its_sections(recipe_file: Path) -> None:
    page = (PAGES / f"{recipe_file.stem}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == SECTIONS


def test_the_recipe_is_in_house_style(recipe_file: Path) -> None:
    """``<< >>`` marks, a description, the file's name, and hyphens in stepIds."""
    text = recipe_file.read_text(encoding="utf-8")
    document: Any = json.loads(text)
    assert "{{" not in text
    assert document["name"] == recipe_file.stem
    assert document["description"]
    for step_id in re.findall(r'"stepId": "([^"]*)"', text):
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", step_id)


def test_the_recipe_passes_every_check(recipe_file: Path) -> None:
    with app.open("memory:") as engine:
        assert engine.load(recipe_file).name == recipe_file.stem


def test_there_is_no_page_without_a_recipe() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {recipe.stem for recipe in RECIPES}


def test_the_index_names_every_recipe() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(recipes/([a-z-]+)\.md\)", index)) == {recipe.stem for recipe in RECIPES}


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken
