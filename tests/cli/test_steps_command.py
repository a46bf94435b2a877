"""``flo steps`` and ``flo schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest


def test_list_has_every_step_type_with_a_summary(flo: Any) -> None:
    held = {entry["name"]: entry["summary"] for entry in flo("steps", "list", "--json").json}
    assert {"core.log", "core.for-each", "data-store.atomic-claim"} <= set(held)
    assert all(held.values())
    lines = flo("steps", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(held)


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
