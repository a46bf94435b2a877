"""What the strands of one execution write at one moment is one transaction, and nobody pays for another's failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from flo.engine.errors import RunCancelled, StoreUnavailable
from flo.engine.executions import StepRecord, StepState
from flo.engine.jobs import LEASE, LeaseLost
from flo.engine.journal import Strand
from flo.engine.step import step_type
from flo.engine.stores.filters import EVERY
from flo.engine.stores.queueing import Owned
from flo.engine.writing import APART_SECONDS

from .delivering import INSTALLED
from .journalling import Desk
from .waiting_line import WaitingLine

Work = Callable[[Owned], Any]

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


class Strands(Desk):
    """A desk with a strand for each of some works. They are held back until all of them want to write."""

    def together(
        self,
        *works: Work,
        exclusive: bool = False,
        applied: Any = lambda: None,
        wanted: Mapping[int, Callable[[], bool]] = MappingProxyType({}),
        meanwhile: Callable[[list[Strand]], object] = lambda strands: None,
    ) -> list[Any]:
        """What each work gave, or raised. Each has done a step before, and is in a context of its own."""
        strands = [self.strand.fork() for _ in works]
        ends: list[Any] = [None] * len(works)
        begun, go_on = threading.Event(), threading.Event()

        def hold_back() -> None:
            if threading.current_thread() is holder:
                begun.set()
                go_on.wait(30)

        def write(at: int) -> None:
            NAME.set(f"strand {at}")
            self.step(f"l[{at}].before", strand=strands[at])
            try:
                ends[at] = strands[at].own(
                    works[at], exclusive=exclusive, applied=applied, wanted=wanted.get(at, lambda: True)
                )
            except Exception as error:
                ends[at] = error

        def hold() -> None:
            with suppress(LeaseLost):
                Strand(self.journal, lambda: ({}, 0)).own(lambda owned: None)

        line = WaitingLine(self.journal.writing._joining)
        self.before = hold_back
        holder = threading.Thread(target=hold)
        holder.start()
        assert begun.wait(30)
        threads = [threading.Thread(target=write, args=(at,)) for at in range(len(works))]
        for thread in threads:
            thread.start()
            line.wait_for_next()  # in this order
        meanwhile(strands)
        self.writes.clear()
        self.exclusive.clear()
        go_on.set()
        for thread in (holder, *threads):
            thread.join(30)
        del self.writes[:1], self.exclusive[:1]  # the holder's
        return ends


@pytest.fixture
def desk() -> Strands:
    return Strands()


def put(key: str) -> Work:
    def work(owned: Owned) -> str:
        owned.data.set("t", key, NAME.get())
        return key

    return work


def stored(desk: Desk) -> dict[str, Any]:
    return {row.key: row.value for row in desk.store.data.query("t", EVERY, limit=99).rows}


def test_writes_of_one_moment_are_one_transaction_each_in_its_own_context(desk: Strands) -> None:
    assert desk.together(put("a"), put("b"), put("c")) == ["a", "b", "c"]
    [entries] = desk.writes
    assert [record.path for record in entries.steps] == ["l[0].before", "l[1].before", "l[2].before"]
    assert stored(desk) == {"a": "strand 0", "b": "strand 1", "c": "strand 2"}


def test_a_step_that_writes_is_recorded_with_its_own_strand(desk: Strands) -> None:
    def recorded(at: int) -> Work:
        def work(owned: Owned) -> None:
            strand = desk.strand._beside[at]
            record = StepRecord(desk.id, f"l[{at}].w", "w", "t", StepState.SUCCESS, desk.clock.now(), 1.0)
            strand.record_in(owned, record, 10)

        return work

    desk.together(recorded(0), recorded(1))
    [entries] = desk.writes
    assert [record.path for record in entries.steps] == ["l[0].before", "l[0].w", "l[1].before", "l[1].w"]


def test_one_that_fails_takes_nothing_else_along(desk: Strands) -> None:
    def fails(owned: Owned) -> None:
        owned.data.set("t", "torn", 1)
        raise ValueError("no")

    first, second, third = desk.together(put("a"), fails, put("c"))
    assert (first, str(second), third) == ("a", "no", "c")
    assert stored(desk) == {"a": "strand 0", "c": "strand 2"}
    assert sorted(desk.paths()) == ["l[0].before", "l[2].before"]
    assert [len(entries.steps) for entries in desk.writes] == [1, 1]
    desk.strand.keep_decisions()
    assert [record.path for record in desk.strand.take(returned=False).steps] == ["l[1].before"], "not forgotten"


def test_after_a_failure_each_writes_alone_for_a_while(desk: Strands) -> None:
    def fails(owned: Owned) -> None:
        raise ValueError("no")

    desk.together(put("a"), fails)
    desk.strand.own(put("b"))
    assert desk.journal.writing._apart_until > desk.clock.monotonic()
    desk.clock.forward(timedelta(seconds=APART_SECONDS))
    assert desk.together(put("c"), put("d")) == ["c", "d"]
    assert len(desk.writes) == 1


def test_a_conflict_with_another_session_lets_each_try_alone(desk: Strands) -> None:
    """A store runs what met a conflict again, which together would meet it again."""
    runs: list[int] = []
    own = desk.journal.writing._queue.own

    def conflicting(hold: Any, work: Work, **named: Any) -> Any:
        def twice(owned: Owned) -> Any:
            if named["brief"]:
                work(owned)
            runs.append(1)
            return work(owned)

        return own(hold, twice, **named)

    desk.journal.writing._queue = type("Queue", (), {"own": staticmethod(conflicting)})()
    assert desk.together(put("a"), put("b")) == ["a", "b"]
    assert [len(entries.steps) for entries in desk.writes] == [1, 1]


def test_a_claim_that_is_lost_is_told_to_each(desk: Strands) -> None:
    def lose(owned: Owned) -> None:
        raise LeaseLost(desk.id, None)

    ends = desk.together(lose, lose)
    assert all(isinstance(end, LeaseLost) for end in ends)
    assert len(desk.lost) == 2


def test_a_claim_that_is_lost_while_writes_wait_is_told_to_each_and_nothing_is_written(desk: Strands) -> None:
    def lose(strands: list[Strand]) -> None:
        desk.clock.forward(LEASE)
        desk.store.queue.claim(["default"], worker="next", lease=LEASE, limit=1)

    ends = desk.together(put("a"), put("b"), meanwhile=lose)
    assert [type(end) for end in ends] == [LeaseLost, LeaseLost]
    assert (desk.paths(), stored(desk)) == ([], {})


def test_where_the_answer_is_lost_each_asks_whether_its_write_was_made(desk: Strands) -> None:
    left = [StoreUnavailable("the answer is lost")]

    def lose_the_answer() -> None:
        if len(desk.writes) == 2 and left:  # the first one only holds the others back
            raise left.pop()

    desk.after = lose_the_answer
    assert desk.together(put("a"), put("b"), applied=lambda: "found") == ["found", "found"]
    assert len(desk.writes) == 1
    assert stored(desk) == {"a": "strand 0", "b": "strand 1"}


def test_what_has_to_be_alone_leads_others_along(desk: Strands) -> None:
    assert desk.together(put("a"), put("b"), exclusive=True) == ["a", "b"]
    assert desk.exclusive == [True]


def test_variables_make_the_transaction_an_exclusive_one(desk: Strands) -> None:
    desk.variables = {"n": 1}
    desk.together(put("a"), put("b"), meanwhile=lambda strands: strands[1].state_changed())
    assert desk.exclusive == [True]
    assert [entries.variables for entries in desk.writes] == [{"n": 1}]


def test_what_a_step_says_in_a_transaction_of_another_thread_is_kept_for_later(desk: Strands) -> None:
    def say(at: int) -> Work:
        def work(owned: Owned) -> None:
            desk.clock.forward(timedelta(seconds=1))  # it is high time to store it, but not from in here
            desk.line(f"from {at}", strand=desk.strand._beside[at])

        return work

    desk.together(say(0), say(1))
    assert len(desk.writes) == 1
    desk.strand.keep_decisions()
    assert [line.message for line in desk.strand.take(returned=False).lines] == ["from 0", "from 1"]


def test_a_strand_whose_write_hangs_in_a_given_up_step_does_not_wait_for_it(desk: Strands) -> None:
    entered, go = threading.Event(), threading.Event()

    def hang(strand: Strand) -> None:
        desk.before = lambda: (entered.set(), go.wait(30)) if threading.current_thread() is thread else None  # type: ignore[assignment]
        strand.own(put("late"))

    thread = threading.Thread(target=hang, args=(desk.strand,))
    thread.start()
    assert entered.wait(30)
    desk.strand.own(put("now"))
    assert stored(desk) == {"now": "nobody"}
    go.set()
    thread.join(30)
    assert set(stored(desk)) == {"late", "now"}


def test_what_may_wait_for_something_is_not_joined(desk: Strands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader does the works of others in its own thread: one that hangs would stop all of them."""
    monkeypatch.setattr("flo.engine.joining.PATIENCE_SECONDS", 1000.0)
    done = threading.Event()

    def alone(strands: list[Strand]) -> None:
        def own() -> None:
            Strand(desk.journal, lambda: ({}, 0)).own(put("alone"), alone=True)
            done.set()

        threading.Thread(target=own, daemon=True).start()
        assert done.wait(30), "it waits for those that are joined"

    assert desk.together(put("a"), put("b"), meanwhile=alone) == ["a", "b"]
    assert stored(desk).keys() == {"alone", "a", "b"}


def test_only_steps_that_wait_for_nothing_but_the_store_join() -> None:
    transactional = {name: INSTALLED[name].joins for name in INSTALLED if INSTALLED[name].transactional}
    assert transactional
    assert all(transactional.values()), "data-store steps share a commit"
    own = step_type("test.own", schema={"type": "object"}, output={"type": "object"}, transactional=True)(
        lambda call, input: {}
    )
    assert not own.joins


def test_one_that_is_given_up_while_others_run_writes_nothing_with_them(desk: Strands) -> None:
    given_up = threading.Event()

    def last(owned: Owned) -> str:
        owned.data.set("t", "b", "there")
        given_up.set()
        return "b"

    def asked_again(owned: Owned) -> str:
        if given_up.is_set():
            raise RunCancelled("stopped")
        owned.data.set("t", "a", "too late")
        return "a"

    first, second = desk.together(asked_again, last, wanted={0: lambda: not given_up.is_set()})
    assert isinstance(first, RunCancelled)
    assert second == "b"
    assert stored(desk) == {"b": "there"}
