"""Environments: which source of a value wins, which environments there are, and when a change is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flo.engine.environments.loading import Environments
from flo.engine.errors import NotFound
from flo.engine.values import Json

from .environment_world import World, marks


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
