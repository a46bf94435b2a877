"""The command, called in this process as pages show it, by a shell that knows the little that pages use."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import click
from click.testing import CliRunner

from flo import cli
from flo.engine import app
from flo.engine.clock import SystemClock
from flo.engine.commands.recipes import recipe_names
from flo.engine.commands.tree import flo
from flo.engine.executions import ExecutionState

from .pages import ROOT
from .prepared import ASKED, STAND_INS

_ID: Final = re.compile(r"ID|01a2")
_SETTING: Final = re.compile(r"[A-Z][A-Z0-9_]*=")
_OPERATORS: Final = {"&&", "&", "|", ";"}


@dataclass(frozen=True)
class Answer:
    """What a command line gave. ``seen`` is what a terminal has of both outputs, in turn."""

    code: int
    out: str
    err: str = ""
    seen: str = ""


@dataclass
class Shell:
    """A working folder with an embedded store, in which the commands of one page run one after the other.

    ``postgres`` gives the URL of a database of the tests, in the place of one that a page names. A worker or a server
    in the background (``&``) is one that empties its queues after each command. ``ID`` is the newest execution,
    or the newest that waits where the command answers it. A recipe that a command names is copied, as pages say of
    it.
    """

    folder: Path
    postgres: Any
    environment: dict[str, str] = field(default_factory=dict)
    working: list[str] | None = None
    copied: list[str] = field(default_factory=list)
    installed: dict[str, str] = field(default_factory=dict)

    def run(self, line: str) -> Answer:
        """Run a command line; gives what its last command gave. One that fails ends it."""
        answer = Answer(0, "")
        given = ""
        for words, target, after in commands(line):
            answer = self._one(words, after == "&", given)
            given = answer.out if after == "|" else ""
            if target is not None:
                Path(target).write_text(answer.out, encoding="utf-8")
            if answer.code:
                break
        return answer

    def _one(self, words: Sequence[str], background: bool, stdin: str) -> Answer:
        settings = list(takewhile(_SETTING.match, words))
        given = dict(setting.split("=", 1) for setting in settings)
        leading = list(words[len(settings) :])
        match leading:
            case ["export", setting]:
                name, _, value = setting.partition("=")
                self.environment[name] = value
                return Answer(0, "")
            case ["cd", folder]:
                os.chdir(folder)
                return Answer(0, "")
            case ["mkdir", *names]:
                for name in names:
                    Path(name).mkdir(parents=True, exist_ok=True)
                return Answer(0, "")
            case ["cat", name]:
                return Answer(0, Path(name).read_text(encoding="utf-8"))
            case ["echo", *said]:
                return Answer(0, f"{' '.join(said)}\n")
            case ["flo", *arguments]:
                return self._flo(arguments, given, background, stdin)
            case [".venv/bin/flo", *arguments]:
                return self._flo(arguments, {**self.installed, **given}, background, stdin)
            case [".venv/bin/pip", "install", "--editable", source]:
                self._install(Path(source.removesuffix("[test]")))
                return Answer(0, "")
            case [".venv/bin/pytest", folder]:
                return self._pytest(folder)
        stands_in = STAND_INS.get(" ".join(leading))
        assert stands_in is not None, f"{' '.join(words)}: no command that the tests know; see NOT_RUN and STAND_INS"
        return Answer(0, stands_in)

    def _flo(self, arguments: list[str], given: Mapping[str, str], background: bool, stdin: str) -> Answer:
        answers = arguments[:2] in (["executions", "approve"], ["executions", "signal"])
        arguments = [self._meant(argument, answers) for argument in arguments]
        if arguments[0] in ("worker", "serve") and "--drain" not in arguments:
            check(arguments)  # it would go on until it is stopped: it works until nothing is left
            queues = [arguments[at + 1] for at, option in enumerate(arguments) if option == "--queue"] or ["default"]
            self.working = queues if background else self.working
            self._drain(queues)
            return Answer(0, "")
        if arguments[:2] == ["recipes", "copy"]:
            for name in self.copied:
                Path(name).unlink(missing_ok=True)
        for name in arguments:
            if name.endswith(".json") and name[:-5] in recipe_names() and not Path(name).exists():
                shutil.copy(ROOT / "recipes" / Path(name).name, name)
                self.copied.append(name)
        if arguments[:2] == ["env", "set"] and len(arguments) == 4:  # it asks at a terminal
            answer = call([*arguments, "-"], {**self.environment, **given}, ASKED)
            answer = replace(answer, err=f"Value of {arguments[3]}:\n")
        else:
            answer = call(arguments, {**self.environment, **given}, stdin)
        if self.working is not None:
            self._drain(self.working)
        return answer

    def _install(self, source: Path) -> None:
        """Do for a plugin what an installation would: let Python find its package, and flo its step types."""
        settings = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
        modules = settings["project"]["entry-points"]["flo.steps"].values()
        sys.path.insert(0, str((source / "src").resolve()))
        self.installed = {"FLO_STEPS": os.pathsep.join(modules), "PYTHONPATH": str((source / "src").resolve())}

    def _pytest(self, folder: str) -> Answer:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
            env={**os.environ, **self.installed, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return Answer(ended.returncode, ended.stdout, ended.stderr)

    def _drain(self, queues: Sequence[str]) -> None:
        with app.open(self.environment.get("FLO_STORE"), clock=SystemClock()) as engine:
            engine.worker(queues).run(threading.Event(), drain=True)
            failed = [held for held in engine.executions.list(limit=100) if held.state == "failed"]
            assert not [held.error for held in failed if held.queue in queues], "a job on the page fails"

    def _meant(self, argument: str, answers: bool) -> str:
        if argument.startswith(("postgresql://", "postgres://")):
            return str(self.postgres())
        return self._execution(answers) if _ID.fullmatch(argument) else argument

    def _execution(self, waits: bool) -> str:
        """The newest execution, or the newest that waits for somebody."""
        with app.open(self.environment.get("FLO_STORE")) as engine:
            found = engine.executions.list(state=ExecutionState.SUSPENDED if waits else None, limit=1)
        assert found, "a command names an execution, and there is none"
        return found[0].id


def call(arguments: Sequence[str], environment: Mapping[str, str] | None = None, stdin: str = "") -> Answer:
    """Call the command in this process."""
    with CliRunner().isolation(input=stdin, env=dict(environment or {})) as (out, err, both):
        code = cli.call(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    return Answer(code, *(stream.getvalue().decode() for stream in (out, err, both)))


def commands(line: str) -> Iterator[tuple[list[str], str | None, str]]:
    """The commands of a line in turn: their words, the file that takes their output, the operator behind them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    target: str | None = None
    for token in lexer:
        if token == ">":
            target = next(lexer)
        elif token in _OPERATORS:
            yield words, target, token
            words, target = [], None
        else:
            assert token not in ("||", "<", ">>", "<<"), f"{line}: {token!r} is no word that the tests know"
            words.append(token)
    if words:
        yield words, target, ""


def check(arguments: Sequence[str]) -> None:
    """Parse a command line of ``flo`` without running it: every word and option has to be known."""
    context, command = click.Context(flo, info_name="flo"), flo
    left = list(arguments)
    while isinstance(command, click.Group):
        assert left, "a group of commands is no command"
        name, found, left = command.resolve_command(context, left)
        assert found is not None
        command = found  # type: ignore[assignment]
        context = click.Context(found, info_name=name, parent=context)
    command.make_context(context.info_name, left, parent=context.parent)


def check_mention(text: str) -> None:
    """Check a command that a page mentions: its sub-commands and options exist; what stands for arguments is free."""
    command: click.Command = flo
    words = text.replace("[", " ").replace("]", " ").split()[1:]
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-"):
            if word.isupper() or word in ("…", "..."):
                return
            found = command.get_command(click.Context(command), word.rstrip(",.;:"))
            assert found is not None, f"{text!r}: there is no command {word!r}"
            command = found
        elif re.match(r"^--?[a-z]", word):
            known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            known |= {"--help", "-h", *(["--version"] if command is flo else [])}
            assert word.split("=")[0].rstrip(",.;:") in known, f"{text!r}: there is no option {word!r}"
