"""An execution whose owner is gone goes on elsewhere: after its last finished step, with all that it knew."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from flo.engine.executions import ExecutionState, StepState
from flo.engine.jobs import LEASE
from flo.engine.journal import BATCH
from flo.engine.step import StepCall
from flo.engine.stores.filters import EVERY
from flo.engine.values import JsonObject

from .delivering import House, Owner, act, fail, failing, loop, step

_S = ExecutionState
HOUR = timedelta(hours=1)


# what later steps see


def test_finished_steps_do_not_run_again_and_their_outputs_and_meta_are_seen(house: House) -> None:
    name = house.enqueue(
        [
            act("a", {"n": 1, "deep": {"x": [2**70, 1.0, None]}}),
            act("skipped", skipCondition=True),
            step("vars", "core.set-variable", {"kept": "<< a.deep >>"}),
            act("b"),
            act(
                "c",
                {
                    "n": "<< a.n >>",
                    "kept": "<< $vars.kept >>",
                    "ok": "<< a.$meta.success >>",
                    "attempts": "<< a.$meta.attempts >>",
                    "skipped": "<< skipped.$meta.skipped >>",
                    "missing": "<< skipped.x | default: 'none' >>",
                },
            ),
        ]
    )
    house.dies(in_step="b")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 2, "c": 1}
    assert house.outputs(name)["c"] == {
        "n": 1,
        "kept": {"x": [2**70, 1.0, None]},
        "ok": True,
        "attempts": 1,
        "skipped": True,
        "missing": "none",
    }


def test_meta_of_a_finished_step_is_the_same_in_the_next_delivery(house: House) -> None:
    house.acts["tried"] = failing(2)
    asked = [f"<< {name}.$meta >>" for name in ("tried", "broken", "skipped")]
    name = house.enqueue(
        [
            act("tried", retry={"maxAttempts": 3}),
            fail("broken", continueOnError=True),
            act("skipped", skipCondition=True),
            act("before", {"metas": asked}),
            act("b"),
            act("after", {"metas": asked}),
        ]
    )
    house.dies(in_step="b")
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    outputs = house.outputs(name)
    assert outputs["after"] == outputs["before"]
    assert [meta["attempts"] for meta in outputs["after"]["metas"]] == [3, 1, 0]


def test_what_was_not_recorded_runs_again(house: House) -> None:
    name = house.enqueue([act("a", kind="test.act-inside"), act("b"), act("c")])
    house.dies(after_step="b")
    house.dies(before_step="c")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 2, "b": 2, "c": 1}
    execution = house.get(name)
    assert (execution.deliveries, execution.expiries, execution.attempt) == (3, 2, 1)
    assert [attempt.outcome for attempt in house.store.executions.attempts(name)] == ["expired", "expired"]
    [warning] = [line for line in house.messages(name, "warn") if "delivery 3" in line]
    assert "lost by 2 workers" in warning


@pytest.mark.parametrize("batch", [1, BATCH])
def test_an_execution_ends_whichever_of_its_writes_its_owner_dies_at(
    house: House, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Each row is written once, each finished step ran once, and the log has no gap, wherever the cut is."""
    monkeypatch.setattr("flo.engine.journal.BATCH", batch)
    put = {"key": "k", "set": [{"field": "n", "operation": "increment", "value": 1}], "upsert": True}
    steps = [
        step("vars", "core.set-variable", {"seen": 1}),
        step("count", "data-store.atomic-update", {"tableName": "t", **put}),
        loop("loop", [1, 2, 3], step("say", "core.log", {"message": "<< $item >>"}), act("inside")),
        loop("tolerant", [1], fail("broken"), continueOnError=True),
        step("again", "data-store.atomic-update", {"tableName": "t", **put}),
        step("end", "core.return", {"n": "<< again.row.value.n >>", "seen": "<< $vars.seen >>"}),
    ]
    whole = Owner(house)
    house.enqueue(steps)
    whole.deliver()
    assert whole.writes >= (6 if batch == BATCH else 15)
    for at_write in range(1, whole.writes + 1):
        for made in (False, True):
            house.store.data.delete("t", EVERY)
            house.ran.clear()
            name = house.enqueue(steps)
            dying = Owner(house, at_write=at_write, made=made)
            dying.deliver()
            assert dying.dead
            if not house.get(name).state.final:
                house.clock.forward(LEASE)
                assert house.ends().id == name
            execution = house.get(name)
            assert execution.state is _S.COMPLETED_WITH_ERRORS, (at_write, made)
            assert execution.output == {"n": 2, "seen": 1}
            row = house.store.data.get("t", "k")
            assert row is not None
            assert row.value == {"n": 2}
            assert set(house.messages(name)) == {"1", "2", "3"}
            assert sum(house.ran.values()) <= 4
            numbers = [line.number for line in house.store.executions.lines(name)]
            assert numbers == sorted(set(numbers))
            loop_record = house.records(name)["loop"]
            assert isinstance(loop_record.output, dict)
            assert loop_record.output["succeeded"] == 3


