"""The command, called in this process for speed, or as a program of its own where that is what is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flo import cli


@dataclass(frozen=True)
class Answer:
    """What a command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a working folder of its own, and with it an embedded store."""
    monkeypatch.chdir(tmp_path)
    for name in ("FLO_STORE", "FLO_STEPS", "FLO_STRICT_PLUGINS", "FLO_SETTINGS", "FLO_MASTER_KEY", "FLO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def flo() -> Call:
    """Call the command in this process: ``flo("run", "x.json", stdin=...)``."""

    def call(*arguments: str, stdin: str | bytes = "") -> Answer:
        with CliRunner().isolation(input=stdin) as (out, err, _):
            code = cli.call(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
        return Answer(code, out.getvalue().decode(), err.getvalue().decode())

    return call


@pytest.fixture
def program() -> Call:
    """Call the command as a program, to its end."""

    def call(*arguments: str, stdin: bytes = b"", **environment: str) -> Answer:
        ended = subprocess.run(
            [sys.executable, "-m", "flo.cli", *arguments],
            input=stdin,
            capture_output=True,
            env={**os.environ, **environment},
            timeout=60,
            check=False,
        )
        return Answer(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return call


@pytest.fixture
def started() -> Iterator[Callable[[Sequence[str]], subprocess.Popen[bytes]]]:
    """Start the command as a program that the test talks to; what is left of it at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(arguments: Sequence[str], **settings: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        process = subprocess.Popen([sys.executable, "-m", "flo.cli", *arguments], **pipes)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def save(folder: Path) -> Callable[..., str]:
    """Write a workflow's steps, or a whole document, to a file; gives its name."""

    def write(document: Any, name: str = "flow.json") -> str:
        whole = {"steps": document} if isinstance(document, list) else document
        folder.joinpath(name).write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
        return name

    return write


@pytest.fixture
def ran(flo: Any, save: Any) -> dict[str, Any]:
    """A run of three steps, one of them a loop, that failed."""
    said = {"stepId": "b", "stepType": "core.log", "input": {"message": "item << $item >>\nagain", "data": {"n": 1}}}
    file = save(
        {
            "name": "greet",
            "steps": [
                {"stepId": "a", "stepType": "core.for-each", "input": {"items": [1, 2], "steps": [said]}},
                {"stepId": "c", "stepType": "core.fail", "input": {"message": "boom"}},
            ],
        }
    )
    answer = flo("run", file, "--json", "--input", '{"x": 1}')
    assert answer.code == 3
    result: dict[str, Any] = answer.json
    return result
