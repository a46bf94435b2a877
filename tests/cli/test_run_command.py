"""``flo run``: where the workflow and its input come from, what is printed where, and what it ends with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Save = Callable[..., str]


def step(kind: str, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"stepId": name, "stepType": kind, **more}


LOG = step("core.log", input={"message": "hello << initial.name >>"})
RETURN = step("core.return", "end", input={"name": "<< initial.name >>"})
FAIL = step("core.fail", input={"message": "boom"})


def some_fail(**loop: Any) -> list[dict[str, Any]]:
    failing = step("core.fail", "bad", input={"message": "no"}, skipCondition="<< $index >= 3 >>")
    return [step("core.for-each", "each", input={"items": list(range(10)), "steps": [failing], **loop})]


def test_standard_output_has_what_the_run_returned_and_nothing_else(flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG, RETURN]), "--input", '{"name": "Ada é"}')
    assert (answer.code, answer.out) == (0, '{"name":"Ada é"}\n')
    lines = answer.err.splitlines()
    assert lines[0].endswith("info   hello Ada é")
    assert lines[1].split()[1:3] == ["a", "success"]
    assert lines[-1].startswith("success in ")


def test_the_last_line_says_how_it_ended_and_counts_the_steps(flo: Any, save: Save) -> None:
    assert re.search(r"^success in 0\.\d\d s: 1 step\n\Z", flo("run", save([LOG])).err, re.MULTILINE)
    two = flo("run", save([LOG, {**LOG, "stepId": "b"}]))
    assert re.search(r"^success in 0\.\d\d s: 2 steps\n\Z", two.err, re.MULTILINE)


def test_without_a_return_nothing_is_printed(flo: Any, save: Save) -> None:
    assert flo("run", save([LOG])).out == ""


def test_json_is_one_object_with_the_agreed_fields(flo: Any, save: Save) -> None:
    answer = flo("run", save({"name": "greet", "steps": [LOG, RETURN]}), "--json", "--input", '{"name": "x"}')
    assert answer.code == 0
    result = answer.json
    assert list(result) == [
        "executionId", "workflow", "status", "success", "output", "steps", "error", "durationMilliseconds",
    ]  # fmt: skip
    assert (result["workflow"], result["status"], result["success"]) == ("greet", "success", True)
    assert result["output"] == {"name": "x"}
    assert result["steps"]["a"]["output"] == {"message": "hello x", "level": "info"}
    assert answer.out.count("\n") == 1


def test_the_last_line_names_the_store_where_the_run_can_be_looked_at(flo: Any, save: Save) -> None:
    failing = save([FAIL])
    assert re.search(r"'flo executions show \S+' tells more", flo("run", failing).err)
    pointer = re.search(
        r"'flo (executions show \S+ --store \S+)' tells more", flo("run", failing, "--store", "sqlite:b").err
    )
    assert pointer is not None
    assert flo(*pointer[1].split()).code == 0
    assert "tells more" not in flo("run", failing, "--store", "memory:").err


def test_events_are_one_object_a_line_from_start_to_end(flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG, *some_fail(continueOnError=True)]), "--events", "--input", '{"name": "x"}')
    events = [json.loads(line) for line in answer.out.splitlines()]
    assert events[0]["event"] == "executionStarted"
    assert events[-1]["event"] == "executionEnded"
    assert events[-1]["status"] == "completed_with_errors"
    assert all("number" not in event for event in events)  # the store numbers lines when they are kept
    assert {event["event"] for event in events} == {
        "executionStarted", "stepStarted", "stepEnded", "loopAdvanced", "lineLogged", "executionEnded",
    }  # fmt: skip
    assert [event["index"] for event in events if event.get("loop") == "each"] == list(range(10))


@pytest.mark.parametrize("options", [[], ["--json"], ["--quiet"], ["--events"]])
def test_a_failed_run_ends_with_3_and_says_where(options: list[str], flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG, {**FAIL, "stepId": "b"}]), *options)
    assert answer.code == 3
    assert answer.err.splitlines()[-1] == "error: the run failed in step 'b': boom"
    if options == ["--json"]:
        assert answer.json["success"] is False
        assert answer.json["error"]["message"] == "boom"


def test_quiet_leaves_only_warnings_and_errors(flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG]), "--quiet", "--input", '{"name": "x"}')
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_failures_that_were_tolerated_are_counted_in_a_warning(flo: Any, save: Save) -> None:
    file = save(some_fail(continueOnError=True))
    answer = flo("run", file, "--json")
    assert (answer.code, answer.json["status"]) == (0, "completed_with_errors")
    assert answer.json["steps"]["each"]["output"]["failed"] == 3
    assert "warning: completed with errors: 3 of 10 items of each failed" in answer.err
    assert flo("run", file, "--fail-on-errors").code == 3
    assert flo("run", file, "--fail-on-item-errors", "--quiet").code == 3


def test_a_loop_that_fails_ends_with_3(flo: Any, save: Save) -> None:
    answer = flo("run", save([*some_fail(), step("core.log", "after", input={"message": "never"})]))
    assert answer.code == 3
    assert "never" not in answer.err


def test_the_workflow_may_come_from_standard_input(flo: Any) -> None:
    document = json.dumps({"steps": [RETURN], "initial": {"name": "x"}})
    assert flo("run", "-", stdin=document).json == {"name": "x"}


def test_the_input_may_come_from_a_file_or_from_standard_input(flo: Any, save: Save, folder: Path) -> None:
    file = save([RETURN])
    folder.joinpath("in.json").write_text('{"name": "from a file"}')
    assert flo("run", file, "--input", "@in.json").json == {"name": "from a file"}
    assert flo("run", file, "--input", "-", stdin='{"name": "piped"}').json == {"name": "piped"}


def test_big_numbers_come_through_unchanged(flo: Any, save: Save) -> None:
    answer = flo("run", save([RETURN]), "--input", '{"name": [7615917337495251231, 18446744073709551616, 1.0, "1e5"]}')
    assert answer.out == '{"name":[7615917337495251231,18446744073709551616,1.0,"1e5"]}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a":NaN}', "--input, line 1, column 6: NaN is no JSON number"),
        ('{"a":\n 1e400}', "--input, line 2, column 2: the number 1e400 is too large"),
        ('{"a": 1, "a": 2}', "--input, line 1, column 10: the key 'a' stands twice"),
        ("[1]", "--input: it must be an object, a list came"),
        ("", "--input, line 1, column 1: it is empty"),
        ("@nothing.json", "nothing.json: there is no such file"),
    ],
)
def test_input_that_is_wrong_ends_with_1_and_runs_nothing(text: str, said: str, flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG]), "--input", text)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert flo("executions", "list", "--json").json == []


def test_input_that_does_not_fit_the_schema_is_rejected(flo: Any, save: Save) -> None:
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    answer = flo("run", save({"steps": [LOG], "inputSchema": schema}), "--input", '{"name": 5}', "--json")
    assert (answer.code, answer.json["status"]) == (1, "rejected")
    assert "error: the run was rejected: " in answer.err


def test_a_stored_workflow_runs_by_its_name(flo: Any, save: Save) -> None:
    flo("add", save({"name": "greet", "steps": [RETURN], "initial": {"name": "x"}}))
    answer = flo("run", "greet", "--json")
    assert (answer.code, answer.json["workflow"]) == (0, "greet")
    assert flo("executions", "list", "--json").json[0]["version"] == 1


def test_a_name_that_is_nothing_gets_the_nearest_of_each_kind(flo: Any, save: Save, folder: Path) -> None:
    flo("add", save({"name": "greetings", "steps": [LOG]}, "stored.json"))
    save([LOG], "import-orders.json")
    folder.joinpath("place").mkdir()
    for name, said in (
        ("greetngs", "no file and no stored workflow 'greetngs'; did you mean 'greetings'?"),
        ("import-orders", "did you mean 'import-orders.json'?"),
        ("producer", "it is a recipe: 'flo recipes copy producer', then 'flo run producer.json'"),
        ("async-queue-dispacher", "did you mean 'async-queue-dispatcher'? that is a recipe"),
        ("place", "there is a folder of that name"),
        ("imprt-orders.json", "imprt-orders.json: there is no such file; did you mean 'import-orders.json'?"),
        ("place/", "place: it is a folder, not a file"),
    ):
        answer = flo("run", name)
        assert (answer.code, answer.out) == (1, ""), name
        assert said in answer.err, name


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", 3, "document (line 1): it is empty"),
        (b'{"steps": [],}', 3, "document (line 1): a comma after the last entry; remove it\n    {"),
        (b'{"steps": "\xff"}', 3, "is no UTF-8"),
        (b'{"steps": [{"stepId": "a", "stepType": "core.lgo", "input": {"message": "x"}}]}', 3, "core.log"),
        (b"[]", 3, "a workflow is an object"),
    ],
)
def test_a_file_that_is_no_workflow_is_refused(content: bytes, code: int, said: str, flo: Any, folder: Path) -> None:
    folder.joinpath("flow.json").write_bytes(content)
    answer = flo("run", "flow.json")
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_a_file_with_a_byte_order_mark_or_in_utf_16_runs(flo: Any, folder: Path) -> None:
    document = json.dumps({"steps": [RETURN], "initial": {"name": "é"}}, ensure_ascii=False)
    for encoding in ("utf-8-sig", "utf-16"):
        folder.joinpath("flow.json").write_bytes(document.encode(encoding))
        assert flo("run", "flow.json").json == {"name": "é"}, encoding


def test_a_missing_value_is_a_warning_in_the_log(flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG]), "--input", '{"nmae": "x"}')
    assert answer.code == 0
    assert answer.err.count("initial.name") == 1
    assert " warn " in answer.err.splitlines()[0]


def test_a_module_that_cannot_be_loaded_is_told_where_the_workflow_needs_it(flo: Any, save: Save, folder: Path) -> None:
    folder.joinpath("mine.py").write_text("\ndef broken(:\n")
    answer = flo("run", save([step("acme.five")]), "--steps", "mine.py")
    assert answer.code == 3
    assert re.search(r"^warning: mine.py could not be loaded: \S+mine.py:2: SyntaxError: ", answer.err)
    assert "acme.five" in answer.err
    assert flo("run", save([LOG]), "--steps", "mine.py").code == 0


def test_steps_of_a_file_and_of_the_environment_are_found(
    flo: Any, save: Save, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.joinpath("mine.py").write_text(
        "from flo.engine.step import step_type\n"
        "@step_type('acme.five', schema={'type': 'object'}, output={'type': 'object'}, example={})\n"
        "def five(call, input):\n    return {'five': 5}\n"
    )
    file = save([step("acme.five"), step("core.return", "end", input={"five": "<< a.five >>"})])
    assert flo("run", file, "--steps", "mine.py").json == {"five": 5}
    refused = flo("run", file)
    assert refused.code == 3
    assert "acme.five" in refused.err
    monkeypatch.setenv("FLO_STEPS", "mine.py")
    assert flo("run", file).json == {"five": 5}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://flo:s3cret@127.0.0.1:1/flo", "cannot be reached"),
        ("sqlite:/proc/nowhere/flo.sqlite", "cannot be made"),
    ],
)
def test_a_store_that_cannot_be_reached_ends_with_2(url: str, said: str, flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG]), "--store", url)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert "s3cret" not in answer.err


def test_a_store_of_no_known_kind_ends_with_1(flo: Any, save: Save) -> None:
    answer = flo("run", save([LOG]), "--store", "postgress://x")
    assert answer.code == 1
    assert "did you mean 'postgres'?" in answer.err


def test_what_a_step_prints_is_no_data(flo: Any, save: Save, folder: Path) -> None:
    """Standard output stays JSON, whatever a module prints when it is loaded and a body when it runs."""
    folder.joinpath("loud.py").write_text(
        "from flo import step_type\n"
        "print('loading')\n"
        "@step_type('acme.loud')\n"
        "def loud(call, input):\n"
        "    print('running')\n"
        "    return {}\n",
        encoding="utf-8",
    )
    for option in ("--json", "--events"):
        answer = flo("run", save([step("acme.loud")]), "--steps", "loud.py", option)
        assert answer.code == 0
        assert all(json.loads(line) for line in answer.out.splitlines())
        assert {"loading", "running"} <= set(answer.err.splitlines())
