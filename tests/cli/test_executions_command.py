"""``flo executions``."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def ran(flo: Any, save: Any) -> dict[str, Any]:
    """A run of three steps, one of them a loop, that failed."""
    said = {"stepId": "b", "stepType": "core.log", "input": {"message": "item << $item >>\nagain", "data": {"n": 1}}}
    file = save(
        {
            "name": "greet",
            "steps": [
                {"stepId": "a", "stepType": "core.for-each", "input": {"items": [1, 2], "steps": [said]}},
                {"stepId": "c", "stepType": "core.fail", "input": {"message": "boom"}},
            ],
        }
    )
    answer = flo("run", file, "--json", "--input", '{"x": 1}')
    assert answer.code == 3
    result: dict[str, Any] = answer.json
    return result


def test_list_shows_runs_newest_first_and_filters(flo: Any, save: Any, ran: dict[str, Any]) -> None:
    second = flo("run", save([{"stepId": "a", "stepType": "core.log", "input": {"message": "x"}}]), "--json").json
    listed = flo("executions", "list", "--json").json
    assert [held["executionId"] for held in listed] == [second["executionId"], ran["executionId"]]
    assert [held["status"] for held in listed] == ["success", "failed"]
    by_status = flo("executions", "list", "--status", "failed", "--json").json
    by_name = flo("executions", "list", "--workflow", "greet", "--json").json
    assert (
        [held["executionId"] for held in by_status] == [ran["executionId"]] == [held["executionId"] for held in by_name]
    )
    rows = flo("executions", "list").out.splitlines()
    assert rows[0].split()[:3] == ["EXECUTION", "WORKFLOW", "STATUS"]
    assert rows[2].split()[:3] == [ran["executionId"], "greet", "failed"]


def test_show_has_input_error_and_steps_and_the_iterations_when_asked_for(flo: Any, ran: dict[str, Any]) -> None:
    shown = flo("executions", "show", ran["executionId"], "--json").json
    assert (shown["status"], shown["input"], shown["error"]["message"]) == ("failed", {"x": 1}, "boom")
    assert [step["path"] for step in shown["steps"]] == ["a", "c"]
    whole = flo("executions", "show", ran["executionId"], "--all", "--json").json
    assert {"a[0]", "a[0].b", "a[1]", "a[1].b"} <= {step["path"] for step in whole["steps"]}
    text = flo("executions", "show", ran["executionId"]).out
    assert "status       failed" in text
    assert "boom" in text


def test_an_id_may_be_cut(flo: Any, ran: dict[str, Any]) -> None:
    assert flo("executions", "show", ran["executionId"][:20], "--json").json["executionId"] == ran["executionId"]
    answer = flo("executions", "show", "nothing")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: no execution 'nothing'")


def test_logs_are_in_order_and_stay_on_their_lines(flo: Any, ran: dict[str, Any]) -> None:
    lines = flo("executions", "logs", ran["executionId"], "--json").json
    assert [line["message"] for line in lines] == ["item 1\nagain", "item 2\nagain", "boom"]
    assert [line["level"] for line in lines] == ["info", "info", "error"]
    assert lines[0]["data"] == {"n": 1}
    text = flo("executions", "logs", ran["executionId"]).out.splitlines()
    assert len(text) == 5
    assert "a[0].b: item 1" in text[0]
    assert text[1].strip() == 'again  {"n":1}'
