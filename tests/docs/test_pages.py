"""Every example on every page is run, or checked as far as it can be; nothing is passed over in silence."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import psycopg
import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.commands.recipes import recipe_names
from flo.engine.errors import FloError, WorkflowInvalid
from flo.engine.registry import declared_in
from flo.engine.values import dump

from .calls import Answer, Shell, check_mention
from .pages import PAGES, Block, Prose, Table, code_of, inline_code, name_of, parts
from .prepared import MISTAKES, PREPARED
from .shown import NEED_OTHERS, check_document, differs, evaluated, parsed, types_of

NOT_RUN: Final[Mapping[str, str]] = {
    r"(python3 -m venv \.venv|\.venv/bin/pip install (--quiet .*|flo-engine)|\.venv/bin/pytest)": "CI does it",
    r"python -m benchmarks( .*)?": "takes minutes, and measures",
    r"make( .*)?": "is for the repository, and CI runs what it runs",
}
"""Commands that no test of a page runs, as regular expressions, each with the reason."""

ONLY_SHOWN: Final[Mapping[str, str]] = {}
"""Blocks that are neither run nor compared, by page and first line, each with the reason."""

CONSOLES: Final = ("console", "sh", "bash", "shell")
NOTES: Final = {"code", "fails", "file", "input", "invalid", "names", "output", "template"}
"""What a page may say to the tests, each in front of a block or table: with what exit code its last command ends, with
what code its workflow fails, what file it is, what input it gets, that it is refused, that it has the names for the
tables and templates below it, that it is the output of what came before, that it is a template."""

_TELLS: Final = re.compile(r"It (?:prints|gives|returns) `([^`]+)`[.:]")
_MERMAID: Final = ("flowchart", "stateDiagram-v2", "sequenceDiagram", "graph")


class Reading:
    """What a page has made so far: its shell, its program, and what its last example gave."""

    def __init__(self, page: Path, shell: Shell) -> None:
        self.page, self.shell = page, shell
        self.program = ModuleType(f"page_{re.sub(r'[^a-z]', '_', page.stem)}")
        self.names: dict[str, Any] = {}
        self.last: Answer | None = None

    def engine(self) -> Flo:
        """An engine that knows the step types of the page's files."""
        files = [str(file) for file in Path().glob("*.py") if "step_type" in file.read_text(encoding="utf-8")]
        return app.open("memory:", steps=files)

    def block(self, block: Block) -> None:
        """Do what a block is for."""
        language = block.info.partition(" ")[0]
        assert block.notes.keys() <= NOTES
        if block.key in ONLY_SHOWN:
            return
        if block.file is not None:
            write(block.file, block.text)
        match language:
            case _ if language in CONSOLES:
                self.console(block)
            case "json":
                self.json(block)
            case "python":
                self.python(block)
            case "sql":
                self.sql(block)
            case "toml":
                tomllib.loads(block.text)
            case "mermaid":
                assert block.text.split(maxsplit=1)[0] in _MERMAID
            case "text" | "":
                self.text(block)
            case _:
                raise AssertionError(f"a block of {language!r}, which nothing here understands")

    def console(self, block: Block) -> None:
        """Run commands, those behind ``$``; what stands below one is what it shows."""
        lines = block.text.replace("\\\n", " ").splitlines()
        if not any(line.startswith("$ ") for line in lines):
            lines = [f"$ {line}" for line in lines]
        shown: list[str] = []
        wanted = int(block.notes.get("code", 0))
        for at, line in enumerate([*lines, "$ "]):
            if not line.startswith("$ "):
                shown.append(line)
                continue
            if shown:
                assert self.last is not None
                self.compare("\n".join(shown), self.last)
                shown = []
            if command := line[2:].strip():
                is_last = not any(later.startswith("$ ") for later in lines[at + 1 :])
                self.command(command, wanted if is_last else 0)

    def command(self, line: str, wanted: int) -> None:
        """Run a command line, but for what ``NOT_RUN`` has of it."""
        left = [part for part in re.split(r" && ", line) if not self.is_not_run(part)]
        if not left:
            return
        self.last = self.shell.run(" && ".join(left))
        assert self.last.code == wanted, f"{line}\nended with {self.last.code}\n{self.last.out}{self.last.err}"

    def is_not_run(self, command: str) -> bool:
        return any(re.fullmatch(pattern, command) for pattern in NOT_RUN)

    def json(self, block: Block) -> None:
        """Check a document, and run it where it needs nobody else; or take it for what the page says that it is."""
        if "output" in block.notes:
            assert self.last is not None
            self.compare(block.text, self.last)
            return
        value = parsed(block.text)
        if "names" in block.notes:
            self.names = value
            return
        if "file" in block.notes:
            return
        with self.engine() as engine:
            if "invalid" in block.notes:
                with pytest.raises(WorkflowInvalid):
                    check_document(engine, value)
                return
            steps = check_document(engine, value)
            if steps is None:
                return
            if isinstance(value.get("name"), str) and value["name"] not in recipe_names():
                Path(f"{value['name']}.json").write_text(block.text, encoding="utf-8")
            if NEED_OTHERS.isdisjoint(types_of(steps)):
                ended = engine.run(value, json.loads(block.notes.get("input", "{}")))
                code = (ended.error or {}).get("code")
                assert code == block.notes.get("fails"), ended.error
                self.last = Answer(0, dump(ended.output))

    def python(self, block: Block) -> None:
        """Run a program: all those of a page in one namespace, those that are files as modules of their own."""
        if block.file is not None:
            self.module(block.file)
            return
        out = io.StringIO()
        sys.modules[self.program.__name__] = self.program
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block.line + block.text, block.page, "exec"), self.program.__dict__)
        self.last = Answer(0, out.getvalue())

    def module(self, file: str) -> None:
        """Import a file, call the tests in it, and check the examples of its step types."""
        name = Path(file).stem
        sys.modules.pop(name, None)
        module = importlib.import_module(name)
        for called, test in list(vars(module).items()):
            if called.startswith("test_"):
                test()
        if step_types := declared_in(module):
            with app.open("memory:", steps=[file]) as engine:
                for held in step_types:
                    check_document(engine, {"stepType": held.name, "input": held.example})

    def sql(self, block: Block) -> None:
        """Run statements against an empty store, and take them back."""
        with psycopg.connect(self.shell.postgres()) as connection:
            for statement in filter(str.strip, block.text.split(";\n")):
                connection.execute(statement.encode())
            connection.rollback()

    def text(self, block: Block) -> None:
        """Compare output with what came before it, or render a template."""
        if "template" in block.notes:
            self.names = json.loads(block.notes["template"] or "{}") or self.names
            self.last = Answer(0, evaluated("template", block.text.rstrip("\n"), self.names))
            return
        if block.text.startswith("flo ") and block.page == "docs/reference/command.md":
            check_mention(block.text)
            return
        if block.key in MISTAKES:
            with self.engine() as engine, pytest.raises(WorkflowInvalid) as refused:
                engine.check(MISTAKES[block.key])
            assert {*block.text.splitlines()} <= {str(problem) for problem in refused.value.problems}
            return
        assert self.last is not None, "a block without a language that shows the output of nothing"
        self.compare(block.text, self.last)

    def compare(self, shown: str, answer: Answer) -> None:
        wrong = differs(shown, answer.out, answer.err, answer.seen)
        assert not wrong, wrong

    def table(self, table: Table) -> None:
        """Work out the rows of a table that says what something gives; check the commands in any other one."""
        kinds = [header for header in table.headers if header in ("expression", "template", "condition", "example")]
        if "gives" in table.headers and kinds:
            what, gives = table.headers.index(kinds[0]), table.headers.index("gives")
            for line, row in table.rows:
                with told_where(f"{table.page}:{line}"):
                    self.row(kinds[0], code_of(row[what]), row[gives])
        for line, row in table.rows:
            with told_where(f"{table.page}:{line}"):
                mentions(" ".join(row))

    def row(self, kind: str, text: str, gives: str) -> None:
        kind = "expression" if kind == "example" else kind
        if gives.startswith("error"):
            with pytest.raises(FloError) as failed:
                evaluated(kind, text, self.names)
            assert gives == "error" or gives.removeprefix("error: ").strip("`") in str(failed.value)
            return
        given = evaluated(kind, text, self.names)
        assert dump(given) == dump(json.loads(code_of(gives))), f"{text} gives {dump(given)}"

    def prose(self, prose: Prose) -> None:
        """Compare what a line says that the example before it gives; check the commands that it mentions."""
        for told in _TELLS.findall(prose.text):
            assert self.last is not None, "it gives something, and nothing was run"
            self.compare(told, self.last)
        mentions(prose.text)


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def mentions(text: str) -> None:
    for held in inline_code(text):
        if held.startswith("flo ") and held != "flo ":
            check_mention(held)