def test_the_key_of_a_step_is_the_same_over_its_retries_and_every_delivery(house: House) -> None:
    house.acts["b"] = failing(2)
    retry = {"maxAttempts": 5}
    name = house.enqueue([loop("l", [1, 2], act("a", retry=retry), act("b", retry=retry))])
    house.dies(in_step="l[0].b")
    house.dies(in_step="l[1].a")
    house.ends()
    keys = {call.idempotency_key for call in house.calls}
    assert keys == {f"{name}:l[{index}].{step_id}" for index in (0, 1) for step_id in "ab"}
    assert house.ran["l[0].b"] == 4
    assert house.ran["l[1].a"] == 2


def test_the_numbers_of_log_lines_go_on(house: House) -> None:
    say = [step(f"s{n}", "core.log", {"message": f"m{n}"}) for n in range(4)]
    name = house.enqueue([say[0], say[1], act("a"), say[2], act("b"), say[3]])
    house.dies(in_step="b")
    house.ends()
    assert house.messages(name) == ["m0", "m1", "m2", "m3"]
    numbers = [line.number for line in house.store.executions.lines(name)]
    assert numbers == list(range(1, len(numbers) + 1))


# loops, parallel lists, graphs


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_loop_goes_on_with_the_iterations_that_are_left(house: House, concurrency: int) -> None:
    body = [act("a", {"v": "<< $item >>"}), act("b", {"v": "<< a.v >>", "first": "<< $isFirst >>"})]
    asked = {"items": "<< loop.items >>", "count": "<< loop.count >>", "third": "<< loop.items[2].output.b.v >>"}
    name = house.enqueue([loop("loop", list(range(6)), *body, concurrency=concurrency), act("after", asked)])
    house.dies(in_step="loop[3].b")
    assert house.ends().state is _S.SUCCESS
    output = house.outputs(name)["after"]
    assert [item["index"] for item in output["items"]] == [0, 1, 2, 3, 4, 5]
    assert [item["output"]["b"] for item in output["items"]] == [{"v": n, "first": n == 0} for n in range(6)]
    assert (output["count"], output["third"]) == (6, 2)
    assert house.ran["loop[3].a"] == 1
    assert house.ran["loop[3].b"] == 2
    if concurrency == 1:
        assert all(house.ran[f"loop[{index}].{inside}"] == 1 for index in (0, 1, 2) for inside in "ab")


def test_a_loop_counts_failures_that_were_tolerated_before(house: House) -> None:
    once = failing(1)
    house.acts["a"] = lambda call, input: once(call, input) if input["v"] == 1 else input
    inside = [act("a", {"v": "<< $item >>"}), act("b")]
    name = house.enqueue([loop("loop", [0, 1, 2], *inside, continueOnError=True), act("c", {"l": "<< loop >>"})])
    house.dies(in_step="loop[2].b")
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    result = house.outputs(name)["c"]["l"]
    assert (result["count"], result["succeeded"], result["failed"]) == (3, 2, 1)
    assert result["items"][1]["error"]["code"] == "step_failed"
    assert house.ran["loop[1].a"] == 1


def test_nested_loops_go_on_where_they_were(house: House) -> None:
    inner = loop("inner", [0, 1, 2], act("a", {"at": ["<< $parent.index >>", "<< $index >>"]}))
    name = house.enqueue([loop("outer", [0, 1, 2], act("before"), inner, act("after", {"n": "<< inner.count >>"}))])
    house.dies(in_step="outer[1].inner[1].a")
    house.dies(in_step="outer[1].after")
    assert house.ends().state is _S.SUCCESS
    twice = {"outer[1].inner[1].a", "outer[1].after"}
    assert {path for path, count in house.ran.items() if count > 1} == twice
    assert len(house.ran) == 3 + 9 + 3
    items = house.store.executions.iterations(name, "outer", start=0, limit=10)
    assert [record.output["after"] for record in items] == [{"n": 3}] * 3  # type: ignore[index, call-overload]
    [middle] = house.store.executions.iterations(name, "outer[1].inner", start=1, limit=1)
    assert middle.output == {"a": {"at": [1, 1]}}


def test_a_while_loop_goes_on_by_the_variables_that_it_set(house: House) -> None:
    body = [step("add", "core.set-variable", {"n": "<< ($vars.n | default: 0) + 1 >>"}), act("a")]
    repeat = step("loop", "core.repeat", {"while": "<< ($vars.n | default: 0) < 4 >>", "steps": body})
    name = house.enqueue([repeat, act("after", {"n": "<< $vars.n >>", "count": "<< loop.count >>"})])
    house.dies(in_step="loop[2].a")
    assert house.ends().state is _S.SUCCESS
    assert house.outputs(name)["after"] == {"n": 4, "count": 4}


