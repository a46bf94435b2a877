"""Records are stored in batches, in order, and never after the end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from flo.engine.executions import LogLine, StepRecord, StepState
from flo.engine.recorder import BATCH, BATCH_CHARACTERS, MAX_MESSAGE, Recorder
from flo.engine.stores.base import ExecutionStore
from flo.engine.testing import FrozenClock


class Kept:
    """Keeps what it is told to record: the part of an execution store that a recorder uses."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[StepRecord], list[LogLine]]] = []

    def record(self, steps: Sequence[StepRecord], lines: Sequence[LogLine]) -> None:
        self.batches.append((list(steps), list(lines)))


def recorder(kept: Kept, clock: FrozenClock) -> Recorder:
    store: ExecutionStore = kept  # type: ignore[assignment]
    return Recorder(store, clock)


def step(number: int) -> StepRecord:
    return StepRecord("e", f"s{number}", "s", "core.log", StepState.SUCCESS, FrozenClock().now(), 1.0)


def line(text: str) -> LogLine:
    return LogLine("e", FrozenClock().now(), "info", text)


def test_records_wait_until_a_batch_has_come_together_and_keep_their_order() -> None:
    kept = Kept()
    made = recorder(kept, FrozenClock())
    for number in range(BATCH):
        assert kept.batches == []
        made.step(step(number), 10)
    [(steps, _)] = kept.batches
    assert [record.path for record in steps] == [f"s{number}" for number in range(BATCH)]


def test_large_outputs_are_stored_sooner() -> None:
    kept = Kept()
    recorder(kept, FrozenClock()).step(step(1), BATCH_CHARACTERS)
    assert len(kept.batches) == 1


def test_a_slow_run_is_stored_as_time_passes() -> None:
    kept, clock = Kept(), FrozenClock()
    made = recorder(kept, clock)
    made.line(line("a"))
    clock.forward(timedelta(seconds=1))
    made.line(line("b"))
    assert [[kept.message for kept in lines] for _, lines in kept.batches] == [["a", "b"]]


def test_flushing_nothing_touches_nothing_and_a_sealed_recorder_takes_nothing() -> None:
    kept = Kept()
    made = recorder(kept, FrozenClock())
    made.flush()
    made.line(line("a"))
    made.flush()
    made.seal()
    made.line(line("late"))
    made.step(step(1), 10)
    made.flush()
    assert len(kept.batches) == 1
    assert MAX_MESSAGE < BATCH_CHARACTERS
