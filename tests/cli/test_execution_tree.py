"""``flo executions show``: the steps as a tree of what ran, what did not, and what is waited for."""

from __future__ import annotations

import io
import re
import sys
import threading
from typing import Any

import pytest

from flo.engine import app
from flo.engine.commands.execution_tree import Line, duration_text, print_tree, records_of, tree


def log(step_id: str, **fields: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "core.log", "input": {"message": "x"}, **fields}


def shown_tree(flo: Any, execution_id: str, url: str, *options: str) -> list[str]:
    """The lines of the tree, each with single blanks between its columns, durations as ``N``."""
    text = flo("executions", "show", execution_id, "--store", url, *options).out
    tree = text[text.index("\nSTEP ") + 1 :].partition("\n\n")[0]
    lines = [re.sub(r"\b\d+ ms\b|\b[\d.]+ s\b", "N", line) for line in tree.splitlines()]
    return [re.sub(r"(?<=[^\s│]) {2,}", "  ", line) for line in lines]


def test_the_steps_are_a_tree_of_what_ran_and_what_did_not(flo: Any, shared_url: str) -> None:
    steps = [
        {
            "stepId": "check",
            "stepType": "core.if",
            "input": {"condition": False, "then": [log("no")], "else": [log("yes", skipCondition=True)]},
        },
        {
            "stepId": "guard",
            "stepType": "core.try",
            "input": {
                "steps": [
                    {
                        "stepId": "risky",
                        "stepType": "core.fail",
                        "retry": {"maxAttempts": 2, "delaySeconds": 0},
                        "input": {"message": "no\nluck", "code": "unlucky", "retryable": True},
                    },
                    log("missed"),
                ],
                "catch": [log("tell")],
                "finally": [log("clean")],
            },
        },
        {
            "stepId": "call",
            "stepType": "core.sub-workflow",
            "input": {"workflow": {"name": "kid", "steps": [log("a")]}},
        },
        {"stepId": "put", "stepType": "queue.enqueue", "input": {"handler": "core.log", "input": {"message": "x"}}},
        {"stepId": "both", "stepType": "core.parallel", "input": {"steps": [log("left"), log("right")]}},
        {"stepId": "stop", "stepType": "core.fail", "input": {"message": "boom"}},
        {"stepId": "rest", "stepType": "core.parallel", "input": {"steps": [log("never")]}},
    ]
    with app.open(shared_url) as engine:
        run = engine.run({"name": "all", "steps": steps})
        job, child = (held.id for held in engine.executions.list(parent=run.execution_id))
    assert shown_tree(flo, run.execution_id, shared_url) == [
        "STEP  TYPE  STATUS  TOOK",
        "check  core.if  success  N",
        "└─ yes  core.log  skipped",
        "guard  core.try  success  N",
        r"├─ risky  core.fail  failed  N  2 attempts, unlucky: no\nluck",
        "├─ missed  core.log  not run",
        "├─ catch",
        "│  └─ tell  core.log  success  N",
        "└─ finally",
        "   └─ clean  core.log  success  N",
        "call  core.sub-workflow  success  N",
        f"└─ → {child}  kid  success  N",
        "put  queue.enqueue  success  N",
        f"└─ → {job}  core.log  pending  queue default",
        "both  core.parallel  success  N",
        "├─ left  core.log  success  N",
        "└─ right  core.log  success  N",
        "stop  core.fail  failed  N  failed: boom",
        "rest  core.parallel  not run",
    ]
    answer = flo("executions", "show", run.execution_id, "--store", shared_url)
    (told,) = answer.err.splitlines()
    assert told.startswith(f"its log: flo executions logs {run.execution_id} --store ")
    assert re.search(r"^took +[\d.]+ m?s$", answer.out, re.MULTILINE)


def test_of_a_loop_the_tree_has_the_counts_and_the_first_failures(flo: Any, shared_url: str) -> None:
    inner = {
        "stepId": "inner",
        "stepType": "core.for-each",
        "input": {
            "items": [1, 2],
            "steps": [
                {
                    "stepId": "deep",
                    "stepType": "core.fail",
                    "skipCondition": "<< $parent.index % 40 != 7 or $index == 0 >>",
                    "input": {"message": "boom << $item >>"},
                }
            ],
        },
    }
    loop = {
        "stepId": "each",
        "stepType": "core.for-each",
        "input": {
            "items": "<< (1..180) >>",
            "concurrency": 4,
            "continueOnError": True,
            "steps": [log("before", skipCondition="<< $index == 3 >>"), inner, log("after")],
        },
    }
    with app.open(shared_url) as engine:
        run = engine.run({"steps": [loop, log("end")]})
    failed = [
        line
        for index in (7, 47, 87)
        for line in (
            f"├─ [{index}]  failed  N",
            "│  ├─ before  core.log  success  N",
            f"│  ├─ inner  core.for-each  failed  N  2 iterations: 1 failed, 1 skipped; in each[{index}].inner[1].deep",
            "│  │  └─ [1]  failed  N",
            "│  │     └─ deep  core.fail  failed  N  failed: boom 2",
            "│  └─ after  core.log  not run",
        )
    ]
    assert shown_tree(flo, run.execution_id, shared_url) == [
        "STEP  TYPE  STATUS  TOOK",
        "each  core.for-each  success  N  180 iterations: 175 success, 5 failed",
        *failed,
        "└─ … 2 more failed",
        "end  core.log  success  N",
    ]
    whole = shown_tree(flo, run.execution_id, shared_url, "--all")
    assert len([line for line in whole if re.match(r"[├└]─ \[\d+\]", line)]) == 180
    assert len(whole) == 180 * (4 + 2 * 2) + 3


