"""What producers name becomes requests, and requests become runs: each with what is its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.errors import InputInvalid
from flo.engine.executions import ExecutionState
from flo.engine.jobs import JobOptions, Request
from flo.engine.secrecy import Secret
from flo.engine.values import JsonObject, dump
from flo.engine.vaults import Vaults


@pytest.fixture
def engine() -> Iterator[Flo]:
    with app.open("memory:") as engine:
        yield engine


def enqueued(engine: Flo, target: str, given: JsonObject, **options: str) -> str:
    return engine.enqueue(target, given, JobOptions(**options)).execution_id  # type: ignore[arg-type]


def logged(engine: Flo, execution_id: str) -> list[tuple[str, str]]:
    return [(line.level, line.message) for line in engine.executions.lines(execution_id)]


def test_jobs_of_one_step_type_run_with_the_fields_that_each_was_given(engine: Flo) -> None:
    plain = enqueued(engine, "core.log", {"message": "one"})
    loud = enqueued(engine, "core.log", {"message": "two", "level": "warn"})
    again = enqueued(engine, "core.log", {"message": "<< three >>"})
    engine.worker(concurrency=1).run(threading.Event(), drain=True)
    assert logged(engine, plain) == [("info", "one")]
    assert logged(engine, loud) == [("warn", "two")]
    assert logged(engine, again) == [("info", "<< three >>")]


def test_an_input_that_does_not_fit_is_refused_however_often_others_did_fit(engine: Flo) -> None:
    for _ in range(2):
        enqueued(engine, "core.log", {"message": "one"})
        with pytest.raises(InputInvalid, match="'message' is required"):
            engine.enqueue("core.log", {})
        with pytest.raises(InputInvalid, match=r"expected .*info"):
            engine.enqueue("core.log", {"message": "one", "level": "loud"})
    assert len(engine.executions.list()) == 2


def test_a_name_is_a_stored_workflow_first_unless_its_kind_is_said(engine: Flo) -> None:
    engine.add({"name": "core.log", "steps": [{"stepId": "a", "stepType": "core.log", "input": {"message": "mine"}}]})
    ids = [
        enqueued(engine, "core.log", {"message": "given"}),
        enqueued(engine, "core.log", {"message": "given"}, kind="workflow"),
        enqueued(engine, "core.log", {"message": "given"}, kind="handler"),
    ]
    tally = engine.worker(concurrency=1).run(threading.Event(), drain=True)
    assert tally.counts == {ExecutionState.SUCCESS: 3}
    assert [logged(engine, execution_id)[0][1] for execution_id in ids] == ["mine", "mine", "given"]


def test_the_keys_of_many_are_numbered_and_that_of_one_is_not(engine: Flo) -> None:
    options = JobOptions(key="k")
    many = engine.enqueue_many("core.log", [{"message": "one"}, {"message": "two"}], options)
    (one,) = engine.enqueue_many("core.log", [{"message": "one"}], options)
    keys = {execution.id: execution.key for execution in engine.executions.list()}
    assert [keys[each.execution_id] for each in (*many, one)] == ["k-1", "k-2", "k"]


def test_what_was_written_of_an_input_with_a_secret_is_not_stored() -> None:
    given = {"password": Secret("correct horse")}
    asked = Request("{}", "digest", given, queue=None, input_text=dump(given))
    stored = Vaults().stored(asked)
    assert "horse" not in dump(stored.input)
    assert stored.input_text is None
