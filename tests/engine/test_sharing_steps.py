"""Steps that follow one another share a transaction, as iterations do."""

from __future__ import annotations

from itertools import count

import pytest

from flo.engine import bet
from flo.engine.events import StepEnded
from flo.engine.executions import ExecutionState, StepState

from .adding import ITEMS, TWO, add, values
from .conftest import Workbench
from .delivering import House, Owner, act, step

_S = ExecutionState


class TestSteps:
    """Steps that follow one another share a transaction too."""

    STEPS = tuple(add(f"add-{item}", key=item) for item in ITEMS[:10])

    def test_it_is_one(self, house: House, unhurried: None) -> None:
        name = house.enqueue([*self.STEPS, act("other"), *TWO])
        owner = Owner(house)
        assert owner.deliver() is not None
        assert house.get(name).state is _S.SUCCESS
        assert values(house, ITEMS[:10]) == [{"n": 1}] * 10
        assert owner.writes == 4, "ten steps, the one that acts outside, two more steps, the end"
        assert {record.state for record in house.records(name).values()} == {StepState.SUCCESS}

    @pytest.mark.parametrize("made", [False, True])
    def test_an_owner_that_dies_leaves_all_or_none(self, house: House, unhurried: None, made: bool) -> None:
        name = house.enqueue([*self.STEPS, *TWO])
        house.dies(at_write=1, made=made)
        assert values(house, ITEMS[:10]) == [{"n": 1} if made else None] * 10
        assert house.ends().state is _S.SUCCESS
        assert values(house, ITEMS[:12]) == [{"n": 1}] * 12
        assert len(house.records(name)) == 12

    def test_what_was_committed_stands_though_its_answer_was_lost(self, house: House, unhurried: None) -> None:
        house.enqueue([*self.STEPS, *TWO])
        assert Owner(house, unanswered=1).deliver() is not None
        assert values(house, ITEMS[:12]) == [{"n": 1}] * 12

    def test_it_is_over_after_some_time(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        moments = count(0.0, 0.001)
        monkeypatch.setattr(bet, "monotonic", lambda: next(moments))
        monkeypatch.setattr(bet, "MOST_SECONDS", 0.0015)
        house.enqueue([*self.STEPS])
        owner = Owner(house)
        assert owner.deliver() is not None
        assert owner.writes == 11
        assert values(house, ITEMS[:10]) == [{"n": 1}] * 10

    def test_one_that_fails_leaves_those_before_it(self, house: House, unhurried: None) -> None:
        more = step("more", "data-store.set", {"tableName": "t", "key": "more", "value": "<< add-k1.row.value.n >>"})
        broken = add("broken", key="more")
        name = house.enqueue([*self.STEPS, more, broken, *TWO])
        assert house.ends().state is _S.FAILED
        assert values(house, ITEMS[:12]) == [{"n": 1}] * 10 + [None] * 2
        records = house.records(name)
        assert list(records) == [f"add-{item}" for item in ITEMS[:10]] + ["more", "broken"]
        assert records["broken"].state is StepState.FAILED

    def test_what_runs_by_itself_sees_nothing_of_the_bet(self, house: House, unhurried: None) -> None:
        """What was undone is not there, neither as a name nor in the result."""
        fails = step("fails", "data-store.atomic-update", {"tableName": "t", "key": "k0", "set": "<< initial.set >>"})
        inner = step("whether", "core.if", {"condition": True, "then": [add("inner", key="k1")]})
        result = house.engine.run(
            {"steps": [add("first", key="k0"), inner, {**fails, "onFailure": "continue"}, add("last", key="k2")]},
            {"set": "broken"},
        )
        assert result.state is _S.COMPLETED_WITH_ERRORS
        assert list(result.steps) == ["first", "inner", "whether", "fails", "last"]
        assert values(house, ITEMS[:3]) == [{"n": 1}] * 3

    def test_steps_are_announced_once_each(self, bench: Workbench, unhurried: None) -> None:
        bench.run([*self.STEPS, {**add("broken", key="k0", by="x"), "onFailure": "continue"}, *TWO])
        told = [event.record.path for event in bench.events if isinstance(event, StepEnded)]
        assert told == [f"add-{item}" for item in ITEMS[:10]] + ["broken", "add-k10", "add-k11"]