class Counting:
    """Passes everything on to an execution store, and notes what was read of it."""

    def __init__(self, store: Any) -> None:
        self._store, self.rows = store, 0

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._store, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            found = asked(*arguments, **named)
            self.rows += len(found) if name != "iteration_states" else 0
            return found

        return counted


def test_what_is_read_for_the_tree_does_not_grow_with_a_loop(store_url: str) -> None:
    with app.open(store_url) as engine:
        rows = []
        for items in (20, 400):
            failing = {
                "stepId": "bad",
                "stepType": "core.fail",
                "skipCondition": "<< $index % 2 == 0 >>",
                "input": {"message": "x"},
            }
            run = engine.run(
                {
                    "steps": [
                        {
                            "stepId": "each",
                            "stepType": "core.for-each",
                            "input": {"items": f"<< (1..{items}) >>", "continueOnError": True, "steps": [failing]},
                        }
                    ]
                }
            )
            store: Any = Counting(engine.executions)
            execution = engine.executions.get(run.execution_id)
            assert execution is not None
            top = store.checkpoints(run.execution_id, "")
            lines = tree(execution, engine.registry, records_of(store, run.execution_id, top), [], [])
            assert lines[0].note == f"{items} iterations: {items // 2} failed, {items // 2} skipped"
            rows.append(store.rows)
        assert rows == [7, 7]  # the loop, three iterations, and the step of each


def test_the_tree_shows_waits_and_what_answered_them_in_their_places(flo: Any, shared_url: str) -> None:
    ask = {"stepId": "ask", "stepType": "core.approval", "input": {"message": "ok?", "timeout": "1h"}}
    signal = {"stepId": "hear", "stepType": "core.wait-for-signal", "input": {"name": "<< 'n' | append: $index >>"}}
    loop = {"stepId": "each", "stepType": "core.for-each"}
    loop["input"] = {"items": "<< (1..9) >>", "concurrency": 9, "steps": [signal]}  # type: ignore[assignment]
    with app.open(shared_url) as engine:
        job = engine.enqueue({"steps": [ask, loop]}).execution_id
        engine.worker().run(threading.Event(), drain=True)
        first = shown_tree(flo, job, shared_url)
        engine.approve(job, actor="ada", approved=True, reason="fine")
        decided = shown_tree(flo, job, shared_url)[1]
        engine.signal(job, "n4", {})
        engine.worker().run(threading.Event(), drain=True)
    assert re.fullmatch(r"ask  core.approval  waiting  for an approval until [\d:T.-]+Z", first[1])
    assert first[2:] == ["each  core.for-each  not ended"]
    assert decided == "ask  core.approval  not ended  approved by ada (fine)"
    assert shown_tree(flo, job, shared_url)[1:] == [
        "ask  core.approval  success  N  approved by ada (fine)",
        "each  core.for-each  not ended  1 iteration: 1 success",
        *(
            line
            for index in (0, 1, 2)
            for line in (
                f"├─ [{index}]  not ended",
                f"│  └─ hear  core.wait-for-signal  waiting  for the signal 'n{index}'",
            )
        ),
        "└─ … 5 more with waits or executions",
    ]


def test_states_are_coloured_on_a_terminal_only(flo: Any, ran: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    lines = [Line("a", "core.log", "failed", "1 ms", "boom \x1b[2J")]

    def printed(terminal: bool) -> str:
        out = io.StringIO()
        out.isatty = lambda: terminal  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdout", out)
        print_tree(lines)
        monkeypatch.undo()
        return out.getvalue()

    plain = "STEP  TYPE      STATUS  TOOK\na     core.log  failed  1 ms  boom \\x1b[2J\n"
    assert printed(False) == plain
    monkeypatch.setenv("TERM", "xterm")
    assert printed(True) == plain.replace("failed", "\x1b[31mfailed\x1b[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(True) == plain


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.2, "0 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (59_949, "59.9 s"),
        (59_950, "1 m 0 s"),
        (3_599_600, "1 h 0 m"),
        (200_000, "3 m 20 s"),
        (7_500_000, "2 h 5 m"),
        (86_400_000, "1 d 0 h"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations_are_written_for_people(milliseconds: float, text: str) -> None:
    assert duration_text(milliseconds) == text
