"""Environments and connections: what wins, what templates in them see, what is secret, and what is wrong with them."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.environments.loading import Environments
from flo.engine.environments.table import Rotated, keep, place_of, rotate
from flo.engine.errors import FloError, InputInvalid, NotFound, StepFailed
from flo.engine.hiding import secrets_in
from flo.engine.opening import open_environments, open_keyring, open_store
from flo.engine.sealing import KEY_VARIABLE, Keys, SealBroken, new_key
from flo.engine.secrecy import HIDDEN, Secret
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.settings import Kind, Setting, SettingStore
from flo.engine.stores.store import Store
from flo.engine.values import Json
from flo.testing import FrozenClock

OLD, NEW = new_key(), new_key()


class World:
    """A folder with a settings file, the variables of a process, and an encrypted table."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "flo.settings.json"
        self.process: dict[str, str] = {}
        self.table: SettingStore = MemoryStore(FrozenClock()).settings
        self.keyring = Keyring({KEY_VARIABLE: OLD})

    def write(self, **fields: Json) -> None:
        self.file.write_text(json.dumps(fields), encoding="utf-8")

    def keep(self, owner: str, name: str, raw: Json) -> None:
        keep(self.table, self.keyring, "environment", owner, name, raw)

    def connect(self, name: str, raw: Json) -> None:
        keep(self.table, self.keyring, "connection", name, "", raw)

    @property
    def environments(self) -> Environments:
        return Environments(
            self.table, self.keyring.find, self.file if self.file.exists() else None, dict(self.process)
        )

    def env(self, name: str | None = None) -> Mapping[str, Json]:
        return self.environments.load(name).env

    def connection(self, name: str) -> Mapping[str, Json]:
        return self.environments.load().connections[name]

    def values(self, **values: Json) -> Mapping[str, Json]:
        """The environment ``default`` with these values in the file."""
        self.write(environments={"default": values})
        return self.env()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def marks(value: object) -> object:
    """A value with ``Secret`` where one is marked, by what is shown of it."""
    match value:
        case Secret():
            return f"secret: {value.shown}"
        case dict():
            return {key: marks(held) for key, held in value.items()}
        case list():
            return [marks(held) for held in value]
    return value


# What wins


@pytest.mark.parametrize(
    ("table", "file", "process", "wins", "origin"),
    [
        (True, False, False, "table", "store"),
        (False, True, False, "file", "flo.settings.json"),
        (False, False, True, "process", "FLO_ENV_KEY"),
        (True, True, False, "file", "flo.settings.json"),
        (True, False, True, "process", "FLO_ENV_KEY"),
        (False, True, True, "process", "FLO_ENV_KEY"),
        (True, True, True, "process", "FLO_ENV_KEY"),
    ],
)
def test_the_nearest_to_the_process_wins(
    table: bool, file: bool, process: bool, wins: str, origin: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.file.parent)
    world.file = Path("flo.settings.json")
    if table:
        world.keep("default", "KEY", "table")
        world.keep("default", "ONLY_TABLE", "table")
    if file:
        world.write(environments={"default": {"KEY": "file", "ONLY_FILE": "file"}})
    if process:
        world.process = {"FLO_ENV_KEY": "process"}
    assert world.env()["KEY"] == wins
    assert ("ONLY_TABLE" in world.env(), "ONLY_FILE" in world.env()) == (table, file)
    assert [each.origin for each in world.environments.describe() if each.name == "KEY"] == [origin]
    nearer = None if origin == "store" else origin
    assert world.environments.nearer("environment", "default", "KEY") == nearer


def test_variables_of_the_process_are_in_every_environment(world: World) -> None:
    world.write(environments={"prod": {"A": "1"}, "empty": {}})
    world.keep("dev", "B", "2")
    world.process = {"FLO_ENV_URL": "u", "FLO_SECRET_KEY": "k3y!", "FLO_ENVIRONMENT": "x", "OTHER": "y"}
    more = {"URL": "u", "KEY": "secret: ***"}
    assert marks(world.env("prod")) == {"A": "1", **more}
    assert marks(world.env("dev")) == {"B": "2", **more}
    assert marks(world.env("empty")) == marks(world.env()) == marks(world.env("default")) == more
    assert world.env()["KEY"] == "k3y!"


