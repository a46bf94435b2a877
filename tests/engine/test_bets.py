"""A bet that is lost leaves nothing behind, whatever lost it; one that is won is as if each step had run by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from flo.engine import app, bet
from flo.engine.app import Flo
from flo.engine.errors import StepFailed
from flo.engine.executions import ExecutionState, StepState
from flo.engine.registry import Registry
from flo.engine.renewal import Renewer
from flo.engine.step import StepCall, StepType, step_type
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.values import JsonObject

from .adding import ITEMS, add, values
from .delivering import INSTALLED, OBJECT, House, Owner, act, loop, step

_S = ExecutionState
PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])
STEPS: JsonObject = {"type": "object", "properties": {"steps": {"type": "array"}}}


def engine_with(house: House, own: StepType) -> Flo:
    return Flo(house.store, Registry([*(INSTALLED[name] for name in INSTALLED), own]), house.clock)


def test_a_lazy_source_is_asked_as_its_items_are_done(house: House, unhurried: None) -> None:
    """What it gives may depend on what the iterations before have done."""
    house.store.data.set_many("q", [(f"r{number}", {"status": "pending"}) for number in range(5)])

    @step_type("test.drain", schema=STEPS, output=OBJECT, example={"steps": []}, branches=("steps",), loops=("steps",))
    def drain(call: StepCall, input: JsonObject) -> JsonObject:
        """Go through the rows that are pending."""

        def pending() -> Iterator[JsonObject]:
            while rows := call.store.query("q", PENDING, limit=1).rows:
                yield rows[0].as_json()

        return {"count": call.engine.loop("steps", pending()).count}

    once_more = {"field": "n", "operation": "increment", "value": 1}
    done = [{"field": "status", "operation": "set", "value": "done"}, once_more]
    mark = step("mark", "data-store.atomic-update", {"tableName": "q", "key": "<< $item.key >>", "set": done})
    result = engine_with(house, drain).run({"steps": [step("d", "test.drain", {"steps": [mark]})]})
    assert result.success
    assert [row.value for row in house.store.data.query("q", EVERY, limit=9).rows] == [{"status": "done", "n": 1}] * 5


def test_each_step_happens_when_it_is_done(store_url: str, unhurried: None) -> None:
    """Rows have the times at which they were written, not that at which their transaction began."""

    def put(step_id: str, value: Any = 1) -> dict[str, Any]:
        return step(step_id, "data-store.set", {"tableName": "t", "key": step_id, "value": value})

    since = [{"field": "updatedAt", "operator": "gte", "value": "<< mark.value.since >>"}]
    order = {"field": "updatedAt", "direction": "desc"}
    query = step("query", "data-store.query", {"tableName": "t", "where": since, "orderBy": order})
    with app.open(store_url) as engine:
        result: Any = engine.run({"steps": [put("mark", {"since": "<< $util.now >>"}), put("a"), put("b"), query]})
    assert [row["key"] for row in result.steps["query"]["output"]["rows"]] == ["b", "a", "mark"]


def test_a_loop_of_an_own_type_inside_a_bet_loses_it(house: House, unhurried: None) -> None:
    @step_type(
        "test.loops", schema=STEPS, output=OBJECT, example={"steps": []},
        branches=("steps",), loops=("steps",), touches=False, joins=True,
    )  # fmt: skip
    def loops(call: StepCall, input: JsonObject) -> JsonObject:
        """Loop, though it said that it waits for nothing."""
        return {"count": call.engine.loop("steps", [1, 2, 3]).count}

    inside = step("w", "test.loops", {"steps": [add("i1", key="a"), add("i2", key="b")]})
    result = engine_with(house, loops).run({"steps": [inside, add("z", key="z"), add("y", key="y")]})
    assert result.success
    assert values(house, ["a", "b", "z", "y"]) == [{"n": 3}, {"n": 3}, {"n": 1}, {"n": 1}]


def test_who_swallows_that_a_bet_is_lost_does_not_win_it_back(house: House, unhurried: None) -> None:
    def remember(call: StepCall, input: JsonObject) -> JsonObject:
        try:
            call.engine.set_variables({"last": input["item"]})
        except Exception:
            return {"swallowed": True}
        return {"swallowed": False}

    house.acts["own"] = remember
    own = act("own", {"item": "<< $item >>"}, "test.act-joins")
    last = step("last", "core.return", {"last": "<< $vars.last >>"})
    result = house.engine.run({"steps": [loop("each", ITEMS[:3], own, add()), last]})
    assert result.output == {"last": "k2"}
    assert [house.outputs(result.execution_id)[f"each[{at}].own"] for at in range(3)] == [{"swallowed": False}] * 3


def test_a_bet_that_is_lost_takes_nothing_of_an_earlier_attempt(house: House, unhurried: None) -> None:
    """What a failed attempt at the steps around has left is seen as it would be without the bet."""

    def breaks(call: StepCall, input: JsonObject) -> JsonObject:
        if call.step_id == "after" or call.store.get("t", "b") is not None:
            raise StepFailed("broken")
        return {}

    house.acts["before"] = house.acts["after"] = breaks
    before, after = (act(name, kind="test.act-joins") for name in ("before", "after"))
    first = step("first", "data-store.set", {"tableName": "t", "key": "a", "value": 7})
    second = step("second", "data-store.set", {"tableName": "t", "key": "b", "value": 7})
    around = step("around", "core.try", {"steps": [first, before, second, after]})
    around |= {"retry": {"maxAttempts": 2, "delaySeconds": 0.01}, "onFailure": "continue"}
    name = house.enqueue([around, step("say", "core.log", {"message": "second gave << second.value >>"})])
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert house.records(name)["around"].attempts == 2
    assert house.messages(name) == ["second gave 7"]


def test_lines_of_a_transaction_in_the_writers_thread_wait_for_its_end(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, where something else is being written, work runs in the thread of the writer."""
    monkeypatch.setattr("flo.engine.stores.sqlite_writer.Writer._at_once", lambda self, request: False)
    house = House(store_url)
    house.acts["own"] = lambda call, input: [call.log("info", f"line {n}") for n in range(250)] and {}
    name = house.enqueue([act("own", kind="test.act-whole")])
    ended = house.ends()
    assert ended.state is _S.SUCCESS, ended.error
    assert len(house.messages(name)) == 250
    house.close()


