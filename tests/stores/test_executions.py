"""Executions, their steps and their log lines: the same on every adapter."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.executions import MOVES, ExecutionState, IllegalMove, StepState
from flo.engine.jobs import Again, DeadReason, Ended, Entries, LeaseLost, Parked, Released, Wait
from flo.engine.stores.store import Store
from flo.testing import FrozenClock

from .executing import DOCUMENT, MOMENT, SECOND, execution, iteration, line, record
from .jobs import at_once, claimed_one, enqueued, found, recorded, started, waiting


def test_an_execution_comes_back_as_it_was_stored(store: Store) -> None:
    made = execution(
        state=ExecutionState.FAILED,
        output={"é": [1, None, "x"]},
        error={"code": "x"},
        trigger="schedule",
        attempt=2,
        started_at=MOMENT,
        finished_at=MOMENT + SECOND,
        queue="mail",
        priority=-3,
        run_at=MOMENT - SECOND,
        deadline=MOMENT + 2 * SECOND,
        key="k",
        concurrency_key="c",
        concurrency_limit=7,
        deliveries=3,
        expiries=2,
        fence=4,
        worker="w1",
        claimed_at=MOMENT,
        parent_id="parent",
        parent_path="each[3].mail",
        root_id="root",
        depth=3,
        reason=DeadReason.POISON,
        replay_of="first",
        replayed_as="second",
    )
    store.executions.create(made)
    assert store.executions.get(made.id) == made


def test_an_execution_without_a_workflow_comes_back_as_it_was_stored(store: Store) -> None:
    made = execution(workflow=None, version=None, handler="core.log")
    store.executions.create(made)
    assert store.executions.get(made.id) == made


def test_the_definition_stays_the_text_that_it_was(store: Store) -> None:
    first, second = execution(), execution()
    store.executions.create(first)
    store.executions.create(second)
    assert found(store, second.id).definition == DOCUMENT


def test_a_prefix_that_only_one_has_finds_it(store: Store) -> None:
    for name in ("aaa1", "aaa2", "ab_1", "ab%1"):
        store.executions.create(execution(id=name))
    near = [store.executions.get(prefix) for prefix in ("aaa1", "ab_", "ab%", "aaa2x")]
    assert [one.id if one else None for one in near] == ["aaa1", "ab_1", "ab%1", None]
    assert store.executions.get("aaa") is None
    assert store.executions.get("") is None


def test_an_id_that_is_the_prefix_of_another_finds_its_own(store: Store) -> None:
    store.executions.create(execution(id="run"))
    store.executions.create(execution(id="run-2"))
    assert found(store, "run").id == "run"


def test_a_run_starts_once_and_ends_at_the_stores_time(store: Store, clock: FrozenClock) -> None:
    execution_id = enqueued(store)
    began = store.data.now()
    first = claimed_one(store)
    assert (first.execution.state, first.execution.started_at) == (ExecutionState.RUNNING, began)
    clock.forward(5 * SECOND)
    store.queue.conclude(first.hold, Again(SECOND, {"code": "busy"}))
    clock.forward(SECOND)
    second = claimed_one(store)
    assert second.execution.started_at == began
    clock.forward(4 * SECOND)
    store.queue.conclude(second.hold, Ended(ExecutionState.SUCCESS, {"n": 1.0}))
    ended = found(store, execution_id)
    assert (ended.started_at, ended.finished_at) == (began, began + 10 * SECOND)
    assert (ended.state, ended.output, ended.error) == (ExecutionState.SUCCESS, {"n": 1.0}, None)


@pytest.mark.parametrize("to", list(ExecutionState))
def test_an_owner_ends_what_runs_as_the_table_of_moves_says(store: Store, to: ExecutionState) -> None:
    hold = started(store).hold
    before = found(store, hold.execution_id)
    if to.final and to in MOVES[ExecutionState.RUNNING]:
        assert store.queue.conclude(hold, Ended(to)).state is to
        return
    with pytest.raises(IllegalMove) as raised:
        store.queue.conclude(hold, Ended(to, {"lost": True}))
    assert (raised.value.current, raised.value.to) == (ExecutionState.RUNNING, to)
    assert found(store, hold.execution_id) == before


@pytest.mark.parametrize("state", [state for state in ExecutionState if state.final])
def test_final_is_final(store: Store, state: ExecutionState) -> None:
    hold = started(store).hold
    if state is ExecutionState.REJECTED:
        hold = dataclasses.replace(hold, execution_id="turned-away")
        store.executions.create(execution(id="turned-away"))
    else:
        store.queue.conclude(hold, Ended(state))
    before = found(store, hold.execution_id)
    for conclusion in (Ended(ExecutionState.SUCCESS), Again(SECOND, {}), Released(), Parked()):
        with pytest.raises(LeaseLost, match=f"it is {state}"):
            store.queue.conclude(hold, conclusion)
    with pytest.raises(IllegalMove):
        store.executions.cancel(hold.execution_id)
    assert found(store, hold.execution_id) == before


def test_ending_what_is_not_there_says_so(store: Store) -> None:
    hold = dataclasses.replace(started(store).hold, execution_id="nobody")
    with pytest.raises(LeaseLost, match="nobody is lost: it is gone"):
        store.queue.conclude(hold, Ended(ExecutionState.SUCCESS))


def test_of_many_that_end_an_execution_one_wins(store: Store) -> None:
    hold = started(store).hold

    def end(number: int) -> int | None:
        try:
            store.queue.conclude(hold, Ended(ExecutionState.SUCCESS, number))
        except LeaseLost:
            return None
        return number

    ended = [number for number in at_once(8, end) if number is not None]
    assert ended == [found(store, hold.execution_id).output]


def test_executions_are_listed_newest_first(store: Store) -> None:
    for number in range(5):
        state = ExecutionState.FAILED if number % 2 else ExecutionState.SUCCESS
        moment = MOMENT + timedelta(seconds=number)
        store.executions.create(
            execution(id=f"run-{number}", state=state, created_at=moment, workflow=f"w{number % 3}")
        )

    def listed(**given: Any) -> list[str]:
        return [one.id for one in store.executions.list(**given)]

    assert listed() == ["run-4", "run-3", "run-2", "run-1", "run-0"]
    assert listed(limit=2) == ["run-4", "run-3"]
    assert listed(state=ExecutionState.FAILED) == ["run-3", "run-1"]
    assert listed(workflow="w0") == ["run-3", "run-0"]
    assert listed(workflow="w0", state=ExecutionState.SUCCESS) == ["run-0"]
    assert listed(workflow="w9") == []


def test_the_newest_of_all_are_those_of_every_state(store: Store) -> None:
    made = [
        execution(id=f"{number}-{state}", state=state, created_at=MOMENT + number * SECOND)
        for number in range(3)
        for state in ExecutionState
    ]
    for one in made:
        store.executions.create(one)
    store.executions.create(execution(id="part", parent_id="0-failed", created_at=MOMENT + 9 * SECOND))
    newest = [one.id for one in sorted(made, key=lambda one: (one.created_at, one.id), reverse=True)]
    for limit in (1, 13, 50):
        assert [one.id for one in store.executions.list(limit=limit)] == newest[:limit]
    assert len(store.executions.list(queue="default", limit=13)) == 0
    assert store.executions.list(limit=0) == []


def test_parts_are_listed_with_what_they_are_a_part_of(store: Store) -> None:
    for name, parent in (("top", None), ("part", "top"), ("part-of-part", "part")):
        store.executions.create(execution(id=name, parent_id=parent))
    listed = [[one.id for one in store.executions.list(parent=parent)] for parent in (None, "top", "part", "nobody")]
    assert listed == [["top"], ["part"], ["part-of-part"], []]


def test_dead_letters_and_queues_are_listed_apart(store: Store) -> None:
    poison = DeadReason.POISON
    for name, queue, reason, replayed_as in (
        ("alive", "mail", None, None),
        ("dead-mail", "mail", poison, None),
        ("dead-print", "print", poison, None),
        ("replayed", "mail", poison, "alive"),
    ):
        store.executions.create(execution(id=name, queue=queue, reason=reason, replayed_as=replayed_as))

    def listed(**given: Any) -> set[str]:
        return {one.id for one in store.executions.list(**given)}

    assert listed(dead=True) == {"dead-mail", "dead-print"}
    assert listed(dead=True, queue="mail") == {"dead-mail"}
    assert listed(queue="print") == {"dead-print"}
    assert listed(queue="nothing") == set()


def test_steps_come_back_as_they_were_stored_in_the_order_of_storing(store: Store) -> None:
    hold = started(store).hold
    steps = [
        record(hold.execution_id, "b", output={"whole": 1.0, "big": 2**70, "text": "é"}, notices=("slow", "é")),
        record(hold.execution_id, "a", state=StepState.FAILED, error={"message": "no"}, attempts=3, duration_ms=0.0),
        record(hold.execution_id, "c", output=None),
        record(hold.execution_id, "d", output=[1, "x", None]),
    ]
    recorded(store, hold, Entries(steps))
    assert list(store.executions.steps(hold.execution_id)) == steps


def test_a_step_stored_again_is_replaced_in_its_place(store: Store) -> None:
    hold, other = started(store).hold, started(store).hold
    made = hold.execution_id
    recorded(store, hold, Entries([record(made, "a"), record(made, "b")]))
    recorded(store, other, Entries([record(other.execution_id, "a")]))
    again = record(made, "a", state=StepState.FAILED, attempts=2, output={"n": 2}, started_at=MOMENT + timedelta(1))
    recorded(store, hold, Entries([again]))
    assert list(store.executions.steps(made)) == [again, record(made, "b")]
    assert list(store.executions.steps(other.execution_id)) == [record(other.execution_id, "a")]


def test_iterations_come_in_pages_by_their_index(store: Store) -> None:
    hold = started(store).hold
    made = hold.execution_id
    recorded(store, hold, Entries([iteration(made, index) for index in (5, 0, 3, 1, 4, 2)]))
    recorded(store, hold, Entries([record(made, "each"), record(made, "other[0]", loop="other", index=0)]))

    def page(start: int, limit: int) -> list[int | None]:
        return [one.index for one in store.executions.iterations(made, "each", start=start, limit=limit)]

    assert page(0, 3) == [0, 1, 2]
    assert page(3, 100) == [3, 4, 5]
    assert page(6, 100) == []


def test_log_lines_come_by_their_number(store: Store) -> None:
    hold, other = started(store).hold, started(store).hold
    made = hold.execution_id
    recorded(store, hold, Entries(lines=[line(made, 2, "two"), line(made, 1, "one")]))
    recorded(store, other, Entries(lines=[line(other.execution_id, 1, "uno")]))
    recorded(store, hold, Entries(lines=[line(made, 3, "three")]))
    lines = store.executions.lines(made)
    assert [(one.number, one.message) for one in lines] == [(1, "one"), (2, "two"), (3, "three")]
    assert lines[0] == line(made, 1, "one")
    assert [one.message for one in store.executions.lines(made, after=1, limit=1)] == ["two"]
    assert [(one.number, one.message) for one in store.executions.lines(other.execution_id)] == [(1, "uno")]


def test_a_line_without_step_and_data_comes_back_so(store: Store) -> None:
    hold = started(store).hold
    bare = line(hold.execution_id, 1, "", level="warn", step=None, data=None)
    recorded(store, hold, Entries(lines=[bare]))
    assert list(store.executions.lines(hold.execution_id)) == [bare]


def test_records_of_an_execution_that_is_not_there_are_refused(store: Store) -> None:
    hold = dataclasses.replace(started(store).hold, execution_id="nobody")
    with pytest.raises(LeaseLost, match="nobody"):
        recorded(store, hold, Entries([record("nobody", "a")], [line("nobody", 1, "lost")]))
    assert list(store.executions.steps("nobody")) == []
    assert list(store.executions.lines("nobody")) == []


def test_characters_that_no_store_holds_do_not_keep_a_failure_from_being_recorded(store: Store) -> None:
    hold = started(store).hold
    made, odd = hold.execution_id, "a\x00b\ud800c"
    failed = record(made, "a", state=StepState.FAILED, error={"message": odd})
    entries = Entries([failed], [line(made, 1, odd, data={"message": odd})])
    store.queue.conclude(hold, Ended(ExecutionState.FAILED, error={"message": odd}), entries)
    (written,) = store.executions.lines(made)
    assert written.message == "a\ufffdb\ufffdc"


def test_strands_of_one_execution_lose_no_record(store: Store) -> None:
    hold = started(store).hold
    made = hold.execution_id

    def write(strand: int) -> None:
        for number in range(10):
            entries = Entries([record(made, f"s{strand}-{number}")], [line(made, strand * 10 + number + 1)])
            recorded(store, hold, entries)

    at_once(4, write)
    assert [one.number for one in store.executions.lines(made)] == list(range(1, 41))
    assert len({one.path for one in store.executions.steps(made)}) == 40


def test_thousands_of_records_are_stored_in_one_call(store: Store) -> None:
    hold = started(store).hold
    made, count = hold.execution_id, 3000
    lines = [line(made, index + 1, str(index)) for index in range(count)]
    recorded(store, hold, Entries([iteration(made, index) for index in range(count)], lines))
    assert [one.index for one in store.executions.iterations(made, "each", start=2998, limit=10)] == [2998, 2999]
    assert [one.message for one in store.executions.lines(made, after=2998)] == ["2998", "2999"]


def test_the_waits_of_an_execution_come_in_the_order_of_their_registration(store: Store) -> None:
    hold = started(store).hold
    waits = [
        Wait("b", "time", until=MOMENT),
        Wait("a", "approval", "boss", details={"approvers": ["ada"], "é": 2**70}),
        Wait("c", "signal", "go", MOMENT),
    ]
    for wait in waits:
        waiting(store, hold, wait)
    assert list(store.executions.waits(hold.execution_id)) == waits
    assert list(store.executions.waits("nobody")) == []
