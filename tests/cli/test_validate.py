"""``flo validate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOOD = {"stepId": "a", "stepType": "core.log", "input": {"message": "hello"}}


def test_a_sound_workflow_is_ok_and_opens_no_store(flo: Any, save: Any, folder: Path) -> None:
    answer = flo("validate", save([GOOD]))
    assert (answer.code, answer.out, answer.err) == (0, "", "flow.json: ok\n")
    assert not folder.joinpath(".flo").exists()


def test_every_problem_is_told_at_once_with_place_line_step_and_the_nearest_name(flo: Any, folder: Path) -> None:
    folder.joinpath("flow.json").write_text(
        '{"steps": [\n'
        '  {"stepId": "a", "stepType": "core.foreach", "input": {}},\n'
        '  {"stepId": "b", "stepType": "core.for-each", "input": {\n'
        '    "itmes": [1], "steps": []}},\n'
        '  {"stepId": "c", "stepType": "core.log", "input": {"message": "<< nostep.x >>"}}\n'
        "]}"
    )
    answer = flo("validate", "flow.json")
    assert (answer.code, answer.out) == (3, "")
    assert "core.for-each" in answer.err
    assert "steps[1].input.itmes (line 4) in step 'b': " in answer.err
    assert "items" in answer.err
    assert "nostep" in answer.err
    assert answer.err.splitlines()[-1].startswith("flow.json: ")


def test_json_gives_each_problem_as_an_object(flo: Any, save: Any) -> None:
    answer = flo("validate", save([GOOD, {**GOOD, "stepId": "b", "stepType": "core.lgo"}]), "--json")
    assert answer.code == 3
    assert answer.json["valid"] is False
    (problem,) = answer.json["problems"]
    assert set(problem) == {"place", "line", "column", "stepId", "severity", "message"}
    assert (problem["place"], problem["stepId"], problem["severity"]) == ("steps[1].stepType", "b", "error")
    assert problem["line"] == 1
    assert flo("validate", save([GOOD]), "--json").json == {"source": "flow.json", "valid": True, "problems": []}


def test_warnings_are_shown_and_end_with_0(flo: Any, save: Any) -> None:
    inner = {"stepId": "b", "stepType": "core.set-variable", "input": {"x": "<< $item >>"}}
    loop = {"stepId": "a", "stepType": "core.for-each", "input": {"items": [1], "concurrency": 2, "steps": [inner]}}
    file = save([loop])
    answer = flo("validate", file)
    assert answer.code == 0
    assert answer.err.startswith("warning: ")
    assert answer.err.splitlines()[-1] == "flow.json: ok, 1 warning"
    assert flo("validate", file, "--json").json["problems"][0]["severity"] == "warning"
    assert "warning: " in flo("run", file).err


def test_several_files_are_told_one_after_the_other(flo: Any, save: Any) -> None:
    files = [save([GOOD], "one.json"), save([{**GOOD, "stepType": "core.lgo"}], "two.json")]
    answer = flo("validate", *files)
    assert answer.code == 3
    assert "one.json: ok\n" in answer.err
    assert "two.json: 1 error\n" in answer.err
    assert [held["valid"] for held in flo("validate", *files, "--json").json] == [True, False]


def test_a_stored_workflow_and_standard_input_can_be_checked(flo: Any, save: Any) -> None:
    flo("add", save({"name": "greet", "steps": [GOOD]}))
    assert flo("validate", "greet").err == "workflow 'greet': ok\n"
    assert flo("validate", "-", stdin=json.dumps({"steps": [GOOD]})).err == "standard input: ok\n"


def test_every_recipe_is_sound(flo: Any, folder: Path) -> None:
    names = [recipe["name"] for recipe in flo("recipes", "list", "--json").json]
    assert flo("recipes", "copy", *names).code == 0
    answer = flo("validate", *(f"{name}.json" for name in names))
    assert answer.code == 0, answer.err
