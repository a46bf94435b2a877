"""What is wrong with a settings file or a variable of the process is told with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.errors import InputInvalid
from flo.engine.opening import open_environments
from flo.engine.stores.memory import MemoryStore
from flo.testing import FrozenClock

from .environment_world import World


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('{\n  "environments": {"a": {"K": "v",}}\n}', 2, 34, "a comma after the last entry"),
        ('{"environments": {"a": {"K": {"secret": hunter2}}}}', 1, 41, "what stands there is no JSON value"),
        ('{"environments": {"a": {"K": "x" "hunter2"}}}', 1, 34, "a comma is missing"),
        ('{"environments": {"a": {"K": 0hunter2}}}', 1, 30, "what stands there is no JSON number"),
        ('{"environments": {"abé"t:1}}', 1, 24, "a colon is missing after the key 'abé', something came"),
        ('{"environments": {"abé"a:1}}', 1, 24, "a colon is missing after the key 'abé', something came"),
        ('{"environments": {a: 1}}', 1, 19, "a key stands in double quotes, something came"),
        ('{"environments": {"a": {"K": is}}}', 1, 30, "what stands there is no JSON value; text stands in"),
        ('{"environments": {"a": {"K": 1e999}}}', 1, 30, "what stands there is too large; write it as text"),
        ('{"environments": {}} hunter2', 1, 22, "something after the end of the document: something"),
        ('{"a": {"K": 1}, "a": 2}', 1, 17, "stands twice"),
        ('{\n "enviroments": {}}', 2, 2, "unknown field 'enviroments'; did you mean 'environments'?"),
        ('{"vault": {}}', 1, 2, "unknown field 'vault'; there are environments and connections"),
        ("[]", 1, 1, "it must be an object, a list came"),
        ('{"environments": []}', 1, 2, "environments: it must be an object, a list came"),
        ('{"environments": {\n"prod": "x"}}', 2, 1, "environments.prod: it must be an object, text came"),
        ('{"environments": {"a b": {}}}', 1, 19, 'environments["a b"]: "a b" is no name: it has 1 to 200 letters'),
        ('{"environments": {"a": {"": 1}}}', 1, 25, '"" is no name'),
        ('{"connections": {\n  "c": "https://x"}}', 2, 3, "connections.c: a connection is an object, text came"),
        ('{"environments": {"a": {"PIN": {"secret": 1234}}}}', 1, 25, "a number cannot be kept secret: write it as"),
        ('{"environments": {"a": {"K": [{"secret": {"pin": [1234]}}]}}}', 1, 25, 'write "pin[0]" as text, in quotes'),
        ("", 1, 1, "it is empty"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(
    text: str, line: int, column: int, said: str, world: World
) -> None:
    world.file.write_text(text, encoding="utf-8")
    with pytest.raises(InputInvalid) as raised:
        world.env()
    assert (raised.value.source, raised.value.line, raised.value.column) == (str(world.file), line, column)
    assert said in raised.value.message
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_named_and_not_there_is_told_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = MemoryStore(FrozenClock())
    (tmp_path / "settings.json").write_text('{"environments": {"default": {"A": 1}}}')
    missing = open_environments(store, Keyring({}), {"FLO_SETTINGS": "setings.json"})
    with pytest.raises(InputInvalid, match=r"setings.json: there is no such file; did you mean 'settings.json'\?"):
        missing.load()
    assert open_environments(store, Keyring({}), {"FLO_SETTINGS": "settings.json"}).load().env == {"A": 1}
    assert open_environments(store, Keyring({}), {}).load().env == {}
    (tmp_path / "flo.settings.json").write_text('{"environments": {"default": {"A": 2}}}')
    assert open_environments(store, Keyring({}), {}).load().env == {"A": 2}


@pytest.mark.parametrize(
    ("process", "said"),
    [
        ({"FLO_ENV_A": "1", "FLO_SECRET_A": "2"}, "FLO_SECRET_A: FLO_ENV_A names the same; unset one of them"),
        ({"FLO_CONNECTION_A_B": "{}", "FLO_CONNECTION_a_b": "{}"}, "FLO_CONNECTION_A_B names the same"),
        ({"FLO_ENV_": "1"}, 'FLO_ENV_: "" is no name'),
        ({"FLO_SECRET_A.B": "1"}, 'FLO_SECRET_A.B: "A.B" is no name'),
        ({"FLO_SECRET_A": "\udcff"}, "FLO_SECRET_A: it is no UTF-8"),
        ({"FLO_CONNECTION_A": "hunter2"}, "FLO_CONNECTION_A, line 1, column 1: what stands there is no JSON value"),
        ({"FLO_CONNECTION_A": '["hunter2"]'}, "FLO_CONNECTION_A: a connection is an object, a list came"),
        ({"FLO_ENV_A": "<< $env.B >>"}, "FLO_ENV_A: '$env.B' is missing"),
    ],
)
def test_what_is_wrong_with_a_variable_is_told_by_its_name(process: dict[str, str], said: str, world: World) -> None:
    world.process = process
    with pytest.raises(InputInvalid) as raised:
        world.env()
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"environments": {"a": {"K": {"secret": "x"}}}}, True),
        ({"environments": {"a": {"K": {"secret": "<< $process.X >>"}, "B": "plain"}}}, False),
        ({"connections": {"c": {"auth": {"type": "bearer", "token": "x"}}}}, True),
        ({"connections": {"c": {"type": "http", "baseUrl": "x", "auth": {"token": "<< $process.X >>"}}}}, False),
    ],
)
def test_a_file_with_secrets_that_others_may_read_is_told_of(fields: Any, told: bool, world: World) -> None:
    world.write(**fields)
    world.file.chmod(0o644)
    warnings = world.environments.warnings()
    assert warnings == (
        [f"{world.file} holds secrets, and others on this machine may read it: chmod 600 {world.file}"] * told
    )
    world.file.chmod(0o600)
    assert world.environments.warnings() == []