def test_an_environment_that_is_nowhere_is_told_with_the_nearest(world: World) -> None:
    world.write(environments={"production": {}})
    world.keep("staging", "A", "1")
    assert world.environments.known() == ["default", "production", "staging"]
    for name, near in (("prodution", "production"), ("stagin", "staging"), ("defualt", "default")):
        with pytest.raises(NotFound, match=f"^no environment '{name}'; did you mean '{near}'"):
            world.env(name)
        with pytest.raises(NotFound):
            world.environments.describe(name)
    with pytest.raises(NotFound, match=r"^no environment 'Production'"):
        world.env("Production")


def test_nothing_set_up_is_an_empty_environment(world: World) -> None:
    loaded = world.environments.load()
    assert (dict(loaded.env), dict(loaded.connections)) == ({}, {})
    assert Environments(None, lambda: None, None, {}).load("default").env == {}


def test_what_changes_is_seen_by_the_next_run(world: World) -> None:
    world.write(environments={"default": {"A": "1"}})
    environments = world.environments
    assert environments.load().env == {"A": "1"}
    world.write(environments={"default": {"A": "two"}})
    world.keep("default", "B", "1")
    assert environments.load().env == {"A": "two", "B": "1"}
    world.keep("default", "B", "2")
    assert environments.load().env == {"A": "two", "B": "2"}
    for value in (1, 1.0, True):
        world.write(environments={"default": {"A": value}})
        assert repr(environments.load().env["A"]) == repr(value)


def test_what_a_run_does_to_its_values_reaches_no_other_run(world: World) -> None:
    world.write(environments={"default": {"A": {"list": [{"secret": "x"}]}}}, connections={"c": {"list": ["y"]}})
    world.process = {"FLO_CONNECTION_D": '{"list": ["z"]}'}
    environments = world.environments
    first: Any = environments.load()
    for held in (first.env["A"], first.connections["c"], first.connections["d"]):
        held["list"].append("more")
    again = environments.load()
    assert marks(again.env) == {"A": {"list": ["secret: ***"]}}
    assert marks(dict(again.connections)) == {"c": {"list": ["secret: ***"]}, "d": {"list": ["secret: ***"]}}


@pytest.mark.parametrize("value", [2**200, 1.0, True, None, [1, {"a": []}], "", "0000", "é🙂\n", -0.5], ids=repr)
def test_a_value_is_any_json_and_keeps_its_type(value: Json, world: World) -> None:
    world.keep("default", "TABLE", value)
    env = world.values(FILE=value)
    assert (repr(env["TABLE"]), repr(env["FILE"])) == (repr(value), repr(value))


# Connections


def test_a_whole_connection_takes_the_place_of_another(world: World) -> None:
    world.connect("a", {"baseUrl": "table", "type": "http"})
    world.connect("b", {"baseUrl": "table"})
    world.write(connections={"a": {"baseUrl": "file"}, "c": {"baseUrl": "file"}})
    world.process = {"FLO_CONNECTION_C": '{"baseUrl": "process"}', "FLO_CONNECTION_D": '{"baseUrl": "process"}'}
    connections = world.environments.load().connections
    assert dict(connections) == {
        "a": {"baseUrl": "file"},
        "b": {"baseUrl": "table"},
        "c": {"baseUrl": "process"},
        "d": {"baseUrl": "process"},
    }
    assert [(each.name, each.origin) for each in world.environments.describe_connections()] == [
        ("a", str(world.file)), ("b", "store"), ("c", "FLO_CONNECTION_C"), ("d", "FLO_CONNECTION_D"),
    ]  # fmt: skip


