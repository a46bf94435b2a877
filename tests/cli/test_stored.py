"""``flo add``, ``flo list``, ``flo show``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PLUGIN = """
from flo.engine.step import step_type

@step_type("acme.hold", schema={"type": "object"}, output={"type": "object"}, example={})
def hold(call, input):
    \"\"\"Hold.\"\"\"
    return {}
"""
UNKNOWN_HERE = """{
  "steps": [
    { "stepType": "acme.hold", "stepId": "a",   "retry": {"maxAttempts": 2},
      "input": { "z": 12345678901234567890123, "a": 1.0, "m": 1e3, "k": -0.0,
                 "steps": [ {"stepId": "inner", "x": null} ], "text": "<< initial.x >> \\u00e9 é",
                 "empty": {}, "B": [1.50, 2E+2] } },
    { "stepId": "b", "stepType": "core.log", "input": { "message": "<< a.z >>" } }
  ],
  "uiMetadata": { "a": { "x": 10.0, "y": 0.10 } }, "tags": ["two", "one"],
  "name": "held"
}
"""
LOG = {"stepId": "a", "stepType": "core.log", "input": {"message": "hello"}}
TEXT = '{ "name": "greet",\n\t"steps": [ {"stepId":"a","stepType":"core.log","input":{"message":"é \\u00e9 1.0"}} ] }\n'


def test_show_prints_what_was_added_to_the_letter(flo: Any, folder: Path) -> None:
    folder.joinpath("greet.json").write_text(TEXT, encoding="utf-8")
    added = flo("add", "greet.json")
    assert (added.code, added.out, added.err) == (0, "", "'greet' is stored, version 1\n")
    assert flo("show", "greet").out == TEXT


def test_a_paste_from_standard_input_is_stored(flo: Any) -> None:
    assert flo("add", "-", stdin=TEXT).code == 0
    assert flo("show", "greet").out == TEXT


def test_a_change_makes_a_version_and_the_same_again_does_not(flo: Any, save: Any) -> None:
    first, second = {"name": "greet", "steps": [LOG]}, {"name": "greet", "steps": [LOG], "description": "new"}
    assert flo("add", save(first), "--json").json["version"] == 1
    assert flo("add", save(first), "--json").json["version"] == 1
    assert flo("add", save(second), "--json").json["version"] == 2
    assert json.loads(flo("show", "greet", "--version", "1").out) == first
    assert json.loads(flo("show", "greet").out) == second
    assert flo("show", "greet", "--json").json["document"] == second


def test_list_has_the_newest_version_of_each(flo: Any, save: Any) -> None:
    assert flo("list").out == ""
    assert flo("list", "--json").json == []
    for name in ("b", "a"):
        flo("add", save({"name": name, "steps": [LOG]}))
    assert [held["name"] for held in flo("list", "--json").json] == ["a", "b"]
    assert [line.split()[:2] for line in flo("list").out.splitlines()] == [["NAME", "VERSION"], ["a", "1"], ["b", "1"]]


def test_of_several_files_none_is_stored_when_one_is_wrong(flo: Any, save: Any) -> None:
    files = [
        save({"name": "a", "steps": [LOG]}, "a.json"),
        save({"name": "b", "steps": [{**LOG, "stepType": "core.lgo"}]}, "b.json"),
    ]
    assert flo("add", *files).code == 3
    assert flo("list", "--json").json == []


def test_a_workflow_without_a_name_cannot_be_stored(flo: Any, save: Any) -> None:
    answer = flo("add", save([LOG]))
    assert answer.code == 1
    assert "flow.json has no name" in answer.err


def test_what_is_not_there_is_told_with_the_nearest(flo: Any, save: Any) -> None:
    flo("add", save({"name": "greet", "steps": [LOG]}))
    assert flo("show", "gret").err == "error: no stored workflow 'gret'; did you mean 'greet'?\n"
    assert flo("show", "greet", "--version", "9").code == 1


def test_what_another_process_stored_with_a_plugin_is_shown_whole_without_it(
    flo: Any, program: Any, folder: Path
) -> None:
    folder.joinpath("acme.py").write_text(PLUGIN, encoding="utf-8")
    folder.joinpath("held.json").write_text(UNKNOWN_HERE, encoding="utf-8")
    assert program("add", "held.json", "--steps", "acme.py").code == 0
    assert flo("validate", "held.json").code == 3
    assert flo("show", "held").out == UNKNOWN_HERE
    shown = flo("show", "held", "--json").out
    document = shown[shown.index('"document":') + len('"document":') : shown.rindex("}")]
    for number in ("12345678901234567890123", "1.0", "-0.0", "1.5", "10.0", "0.1"):
        assert re.search(rf"[ :\[,]{re.escape(number)}[ ,}}\]]", document), number
    assert _with_order(document) == _with_order(UNKNOWN_HERE)
    picture = flo("show", "held", "--diagram")
    assert (picture.code, picture.err) == (0, "")
    assert 's1["a<br/>acme.hold"]' in picture.out
    assert "class s1 unknown" in picture.out
    run = flo("run", "held")
    assert (run.code, "no step type 'acme.hold'" in run.err) == (3, True)


def _with_order(text: str) -> Any:
    """A document as pairs: the order of keys and the kind of each number count."""
    return json.loads(text, object_pairs_hook=list, parse_float=lambda written: ("float", float(written)))
