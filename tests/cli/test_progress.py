"""How a run shows itself: lines in a pipe, a bar on a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from flo.engine.commands.progress import Progress
from flo.engine.events import Event, LineLogged, LoopAdvanced, StepEnded
from flo.engine.executions import LogLine, StepRecord, StepState

AT = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def line(message: str, level: str = "info", step: str | None = None, data: Any = None) -> Event:
    return LineLogged(LogLine("e", AT, level, message, step, data))


def ended(path: str, state: StepState = StepState.SUCCESS, **more: Any) -> Event:
    error = {"path": path} if state is StepState.FAILED else None
    record = {"error": error, **more}
    return StepEnded(StepRecord("e", path, path, "core.log", state, AT, 12.4, **record))


def shown(*events: Event, level: str | None = "info", terminal: bool = False, step: float = 0.0) -> str:
    stream = io.StringIO()
    ticks = iter(range(10_000))
    progress = Progress(stream, level, terminal=terminal, monotonic=lambda: next(ticks) * step)
    for event in events:
        progress(event)
    progress.close()
    return stream.getvalue()


def test_log_lines_have_time_and_level() -> None:
    assert shown(line("Processing op")) == "12:00:01 info   Processing op\n"


def test_what_is_wrong_says_in_which_step() -> None:
    assert shown(line("boom", "error", "a[3].b")) == "12:00:01 error  a[3].b: boom\n"


def test_data_of_a_line_is_cut() -> None:
    text = shown(line("x", data={"a": "é" * 500}))
    assert text.startswith('12:00:01 info   x  {"a":"éé')
    assert text.endswith("…\n")
    assert len(text) < 240


def test_a_message_cannot_move_the_cursor_or_forge_a_line() -> None:
    text = shown(line("a\x1b[2J\r\n12:00:01 error  forged"))
    assert "\x1b" not in text
    assert "\r" not in text
    assert text == "12:00:01 info   a\\x1b[2J\\r\n                12:00:01 error  forged\n"


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        ("debug", ["debug", "info", "warn", "error"]),
        ("info", ["info", "warn", "error"]),
        (None, []),
    ],
)
def test_lines_below_the_level_are_left_out(level: str | None, levels: list[str]) -> None:
    text = shown(*(line("x", name) for name in ("debug", "info", "warn", "error")), level=level)
    assert [row.split()[1] for row in text.splitlines()] == levels


def test_steps_in_loops_are_shown_only_when_asked_for() -> None:
    events = (ended("a"), ended("loop[0].b"), ended("loop[0]", loop="loop", index=0))
    assert [row.split()[1:3] for row in shown(*events).splitlines()] == [["a", "success"]]
    assert [row.split()[1] for row in shown(*events, level="debug").splitlines()] == ["a", "loop[0].b"]


def test_in_a_pipe_a_long_loop_says_now_and_then_how_far_it_is() -> None:
    text = shown(*(LoopAdvanced("loop", done, 1000) for done in range(1, 1001)), step=0.1)
    rows = text.splitlines()
    assert 8 <= len(rows) <= 10
    assert rows[0].endswith("loop  100 of 1,000")
    assert "\r" not in text


def test_on_a_terminal_a_bar_moves_below_the_lines_and_is_gone_at_the_end() -> None:
    events = [LoopAdvanced("loop", 1, 4), line("hello"), LoopAdvanced("loop", 2, 4), LoopAdvanced("loop", 4, 4)]
    text = shown(*events, terminal=True, step=1.0)
    screen: list[str] = [""]
    for piece in text.replace("\r\x1b[K", "\f").split("\n"):
        screen[-1] = (screen[-1] + piece).rpartition("\f")[2]
        screen.append("")
    assert "loop  2 of 4  [############............] 50 %" in text
    assert screen == ["12:00:01 info   hello", "", ""]


def test_a_terminal_is_not_flooded() -> None:
    text = shown(*(LoopAdvanced("loop", done, 100_000) for done in range(1, 5_000)), terminal=True, step=0.01)
    assert text.count("\r") < 600


def test_a_stream_that_nobody_reads_does_not_stop_the_run() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    progress = Progress(Closed(), "info", terminal=False)
    progress(line("x"))
    progress(line("x"))


def test_the_tally_counts_items_by_loop_and_steps_that_failed_themselves() -> None:
    progress = Progress(io.StringIO(), None)
    for index in range(3):
        progress(ended(f"a[{index}].b", StepState.FAILED))
        progress(ended(f"a[{index}]", StepState.FAILED if index else StepState.SUCCESS, loop="a", index=index))
        progress(ended(f"fine[{index}]", loop="fine", index=index))
    progress(ended("call", StepState.FAILED))
    progress(ended("around", StepState.FAILED, error={"path": "call"}))
    assert progress.tally() == "2 of 3 items of a, step call"


def test_a_failure_that_was_tolerated_inside_an_item_is_counted_too() -> None:
    progress = Progress(io.StringIO(), None)
    for index in range(3):
        progress(ended(f"a[{index}].b", StepState.FAILED))
        progress(ended(f"a[{index}]", loop="a", index=index))
    assert progress.tally() == "3 times step a.b"