def test_the_name_of_a_variable_stands_for_every_spelling(world: World) -> None:
    world.write(connections={"Stripe-EU": {"baseUrl": "file"}, "other": {}})
    world.process = {"FLO_CONNECTION_STRIPE_EU": '{"baseUrl": "p"}', "FLO_CONNECTION_Mail_Out": '{"baseUrl": "m"}'}
    connections = world.environments.load().connections
    assert connections["Stripe-EU"] == {"baseUrl": "p"}
    assert sorted(connections) == ["Stripe-EU", "mail_out", "other"]
    for name in ("mail-out", "mail_out", "MAIL-OUT"):
        assert (name in connections, connections[name]) == (True, {"baseUrl": "m"})
    assert "mail" not in connections
    with pytest.raises(KeyError):
        connections["mail"]


def test_all_text_of_a_connection_is_secret_but_what_says_where_it_leads(world: World) -> None:
    written: Json = {
        "type": "http",
        "baseUrl": "https://api.example.com",
        "description": "the shop",
        "headers": {"Accept": "application/json", "X-Key": "k3y"},
        "auth": {"type": "basic", "username": "u", "password": {"secret": "p"}, "scopes": ["read"]},
        "retries": 3,
    }
    shown = {
        "type": "http",
        "baseUrl": "https://api.example.com",
        "description": "the shop",
        "headers": {"Accept": "application/json", "X-Key": "secret: ***"},
        "auth": {
            "type": "basic", "username": "secret: ***", "password": "secret: ***", "scopes": ["secret: ***"],
        },
        "retries": 3,
    }  # fmt: skip
    world.write(connections={"file": written, "hidden": {"baseUrl": {"secret": "https://inner"}}})
    world.connect("table", written)
    world.process = {"FLO_CONNECTION_PROCESS": json.dumps(written)}
    for name in ("file", "table", "process"):
        assert marks(world.connection(name)) == shown
    assert marks(world.connection("hidden")) == {"baseUrl": "secret: ***"}
    assert world.connection("file")["headers"] == {"Accept": "application/json", "X-Key": "k3y"}


def test_a_connection_that_cannot_be_had_fails_who_asks_for_it_and_nobody_else(world: World) -> None:
    world.write(
        environments={"prod": {"KEY": "k"}},
        connections={"prod-only": {"token": "<< $env.KEY >>"}, "sound": {"baseUrl": "x"}},
    )
    world.connect("sealed", {"baseUrl": "y"})
    world.keyring = Keyring({KEY_VARIABLE: NEW})
    connections = world.environments.load().connections
    assert dict(connections) == {"sound": {"baseUrl": "x"}}
    for name, said in (("prod-only", r"'\$env.KEY' is missing"), ("sealed", "connection sealed cannot be opened")):
        with pytest.raises(StepFailed, match=said) as raised:
            connections[name]
        assert (raised.value.code, raised.value.retryable) == ("invalid_connection", False)
    assert world.environments.load("prod").connections["prod-only"] == {"token": "k"}


# Templates


def test_values_refer_to_each_other_in_any_order(world: World) -> None:
    assert world.values(
        URL="https://<< $env.HOST >>:{{ $env.PORT }}/", HOST="<< $env.NAME | downcase >>.example.com",
        NAME="API", PORT=8080, LONE="<< $env.PORT >>", LIST=["<< $env.LIST2[0] >>"], LIST2=[{"a": "<< $env.NAME >>"}],
        TEXT="cat <<EOF", RAW="{% raw %}<< $env.X >>{% endraw %}", DEFAULT="<< $env.NONE | default: 'd' >>",
    ) == {
        "URL": "https://api.example.com:8080/", "HOST": "api.example.com",
        "NAME": "API", "PORT": 8080, "LONE": 8080, "LIST": [{"a": "API"}], "LIST2": [{"a": "API"}],
        "TEXT": "cat <<EOF", "RAW": "<< $env.X >>", "DEFAULT": "d",
    }  # fmt: skip


def test_every_source_sees_the_values_of_the_others(world: World) -> None:
    world.write(
        environments={"default": {"FILE": "f:<< $env.TABLE >>"}}, connections={"c": {"baseUrl": "<< $env.P >>"}}
    )
    world.keep("default", "TABLE", "t:<< $env.LAST >>")
    world.process = {"FLO_ENV_P": "p:<< $env.FILE >>", "FLO_ENV_LAST": "x"}
    assert world.env()["P"] == "p:f:t:x"
    assert world.connection("c") == {"baseUrl": "p:f:t:x"}


