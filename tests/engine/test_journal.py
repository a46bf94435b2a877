"""Records are stored in batches, in order, whole up to some instant in each strand, and never after the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import StoreFull, StoreUnavailable
from flo.engine.executions import StepRecord, StepState
from flo.engine.jobs import LEASE, LeaseLost
from flo.engine.journal import BATCH, BATCH_CHARACTERS, MAX_MESSAGE, Strand
from flo.engine.patience import PATIENCE_SECONDS
from flo.engine.stores.queueing import Owned

from .journalling import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_records_wait_until_a_batch_has_come_together_and_keep_their_order(desk: Desk) -> None:
    for number in range(BATCH):
        assert desk.writes == []
        desk.step(f"s{number}")
    [entries] = desk.writes
    assert [record.path for record in entries.steps] == [f"s{number}" for number in range(BATCH)]


def test_lines_count_like_steps(desk: Desk) -> None:
    for number in range(BATCH):
        assert desk.writes == []
        desk.line(f"m{number}")
    assert desk.messages() == [(number + 1, f"m{number}") for number in range(BATCH)]


def test_large_outputs_are_stored_sooner(desk: Desk) -> None:
    desk.step("a", BATCH_CHARACTERS)
    assert len(desk.writes) == 1


def test_a_slow_run_is_stored_as_time_passes(desk: Desk) -> None:
    desk.line("a")
    desk.clock.forward(timedelta(seconds=1))
    desk.line("b")
    assert [[line.message for line in entries.lines] for entries in desk.writes] == [["a", "b"]]


def test_flushing_nothing_touches_nothing_and_a_sealed_journal_takes_nothing(desk: Desk) -> None:
    desk.strand.flush()
    desk.line("a")
    desk.strand.flush()
    desk.journal.seal()
    desk.line("late")
    desk.step("late")
    desk.strand.flush()
    assert len(desk.writes) == 1
    assert not desk.strand.take(returned=False)
    assert MAX_MESSAGE < BATCH_CHARACTERS


def test_a_write_of_a_step_takes_all_that_was_done_before_along(desk: Desk) -> None:
    desk.step("a")
    desk.line("said")
    desk.strand.own(lambda owned: owned.data.set("t", "k", 1))
    assert (desk.paths(), desk.messages()) == (["a"], [(1, "said")])
    assert len(desk.writes) == 1


def test_a_write_that_fails_leaves_nothing_and_the_next_one_takes_all_along_in_order(desk: Desk) -> None:
    def torn(owned: Owned) -> None:
        owned.data.set("t", "k", 1)
        raise RuntimeError("torn")

    desk.step("a")
    desk.line("one")
    with pytest.raises(RuntimeError):
        desk.strand.own(torn)
    assert (desk.paths(), desk.messages(), desk.store.data.get("t", "k")) == ([], [], None)
    desk.step("b")
    desk.line("two")
    desk.strand.flush()
    assert (desk.paths(), desk.messages()) == (["a", "b"], [(1, "one"), (2, "two")])


def test_work_beside_this_begins_with_what_was_done_so_far_stored(desk: Desk) -> None:
    desk.step("a")
    beside = desk.strand.fork()
    assert desk.paths() == ["a"]
    desk.step("b", strand=beside)
    desk.line("beside", strand=beside)
    desk.line("here")
    desk.strand.join(beside)
    desk.strand.flush()
    assert desk.paths() == ["a", "b"]
    assert sorted(desk.messages()) == [(1, "beside"), (2, "here")]


def test_a_fork_stores_what_was_decided_though_nothing_else_waits(desk: Desk) -> None:
    desk.strand.decide("if", "condition", True)
    desk.strand.fork()
    other = Strand(desk.journal, lambda: ({}, 0))
    assert other.decided("if", "condition") is True


def test_what_was_decided_is_stored_with_what_follows_from_it_and_forgotten_with_the_step(desk: Desk) -> None:
    strand = desk.strand
    strand.decide("a", "condition", True)
    assert strand.decided("a", "condition") is True, "a write has stored it"
    strand.decide("b", "condition", False)
    desk.step("b")
    strand.flush()
    assert strand.decided("b", "condition") is None
    assert strand.decided("a", "other") is None


def test_what_a_failed_step_decided_stays(desk: Desk) -> None:
    desk.strand.decide("b", "condition", False)
    desk.strand.step(StepRecord(desk.id, "b", "b", "core.if", StepState.FAILED, desk.clock.now(), 1.0), 10)
    desk.strand.flush()
    assert desk.strand.decided("b", "condition") is False


def test_variables_are_written_alone_where_they_changed(desk: Desk) -> None:
    desk.step("a")
    desk.strand.flush()
    desk.variables, desk.tolerated = {"n": 1}, 2
    desk.strand.state_changed()
    desk.strand.flush()
    desk.step("b")
    desk.strand.flush()
    assert desk.exclusive == [False, True, False]
    assert [entries.variables for entries in desk.writes] == [None, {"n": 1}, None]
    [again] = redelivered(desk)
    assert (again.variables, again.tolerated) == ({"n": 1}, 2)


def redelivered(desk: Desk) -> Any:
    desk.clock.forward(LEASE)
    return desk.store.queue.claim(["default"], worker="next", lease=LEASE, limit=1).deliveries


def test_variables_of_a_write_that_failed_are_written_with_the_next_one(desk: Desk) -> None:
    desk.variables = {"n": 1}
    desk.strand.state_changed()
    desk.before = failing_once(StoreFull("no space"))
    with pytest.raises(StoreFull):
        desk.strand.flush()
    desk.strand.flush()
    assert [entries.variables for entries in desk.writes] == [{"n": 1}]


def test_outputs_that_an_iteration_repeats_are_not_stored_twice(desk: Desk) -> None:
    desk.step("l[0].large", 5_000)
    desk.step("l[0].small", 10)
    desk.strand.flush()
    desk.step("l[0].waiting", 5_000)
    desk.iteration("l[0]")
    desk.strand.flush()
    assert desk.outputs() == {"l[0].large": None, "l[0].small": {"x": 1}, "l[0].waiting": None, "l[0]": None}


@pytest.mark.parametrize("state", [StepState.FAILED, StepState.CANCELLED])
def test_outputs_of_an_iteration_that_may_go_on_are_kept(desk: Desk, state: StepState) -> None:
    desk.step("l[0].large", 5_000)
    desk.strand.flush()
    desk.step("l[0].waiting", 5_000)
    desk.iteration("l[0]", state)
    desk.strand.flush()
    assert desk.outputs() == {"l[0].large": {"x": 1}, "l[0].waiting": {"x": 1}, "l[0]": None}


def test_what_a_return_cut_short_is_given_only_with_the_end(desk: Desk) -> None:
    desk.strand.cut_short(StepRecord(desk.id, "r", "r", "core.return", StepState.SUCCESS, desk.clock.now(), 1.0))
    desk.step("a")
    desk.strand.flush()
    assert desk.paths() == ["a"]
    assert not desk.strand.take(returned=False)
    assert [record.path for record in desk.strand.take(returned=True).steps] == ["r"]


def failing_once(error: Exception) -> Callable[[], None]:
    left = [error]

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


def test_a_store_that_is_away_for_a_moment_is_waited_for(desk: Desk) -> None:
    desk.before = failing_once(StoreUnavailable("gone"))
    desk.step("a")
    desk.strand.flush()
    assert desk.paths() == ["a"]


def test_a_store_that_stays_away_is_told_after_a_while_and_nothing_is_forgotten(desk: Desk) -> None:
    def away() -> None:
        raise StoreUnavailable("gone")

    desk.before = away
    desk.step("a")
    before = desk.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        desk.strand.flush()
    assert PATIENCE_SECONDS <= desk.clock.monotonic() - before <= PATIENCE_SECONDS + 1
    assert [record.path for record in desk.strand.take(returned=False).steps] == ["a"]


def test_where_an_answer_was_lost_it_is_asked_whether_the_write_was_made(desk: Desk) -> None:
    def write(owned: Owned) -> str:
        owned.data.set("t", "k", 1, if_absent=True)
        return "made"

    asked = []
    desk.after = failing_once(StoreUnavailable("the answer is lost"))
    assert desk.strand.own(write, applied=lambda: asked.append(1) or "found") == "found"  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert len(desk.writes) == 1


def test_a_line_that_is_stored_twice_is_there_once(desk: Desk) -> None:
    desk.after = failing_once(StoreUnavailable("the answer is lost"))
    desk.line("once")
    desk.strand.flush()
    assert len(desk.writes) == 2
    assert desk.messages() == [(1, "once")]


def test_a_claim_that_is_lost_is_told_to_who_stops_the_work(desk: Desk) -> None:
    desk.step("a")
    redelivered(desk)
    with pytest.raises(LeaseLost) as lost:
        desk.strand.flush()
    assert desk.lost == [lost.value]
    assert desk.paths() == []


def test_what_hangs_in_a_write_does_not_keep_others_from_storing_what_came_before(desk: Desk) -> None:
    """A step that was given up may take long to come back."""
    entered, go, owner = threading.Event(), threading.Event(), threading.current_thread()

    def hang() -> None:
        if threading.current_thread() is not owner:
            entered.set()
            go.wait(30)

    desk.before = hang
    desk.step("a")
    desk.line("one")
    desk.strand.decide("if", "condition", True)
    thread = threading.Thread(target=lambda: desk.strand.own(lambda owned: None))
    thread.start()
    assert entered.wait(30)
    desk.step("b")
    desk.line("two")
    desk.strand.flush()
    assert (desk.paths(), desk.messages()) == (["a", "b"], [(1, "one"), (2, "two")])
    assert desk.strand.decided("if", "condition") is True
    go.set()
    thread.join(30)
    desk.strand.flush()
    assert (desk.paths(), desk.messages()) == (["a", "b"], [(1, "one"), (2, "two")])


def test_the_end_takes_what_strands_did_that_do_not_come_to_theirs(desk: Desk) -> None:
    beside = desk.strand.fork()
    inner = beside.fork()
    ended = desk.strand.fork()
    desk.step("ended", strand=ended)
    desk.strand.join(ended)
    desk.step("beside", strand=beside)
    desk.line("inner", strand=inner)
    inner.decide("if", "condition", True)
    desk.strand.keep_decisions()
    entries = desk.strand.take(returned=False)
    assert desk.paths() == ["ended", "beside"]
    assert desk.messages() == [(1, "inner")]
    assert not entries.steps
    assert desk.strand.decided("if", "condition") is True
