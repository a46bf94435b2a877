"""Connections: which one wins, what names it has, what of it is secret, and what one that cannot be had fails."""

from __future__ import annotations

import json

import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.errors import StepFailed
from flo.engine.sealing import KEY_VARIABLE
from flo.engine.values import Json

from .environment_world import NEW, World, marks


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