def test_what_a_template_gave_is_not_looked_at_again(world: World) -> None:
    world.process = {"OUTSIDE": "<< $env.KEY >>"}
    env = world.values(KEY={"secret": "hunter2"}, A="<< $process.OUTSIDE >>", B="x<< $env.A >>")
    assert (env["A"], env["B"]) == ("<< $env.KEY >>", "x<< $env.KEY >>")


@pytest.mark.parametrize(
    ("values", "circle"),
    [
        ({"A": "<< $env.A >>"}, "$env.A, $env.A"),
        ({"A": "<< $env.B >>", "B": "x<< $env.C >>", "C": ["<< $env.A >>"]}, "$env.A, $env.B, $env.C, $env.A"),
        ({"X": "<< $env.A >>", "A": "<< $env.B >>", "B": "<< $env['A'] >>"}, "$env.A, $env.B, $env.A"),
        ({"A": "1", "B": "<< $env | json >>"}, "$env.B, $env.B"),
        ({"A": "1", "B": "<< $env[$env.A] >>"}, "$env.B, $env.B"),
        ({"A": "{% for each in $env %}{{ each }}{% endfor %}"}, "$env.A, $env.A"),
        ({"A": "<< 'x' if true else $env.A >>"}, "$env.A, $env.A"),
    ],
)
def test_a_circle_is_told_with_all_that_are_in_it(values: dict[str, Json], circle: str, world: World) -> None:
    with pytest.raises(InputInvalid) as raised:
        world.values(**values)
    assert f"its template goes in a circle: {circle}" in str(raised.value)
    assert raised.value.line == 1


def test_a_long_chain_ends_in_words(world: World) -> None:
    values: dict[str, Json] = {f"V{number}": f"<< $env.V{number + 1} >>" for number in range(5000)}
    with pytest.raises(InputInvalid, match="more than 100 values refer to each other in a row"):
        world.values(**values, V5000="x")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("<< $env.API_KYE >>", "'$env.API_KYE' is missing; did you mean '$env.API_KEY'?"),
        ("x<< $env.OBJECT.nmae >>", "'$env.OBJECT.nmae' is missing; did you mean '$env.OBJECT.name'?"),
        ("<< $process.HOMEE >>", "'$process.HOMEE' is missing; did you mean '$process.HOMEDIR'?"),
        ("<< $process.FLO_MASTER_KEY >>", "'$process.FLO_MASTER_KEY' is missing"),
        ("<< $proces.HOME >>", "there is no '$proces' here, but $env and $process; did you mean '$process'?"),
        ("<< initial.x >>", "there is no 'initial' here, but $env and $process"),
        ("<< $util.now >>", "there is no '$util' here"),
        ("<< $env.API_KEY | upcse >>", "upcase"),
        ("<< $env.OBJECT + 1 >>", "cannot add a number to an object"),
        ("{% if $env.API_KEY %}", "'if' is never closed"),
    ],
)
def test_a_template_without_a_value_is_told_with_place_and_nearest(template: str, said: str, world: World) -> None:
    world.process = {"HOMEDIR": "/root", KEY_VARIABLE: OLD}
    text = {"environments": {"default": {"API_KEY": "k", "OBJECT": {"name": 1}, "deep": [{"x": template}]}}}
    world.file.write_text(json.dumps(text, indent=2), encoding="utf-8")
    with pytest.raises(InputInvalid) as raised:
        world.env()
    assert said in str(raised.value)
    assert raised.value.message.startswith("environments.default.deep: [0].x: ")
    assert (raised.value.source, raised.value.line, raised.value.column) == (str(world.file), 8, 7)


# What is secret


