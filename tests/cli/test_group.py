"""The command as a whole: its list, what it imports, and what it says to a wrong call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from flo.engine.commands import tree

FOR_WORK = ("sqlite3", "difflib", "flo.engine.app", "flo.engine.checking", "flo.engine.language.logic")
FOR_SOME_WORK = (
    "jsonschema", "referencing", "attr", "cronsim", "psycopg", "greenlet", "cryptography", "httpx2",
    "flo.engine.schedule", "flo.engine.worker", "flo.engine.operating", "flo.engine.isolation.process",
    "flo.engine.stores.memory", "socket", "importlib.metadata", "email",
)  # fmt: skip


def imported(names: Sequence[str], *arguments: str) -> tuple[list[str], str]:
    """Which of these modules a command imports, in a process of its own, and what it prints."""
    code = (
        "import sys\n"
        "from flo import cli\n"
        f"assert cli.call({list(arguments)}) == 0\n"
        f"print(*[name for name in {names} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr.split(), ended.stdout


def test_help_imports_nothing_that_takes_long() -> None:
    found, out = imported(FOR_WORK + FOR_SOME_WORK, "--help")
    assert "Run workflows written as JSON" in out
    assert found == []


def plain_recipe(folder: Path) -> Path:
    template = {"text": "{{ initial.who | upcase }}", "at": ["<< $util.uuid >>"]}
    table = {"tableName": "greetings", "key": "<< initial.who >>"}
    steps = [
        {"stepId": "write", "stepType": "data-store.set", "input": {**table, "value": template}},
        {"stepId": "again", "stepType": "core.if", "skipCondition": "<< not write.created >>",
         "input": {"condition": {"field": "write.key", "operator": "equals", "value": "you"},
                   "then": [{"stepId": "read", "stepType": "data-store.get", "input": table}]}},
        {"stepId": "say", "stepType": "core.log", "input": {"message": "wrote << write.key >>", "level": "debug"}},
    ]  # fmt: skip
    document = folder / "plain.json"
    document.write_text(json.dumps({"name": "plain", "initial": {"who": "you"}, "steps": steps}))
    return document


def test_a_plain_run_imports_nothing_that_only_others_need(tmp_path: Path) -> None:
    run = ["run", str(plain_recipe(tmp_path)), "-q", "--json", "--store", f"sqlite:{tmp_path}/s.sqlite"]
    found, out = imported(FOR_SOME_WORK, *run)
    assert json.loads(out)["status"] == "success"
    assert found == []


def test_a_plain_run_does_not_look_through_all_that_it_imported(tmp_path: Path) -> None:
    run = ["run", str(plain_recipe(tmp_path)), "-q", "--store", f"sqlite:{tmp_path}/s.sqlite"]
    code = (
        "import atexit, gc, sys\n"
        "from flo import cli\n"
        "def collections(): return sum(generation['collections'] for generation in gc.get_stats())\n"
        "before = collections()\n"
        "atexit.register(lambda: print(collections() - before, file=sys.stderr))\n"
        f"sys.argv = {['flo', *run]}\n"
        "cli.main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == "0\n"


def test_the_interpreter_does_not_look_through_all_that_was_imported_when_it_ends() -> None:
    code = (
        "import atexit, gc, sys\n"
        "from flo import cli\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > gc.get_count()[0], file=sys.stderr))\n"
        "sys.argv = ['flo', '--version']\n"
        "cli.main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == "True\n"


def test_help_lists_every_command(flo) -> None:
    answer = flo("--help")
    assert answer.code == 0
    for name, deferred in tree.COMMANDS.items():
        assert f"  {name} " in answer.out
        assert deferred.summary.split(" ", 1)[0] in answer.out


@pytest.mark.parametrize("name", tree.COMMANDS)
def test_the_line_in_the_list_is_what_the_command_says_itself(name: str) -> None:
    command = tree.COMMANDS[name].load()
    assert command.name == name
    assert command.get_short_help_str(limit=200) == tree.COMMANDS[name].summary


def every_command(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    context = click.Context(group)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append((f"{path} {name}", command))
        if isinstance(command, click.Group):
            found += every_command(command, f"{path} {name}")
    return found


@pytest.mark.parametrize(("path", "command"), every_command(tree.flo, "flo"))
def test_every_command_explains_itself_and_its_options(path: str, command: click.Command, flo) -> None:
    answer = flo(*path.split()[1:], "--help")
    assert answer.code == 0
    assert answer.out.startswith(f"Usage: {path}")
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, (path, parameter.name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "no command 'rnu'; did you mean 'run'?"),
        (["data", "lst"], "no command 'lst'; did you mean 'list'?"),
        (["list", "--jsn"], "--json"),
        (["executions", "list", "--status", "sucess"], "success"),
        (["data", "list"], "'flo data list --help' explains"),
        (["run", "x.json", "--timeout", "soon"], "'soon' is no duration above zero"),
        (["run", "x.json", "--timeout", "0"], "'0' is no duration above zero"),
        (["run", "-", "--input", "-"], "only one argument can be read from standard input"),
        (["run", "x.json", "--json", "--events"], "--json and --events cannot be given together"),
    ],
)
def test_a_wrong_call_names_the_right_one_and_ends_with_1(arguments: list[str], said: str, flo) -> None:
    answer = flo(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: ")
    assert said in answer.err


def test_without_a_command_the_help_stands_on_standard_error(flo) -> None:
    answer = flo()
    assert (answer.code, answer.out) == (1, "")
    assert "Usage: flo" in answer.err


def test_the_version_is_the_distribution_s(flo) -> None:
    from importlib.metadata import version

    assert flo("--version").out == f"flo {version('flo-engine')}\n"


def test_a_bug_is_one_line_and_a_traceback_only_when_asked_for(flo, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setitem(tree.flo.commands, "broken", click.Command("broken", callback=broken))
    answer = flo("broken")
    assert answer.code == 1
    assert answer.err.splitlines()[0] == "error: this is a bug in flo: KeyError: 'oops'"
    assert "Traceback" not in answer.err
    monkeypatch.setenv("FLO_DEBUG", "1")
    assert "Traceback" in flo("broken").err
