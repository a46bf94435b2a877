"""The lists on the pages are what the code has."""

import re

from flo.engine.language.blocks import TAGS
from flo.engine.language.filters import FILTERS
from flo.engine.language.scope import ROOTS
from flo.engine.stores.changes import Operation
from flo.engine.stores.filters import Operator

from .pages import ROOT

LANGUAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
RUNTIME = (ROOT / "docs" / "runtime.md").read_text(encoding="utf-8")


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
