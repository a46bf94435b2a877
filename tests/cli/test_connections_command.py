"""``flo connections``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

WRITTEN = {
    "type": "http",
    "baseUrl": "https://api.example.com",
    "headers": {"Authorization": "Bearer hunter2"},
    "retries": 3,
}
SHOWN = {**WRITTEN, "headers": {"Authorization": "***"}}


@pytest.fixture(autouse=True)
def nothing_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("FLO_ENV_", "FLO_SECRET_", "FLO_CONNECTION_", "FLO_MASTER_", "FLO_SETTINGS")):
            monkeypatch.delenv(name)


@pytest.fixture
def stripe(flo: Any) -> None:
    assert flo("connections", "set", "stripe", "-", stdin=json.dumps(WRITTEN)).code == 0


@pytest.mark.usefixtures("stripe")
def test_a_connection_is_shown_without_its_secrets(flo: Any) -> None:
    assert flo("connections", "show", "stripe").json == SHOWN
    whole = {"name": "stripe", "value": SHOWN, "secret": True, "source": "store"}
    assert flo("connections", "show", "stripe", "--json").json == whole
    assert flo("connections", "list", "--json").json == [whole]
    assert [line.split() for line in flo("connections", "list").out.splitlines()] == [
        ["NAME", "TYPE", "BASE", "URL", "SOURCE"],
        ["stripe", "http", "https://api.example.com", "store"],
    ]


@pytest.mark.usefixtures("stripe")
def test_a_connection_that_is_not_there_is_told_with_the_nearest(flo: Any) -> None:
    for command in ("show", "delete"):
        answer = flo("connections", command, "strip")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == "error: no connection 'strip'; did you mean 'stripe'?\n"


@pytest.mark.usefixtures("stripe")
def test_a_connection_is_replaced_and_removed(flo: Any) -> None:
    replaced = flo("connections", "set", "stripe", '{"baseUrl": "other"}', "--json")
    assert (replaced.code, replaced.json) == (0, {"name": "stripe"})
    assert flo("connections", "show", "stripe").json == {"baseUrl": "other"}
    assert flo("connections", "delete", "stripe").err == "connection 'stripe' is removed\n"
    answer = flo("connections", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "there are no connections; 'flo connections set' stores one" in answer.err


@pytest.mark.usefixtures("stripe")
def test_what_is_nearer_to_the_process_wins(flo: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "flo.settings.json").write_text('{"connections": {"stripe": {"baseUrl": "file"}}}')
    (listed,) = flo("connections", "list", "--json").json
    assert (listed["value"], listed["source"]) == ({"baseUrl": "file"}, "flo.settings.json")
    monkeypatch.setenv("FLO_CONNECTION_STRIPE", '{"baseUrl": "process"}')
    (listed,) = flo("connections", "list", "--json").json
    assert (listed["name"], listed["value"], listed["source"]) == (
        "stripe", {"baseUrl": "process"}, "FLO_CONNECTION_STRIPE",
    )  # fmt: skip
    assert (
        "warning: FLO_CONNECTION_STRIPE has 'stripe' too, and wins\n" in flo("connections", "set", "stripe", "{}").err
    )
    flo("connections", "delete", "stripe")
    answer = flo("connections", "delete", "stripe")
    assert (answer.code, answer.err) == (1, "error: 'stripe' comes from FLO_CONNECTION_STRIPE: remove it there\n")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"token": hunter2}', "the connection, line 1, column 11: what stands there is no JSON value"),
        ('"hunter2"', "connection stripe: a connection is an object, text came"),
        ('{"token": "<< $evn.hunter2 >>"}', "this secret holds a template that gives no value"),
        ('{"baseUrl": "<< $evn.X >>"}', "there is no '$evn' here, but $env and $process; did you mean '$env'?"),
    ],
)
def test_what_is_no_connection_is_refused_and_not_shown(value: str, said: str, flo: Any) -> None:
    answer = flo("connections", "set", "stripe", value)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert "hunter2" not in answer.err
    assert flo("connections", "list", "--json").json == []


@pytest.mark.usefixtures("stripe")
def test_a_connection_that_cannot_be_opened_is_told(flo: Any, folder: Path) -> None:
    (folder / ".flo" / "flo.sqlite-key").unlink()
    shown = flo("connections", "show", "stripe")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("warning: connection stripe cannot be opened: FLO_MASTER_KEY is not set here")
    listed = flo("connections", "list", "--json")
    assert listed.code == 0
    assert "cannot be opened" in listed.json[0]["problem"]
