"""The parts of the benchmarks that do not depend on how fast anything is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks are not installed: they run in a clone, from its root."""
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.chdir(ROOT)


@pytest.fixture
def measuring() -> ModuleType:
    return import_module("benchmarks.measuring")


@pytest.fixture
def lines() -> ModuleType:
    return import_module("benchmarks.lines")


def series(measuring: ModuleType, *seconds: float, failure: str | None = None) -> Any:
    return measuring.Series([measuring.Sample(each) for each in seconds], failure)


def test_every_way_runs_once_a_round_and_another_one_first_each_time(measuring: ModuleType) -> None:
    order: list[str] = []

    def way(name: str) -> Any:
        def work(operations: int) -> Any:
            order.append(f"{name}{operations}")
            return measuring.Sample(1.0)

        return measuring.Way(name, work)

    found = measuring.by_turns([way("a"), way("b"), way("c")], 100, 2)
    assert order == ["a5", "b5", "c5", "b100", "c100", "a100", "c100", "a100", "b100"]
    assert [len(each.samples) for each in found.values()] == [2, 2, 2]


def test_who_has_used_up_the_patience_sits_out_the_rounds_that_follow(measuring: ModuleType) -> None:
    slow = measuring.Way("slow", lambda operations: measuring.Sample(1.0))
    fast = measuring.Way("fast", lambda operations: measuring.Sample(0.001))
    found = measuring.by_turns([slow, fast], 10, 5, patience=20.0)
    assert {name: len(each.samples) for name, each in found.items()} == {"slow": 3, "fast": 5}


def test_who_is_slow_does_less_in_each_round(measuring: ModuleType, lines: ModuleType) -> None:
    done: list[int] = []

    def slowly(operations: int) -> Any:
        done.append(operations)
        return measuring.Sample(0.01)

    slow, fast = measuring.Way("slow", slowly), measuring.Way("fast", lambda operations: measuring.Sample(0.001))
    found = measuring.by_turns([slow, fast], 10_000, 2, patience=20.0)
    assert done == [500, 1_000, 1_000]
    notes = [line.note for line in lines.compared("work", "", found["fast"], [(lines.Against("slow"), found["slow"])])]
    assert notes == ["slow: 1,000"]
    found = measuring.by_turns([measuring.Way("slow", lambda operations: measuring.Sample(3.0))], 10, 1, patience=4.0)
    assert found["slow"].operations == 1


def test_a_way_that_fails_says_why_and_the_others_go_on(measuring: ModuleType) -> None:
    failed = import_module("benchmarks.contestants").ContestantFailed

    def fail(operations: int) -> Any:
        raise failed("it has no table")

    good = measuring.Way("good", lambda operations: measuring.Sample(1.0))
    found = measuring.by_turns([measuring.Way("bad", fail), good], 10, 3)
    assert found["bad"].failure == "it has no table"
    assert (found["bad"].samples, len(found["good"].samples)) == ([], 3)


def test_a_figure_is_the_others_time_through_ours_round_by_round(measuring: ModuleType, lines: ModuleType) -> None:
    own, other = series(measuring, 1.0, 2.0, 4.0), series(measuring, 0.5, 4.0)
    [line] = lines.compared("work", "SQLite", own, [(lines.Against("by hand", 1.0), other)])
    assert line.figures == (0.5, 2.0)
    assert (line.figure, line.seconds, line.other_seconds) == (1.25, 2.0, 2.25)
    assert line.aim.met(line.figure)


def test_a_line_of_one_that_failed_has_its_reason_and_what_the_other_took(
    measuring: ModuleType, lines: ModuleType
) -> None:
    own, other = series(measuring, 1.0), series(measuring, failure="no such module")
    [line] = lines.compared("work", "SQLite", own, [(lines.Against("dbos", 1.0), other)])
    assert line.figures == ()
    assert (line.seconds, line.note) == (1.0, "dbos failed: no such module")


@pytest.mark.parametrize(
    ("unit", "found", "met"), [("times", 0.4, False), ("times", 0.6, True), ("ms more", 0.4, True)]
)
def test_more_is_better_only_for_times(lines: ModuleType, unit: str, found: float, met: bool) -> None:
    assert lines.Aim(0.5, unit).met(found) is met


def test_the_table_has_a_row_for_each_line_and_json_every_round(lines: ModuleType) -> None:
    table = import_module("benchmarks.table")
    aim = lines.Aim(80.0, "ms more")
    measured = [
        lines.Line("start", "none", "python", (70.0, 90.0, 75.0), "ms more", aim, 0.1, 0.025, 22_000_000, 9_000_000),
        lines.Line("drain", "SQLite", "huey", aim=lines.Aim(1.0), note="huey failed: a|b"),
    ]
    *_, first, second, _, _, _, _ = table.text_table({}, measured)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (first, second)]
    assert cells[0][3:9] == [
        "100.0 ms (10.0/s)", "25.0 ms (40/s)", "+75 ms", "+70 ms to +90 ms", "below +80 ms: yes", "22 MB, 9 MB"
    ]  # fmt: skip
    assert cells[1][5:] == ["-", "", "1 x", "", "huey failed: a/b"]
    [kept, failed] = table.as_json({}, measured)["lines"]
    assert (kept["figures"], kept["figure"], kept["met"]) == ((70.0, 90.0, 75.0), 75.0, True)
    assert (failed["figure"], failed["met"]) == (None, None)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Any]:
    url = f"sqlite:{tmp_path}/jobs.sqlite"
    with import_module("benchmarks.contestants").team("benchmarks.floors.jobs_sqlite", url, tmp_path, 2) as started:
        yield started


def test_processes_of_a_team_share_what_there_is_to_do(team: Any) -> None:
    team.first.do("fill", 250)
    released, answers = team.release("drain")
    assert sum(answer.value for answer in answers) == team.first.do("succeeded").value == 250
    assert all(released <= answer.began <= answer.ended and answer.peak > 0 for answer in answers)


def test_a_contestant_that_cannot_do_something_says_so_and_lives_on(team: Any) -> None:
    failed = import_module("benchmarks.contestants").ContestantFailed
    with pytest.raises(failed, match="no attribute 'dance'"):
        team.first.do("dance")
    assert team.first.do("succeeded").value == 0


def test_a_contestant_that_is_not_there_says_so(tmp_path: Path) -> None:
    contestants = import_module("benchmarks.contestants")
    with (
        pytest.raises(contestants.ContestantFailed, match="ModuleNotFoundError"),
        contestants.team("benchmarks.peers.nobody", "memory:", tmp_path),
    ):
        pass


def test_a_part_that_is_unknown_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-m", "benchmarks", "dance"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "there is no part dance; there are claims, drain, workflows, dispatcher" in run.stderr


def test_what_was_measured_before_an_interrupt_is_printed(
    lines: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = import_module("benchmarks.__main__")

    def part(ground: Any) -> Iterator[Any]:
        yield lines.Line("start", "none", "python", (70.0,), "ms more")
        raise KeyboardInterrupt

    def never(ground: Any) -> Iterator[Any]:
        raise AssertionError("a part began after the interrupt")

    monkeypatch.setattr(program, "serving", lambda url: nullcontext(SimpleNamespace(postgres="")))
    monkeypatch.setattr(program, "environment", lambda *_: {})
    monkeypatch.setattr(program, "AIMS", {"claims": part, "drain": never})
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json", "--no-peers"])
    program.main()
    [line] = json.loads(capsys.readouterr().out)["lines"]
    assert (line["what"], line["figure"]) == ("start", 70.0)