@contextlib.contextmanager
def told_where(place: str) -> Iterator[None]:
    """Say where on the page something is wrong."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as wrong:
        raise AssertionError(f"{place}: {type(wrong).__name__}: {wrong}") from wrong


@pytest.fixture
def reading(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path], Reading]]:
    """A page that is read in a folder of its own, beside the recipes as a clone of the repository has them."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("FLO_") and not name.startswith("FLO_TEST"):
            monkeypatch.delenv(name)

    def read(page: Path) -> Reading:
        shell = Shell(tmp_path, lambda: request.getfixturevalue("postgres_url"))
        return Reading(page, shell)

    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield read
    for name in set(sys.modules) - before:  # those of the page: another one may have files of the same names
        if str(getattr(sys.modules[name], "__file__", None) or tmp_path).startswith(str(tmp_path)):
            del sys.modules[name]


def hold(read: Reading) -> None:
    """Go through a page. Raises ``AssertionError`` with the place of the first thing that is not so."""
    for part in parts(read.page):
        if isinstance(part, Block) and part.file is not None:
            write(part.file, part.text)  # a page may use a file a little before it shows it
    for part in parts(read.page):
        with told_where(part.place):
            match part:
                case Block():
                    read.block(part)
                case Table():
                    read.table(part)
                case Prose():
                    read.prose(part)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_example_on_the_page_holds(page: Path, reading: Callable[[Path], Reading]) -> None:
    read = reading(page)
    PREPARED.get(name_of(page), lambda: None)()
    hold(read)


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("```json\n{'a': 1}\n```", "no JSON"),
        ('```json\n{"steps": [{"stepId": "a", "stepType": "core.lgo"}]}\n```', "no step type 'core.lgo'"),
        ('```json\n{"stepType": "core.log", "input": {}}\n```', "'message' is required"),
        ('```json\n{"steps": [{"stepId": "a", "stepType": "core.fail", "input": {"message": "x"}}]}\n```', "failed"),
        ('```json\n{"colour": "red"}\n```', "no part of a workflow"),
        ('"where":\n```json\n"where": [{"field": "a", "operator": "is", "value": 1}]\n```', "operator"),
        ('<!-- test: invalid -->\n```json\n{"steps": []}\n```', "DID NOT RAISE"),
        ("```python\nraise ValueError('x')\n```", "ValueError: x"),
        ("```python\nprint(1 + 1)\n```\nIt prints `3`.", "shown: 3"),
        ("```console\n$ flo recipes list --colour\n```", "no such option"),
        ("```console\n$ flo worker --colour\n```", "No such option"),
        ("```console\n$ flo render '<< 1 + 1 >>'\n3\n```", "shown: 3"),
        ("```console\n$ rm -rf x\n```", "no command that the tests know"),
        ("```console\n$ flo logic '{\"+\": [1, 1]}'\n2\n```\n```text\n3\n```", "shown: 3"),
        ("```yaml\na: 1\n```", "which nothing here understands"),
        ("```\nwhat is this\n```", "shows the output of nothing"),
        ("```json\n{}", "does not end"),
        ("Call `flo recipes lst` first.", "there is no command 'lst'"),
        ("Call `flo run FILE --colour` first.", "there is no option '--colour'"),
        ("| command |\n|---|\n| `flo dead replay --everything` |", "there is no option '--everything'"),
        ("| expression | gives |\n|---|---|\n| `1 + 1` | `3` |", "1 + 1 gives 2"),
        ("| expression | gives |\n|---|---|\n| `1 + 1` | error |", "DID NOT RAISE"),
        ('| template | gives |\n|---|---|\n| `<< 1 + 1 >>` | `"2"` |', "gives 2"),
        ('| condition | gives |\n|---|---|\n| `{"==": [1, 1]}` | `false` |', "gives true"),
        ("<!-- test: skip -->\n```python\n1\n```", "AssertionError"),
        ("<!-- test: file x.json -->\nNothing.", "notes to the tests about nothing"),
    ],
)
def test_what_is_not_so_is_found(page: str, wrong: str, reading: Callable[[Path], Reading], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    with pytest.raises(AssertionError, match=re.escape(wrong)) as found:
        hold(reading(tmp_path / "page.md"))
    assert "page.md" in str(found.value)


def test_every_exception_is_used() -> None:
    blocks = [part for page in PAGES for part in parts(page) if isinstance(part, Block)]
    lines = [line for block in blocks if block.info in CONSOLES for line in block.text.split("\n")]
    commands = [command for line in lines for command in line.removeprefix("$ ").split(" && ")]
    assert [held for held in NOT_RUN if not any(re.fullmatch(held, command) for command in commands)] == []
    assert {*ONLY_SHOWN, *MISTAKES} <= {block.key for block in blocks}
    assert PREPARED.keys() <= {name_of(page) for page in PAGES}