def test_an_iteration_that_had_begun_ends_whatever_the_condition_of_its_loop_says_by_now(house: House) -> None:
    body = [step("add", "core.set-variable", {"n": "<< ($vars.n | default: 0) + 1 >>"}), act("a"), act("b")]
    repeat = step("loop", "core.repeat", {"while": "<< ($vars.n | default: 0) < 2 >>", "steps": body})
    name = house.enqueue([repeat, act("after", {"n": "<< $vars.n >>", "count": "<< loop.count >>"})])
    house.dies(in_step="loop[1].b")
    assert house.ends().state is _S.SUCCESS
    assert house.outputs(name)["after"] == {"n": 2, "count": 2}
    assert (house.ran["loop[1].a"], house.ran["loop[1].b"]) == (1, 2)


def test_a_tolerated_failure_of_an_iteration_is_remembered_with_its_record(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flo.engine.journal.BATCH", 1)
    house.acts["a"] = failing(1)
    house.enqueue([loop("l", [1], act("a"), continueOnError=True)])
    house.dies(after_step="l[0]")
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert house.ran == {"l[0].a": 1}


def test_results_of_a_loop_are_kept_where_a_step_gives_them_on(house: House) -> None:
    pairs = {"items": "<< l.items >>"}
    name = house.enqueue(
        [
            loop("l", [1, 2], act("a", {"v": "<< $item >>"})),
            step("vars", "core.set-variable", pairs),
            act("b"),
            act("c", {"vars": "<< $vars.items >>", "output": "<< vars.items >>"}),
        ]
    )
    house.dies(in_step="b")
    assert house.ends().state is _S.SUCCESS
    expected = [{"index": n, "status": "success", "output": {"a": {"v": n + 1}}} for n in (0, 1)]
    assert house.outputs(name)["c"] == {"vars": expected, "output": expected}
    assert house.outputs(name)["vars"] == {"items": expected}


def test_results_of_a_loop_go_with_everything_that_is_stored_before_they_are(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read before the transaction that stores them."""
    monkeypatch.setattr("flo.engine.results.KEPT_CHARACTERS", 0)
    monkeypatch.setattr("flo.engine.results.PAGE", 1)
    given = {"rows": "<< l.items >>"}
    name = house.enqueue(
        [
            loop("l", [1, 2], act("a", {"v": "<< $item >>"}, kind="test.act-inside")),
            loop("outer", [1], loop("inner", [1, 2], act("b", kind="test.act-inside"))),
            step("say", "core.log", {"message": "m", "tags": ["n << l.items.size >>"]}),
            step("vars", "core.set-variable", given),
            step("job", "queue.enqueue", {"handler": "test.act", "input": {**given, "vars": "<< $vars.rows >>"}}),
            act("end", {"deep": {"l": "<< l >>"}}),
        ]
    )
    assert house.ends().state is _S.SUCCESS
    rows = [{"index": n, "status": "success", "output": {"a": {"v": n + 1}}} for n in (0, 1)]
    job = house.ends()
    assert job.input == {"rows": rows, "vars": rows}
    assert house.outputs(name)["end"]["deep"]["l"]["items"] == rows


def test_steps_of_a_parallel_list_that_ended_do_not_run_again(house: House) -> None:
    both = step("both", "core.parallel", {"steps": [act("a", {"v": 0}), act("b", {"v": 1})], "concurrency": 1})
    name = house.enqueue([both, act("c", {"all": "<< both >>"})])
    house.dies(in_step="b")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 2, "c": 1}
    assert house.outputs(name)["c"] == {"all": {"a": {"v": 0}, "b": {"v": 1}}}


def test_a_graph_goes_on_with_what_is_left(house: House) -> None:
    name = house.enqueue(
        [
            act("a", {"v": 1}, dependsOn=[]),
            act("b", {"v": "<< a.v >>"}, dependsOn=["a"]),
            act("c", {"v": "<< a.v >>"}, dependsOn=["a"]),
            act("d", {"b": "<< b.v >>", "c": "<< c.v >>"}, dependsOn=["b", "c"]),
        ]
    )
    house.dies(in_step="d")
    assert house.ends().state is _S.SUCCESS
    assert house.ran == {"a": 1, "b": 1, "c": 1, "d": 2}
    assert house.outputs(name)["d"] == {"b": 1, "c": 1}


def test_what_a_failed_step_made_a_graph_skip_stays_skipped(house: House) -> None:
    def once_a_is_stored(call: StepCall, given: JsonObject) -> JsonObject:
        until = time.monotonic() + 30
        while "a" not in house.records(name):
            assert time.monotonic() < until
        return given

    house.acts |= {"a": failing(1), "c": once_a_is_stored}
    name = house.enqueue(
        [act("a", onFailure="skip"), act("b", dependsOn=["a"]), act("c", dependsOn=[]), act("d", dependsOn=["c"])]
    )
    house.dies(in_step="d")
    assert house.ends().state is _S.COMPLETED_WITH_ERRORS
    assert house.ran == {"a": 1, "c": 1, "d": 2}
    assert house.records(name)["b"].state is StepState.SKIPPED
