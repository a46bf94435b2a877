"""The command as a program: pipes, encodings, exit codes that a shell sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RETURN = {"stepId": "a", "stepType": "core.return", "input": {"name": "<< initial.name >>"}}


@pytest.mark.parametrize(
    "settings",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_everything_is_utf_8_whatever_the_locale(settings: dict[str, str], program: Any, save: Any) -> None:
    save([RETURN], "flöw.json")
    answer = program("run", "flöw.json", "--input", '{"name": "Ada é 🙂"}', **settings)
    assert (answer.code, answer.out) == (0, '{"name":"Ada é 🙂"}\n')
    refused = program("run", "flöws.json", **settings)
    assert (refused.code, refused.err) == (
        1,
        "error: flöws.json: there is no such file; did you mean 'flöw.json'?\n",
    )


def test_exit_codes_reach_the_shell(program: Any, save: Any) -> None:
    failing = save([{"stepId": "a", "stepType": "core.fail", "input": {"message": "boom"}}], "fail.json")
    assert program("run", failing).code == 3
    assert program("run", "nothing.json").code == 1
    assert program("nonsense").code == 1
    assert program("list", "--store", "postgresql://127.0.0.1:1/flo").code == 2


def test_schedules_go_by_their_own_zone_on_a_machine_of_another_one_without_zone_files(program: Any) -> None:
    asked = ("0 9 * * *", "--timezone", "America/New_York", "--from", "2027-03-13T00:00:00Z", "-n", "2", "--json")
    answer = program("triggers", "next", *asked, TZ="Asia/Tokyo", PYTHONTZPATH="")
    assert json.loads(answer.out) == [
        {"local": "2027-03-13T09:00:00-05:00", "utc": "2027-03-13T14:00:00.000000Z"},
        {"local": "2027-03-14T09:00:00-04:00", "utc": "2027-03-14T13:00:00.000000Z"},
    ]


def test_keys_are_utf_8_whatever_the_locale(program: Any) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert program("data", "set", "täble", "kéy", '"é"', **ascii_only).err == "'kéy' is new\n"
    assert program("data", "get", "täble", "kéy").out == '"é"\n'


def test_closed_streams_are_no_bug() -> None:
    for closed in (">&-", "2>&-", "<&-"):
        line = f"{sys.executable} -m flo.cli recipes list {closed}"
        ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), closed


def piped(reader: str, *arguments: str) -> tuple[int, str]:
    """Run the command into a pipe; gives its own exit code and what it said on standard error."""
    command = subprocess.list2cmdline([sys.executable, "-m", "flo.cli", *arguments])
    line = f"{command} | {reader}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


def test_a_reader_that_goes_away_ends_it_quietly(program: Any) -> None:
    rows = "".join(f'{{"key": "k{number}", "value": "{"x" * 500}"}}\n' for number in range(2_000))
    assert program("data", "import", "ops", "-", stdin=rows.encode()).code == 0
    assert piped("head -n 1 > head.txt", "data", "export", "ops") == (141, "")
    assert piped("true", "data", "list", "ops", "--json")[0] == 141
    assert "Traceback" not in piped("true", "recipes", "list")[1]


def test_a_failed_run_keeps_its_exit_code_in_a_pipe(save: Any) -> None:
    failing = save([{"stepId": "a", "stepType": "core.fail", "input": {"message": "boom"}}])
    assert piped("cat > all.txt", "run", failing, "--json", "--quiet")[0] == 3
    code, said = piped("true", "run", failing, "--json", "--quiet")
    assert (code, said) == (3, "error: the run failed in step 'a': boom\n")
    assert piped("true", "run", failing, "--events", "--quiet") == (code, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_under_standard_output_is_told(save: Any) -> None:
    file = save({"steps": [RETURN], "initial": {"name": "x"}})
    for arguments in (["run", file], ["run", file, "--events"], ["recipes", "list"]):
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "flo.cli", *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert ended.returncode == 1
        assert "error: standard output cannot be written: No space left on device" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_workflow_can_be_pasted(program: Any) -> None:
    document = {"name": "greet", "initial": {"name": "x"}, "steps": [RETURN]}
    text = json.dumps(document, indent=3).encode()
    assert program("add", "-", stdin=text).code == 0
    assert program("show", "greet").out.encode() == text
    assert program("run", "greet").out == '{"name":"x"}\n'


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_read_is_told(flo: Any, folder: Path) -> None:
    folder.joinpath("flow.json").write_text("{}")
    folder.joinpath("flow.json").chmod(0)
    answer = flo("run", "flow.json")
    assert answer.code == 1
    assert "cannot be read: Permission denied" in answer.err
