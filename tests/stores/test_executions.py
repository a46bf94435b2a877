"""Executions, their steps and their log lines: the same on every adapter."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flo.engine.errors import NotFound
from flo.engine.executions import MOVES, Execution, ExecutionState, IllegalMove, LogLine, StepRecord, StepState
from flo.engine.stores.base import Store
from flo.engine.testing import FrozenClock
from flo.engine.values import new_id

DOCUMENT = '{"steps": [], "pi": 3.140}'
DIGEST = hashlib.sha256(DOCUMENT.encode()).hexdigest()
MOMENT = datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)


def execution(**changes: object) -> Execution:
    made = Execution(
        id=new_id(),
        workflow="greet",
        version=3,
        digest=DIGEST,
        definition=DOCUMENT,
        input={"name": "Ada", "big": 2**70, "whole": 1.0},
        state=ExecutionState.PENDING,
        created_at=MOMENT,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def record(execution_id: str, path: str, **changes: object) -> StepRecord:
    made = StepRecord(
        execution_id=execution_id,
        path=path,
        step_id=path.rsplit(".", 1)[-1],
        step_type="core.log",
        state=StepState.SUCCESS,
        started_at=MOMENT,
        duration_ms=1.25,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def iteration(execution_id: str, index: int) -> StepRecord:
    return record(execution_id, f"each[{index}]", loop="each", index=index, output={"n": index})


def line(execution_id: str, message: str) -> LogLine:
    return LogLine(execution_id, MOMENT, "info", message, "greet", {"n": 1})


def test_an_execution_comes_back_as_it_was_stored(store: Store) -> None:
    made = execution(
        output={"é": [1, None, "x"]}, error={"code": "x"}, trigger="schedule", attempt=2, started_at=MOMENT
    )
    store.executions.create(made)
    assert store.executions.get(made.id) == made


def test_an_execution_without_a_workflow_comes_back_as_it_was_stored(store: Store) -> None:
    made = execution(workflow=None, version=None)
    store.executions.create(made)
    assert store.executions.get(made.id) == made


def test_the_definition_stays_the_text_that_it_was(store: Store) -> None:
    first, second = execution(), execution()
    store.executions.create(first)
    store.executions.create(second)
    found = store.executions.get(second.id)
    assert found is not None
    assert found.definition == DOCUMENT


def test_a_prefix_that_only_one_has_finds_it(store: Store) -> None:
    for name in ("aaa1", "aaa2", "ab_1", "ab%1"):
        store.executions.create(execution(id=name))
    found = [store.executions.get(prefix) for prefix in ("aaa1", "ab_", "ab%", "aaa2x")]
    assert [one.id if one else None for one in found] == ["aaa1", "ab_1", "ab%1", None]
    assert store.executions.get("aaa") is None
    assert store.executions.get("") is None


def test_an_id_that_is_the_prefix_of_another_finds_its_own(store: Store) -> None:
    store.executions.create(execution(id="run"))
    store.executions.create(execution(id="run-2"))
    found = store.executions.get("run")
    assert found is not None
    assert found.id == "run"


def moved(store: Store, execution_id: str, to: ExecutionState, **how: Any) -> Execution:
    """The execution as it is after a move."""
    store.executions.move(execution_id, to, **how)
    found = store.executions.get(execution_id)
    assert found is not None
    return found


def test_a_run_starts_once_and_ends_at_the_stores_time(store: Store, clock: FrozenClock) -> None:
    made = execution()
    store.executions.create(made)
    started = store.data.now()
    first = moved(store, made.id, ExecutionState.RUNNING)
    assert (first.state, first.started_at, first.finished_at) == (ExecutionState.RUNNING, started, None)
    clock.forward(timedelta(seconds=5))
    store.executions.move(made.id, ExecutionState.RETRYING, error={"code": "busy"})
    assert moved(store, made.id, ExecutionState.RUNNING).started_at == started
    clock.forward(timedelta(seconds=5))
    ended = moved(store, made.id, ExecutionState.SUCCESS, output={"n": 1.0})
    assert (ended.finished_at, ended.output, ended.error) == (started + timedelta(seconds=10), {"n": 1.0}, None)


@pytest.mark.parametrize("current", list(ExecutionState))
def test_only_the_moves_of_the_table_are_made(store: Store, current: ExecutionState) -> None:
    for to in ExecutionState:
        made = execution(state=current)
        store.executions.create(made)
        if to in MOVES[current]:
            assert moved(store, made.id, to).state is to
            continue
        with pytest.raises(IllegalMove) as raised:
            store.executions.move(made.id, to, output={"lost": True})
        assert (raised.value.current, raised.value.to) == (current, to)
        assert store.executions.get(made.id) == made


def test_moving_what_is_not_there_says_so(store: Store) -> None:
    with pytest.raises(NotFound, match="no execution 'nobody'"):
        store.executions.move("nobody", ExecutionState.RUNNING)


def test_of_many_that_end_an_execution_one_wins(store: Store) -> None:
    made = execution(state=ExecutionState.RUNNING)
    store.executions.create(made)
    start, ended = threading.Barrier(8), []

    def end(number: int) -> None:
        start.wait()
        try:
            store.executions.move(made.id, ExecutionState.SUCCESS, output=number)
        except IllegalMove:
            return
        ended.append(number)

    threads = [threading.Thread(target=end, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.executions.get(made.id)
    assert found is not None
    assert ended == [found.output]


def test_executions_are_listed_newest_first(store: Store) -> None:
    for number in range(5):
        state = ExecutionState.FAILED if number % 2 else ExecutionState.SUCCESS
        moment = MOMENT + timedelta(seconds=number)
        store.executions.create(
            execution(id=f"run-{number}", state=state, created_at=moment, workflow=f"w{number % 3}")
        )

    def listed(**given: object) -> list[str]:
        return [found.id for found in store.executions.list(**given)]  # type: ignore[arg-type]

    assert listed() == ["run-4", "run-3", "run-2", "run-1", "run-0"]
    assert listed(limit=2) == ["run-4", "run-3"]
    assert listed(state=ExecutionState.FAILED) == ["run-3", "run-1"]
    assert listed(workflow="w0") == ["run-3", "run-0"]
    assert listed(workflow="w0", state=ExecutionState.SUCCESS) == ["run-0"]
    assert listed(workflow="w9") == []


def test_steps_come_back_as_they_were_stored_in_the_order_of_storing(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    steps = [
        record(made.id, "b", output={"whole": 1.0, "big": 2**70, "text": "é"}),
        record(made.id, "a", state=StepState.FAILED, error={"message": "no"}, attempts=3, duration_ms=0.0),
        record(made.id, "c", output=None),
        record(made.id, "d", output=[1, "x", None]),
    ]
    store.executions.record(steps, [])
    assert list(store.executions.steps(made.id)) == steps


def test_a_step_stored_again_is_replaced_in_its_place(store: Store) -> None:
    made, other = execution(), execution()
    store.executions.create(made)
    store.executions.create(other)
    store.executions.record([record(made.id, "a"), record(made.id, "b"), record(other.id, "a")], [])
    again = record(made.id, "a", state=StepState.FAILED, attempts=2, output={"n": 2}, started_at=MOMENT + timedelta(1))
    store.executions.record([again], [])
    assert list(store.executions.steps(made.id)) == [again, record(made.id, "b")]
    assert list(store.executions.steps(other.id)) == [record(other.id, "a")]


def test_iterations_come_in_pages_by_their_index(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    store.executions.record([iteration(made.id, index) for index in (5, 0, 3, 1, 4, 2)], [])
    store.executions.record([record(made.id, "each"), record(made.id, "other[0]", loop="other", index=0)], [])

    def page(start: int, limit: int) -> list[int | None]:
        return [found.index for found in store.executions.iterations(made.id, "each", start=start, limit=limit)]

    assert page(0, 3) == [0, 1, 2]
    assert page(3, 100) == [3, 4, 5]
    assert page(6, 100) == []


def test_log_lines_are_numbered_from_one_in_each_execution(store: Store) -> None:
    made, other = execution(), execution()
    store.executions.create(made)
    store.executions.create(other)
    store.executions.record([], [line(made.id, "one"), line(other.id, "uno"), line(made.id, "two")])
    store.executions.record([], [line(made.id, "three")])
    lines = store.executions.lines(made.id)
    assert [(found.number, found.message) for found in lines] == [(1, "one"), (2, "two"), (3, "three")]
    assert lines[0] == dataclasses.replace(line(made.id, "one"), number=1)
    assert [found.message for found in store.executions.lines(made.id, after=1, limit=1)] == ["two"]
    assert [(found.number, found.message) for found in store.executions.lines(other.id)] == [(1, "uno")]


def test_a_line_without_step_and_data_comes_back_so(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    store.executions.record([], [LogLine(made.id, MOMENT, "warn", "")])
    assert store.executions.lines(made.id) == [LogLine(made.id, MOMENT, "warn", "", number=1)]


def test_lines_of_an_execution_that_is_not_there_are_refused_with_all_that_came_along(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    with pytest.raises(NotFound, match="nobody"):
        store.executions.record([record(made.id, "a")], [line(made.id, "kept?"), line("nobody", "lost")])
    assert store.executions.steps(made.id) == []
    assert store.executions.lines(made.id) == []


def test_characters_that_no_store_holds_do_not_keep_a_failure_from_being_recorded(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    odd = "a\x00b\ud800c"
    store.executions.record(
        [record(made.id, "a", state=StepState.FAILED, error={"message": odd})],
        [LogLine(made.id, MOMENT, "error", odd, data={"message": odd})],
    )
    store.executions.move(made.id, ExecutionState.FAILED, error={"message": odd})
    (written,) = store.executions.lines(made.id)
    assert written.message == "a\ufffdb\ufffdc"


def test_writers_of_one_execution_at_once_lose_no_line_and_share_no_number(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    start = threading.Barrier(4)

    def write(name: int) -> None:
        start.wait()
        for number in range(10):
            store.executions.record([record(made.id, f"s{name}-{number}")], [line(made.id, f"{name}-{number}")])

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = store.executions.lines(made.id)
    assert [found.number for found in lines] == list(range(1, 41))
    assert {found.message for found in lines} == {f"{name}-{number}" for name in range(4) for number in range(10)}
    assert len(store.executions.steps(made.id)) == 40


def test_thousands_of_records_are_stored_in_one_call(store: Store) -> None:
    made = execution()
    store.executions.create(made)
    count = 3000
    store.executions.record(
        [iteration(made.id, index) for index in range(count)], [line(made.id, str(index)) for index in range(count)]
    )
    assert [found.index for found in store.executions.iterations(made.id, "each", start=2998, limit=10)] == [2998, 2999]
    assert [found.message for found in store.executions.lines(made.id, after=2998)] == ["2998", "2999"]