def test_secrets_are_marked_however_deep_they_lie(world: World) -> None:
    env = world.values(
        A={"secret": "one"}, B={"user": "u", "keys": [{"secret": {"x": ["two", True], "secret": "three"}}, "open"]},
        C={"secret": "x", "other": "y"}, D={"secret": {"secret": "four"}}, E={"secret": None},
    )  # fmt: skip
    assert marks(env) == {
        "A": "secret: ***",
        "B": {"user": "u", "keys": [{"x": ["secret: ***", True], "secret": "secret: ***"}, "open"]},
        "C": {"secret": "x", "other": "y"},
        "D": "secret: ***",
        "E": None,
    }
    assert env["B"] == {"user": "u", "keys": [{"x": ["two", True], "secret": "three"}, "open"]}


@pytest.mark.parametrize(
    ("template", "value", "shown"),
    [
        ("<< $env.KEY >>", "hunter2", "***"),
        ("a << $env.KEY >> z", "a hunter2 z", "a *** z"),
        ("a << $env.KEY | upcase >>", "a HUNTER2", "a ***"),
        ("<< $env.KEY + '!' >>", "hunter2!", "***!"),
        ("<< $env.KEY | slice: 0, 3 >>", "hun", "***"),
        ("<< $env.KEY | size >>", 7, None),
        ("<< $env.PAIR.password >>", "pass", "***"),
        ("<< $env.PAIR.user >>", "ada", None),
        ("{% if $env.KEY %}{{ $env.PAIR.password }}{% endif %}", "pass", "***"),
        ("{% for each in $env.PAIR %}{{ each[1] }}{% endfor %}", "adapass", "ada***"),
        ("{% assign k = $env.KEY %}{{ k | append: 'x' }}", "hunter2x", "***"),
        ("<< $process.TOKEN >>", "t0ken", "***"),
        ("<< $env.OPEN >> and << $env.PAIR.user >>", "open and ada", None),
        ("<< $env.NONE | default: $env.OPEN >>", "open", None),
    ],
)
def test_what_is_made_of_a_secret_is_secret(template: str, value: Json, shown: str | None, world: World) -> None:
    world.process = {"TOKEN": "t0ken"}
    env = world.values(
        KEY={"secret": "hunter2"}, PAIR={"user": "ada", "password": {"secret": "pass"}}, OPEN="open", MADE=template
    )
    assert env["MADE"] == value
    made = [secret.shown for secret in secrets_in(env["MADE"])]
    if shown is None:
        assert made == []
    else:
        assert len(made) == 1
        assert str(value) != made[0]
        assert made[0] in (shown, HIDDEN)
    assert marks(world.environments.load().env["OPEN"]) == "open"


def test_a_lone_template_gives_a_value_with_its_own_marks(world: World) -> None:
    env = world.values(PAIR={"user": "ada", "password": {"secret": "pass"}}, COPY="<< $env.PAIR >>")
    assert marks(env["COPY"]) == {"user": "ada", "password": "secret: ***"}


def test_of_a_secret_with_a_template_in_it_nothing_is_shown(world: World) -> None:
    env = world.values(HOST="h", DSN={"secret": "postgres://u:hunter2@<< $env.HOST >>/db"})
    assert env["DSN"] == "postgres://u:hunter2@h/db"
    assert marks(env["DSN"]) == "secret: ***"


@pytest.mark.parametrize(
    "text",
    ["pa{{hunter2}}ss", "hunter2<< $env.HOST | to_number >>", "<<hunter2", "{% hunter2 %}", "<< 'hunter2' + 1 >>",
     "<< $env['hunter2'].x.y | default: $env.NONE >>"],
)  # fmt: skip
def test_no_error_shows_a_secret(text: str, world: World) -> None:
    world.write(environments={"default": {"KEY": {"secret": text}, "HOST": "h"}})
    world.process = {"FLO_SECRET_OTHER": text}
    world.keyring = Keyring({KEY_VARIABLE: OLD})
    said: list[str] = []
    for act in (world.env, lambda: world.keep("default", "KEY", {"secret": text})):
        try:
            act()  # type: ignore[operator]
        except InputInvalid as error:
            said.append(str(error))
    assert said or text == "<<hunter2"
    assert "hunter2" not in "".join(said)