def test_rows_claimed_in_a_bet_are_renewed_once_it_is_won(
    house: House, unhurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []

    def keep(self: Renewer, table: str, rows: Any, **how: Any) -> None:
        [row] = house.store.data.query("q", EVERY, limit=9).rows  # as another session sees it
        kept.append(row.value["status"] == "in_flight")  # type: ignore[index,call-overload]

    monkeypatch.setattr(Renewer, "keep", keep)
    house.store.data.set("q", "row", {"status": "pending"})
    claim = step("claim", "data-store.atomic-claim", {"tableName": "q"})
    house.enqueue([claim, add("a", key="a"), add("b", key="b")])
    owner = Owner(house)
    assert owner.deliver() is not None
    assert kept == [True]
    assert owner.writes == 2


def test_a_piece_that_takes_long_comes_apart(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = count(0.0, 0.001)
    monkeypatch.setattr(bet, "monotonic", lambda: next(moments))
    many = [add(f"add-{number}", key="k") for number in range(200)]
    house.enqueue([add("z", key="z"), step("whether", "core.if", {"condition": True, "then": many})])
    owner = Owner(house)
    ended = owner.deliver()
    assert ended is not None
    assert ended.state is _S.SUCCESS
    assert values(house, ["k", "z"]) == [{"n": 200}, {"n": 1}]
    assert 5 < owner.writes < 40, "its children share, some of them at a time"


@pytest.mark.parametrize("failing", [{59}, {99}, {0}, {20, 40, 60}])
def test_a_failure_costs_those_before_it_one_more_run(house: House, unhurried: None, failing: set[int]) -> None:
    def body(call: StepCall, input: JsonObject) -> JsonObject:
        if input["item"] in failing:
            raise StepFailed("broken")
        return {}

    house.acts["own"] = body
    own = act("own", {"item": "<< $item >>"}, "test.act-joins")
    name = house.enqueue([loop("each", list(range(100)), own, add(key="k"), continueOnError=True)])
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert values(house, ["k"]) == [{"n": 100 - len(failing)}]
    assert max(house.ran.values()) <= 3
    assert house.ran.total() <= 205
    records = house.records(name)
    assert {at for at in range(100) if records[f"each[{at}]"].state is StepState.FAILED} == failing
