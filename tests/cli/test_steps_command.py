"""``flo steps`` and ``flo schema``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

GREET = """
from dataclasses import dataclass
from flo import step_type

@dataclass
class Input:
    who: str

@step_type("acme.greet")
def greet(call, input: Input):
    "Say hello."
    return {"text": f"hello {input.who}"}
"""

POST = """
from __future__ import annotations
from dataclasses import dataclass, field
from flo import step_type

@dataclass
class Person:
    "Somebody."
    name: str
    "What they are called."
    number: int | None = field(default=None, metadata={"name": "x-id"})

@dataclass
class Input:
    to: Person
    copies: list[Person] = field(default_factory=list)

@step_type("acme.post")
def post(call, input: Input):
    "Post it."
    return {}
"""


def test_list_has_every_step_type_with_a_summary(flo: Any) -> None:
    held = {entry["name"]: entry["summary"] for entry in flo("steps", "list", "--json").json}
    assert {"core.log", "core.for-each", "data-store.atomic-claim"} <= set(held)
    assert all(held.values())
    lines = flo("steps", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(held)


def test_list_says_where_each_step_type_comes_from(flo: Any, folder: Path) -> None:
    folder.joinpath("greet.py").write_text(GREET)
    held = {entry["name"]: entry["source"] for entry in flo("steps", "list", "--steps", "greet.py", "--json").json}
    assert held["core.log"] == "flo.steps.core"
    assert held["acme.greet"] == str(folder / "greet.py")
    lines = flo("steps", "list", "--steps", "greet.py").out.splitlines()
    assert f"acme.greet {folder / 'greet.py'} Say hello." in [" ".join(line.split()) for line in lines]


def test_a_broken_module_stands_in_the_list_with_file_line_and_exception(flo: Any, folder: Path) -> None:
    folder.joinpath("broken.py").write_text("import os\n\nraise SystemExit(5)\n")
    answer = flo("steps", "list", "--steps", "broken.py", "--json")
    (broken,) = [entry for entry in answer.json if entry["status"] == "broken"]
    assert broken["name"] == "broken.py"
    assert broken["place"].endswith("broken.py:3")
    assert broken["message"] == "SystemExit: 5"
    said = flo("steps", "list", "--steps", "broken.py")
    assert said.code == 0
    assert "broken.py:3: SystemExit: 5" in said.err


def test_of_three_plugins_one_of_which_ends_the_process_two_are_usable(
    flo: Any, save: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        folder.joinpath(f"{name}.py").write_text(GREET.replace("acme.greet", f"acme.{name}"))
    folder.joinpath("broken.py").write_text("import sys\nprint('bye')\nsys.exit(7)\n")
    monkeypatch.setenv("FLO_STEPS", f"one.py{os.pathsep}broken.py")
    both = save([{"stepId": name, "stepType": f"acme.{name}", "input": {"who": "Ada"}} for name in ("one", "two")])
    answer = flo("run", both, "--steps", "two.py", "--store", "memory:", "--json")
    assert answer.code == 0, answer.err
    assert [step["output"]["text"] for step in answer.json["steps"].values()] == ["hello Ada", "hello Ada"]
    missing = flo("run", save([{"stepId": "a", "stepType": "acme.broken"}]), "--store", "memory:")
    assert missing.code == 3
    assert "no step type 'acme.broken'" in missing.err
    assert "could not be loaded: broken.py" in missing.err
    assert "broken.py:3: SystemExit: 7" in missing.err


@pytest.mark.parametrize("how", ["option", "variable"])
def test_strict_plugins_make_an_error_of_a_broken_one(
    how: str, flo: Any, save: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.joinpath("broken.py").write_text("1 / 0\n")
    flow = save([{"stepId": "a", "stepType": "core.log", "input": {"message": "x"}}])
    asked = ["--strict-plugins"] if how == "option" else []
    if how == "variable":
        monkeypatch.setenv("FLO_STRICT_PLUGINS", "1")
    for command in (["run", flow, "--store", "memory:"], ["validate", flow], ["steps", "list"]):
        answer = flo(*command, "--steps", "broken.py", *asked)
        assert answer.code == 1
        assert "broken.py:1: ZeroDivisionError: division by zero" in answer.err
        assert flo(*command, *asked).code == 0
    monkeypatch.setenv("FLO_STRICT_PLUGINS", "0")
    assert flo("steps", "list", "--steps", "broken.py").code == 0


def test_a_file_of_step_types_that_is_not_there_is_a_mistake_in_the_call(flo: Any, folder: Path) -> None:
    folder.joinpath("greet.py").write_text(GREET)
    answer = flo("steps", "list", "--steps", "geet.py")
    assert answer.code == 1
    assert answer.err == "error: geet.py: there is no such file of step types; did you mean 'greet.py'?\n"


def test_show_has_the_fields_inside_of_fields_and_what_is_said_of_them(flo: Any, folder: Path) -> None:
    folder.joinpath("post.py").write_text(POST)
    text = flo("steps", "show", "acme.post", "--steps", "post.py").out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "to object required. Somebody." in lines
    assert "to.name string required. What they are called." in lines
    assert "copies[].x-id integer | null Default: null." in lines
    assert '"name": "name"' in text


@pytest.mark.parametrize("kind", ["core.log", "core.for-each", "data-store.atomic-claim", "core.set-variable"])
def test_show_has_fields_and_a_sound_example(kind: str, flo: Any) -> None:
    shown = flo("steps", "show", kind, "--json").json
    assert shown["name"] == kind
    for part in ("input", "output"):
        jsonschema.Draft202012Validator.check_schema(shown[part])
    text = flo("steps", "show", kind).out
    assert text.startswith(f"{kind}: {shown['summary']}\n")
    for field in (*shown["input"].get("properties", {}), *shown["output"].get("properties", {})):
        assert f"  {field} " in text
    assert f'"stepType":"{kind}"' in text.replace('": "', '":"')


def test_a_type_is_found_in_any_spelling_and_a_wrong_one_gets_the_nearest(flo: Any) -> None:
    assert flo("steps", "show", "Core__Log", "--json").json["name"] == "core.log"
    assert (
        flo("steps", "show", "core.foreach").err
        == "error: no step type 'core.foreach'; did you mean 'core.for-each'?\n"
    )


def test_show_tells_of_what_could_not_be_loaded(flo: Any, folder: Path) -> None:
    folder.joinpath("syn.py").write_text(f"{GREET}\ndef broken(:\n")
    answer = flo("steps", "show", "acme.greet", "--steps", "syn.py")
    assert answer.code == 1
    assert "step types of syn.py are missing" in answer.err
    assert "syn.py:14: SyntaxError: invalid syntax" in answer.err
    assert "error: no step type 'acme.greet'" in answer.err


def test_the_schema_of_workflows_accepts_the_recipes_and_refuses_a_wrong_field(flo: Any) -> None:
    schema = flo("schema").json
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    for recipe in flo("recipes", "list", "--json").json:
        check.validate(flo("recipes", "show", recipe["name"]).json)
    step = {"stepId": "a", "stepType": "core.log", "input": {"mesage": "x"}}
    assert not check.is_valid({"steps": [step]})


def test_the_schema_of_a_step_type_is_its_input(flo: Any) -> None:
    assert flo("schema", "core.log").json == flo("steps", "show", "core.log", "--json").json["input"]
