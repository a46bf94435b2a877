"""Pages as the tests read them: fenced blocks, tables and notes to the tests, in their order.

A note is an HTML comment ``<!-- test: WORD REST -->``; it is about the next block or table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"),
]
"""Every page for users. Decisions are history: they say what was so."""

_NOTE: Final = re.compile(r"<!-- test: (\w+) ?(.*?) ?-->")
_FENCE: Final = re.compile(r"^(\s*)```(.*)$")
_FILE: Final = re.compile(r"`([\w./-]+\.(?:py|json|toml))`[^`]*:$")
_OWN_NAME: Final = re.compile(r"^# ([\w./-]+\.(?:py|toml))$")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


@dataclass(frozen=True)
class Block:
    """A fenced block. ``notes`` are those to the tests before it, by their first word; ``file`` is the name of the file
    that it is shown as: a note says so, the line before it ends with that name and a colon, or it begins with it."""

    page: str
    line: int
    info: str
    text: str
    notes: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def key(self) -> str:
        """Page and first line: what the block is called where something is said about it."""
        return f"{self.page}: {self.text.partition(chr(10))[0]}"


@dataclass(frozen=True)
class Table:
    """A table: its headers, and its rows with the line that each stands in. Cells are as they are written, but for
    ``\\|``."""

    page: str
    line: int
    headers: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Prose:
    """A line of text."""

    page: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


Part = Block | Table | Prose


def parts(page: Path) -> Iterator[Part]:
    """What a page is made of, in order. Fences that do not end, and notes about nothing, are errors."""
    name, lines = name_of(page), page.read_text(encoding="utf-8").splitlines()
    notes: dict[str, str] = {}
    at, before = 0, ""
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            end = next((to for to in range(at + 1, len(lines)) if lines[to].strip() == "```"), None)
            assert end is not None, f"{name}:{at + 1}: a block that does not end"
            text = "".join(f"{held.removeprefix(fence[1])}\n" for held in lines[at + 1 : end])
            yield Block(name, at + 1, fence[2].strip(), text, notes, notes.get("file") or _file_of(text, before))
            notes, at = {}, end
        elif line.startswith("|") and at + 1 < len(lines) and set(lines[at + 1]) <= set("|-: "):
            end = next((to for to in range(at, len(lines)) if not lines[to].startswith("|")), len(lines))
            rows = [(to + 1, cells(lines[to])) for to in range(at + 2, end)]
            assert not notes.keys() - {"template"}, f"{name}:{at + 1}: notes that mean nothing to a table: {notes}"
            yield Table(name, at + 1, cells(line), rows, notes)
            notes, at = {}, end - 1
        elif line.lstrip().startswith("~~~"):
            raise AssertionError(f"{name}:{at + 1}: write ``` for a block")
        elif found := _NOTE.fullmatch(line.strip()):
            notes = {**notes, found[1]: found[2]}
        else:
            yield Prose(name, at + 1, line)
        if not _NOTE.fullmatch(line.strip()):
            before = line.strip() or before
        at += 1
    assert not notes, f"{name}: notes to the tests about nothing: {notes}"


def cells(row: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def code_of(cell: str) -> str:
    """The code that a cell is."""
    found = re.fullmatch(r"(`+) ?(.*?) ?\1", cell)
    assert found, f"{cell!r} is no code"
    return found[2]


def inline_code(text: str) -> list[str]:
    """The code in a line of text."""
    return [held for _, held in re.findall(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", text)]


def _file_of(text: str, before: str) -> str | None:
    own = _OWN_NAME.match(text.partition("\n")[0])
    if own:
        return own[1]
    told = _FILE.search(before)
    return told[1] if told else None