def test_no_error_of_a_filter_shows_the_secret_it_was_given(world: World) -> None:
    with pytest.raises(InputInvalid) as raised:
        world.values(KEY={"secret": "hunter2"}, PORT="<< $env.KEY | to_number >>")
    assert "hunter2" not in str(raised.value)
    assert "to_number" in str(raised.value)


def test_people_see_stars_for_secrets(world: World) -> None:
    world.write(
        environments={
            "default": {
                "KEY": {"secret": "hunter2"}, "URL": "https://u:<< $env.KEY >>@h", "OPEN": 1,
                "PIN": {"a": {"secret": {"pin": "1234"}}, "b": [2]}, "BAD": "<< $env.NONE >>",
            }
        }
    )  # fmt: skip
    world.keep("default", "SEALED", {"secret": "x"})
    world.keyring = Keyring({KEY_VARIABLE: NEW})
    described = {each.name: each for each in world.environments.describe()}
    assert {name: each.value for name, each in described.items()} == {
        "KEY": "***", "URL": "https://u:***@h", "OPEN": 1, "PIN": {"a": "***", "b": [2]}, "BAD": None, "SEALED": None,
    }  # fmt: skip
    assert {name for name, each in described.items() if each.problem} == {"BAD", "SEALED"}
    assert "hunter2" not in repr([each.as_json() for each in described.values()])


# What is wrong with a file


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


# The encrypted table


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url, None if store_url.startswith("postgres") else FrozenClock())
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def keyring(store_url: str) -> Keyring:
    return open_keyring(store_url, {KEY_VARIABLE: OLD} if store_url.startswith("postgres") else {})


def on(table: SettingStore, *keys: str) -> Environments:
    """What a process with these master keys sees."""
    return Environments(table, Keyring({KEY_VARIABLE: ",".join(keys)}).find, None, {})


def filled(table: SettingStore, key: str) -> None:
    ring = Keyring({KEY_VARIABLE: key})
    for name in ("A", "B"):
        keep(table, ring, "environment", "prod", name, {"secret": f"hunter2-{name}"})
    keep(table, ring, "connection", "stripe", "", {"token": "hunter2-c"})


def test_a_value_comes_back_from_every_store(store: Store, store_url: str, keyring: Keyring) -> None:
    environments = open_environments(store, keyring, {})
    keep(store.settings, keyring, "environment", "prod", "KEY", {"secret": "hunter2"})
    keep(store.settings, keyring, "environment", "prod", "BIG", 2**200)
    keep(store.settings, keyring, "connection", "stripe", "", {"baseUrl": "u", "token": "<< $env.KEY >>"})
    loaded = environments.load("prod")
    assert loaded.env == {"BIG": 2**200, "KEY": "hunter2"}
    assert loaded.connections["stripe"] == {"baseUrl": "u", "token": "hunter2"}
    assert marks(loaded.connections["stripe"]) == {"baseUrl": "u", "token": "secret: ***"}
    if store_url != "memory:":
        with closing_store(store_url) as again:
            assert open_environments(again, keyring, {}).load("prod").env == loaded.env


def closing_store(url: str) -> Any:
    return closing(open_store(url))


def test_a_store_of_many_machines_keeps_no_key(postgres_url: str) -> None:
    with closing_store(postgres_url) as store:
        with pytest.raises(InputInvalid, match="FLO_MASTER_KEY: it is not set"):
            keep(store.settings, open_keyring(postgres_url, {}), "environment", "prod", "KEY", "x")
        assert store.settings.find("environment") == []


def test_reading_makes_no_key_file_and_the_first_value_does(sqlite_url: str) -> None:
    file = Path(f"{sqlite_url.removeprefix('sqlite:')}-key")
    with closing_store(sqlite_url) as store:
        store.migrate()
        ring = open_keyring(sqlite_url, {})
        environments = open_environments(store, ring, {})
        environments.load()
        environments.describe()
        environments.describe_connections()
        store.settings.put("environment", "default", "KEY", "sealed elsewhere")
        with pytest.raises(SealBroken):
            environments.load()
        with pytest.raises(SealBroken, match="there is no key file"):
            keep(store.settings, ring, "environment", "default", "OTHER", "x")
        assert not file.exists()
        store.settings.remove("environment", "default")
        keep(store.settings, ring, "environment", "default", "KEY", "x")
        assert file.stat().st_mode & 0o777 == 0o600
        assert environments.load().env == {"KEY": "x"}


