"""What a body may do wrong ends its step, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.errors import RunCancelled, StepFailed
from flo.engine.hiding import marked
from flo.engine.registry import Registry
from flo.engine.step import Outcome, StepCall, step_type
from flo.engine.stores.memory import MemoryStore
from flo.engine.vault import NoSettings
from flo.engine.vaults import Vaults
from flo.testing import FrozenClock

SECRET = "correct horse battery"
Body = Callable[[StepCall, Any], Any]


def engine_of(body: Body) -> Flo:
    """An engine with one more step type, ``test.body``, and a secret ``K``."""
    declared = step_type("test.body", schema={"type": "object"}, output={"type": "object"}, example={})(body)
    installed = Registry.installed()
    clock = FrozenClock()
    settings = NoSettings(env={"K": marked(SECRET)})
    registry = Registry([*(installed[name] for name in installed), declared])
    return Flo(MemoryStore(clock), registry, clock, vaults=Vaults(lambda name: settings))


class Odd(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("it cannot say")


def raises(error: BaseException) -> Body:
    def body(call: StepCall, input: Any) -> Any:
        raise error

    return body


def cancelled_inside(call: StepCall, input: Any) -> Any:
    async def work() -> None:
        raise asyncio.CancelledError

    asyncio.run(work())


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (cancelled_inside, "CancelledError", "step_error"),
        (raises(KeyboardInterrupt()), "KeyboardInterrupt", "step_error"),
        (raises(SystemExit(3)), "SystemExit: 3", "step_error"),
        (raises(GeneratorExit()), "GeneratorExit", "step_error"),
        (raises(Odd()), "Odd", "step_error"),
        (raises(ValueError("no")), "ValueError: no", "step_error"),
        (raises(StepFailed(5, code=7)), "5", "7"),  # type: ignore[arg-type]
    ],
)
def test_whatever_a_body_raises_is_the_failure_of_its_step(body: Body, message: str, code: str) -> None:
    caught = {
        "stepId": "guard",
        "stepType": "core.try",
        "input": {
            "steps": [{"stepId": "b", "stepType": "test.body"}],
            "catch": [{"stepId": "r", "stepType": "core.return", "input": {"error": "<< $errors[0] >>"}}],
        },
    }
    with engine_of(body) as engine:
        result = engine.run({"steps": [caught]})
    assert result.success, result.error
    error: Any = result.output["error"]  # type: ignore[index, call-overload]
    assert (error["message"], error["code"]) == (message, code)


@pytest.mark.parametrize(
    ("said", "notices"),
    [
        (Outcome({}, operational_errors="over the limit"), ("over the limit",)),
        (Outcome({}, warnings="slow"), ("slow",)),
        (Outcome({}, warnings=[{"a": 1}, "b"]), ("{'a': 1}", "b")),  # type: ignore[list-item]
    ],
)
def test_a_text_alone_is_one_error_or_warning_and_everything_is_text(said: Outcome, notices: tuple[str, ...]) -> None:
    assert (*said.operational_errors, *said.warnings) == notices


@pytest.mark.parametrize("level", ["warning", "WARN", "warn"])
def test_a_level_is_known_in_the_spellings_that_programs_use(level: str) -> None:
    def body(call: StepCall, input: Any) -> Any:
        call.log(level, "look")
        return {}

    with engine_of(body) as engine:
        result = engine.run({"steps": [{"stepId": "b", "stepType": "test.body"}]})
        (line,) = engine.executions.lines(result.execution_id, limit=10)
    assert (line.level, line.message) == ("warn", "look")


@pytest.mark.parametrize(
    ("level", "data", "message"),
    [
        ("warnin", None, "did you mean 'warn'"),
        ("info", {"at": {1, 2}}, "data.at: a Python set cannot be stored as JSON"),
        ("info", [float("nan")], "data[0]: nan cannot be stored as JSON"),
        ("info", {"at": threading}, "data.at: a Python module cannot be stored as JSON"),
    ],
)
def test_a_line_that_cannot_be_kept_fails_the_step_and_the_run_goes_on(level: str, data: Any, message: str) -> None:
    def body(call: StepCall, input: Any) -> Any:
        call.log(level, "m", data)
        return {}

    steps = [
        {"stepId": "b", "stepType": "test.body", "continueOnError": True},
        {"stepId": "after", "stepType": "core.log", "input": {"message": "went on"}},
    ]
    with engine_of(body) as engine:
        result = engine.run({"steps": steps})
        lines = [line.message for line in engine.executions.lines(result.execution_id, limit=10)]
    assert result.state == "completed_with_errors"
    assert "went on" in lines
    assert any(message in line for line in lines)


class Text(str):
    """Text of a class of its own."""


def tells_in_every_shape(call: StepCall, input: Any) -> Any:
    key = f"x{call.secrets['K']}"
    for data in ((f"A {key}",), OrderedDict(a=f"B {key}"), {"t": (f"C {key}",)}, Text(f"D {key}"), {f"E {key}": 1}):
        call.log("info", Text(f"F {key}"), data)
    call.engine.set_variables({"held": f"G {key}"})
    document = {"steps": [{"stepId": "say", "stepType": "core.log", "input": {"message": "<< initial.a >>"}}]}
    call.engine.run_workflow(document, {"a": f"H {key}"})
    raise StepFailed(f"I {key}", code=f"J {key}")


def test_a_secret_that_lost_its_mark_in_a_body_is_hidden_in_all_that_the_body_says(monkeypatch: Any) -> None:
    with engine_of(tells_in_every_shape) as engine:
        step = {"stepId": "b", "stepType": "test.body", "continueOnError": True}
        result = engine.run(
            {"steps": [step, {"stepId": "v", "stepType": "core.log", "input": {"message": "<< $vars >>"}}]}
        )
        found = [*engine.executions.list(parent=result.execution_id), engine.executions.get(result.execution_id)]
        kept = [repr(held) for held in found]
        for held in filter(None, found):
            kept += map(repr, engine.executions.steps(held.id))
            kept += map(repr, engine.executions.lines(held.id, limit=100))
    assert not [text for text in [*kept, repr(result)] if SECRET in text]
    assert len([text for text in kept if "F x***" in text]) == 5
    assert any("H x***" in text for text in kept)


def test_an_error_is_masked_by_what_the_body_asked_for_itself(monkeypatch: Any) -> None:
    def body(call: StepCall, input: Any) -> Any:
        assert input["held"] == "another secret"
        raise ValueError(f"bad key {call.secrets['K']}")

    with engine_of(body) as engine:
        step = {"stepId": "b", "stepType": "test.body", "input": {"held": "<< initial.held >>"}}
        result = engine.run({"steps": [step]}, {"held": marked("another secret")})
    assert result.error is not None
    assert result.error["message"] == "ValueError: bad key ***"


def test_a_body_that_gives_way_at_its_deadline_has_timed_out() -> None:
    def body(call: StepCall, input: Any) -> Any:
        assert call.deadline is not None
        call.clock.wait(call.cancelled, call.deadline - call.clock.monotonic())
        raise RunCancelled("my time is over")

    with engine_of(body) as engine:
        result = engine.run({"steps": [{"stepId": "b", "stepType": "test.body", "timeoutMilliseconds": 60_000}]})
    assert result.error is not None
    assert result.error["code"] == "timeout"


def test_a_code_is_told_to_the_retry_as_it_was_given() -> None:
    tries: list[int] = []

    def body(call: StepCall, input: Any) -> Any:
        assert call.secrets["K"]
        tries.append(call.attempt)
        raise StepFailed("no", code="horse_gone")

    step = {"stepId": "b", "stepType": "test.body", "retry": {"maxAttempts": 2, "retryOn": ["horse_gone"]}}
    with engine_of(body) as engine:
        result = engine.run({"steps": [step]})
    assert tries == [1, 2]
    assert result.error is not None
    assert result.error["code"] == "horse_gone"
