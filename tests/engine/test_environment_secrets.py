"""Environments: what in them is secret, stays so in what is made of it, and is shown to nobody."""

from __future__ import annotations

import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.errors import InputInvalid
from flo.engine.hiding import secrets_in
from flo.engine.sealing import KEY_VARIABLE
from flo.engine.secrecy import HIDDEN
from flo.engine.values import Json

from .environment_world import NEW, OLD, World, marks


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