def test_no_secret_is_readable_in_the_files_of_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    with closing_store(sqlite_url) as store:
        store.migrate()
        ring = open_keyring(sqlite_url, {})
        keep(store.settings, ring, "environment", "prod", "KEY", {"secret": "hunter2-plain"})
        keep(store.settings, ring, "connection", "stripe", "", {"token": "hunter2-plain"})
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    assert b"gAAAA" in files["flo.sqlite-wal"], "what is looked at is where the rows are"
    with closing(sqlite3.connect(tmp_path / "flo.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files["afterwards"] = (tmp_path / "flo.sqlite").read_bytes()
    assert b"gAAAA" in files["afterwards"]
    assert [name for name, content in files.items() if b"hunter2" in content] == []


def test_no_secret_is_readable_in_the_table_of_postgresql(postgres_url: str) -> None:
    with closing_store(postgres_url) as store:
        filled(store.settings, OLD)
        with psycopg.connect(postgres_url) as connection:
            rows = [text for (text,) in connection.execute("SELECT s::text FROM flo.settings s")]
    assert len(rows) == 3
    assert all("gAAAA" in row and "hunter2" not in row for row in rows)


def test_another_key_opens_nothing_and_the_error_names_the_place(store: Store) -> None:
    filled(store.settings, OLD)
    with pytest.raises(SealBroken, match=r"^environment prod A cannot be opened: ") as raised:
        on(store.settings, NEW).load("prod")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(SealBroken, match="FLO_MASTER_KEY is not set here"):
        Environments(store.settings, lambda: None, None, {}).load("prod")
    overridden = {"FLO_ENV_A": "x", "FLO_ENV_B": "y"}
    assert Environments(store.settings, lambda: None, None, overridden).load("prod").env == {"A": "x", "B": "y"}


def test_rows_that_changed_places_or_were_changed_do_not_open(store: Store) -> None:
    table = store.settings
    filled(table, OLD)
    first, second = table.find("environment", "prod")
    table.put("environment", "prod", "A", second.sealed)
    with pytest.raises(SealBroken, match=r"^environment prod A cannot be opened: ") as raised:
        on(table, OLD).load("prod")
    assert "hunter2" not in str(raised.value)
    table.put("environment", "dev", "A", first.sealed)
    with pytest.raises(SealBroken, match=r"^environment dev A cannot be opened: "):
        on(table, OLD).load("dev")
    table.put("environment", "dev", "A", first.sealed[:-9] + "A" * 9)
    with pytest.raises(SealBroken, match=r"^environment dev A cannot be opened: "):
        on(table, OLD).load("dev")
    with pytest.raises(SealBroken):
        rotate(table, Keys([OLD], "test"))


@pytest.mark.parametrize(
    ("owner", "name", "raw", "said"),
    [
        ("a b", "K", "x", 'environment: "a b" is no name'),
        ("a", "K.x", "x", 'value: "K.x" is no name'),
        ("a", "", "x", 'value: "" is no name'),
        ("a", "K" * 201, "x", "is no name"),
        ("a", "K", {"secret": 5}, "environment a K: a number cannot be kept secret"),
        ("a", "K", "x\0", "U\\+0000"),
        ("a", "K", "x" * 1024 * 1024, "environment a K: it has 1,048,578 characters as JSON, the limit is 1,048,576"),
        ("a", "K", "<< initial.x >>", "there is no 'initial' here"),
        ("a", "K", "<< $env. >>", "environment a K: "),
    ],
)
def test_what_cannot_be_kept_is_refused(owner: str, name: str, raw: Json, said: str, world: World) -> None:
    with pytest.raises(FloError, match=said):
        world.keep(owner, name, raw)
    assert world.table.find("environment") == []


# Rotation


def sealed_with(table: SettingStore, key: str) -> list[bool]:
    keys = Keys([key], "test")
    return [keys.is_current(row.sealed) for kind in KINDS for row in table.find(kind)]


KINDS: Sequence[Kind] = ("environment", "connection")


def test_rotating_seals_all_anew_with_the_first_key(store: Store) -> None:
    table = store.settings
    filled(table, OLD)
    keep(table, Keyring({KEY_VARIABLE: NEW}), "environment", "prod", "C", "new")
    both = Keys([NEW, OLD], "test")
    assert rotate(table, both) == Rotated(anew=3, current=1)
    assert sealed_with(table, NEW) == [True] * 4
    assert on(table, NEW).load("prod").env == {"A": "hunter2-A", "B": "hunter2-B", "C": "new"}
    assert on(table, NEW).load().connections["stripe"] == {"token": "hunter2-c"}
    assert rotate(table, both) == rotate(table, Keys([NEW], "test")) == Rotated(anew=0, current=4)


def test_where_something_cannot_be_opened_nothing_is_sealed_anew(store: Store) -> None:
    filled(store.settings, OLD)
    keep(store.settings, Keyring({KEY_VARIABLE: new_key()}), "environment", "prod", "Z", "lost")
    before = [store.settings.find(kind) for kind in KINDS]
    with pytest.raises(SealBroken, match=r"^environment prod Z cannot be opened"):
        rotate(store.settings, Keys([NEW, OLD], "test"))
    assert [store.settings.find(kind) for kind in KINDS] == before


class Meddled:
    """A table to which somebody writes whenever a value is about to be sealed anew, ``often`` times."""

    def __init__(self, table: SettingStore, often: int) -> None:
        self._table, self._left = table, often
        self.put, self.remove, self.find = table.put, table.remove, table.find

    def reseal(self, old: Setting, sealed: str) -> bool:
        if self._left:
            self._left -= 1
            other = Keys([OLD, NEW], "test").seal(f"other {self._left}", about=place_of("environment", "prod", "A"))
            self._table.put("environment", "prod", "A", other)
            self._table.remove("environment", "prod", "B")
        return self._table.reseal(old, sealed)


def test_what_somebody_writes_while_keys_rotate_is_neither_lost_nor_left(store: Store) -> None:
    filled(store.settings, OLD)
    rotated = rotate(Meddled(store.settings, 3), Keys([NEW, OLD], "test"))
    assert rotated == Rotated(anew=2, current=0)
    assert on(store.settings, NEW).load("prod").env == {"A": "other 0"}
    assert sealed_with(store.settings, NEW) == [True, True]


def test_who_goes_on_with_the_old_key_is_told_of(store: Store) -> None:
    filled(store.settings, OLD)
    with pytest.raises(FloError, match="other programs go on sealing with another master key"):
        rotate(Meddled(store.settings, 1000), Keys([NEW, OLD], "test"))


def test_rotations_and_writers_at_once_leave_the_last_value_of_each(store: Store) -> None:
    table, ring = store.settings, Keyring({KEY_VARIABLE: f"{NEW},{OLD}"})
    names = ("A", "B", "C")
    for name in names:
        keep(table, Keyring({KEY_VARIABLE: OLD}), "environment", "prod", name, "0")
    begin = threading.Barrier(len(names) + 2)
    failed: list[Exception] = []

    def run(work: Any) -> None:
        begin.wait()
        try:
            work()
        except Exception as error:
            failed.append(error)

    def write(name: str) -> None:
        for number in range(1, 11):
            keep(table, ring, "environment", "prod", name, str(number))

    works = [lambda name=name: write(name) for name in names]
    works += [lambda: rotate(table, Keys([NEW, OLD], "test"))] * 2  # type: ignore[list-item]
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert on(table, NEW).load("prod").env == dict.fromkeys(names, "10")
    assert sealed_with(table, NEW) == [True] * 3
