"""``flo env``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flo.engine.sealing import KEY_VARIABLE, Keys, new_key

SEEN = "warning: others on this machine may see a secret that stands on the command line; better give it with '-'"
IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.fixture(autouse=True)
def nothing_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("FLO_ENV_", "FLO_SECRET_", "FLO_CONNECTION_", "FLO_MASTER_", "FLO_SETTINGS")):
            monkeypatch.delenv(name)


@pytest.fixture
def settings(folder: Path) -> Callable[..., None]:
    """Write the settings file of the working folder, for its owner alone."""

    def write(**fields: Any) -> None:
        (folder / "flo.settings.json").write_text(json.dumps(fields), encoding="utf-8")
        (folder / "flo.settings.json").chmod(0o600)

    return write


def listed(answer: Any) -> dict[str, dict[str, tuple[Any, str]]]:
    return {
        each["name"]: {value["name"]: (value["value"], value["source"]) for value in each["values"]}
        for each in answer.json
    }


def test_a_value_is_secret_unless_it_is_plain(flo: Any) -> None:
    secret = flo("env", "set", "prod", "KEY", "-", stdin="hunter2\n")
    assert (secret.code, secret.out, secret.err) == (0, "", "'KEY' of environment 'prod' is stored, sealed\n")
    plain = flo("env", "set", "prod", "URL", "https://u:<< $env.KEY >>@h", "--plain", "--json")
    assert (plain.code, plain.json, plain.err) == (0, {"environment": "prod", "name": "URL", "secret": False}, "")
    shown = flo("env", "show", "prod")
    assert shown.out.splitlines() == [
        "NAME  VALUE            SOURCE",
        "KEY   ***              store",
        "URL   https://u:***@h  store",
    ]
    assert flo("env", "show", "prod", "--json").json == {
        "name": "prod",
        "values": [
            {"name": "KEY", "value": "***", "secret": True, "source": "store"},
            {"name": "URL", "value": "https://u:***@h", "secret": True, "source": "store"},
        ],
    }


def test_list_tells_where_each_value_comes_from(flo: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(environments={"prod": {"A": "file", "B": {"secret": "hunter2"}}, "empty": {}})
    flo("env", "set", "prod", "A", "-", "--plain", stdin="table")
    flo("env", "set", "prod", "C", "-", "--plain", stdin="table")
    assert listed(flo("env", "list", "--json")) == {
        "empty": {},
        "prod": {"A": ("file", "flo.settings.json"), "B": ("***", "flo.settings.json"), "C": ("table", "store")},
    }
    assert flo("env", "list").out.splitlines()[:2] == [
        "ENVIRONMENT  NAME  VALUE  SOURCE",
        "empty        -     -      -",
    ]
    monkeypatch.setenv("FLO_SECRET_C", "hunter2")
    everywhere = ("***", "FLO_SECRET_C")
    answer = flo("env", "list", "--json")
    assert {name: values["C"] for name, values in listed(answer).items()} == dict.fromkeys(
        ("default", "empty", "prod"), everywhere
    )
    assert "hunter2" not in answer.out + answer.err + flo("env", "list").out


def test_without_environments_there_is_nothing_on_standard_output(flo: Any, folder: Path) -> None:
    answer = flo("env", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "no environment is set up; 'flo env set' stores a value" in answer.err
    assert flo("env", "list", "--json").out == "[]\n"
    assert flo("env", "show", "default").err == "environment 'default' has no values\n"
    assert flo("env", "show", "defalt").code == 1
    assert not (folder / ".flo" / "flo.sqlite-key").exists()


def test_a_secret_on_the_command_line_is_warned_of(flo: Any, folder: Path) -> None:
    (folder / "key.txt").write_text("hunter2\n")
    assert flo("env", "set", "prod", "A", "hunter2").err.startswith(SEEN)
    for more in (["B", "@key.txt"], ["C", "open", "--plain"]):
        assert "warning" not in flo("env", "set", "prod", *more).err
    flo("env", "set", "prod", "IS", "<< $env.A == $env.B >>", "--plain")
    assert {value["name"]: value["value"] for value in flo("env", "show", "prod", "--json").json["values"]}[
        "IS"
    ] is True


def test_a_value_that_is_asked_for_is_not_shown(folder: Path, flo: Any) -> None:
    command = [sys.executable, "-m", "flo.cli", "env", "set", "prod", "KEY"]
    with subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as terminal:
        assert terminal.stdin is not None
        assert terminal.stdout is not None
        said = b""
        while not said.endswith(b"Value of KEY: ") and (more := terminal.stdout.read(1)):
            said += more
        terminal.stdin.write(b"hunter2<< x\n")
        terminal.stdin.flush()
        rest = terminal.stdout.read()
    assert terminal.returncode == 0, said + rest
    assert b"is stored, sealed" in rest
    assert b"hunter2" not in said + rest
    flo("env", "set", "prod", "SIZE", "<< $env.KEY | size >>", "--plain")
    assert [value["value"] for value in flo("env", "show", "prod", "--json").json["values"]] == ["***", 11]


def test_nobody_is_asked_where_there_is_no_terminal(flo: Any) -> None:
    answer = flo("env", "set", "prod", "KEY")
    assert (answer.code, answer.out) == (1, "")
    assert "give a value, @FILE, or '-' to read it from standard input" in answer.err


def test_a_value_may_be_json(flo: Any) -> None:
    value = json.dumps({"user": "ada", "password": {"secret": "hunter2"}, "big": 2**70})
    flo("env", "set", "prod", "PLAIN", value, "--json-value", "--plain")
    flo("env", "set", "prod", "ALL", "-", "--json-value", stdin='{"user": "ada", "password": "hunter2"}')
    flo("env", "set", "prod", "COPY", "<< $env.PLAIN.big >>", "--plain")
    values = {each["name"]: each["value"] for each in flo("env", "show", "prod", "--json").json["values"]}
    assert values == {"PLAIN": {"user": "ada", "password": "***", "big": 2**70}, "ALL": "***", "COPY": 2**70}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["K", '{"a": hunter2}', "--json-value"], "the value, line 1, column 7: what stands there is no JSON value"),
        (["K", "7", "--json-value"], "environment prod K: a number cannot be kept secret: write it as text, in quotes"),
        (["K", '{"pin": 123456}', "--json-value"], 'cannot be kept secret: write "pin" as text, in quotes'),
        (["K", "pa{{ hunter2 }}ss"], "write {% raw %} before it"),
        (["K", "<< $evn.A >>", "--plain"], "there is no '$evn' here, but $env and $process; did you mean '$env'?"),
        (["K K", "hunter2"], '"K K" is no name'),
    ],
)
def test_what_is_no_value_is_refused_and_not_shown(options: list[str], said: str, flo: Any) -> None:
    answer = flo("env", "set", "prod", *options)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert "hunter2" not in answer.err
    assert flo("env", "list", "--json").json == []


def test_a_value_that_another_one_wins_over_is_told_of(
    flo: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(environments={"prod": {"A": "file"}})
    assert "warning: flo.settings.json has 'A' too, and wins\n" in flo("env", "set", "prod", "A", "x", "--plain").err
    monkeypatch.setenv("FLO_ENV_A", "x")
    assert "warning: FLO_ENV_A has 'A' too, and wins\n" in flo("env", "set", "prod", "A", "x", "--plain").err
    assert "warning" not in flo("env", "set", "prod", "B", "x", "--plain").err


def test_what_is_deleted_is_gone_and_what_is_not_there_is_told(flo: Any, settings: Any) -> None:
    settings(environments={"prod": {"FILE": "x"}})
    for key in ("API_KEY", "URL", "REGION"):
        flo("env", "set", "prod", key, "x", "--plain")
    assert flo("env", "delete", "prod", "URL").err == "1 value removed\n"
    wrong = flo("env", "delete", "prod", "APIKEY")
    assert (wrong.code, wrong.err) == (1, "error: no stored value 'prod APIKEY'; did you mean 'prod API_KEY'?\n")
    assert flo("env", "delete", "prod", "FILE").err == "error: 'FILE' comes from flo.settings.json: remove it there\n"
    assert flo("env", "delete", "prdo").err == "error: no stored environment 'prdo'; did you mean 'prod'?\n"
    assert flo("env", "delete", "prod", "--json").json == {"deleted": 2}
    assert listed(flo("env", "list", "--json")) == {"prod": {"FILE": ("x", "flo.settings.json")}}


def test_a_new_key_is_one(flo: Any, folder: Path) -> None:
    first, second = flo("env", "key").out, flo("env", "key", "--json").json["key"]
    assert first.strip() != second
    for key in (first.strip(), second):
        assert Keys([key], "test").open(Keys([key], "test").seal(1, about="x"), about="x") == 1
    assert list(folder.iterdir()) == []


def test_rotating_goes_from_one_key_to_another(flo: Any, shared_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = new_key(), new_key()
    monkeypatch.setenv("FLO_STORE", shared_url)
    monkeypatch.setenv(KEY_VARIABLE, old)
    for key in ("A", "B"):
        flo("env", "set", "prod", key, "-", stdin="hunter2")
    flo("connections", "set", "c", "-", stdin='{"token": "hunter2"}')
    monkeypatch.setenv(KEY_VARIABLE, new)
    refused = flo("env", "rotate")
    assert refused.code == 1
    assert refused.err.startswith("error: environment prod A cannot be opened: it was sealed with another master key")
    monkeypatch.setenv(KEY_VARIABLE, f"{new},{old}")
    assert flo("env", "rotate", "--json").json == {"sealedAnew": 3, "current": 0}
    again = flo("env", "rotate").err
    assert again.startswith("sealed anew: 0; sealed with the first key already: 3\n")
    assert "keep the old keys behind the first until the executions that are under way have ended" in again
    monkeypatch.setenv(KEY_VARIABLE, new)
    shown = flo("env", "show", "prod")
    assert (shown.code, shown.err) == (0, "")
    monkeypatch.setenv(KEY_VARIABLE, old)
    broken = flo("env", "show", "prod", "--json")
    assert broken.code == 1
    assert [value["value"] for value in broken.json["values"]] == [None, None]
    assert "environment prod A cannot be opened" in broken.json["values"][0]["problem"]
    assert broken.err.count("warning: environment prod ") == 2
    assert "hunter2" not in broken.out + broken.err


def test_the_key_file_of_an_embedded_store_rotates_by_its_lines(flo: Any, folder: Path) -> None:
    flo("env", "set", "prod", "A", "-", stdin="hunter2")
    file = folder / ".flo" / "flo.sqlite-key"
    assert file.stat().st_mode & 0o777 == 0o600
    old, new = file.read_text(), new_key()
    file.write_text(f"{new}\n{old}")
    assert flo("env", "rotate", "--json").json == {"sealedAnew": 1, "current": 0}
    file.write_text(f"{new}\n")
    assert flo("env", "show", "prod").code == 0
    file.chmod(0o644)
    assert "warning: others on this machine may read the master key: chmod 600 " in flo("env", "list").err
    file.unlink()
    assert "there is no key file" in flo("env", "rotate").err
    assert "there is no key file" in flo("env", "set", "prod", "B", "x", "--plain").err
    assert not file.exists()


def test_postgresql_without_a_master_key_refuses_to_seal(flo: Any, postgres_url: str) -> None:
    answer = flo("env", "set", "prod", "A", "-", "--store", postgres_url, stdin="hunter2")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(
        "error: FLO_MASTER_KEY: it is not set, and this store keeps no key itself: 'flo env key'"
    )
    assert flo("env", "rotate", "--store", postgres_url, "--json").json == {"sealedAnew": 0, "current": 0}


def test_a_file_that_is_wrong_is_told_with_its_place(flo: Any, folder: Path, settings: Any) -> None:
    settings(environments={"prod": []})
    for command in (["list"], ["show", "prod"], ["set", "prod", "A", "x", "--plain"]):
        answer = flo("env", *command)
        assert (answer.code, answer.out) == (1, "")
        assert (
            "flo.settings.json, line 1, column 19: environments.prod: it must be an object, a list came" in answer.err
        )


def test_a_file_with_secrets_that_others_may_read_is_told_of(flo: Any, folder: Path, settings: Any) -> None:
    settings(environments={"prod": {"A": {"secret": "hunter2"}}})
    (folder / "flo.settings.json").chmod(0o644)
    said = (
        "warning: flo.settings.json holds secrets, and others on this machine may read it: chmod 600 flo.settings.json"
    )
    assert said in flo("env", "list").err


def test_a_value_cannot_move_the_cursor(flo: Any) -> None:
    flo("env", "set", "prod", "A", "-", "--plain", stdin="a\x1b[2Jb\nc")
    assert "\\x1b[2Jb\\nc" in flo("env", "list").out
