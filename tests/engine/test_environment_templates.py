"""Templates in environments and connections: what they see and give, and what is wrong with them."""

from __future__ import annotations

import json

import pytest

from flo.engine.errors import InputInvalid
from flo.engine.sealing import KEY_VARIABLE
from flo.engine.values import Json

from .environment_world import OLD, World


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
