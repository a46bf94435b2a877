"""Steps and iterations that wait for nothing but the store share transactions: quicker, and else as if each ran
alone."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from flo.engine import bet, sharing
from flo.engine.errors import StepFailed, StoreUnavailable
from flo.engine.events import LineLogged, StepEnded, StepStarted
from flo.engine.executions import ExecutionState, StepState
from flo.engine.step import StepCall
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY
from flo.engine.values import JsonObject

from . import delivering
from .adding import ITEMS, SAY, add, each_once, values
from .conftest import Workbench
from .delivering import House, Owner, act, loop, step

_S = ExecutionState


@pytest.fixture(params=[1, 4], ids=["one-by-one", "abreast"], autouse=True)
def concurrency(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations that share mean the same however many of them wait for the store at a time."""
    monkeypatch.setattr(delivering, "CONCURRENCY", request.param)


def test_iterations_share_a_transaction(house: House, unhurried: None) -> None:
    name = house.enqueue([loop("each", ITEMS, SAY, add())])
    owner = Owner(house)
    ended = owner.deliver()
    assert ended is not None
    assert ended.state is _S.SUCCESS
    each_once(house, name)
    assert owner.writes == 2, "all iterations at once, and the end"


@pytest.mark.parametrize("seconds", [0.0015, 0.006])
def test_a_transaction_is_over_after_some_time(house: House, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    moments = count(0.0, 0.001)
    monkeypatch.setattr(bet, "monotonic", lambda: next(moments))
    monkeypatch.setattr(bet, "MOST_SECONDS", seconds)
    name = house.enqueue([loop("each", ITEMS, SAY, add(), concurrency=5)])
    owner = Owner(house)
    assert owner.deliver() is not None
    each_once(house, name)
    assert owner.writes == 31 if seconds < 0.002 else 10 < owner.writes < 31


def test_fewer_are_under_way_where_they_end_late(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    moments, widths = count(0.0, 0.001), []
    monkeypatch.setattr(bet, "monotonic", lambda: next(moments))
    monkeypatch.setattr(bet, "MOST_SECONDS", 0.0008)
    share = sharing.share

    def noted(frame: Any, pieces: Any, run: Any, width: int) -> Any:
        widths.append(width)
        return share(frame, pieces, run, width)

    monkeypatch.setattr("flo.engine.loop.share", noted)
    name = house.enqueue([loop("each", ITEMS, SAY, add(), concurrency=50)])
    assert house.ends().state is _S.SUCCESS
    each_once(house, name)
    assert widths[:4] == [8, 4, 2, 1]


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("at_write", [1, 2])
def test_an_owner_that_dies_leaves_iterations_whole(house: House, tens: None, at_write: int, made: bool) -> None:
    name = house.enqueue([loop("each", ITEMS, SAY, add())])
    house.dies(at_write=at_write, made=made)
    ended = at_write - 1 + made
    assert values(house) == [{"n": 1}] * 10 * ended + [None] * (30 - 10 * ended)
    assert house.ends().state is _S.SUCCESS
    each_once(house, name)


def test_what_was_committed_stands_though_its_answer_was_lost(house: House, unhurried: None) -> None:
    name = house.enqueue([loop("each", ITEMS, SAY, add())])
    owner = Owner(house, unanswered=1)
    ended = owner.deliver()
    assert ended is not None
    assert ended.state is _S.SUCCESS
    each_once(house, name)


def test_what_was_not_committed_is_done_by_each_for_itself(house: House, unhurried: None) -> None:
    name = house.enqueue([loop("each", ITEMS, SAY, add())])
    owner = Owner(house)
    own, tries = owner.runner.store.queue.own, count()

    def away(*given: Any, **named: Any) -> Any:
        if named["brief"] and next(tries) % 2 == 0:
            raise StoreUnavailable("away")
        return own(*given, **named)

    owner.runner.store.queue.own = away  # type: ignore[method-assign]
    assert owner.deliver() is not None
    assert next(tries) == 1, "for a second nothing is tried together"
    each_once(house, name)


class TestFailing:
    """An iteration that fails has nobody to share with, and takes nothing of the others along."""

    def failing(self, at: int) -> Any:
        """Fails in the iteration ``at``, after it wrote."""
        field = f"<< 'n' if $index == {at} else 'm' >>"
        broken = {"field": field, "operation": "append", "value": 1}
        given = {"tableName": "t", "key": "<< $item >>", "set": [broken]}
        return step("break", "data-store.atomic-update", given)

    @pytest.mark.parametrize("at", [0, 1, 17, 29])
    def test_one_that_is_tolerated(self, house: House, unhurried: None, at: int) -> None:
        name = house.enqueue([loop("each", ITEMS, SAY, add(), self.failing(at), continueOnError=True)])
        assert house.ends().state is _S.COMPLETED_WITH_ERRORS
        written = values(house)
        assert written.pop(at) == {"n": 1}
        assert written == [{"n": 1, "m": [1]}] * 29
        assert house.messages(name) == [f"at {item}" for item in ITEMS]
        assert len(house.messages(name, "error")) == 1
        records = house.records(name)
        assert [path for path, record in records.items() if record.state is StepState.FAILED] == [
            f"each[{at}].break",
            f"each[{at}]",
        ]
        assert records["each"].output == {"count": 30, "succeeded": 29, "failed": 1, "skipped": 0}

    def test_one_that_is_not(self, house: House, unhurried: None) -> None:
        name = house.enqueue([loop("each", ITEMS, SAY, add(), self.failing(17))])
        assert house.ends().state is _S.FAILED
        assert values(house) == [{"n": 1, "m": [1]}] * 17 + [{"n": 1}] + [None] * 12
        assert house.messages(name) == [f"at {item}" for item in ITEMS[:18]]

    def test_one_that_is_tried_again(self, house: House, unhurried: None) -> None:
        """The retry waits, and a transaction must not."""

        def busy(call: StepCall, input: JsonObject) -> JsonObject:
            if input["item"] == "k17" and call.attempt < 3:
                raise StepFailed("busy")
            return {}

        house.acts["own"] = busy
        own = act("own", {"item": "<< $item >>"}, "test.act-joins", retry={"maxAttempts": 3, "delaySeconds": 0.01})
        name = house.enqueue([loop("each", ITEMS, SAY, add(), own)])
        assert house.ends().state is _S.SUCCESS
        each_once(house, name)
        assert house.records(name)["each[17].own"].attempts == 3

    def test_all_of_them(self, house: House, unhurried: None) -> None:
        """The fewer go well, the less is bet on them."""
        broken = step("break", "data-store.atomic-update", {**add()["input"], "set": "<< $item >>"})
        own = act("own", {"item": "<< $item >>"}, "test.act-joins")
        name = house.enqueue([loop("each", ITEMS, own, add(), broken, continueOnError=True)])
        assert house.ends().state is _S.COMPLETED_WITH_ERRORS
        assert values(house) == [{"n": 1}] * 30
        assert house.records(name)["each"].output == {"count": 30, "succeeded": 0, "failed": 30, "skipped": 0}
        in_vain = sum(house.ran.values()) - 30
        assert 5 <= in_vain <= 5 * delivering.CONCURRENCY, "bets at 0, 1, 4, 11 and 26"

    @pytest.mark.parametrize("every", [1, 2, 3])
    def test_many_of_them(self, house: House, unhurried: None, every: int) -> None:
        """Some fail later than others that began after them."""
        row = {"tableName": "t", "key": "<< $item >>"}
        look = step("look", "data-store.get", row, skipCondition="<< $index % 2 >>")
        field = f"<< 'n' if $index % {every} == 0 else 'm' >>"
        changes = [{"field": field, "operation": "append", "value": 1}]
        broken = step("break", "data-store.atomic-update", {**row, "set": changes})
        own = act("own", {"item": "<< $item >>"}, "test.act-joins")
        name = house.enqueue([loop("each", ITEMS, own, add(), look, broken, continueOnError=True)])
        assert house.ends().state is _S.COMPLETED_WITH_ERRORS
        assert values(house) == [{"n": 1, **({} if at % every == 0 else {"m": [1]})} for at in range(30)]
        failed = len(range(0, 30, every))
        assert house.records(name)["each"].output == {
            "count": 30, "succeeded": 30 - failed, "failed": failed, "skipped": 0,
        }  # fmt: skip
        assert sum(house.ran.values()) <= 60


def test_a_body_that_handles_exceptions_ends_with_the_others(house: House, unhurried: None) -> None:
    def stubborn(call: StepCall, input: JsonObject) -> JsonObject:
        if input["item"] == "k2":
            raise StepFailed("no", retryable=False)
        for _ in range(50):
            try:
                return count_one(call, input)
            except Exception:
                tried.append(str(input["item"]))
        return {}

    tried: list[str] = []
    house.acts["own"] = stubborn
    own = act("own", {"item": "<< $item >>"}, "test.act-joins")
    name = house.enqueue([loop("each", ITEMS, own, add(key="more-<< $item >>"), continueOnError=True)])
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert values(house) == [{"n": 1}] * 2 + [None] + [{"n": 1}] * 27
    failed = [path for path, record in house.records(name).items() if record.state is StepState.FAILED]
    assert failed == ["each[2].own", "each[2]"]
    assert tried == []


def test_only_what_stands_is_announced(bench: Workbench, unhurried: None) -> None:
    broken = step("break", "core.fail", {"message": "no"}, skipCondition="<< $index != 4 >>")
    result = bench.run([loop("each", ITEMS[:8], SAY, add(), broken, continueOnError=True)])
    told = [event.record.path for event in bench.events if isinstance(event, StepEnded)]
    lines = [event.line for event in bench.events if isinstance(event, LineLogged)]
    said = [line.message for line in lines if line.level == "info"]
    assert len(told) == len(set(told)) == 4 * 8 + 1
    assert said == bench.messages(result) == [f"at {item}" for item in ITEMS[:8]]


def test_what_has_happened_is_announced_after_its_commit(bench: Workbench, unhurried: None) -> None:
    seen = []

    def hear(event: Any) -> None:
        path = event.record.path if isinstance(event, StepEnded) else getattr(event, "path", "")
        if isinstance(event, StepEnded | StepStarted) and path == "each[0].add":
            seen.append((type(event), bench.engine.data.get("t", ITEMS[2]) is not None))

    bench.engine.bus.subscribe(hear)
    bench.run([loop("each", ITEMS[:3], add())])
    assert seen == [(StepStarted, False), (StepEnded, True)]


def test_a_missing_value_is_told_once(house: House, unhurried: None) -> None:
    name = house.enqueue([loop("each", ITEMS, step("say", "core.log", {"message": "<< $item.nothing >>"}), add())])
    assert house.ends().state is _S.SUCCESS
    assert len(house.messages(name, "warn")) == 1
    assert values(house) == [{"n": 1}] * 30


def test_an_iteration_sees_what_it_wrote(house: House, unhurried: None) -> None:
    get = step("get", "data-store.get", {"tableName": "t", "key": "<< $item >>"})
    more = add("more", by="<< get.value.n >>")
    branch = step("whether", "core.if", {"condition": "<< get.value.n == 1 >>", "then": [more], "else": []})
    count_ = step("count", "data-store.count", {"tableName": "t"})
    house.enqueue([loop("each", ITEMS, add(), get, branch, count_)])
    owner = Owner(house)
    ended = owner.deliver()
    assert ended is not None
    assert values(house) == [{"n": 2}] * 30
    first, last = [house.outputs(ended.id)[f"each[{at}]"]["count"]["count"] for at in (0, 29)]
    assert 1 <= first <= delivering.CONCURRENCY
    assert last == 30
    assert owner.writes == 2


def test_iterations_refer_to_large_results_of_a_loop_before(
    house: House, unhurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, writes = house.store.queue.own, count()
    monkeypatch.setattr(house.store.queue, "own", lambda *given, **named: (next(writes), own(*given, **named))[1])
    first = loop("first", ITEMS, step("say", "core.log", {"message": "<< initial.text >>"}))
    again = step("again", "core.log", {"message": "<< first.items[29].output.say.level >>"})
    result = house.engine.run({"steps": [first, loop("each", ITEMS, again, add())]}, {"text": "x" * 20_000})
    assert result.success
    assert house.messages(result.execution_id)[30:] == ["info"] * 30
    assert values(house) == [{"n": 1}] * 30
    assert next(writes) == 2, "the results of the first loop, and all iterations of the second"


def test_a_transaction_refers_to_large_results_of_a_loop_before(house: House) -> None:
    def look(call: StepCall, input: JsonObject) -> JsonObject:
        items: Any = input["items"]
        return {"last": items[-1]["index"], "count": len(list(items))}

    house.acts["look"] = look
    first = loop("first", ITEMS, step("say", "core.log", {"message": "<< initial.text >>"}))
    steps = [first, act("look", {"items": "<< first.items >>"}, "test.act-whole")]
    result = house.engine.run({"steps": steps}, {"text": "x" * 20_000})
    assert result.success
    assert house.outputs(result.execution_id)["look"] == {"last": 29, "count": 30}


def test_a_cancelled_run_begins_nothing_more(house: House, tens: None) -> None:
    name = house.enqueue([loop("each", ITEMS, SAY, add())])
    owner = Owner(house)
    own = owner.runner.store.queue.own

    def cancelling(*given: Any, **named: Any) -> Any:
        gave = own(*given, **named)
        house.store.executions.cancel(name)
        return gave

    owner.runner.store.queue.own = cancelling  # type: ignore[method-assign]
    owner.deliver()
    assert house.get(name).state is _S.CANCELLED
    assert values(house) == [{"n": 1}] * 10 + [None] * 20


class TestOwnTypes:
    """Types of one's own share where their author says that they wait for nothing."""

    def run(self, house: House, **how: Any) -> tuple[Owner, str]:
        """Run a loop whose steps do what ``house.acts`` says."""
        name = house.enqueue([loop("each", ITEMS, act("own", {"item": "<< $item >>"}, "test.act-joins"), add())])
        owner = Owner(house, **how)
        owner.deliver()
        return owner, name

    def test_what_they_write_is_written_with_the_others(self, house: House, unhurried: None) -> None:
        house.acts["own"] = count_one
        owner, _ = self.run(house)
        assert values(house) == [{"n": 2}] * 30
        assert owner.writes == 2

    @pytest.mark.parametrize("made", [False, True])
    @pytest.mark.parametrize("at_write", [1, 2, 3])
    def test_what_they_wrote_is_not_written_again(self, house: House, tens: None, at_write: int, made: bool) -> None:
        house.acts["own"] = count_one
        self.run(house, at_write=at_write, made=made)
        house.clock.forward(timedelta(hours=1))
        assert house.ends().state is _S.SUCCESS
        assert values(house) == [{"n": 2}] * 30

    def test_what_needs_a_transaction_of_its_own_gets_it(self, house: House, unhurried: None) -> None:
        def remember(call: StepCall, input: JsonObject) -> JsonObject:
            call.engine.set_variables({"last": input["item"]})
            return {}

        house.acts["own"] = remember
        _, name = self.run(house)
        assert house.get(name).state is _S.SUCCESS
        assert values(house) == [{"n": 1}] * 30

    def test_nothing_is_written_without_its_record_once_the_execution_is_over(
        self, house: House, unhurried: None
    ) -> None:
        """One that is given up at its timeout is over while its body goes on."""

        def over(call: StepCall, input: JsonObject) -> JsonObject:
            if input["item"] == "k5":
                engine: Any = call.engine
                engine.frame.strand.journal.seal()
            return {}

        house.acts["own"] = over
        _, name = self.run(house)
        recorded = [path for path in house.records(name) if path.endswith(".add")]
        assert sum(value is not None for value in values(house)) == len(recorded)

    def test_one_that_waits_after_all_is_suspended(self, house: House, unhurried: None) -> None:
        house.acts["own"] = lambda call, input: call.engine.wait("signal", name="go") or {}
        _, name = self.run(house)
        assert house.get(name).state is _S.SUSPENDED
        assert values(house) == [None] * 30


def count_one(call: StepCall, input: JsonObject) -> JsonObject:
    one_more = parse_changes([{"field": "n", "operation": "increment", "value": 1}])
    call.store.update("t", str(input["item"]), EVERY, one_more, upsert=True)
    return {}


def test_what_may_wait_does_not_share(bench: Workbench) -> None:
    """A transaction holds others up: nothing in it waits for more than the store."""
    engine = bench.engine
    types = engine.registry

    def shares(*steps: Any, again: bool = False) -> bool:
        [each] = engine.load({"steps": [loop("each", ITEMS, *steps)]}).block.steps
        frame: Any = SimpleNamespace(run=SimpleNamespace(again=again), bet=None)
        return sharing.can_share(frame, each.branches["steps"])

    def whether(child: Any) -> Any:
        return step("whether", "core.if", {"condition": True, "then": [child]})

    assert shares(SAY, whether(add()))
    assert not shares(SAY, step("more", "core.log", {"message": "nothing to commit"}))
    assert shares(SAY, add(), again=True)
    assert not shares(SAY, whether(add()), again=True), "what it decided before is asked for"
    assert not shares(step("only", "core.if", {"condition": True}), add(), again=True)
    assert not shares(SAY, add(timeoutMilliseconds=100))
    assert not shares(SAY, act("own", kind="test.echo"))
    assert not shares(SAY, act("own", kind="test.says-joins"))
    assert not shares(step("pause", "core.wait", {"duration": "1s"}))
    assert not shares(whether(act("own", kind="test.echo")))
    assert not shares(step("all", "core.parallel", {"steps": [SAY, add()]}))
    assert not shares(loop("inner", ITEMS, SAY))
    assert not shares(SAY, add(dependsOn=[]))
    assert not shares(step("v", "core.set-variable", {"n": 1}))
    joining = {name for name in types if types[name].shares and not name.startswith("data-store.")}
    assert joining == {"core.log", "core.if", "core.switch"}, "data.* may compute for long"
