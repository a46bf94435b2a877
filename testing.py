"""For tests of step types and workflows: run one, over a memory store, with a clock that moves only when told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from flo.engine.app import Flo
from flo.engine.checking.openness import validator
from flo.engine.checking.violations import against
from flo.engine.clock import Clock
from flo.engine.environments.marking import as_connection
from flo.engine.errors import RunCancelled, StepFailed, StoreError, worded
from flo.engine.executions import LogLine
from flo.engine.guarding import GuardedStore, refuse_secret
from flo.engine.hiding import marked
from flo.engine.lines import checked_line
from flo.engine.netting import Net
from flo.engine.registry import Registry
from flo.engine.step import Engine, Function, Outcome, RunReturned, StepCall, StepType, step_type
from flo.engine.stores.base import DataStore
from flo.engine.stores.memory import MemoryStore
from flo.engine.values import Json, JsonObject, kind_of, place_text, place_under, plain, whole_object
from flo.engine.vault import NoSettings
from flo.engine.vaults import Vaults

__all__ = ["FrozenClock", "LogLine", "StepResult", "WorkflowResult", "run_step", "run_workflow"]

KEY: Final = "test-execution:step"


class FrozenClock:
    """A clock that moves only when told to. Waiting on it moves it, and takes no time."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.time = start
        self._start = start
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - self._start).total_seconds()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        self.forward(timedelta(seconds=seconds))
        return event.is_set()

    def forward(self, step: timedelta) -> None:
        with self._lock:
            self.time += step


class NotInARun(AssertionError):
    """A step that is tested by itself asked for what only a run has."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave: its ``output``; the whole ``outcome``, whose operational errors make a step fail though it gave
    an output; the lines it logged. In what it says secrets are hidden. ``store`` has the rows, as it left them."""

    output: Mapping[str, Any]
    outcome: Outcome
    logs: Sequence[LogLine]
    store: DataStore

    @property
    def success(self) -> bool:
        """Whether the step would count as done."""
        return not self.outcome.operational_errors


@dataclass(frozen=True, slots=True)
class WorkflowResult:
    """How a run ended. ``status`` is ``success``, ``failed``, …; ``steps`` has ``stepType status output error attempts
    durationMilliseconds`` of each step outside a loop, by its id; ``error`` is what ended the run (``stepId path code
    message kind``); ``logs`` are the lines of its log; ``store`` has the rows, as it left them."""

    status: str
    success: bool
    output: Any
    error: Mapping[str, Any] | None
    steps: Mapping[str, Any]
    logs: Sequence[LogLine]
    store: DataStore


def run_step(
    step: StepType | Function,
    input: Mapping[str, Any] | None = None,
    *,
    secrets: Mapping[str, Json] | None = None,
    connections: Mapping[str, JsonObject] | None = None,
    store: DataStore | None = None,
    clock: Clock | None = None,
    idempotency_key: str = KEY,
    attempt: int = 1,
    cancelled: threading.Event | None = None,
    timeout_seconds: float | None = None,
) -> StepResult:
    """Run a step type, or a function that could be one, once, in this thread, as a step with this input would. It knows
    nothing of earlier calls: only a run sees to it that nothing is written twice.

    The input is checked and converted, and what is given is brought into shape, as in a run. ``secrets`` are the values
    of ``$env``; every text in them is secret. An isolated type runs in this process, so that a debugger reaches it; a
    step that asks for its children, or for anything else of ``call.engine``, needs ``run_workflow``. Raises the
    ``StepFailed`` that the step failed with; ``AssertionError`` for an output that is not what the type promises.
    """
    found = step if isinstance(step, StepType) else step_type("test.function")(step)
    given = _checked_input(found, input or {})
    clock = clock or FrozenClock()
    data = MemoryStore(clock).data if store is None else store
    vault = _vaults(secrets, connections).of(idempotency_key, None)
    vault.meet(given)
    lines: list[LogLine] = []

    def net() -> Net:
        return vault.net_of(given)

    def log(level: str, message: str, data: Json = None) -> None:
        level, message, data = checked_line(level, message, data)
        said, number = net().mask(message), len(lines) + 1
        lines.append(LogLine("test-execution", clock.now(), level, said, "step", net().shown(data), number))

    def refuse(what: str, value: Json) -> None:
        refuse_secret(vault, net(), what, value)

    call = StepCall(
        step_id="step",
        path="step",
        execution_id="test-execution",
        attempt=attempt,
        idempotency_key=idempotency_key,
        store=GuardedStore(data, refuse),
        clock=clock,
        log=log,
        cancelled=cancelled or threading.Event(),
        deadline=None if timeout_seconds is None else clock.monotonic() + timeout_seconds,
        secrets=vault,
        engine=cast(Engine, _NoEngine(found.name)),
    )
    outcome = _outcome(found, call, given, net)
    return StepResult(cast(Mapping[str, Any], outcome.output), outcome, lines, data)


def run_workflow(
    document: Mapping[str, Any] | str | Path,
    initial: Mapping[str, Any] | None = None,
    *,
    steps: Sequence[StepType | str] = (),
    secrets: Mapping[str, Json] | None = None,
    connections: Mapping[str, JsonObject] | None = None,
    store: MemoryStore | None = None,
    clock: Clock | None = None,
) -> WorkflowResult:
    """Run a document (an object, JSON text, or a file) to its end. Waits take no time.

    ``steps`` are step types, and files or modules of them, besides those that are installed; a step type stands in for
    an installed one of its name. ``secrets`` are the values of ``$env``, whatever environment the workflow names; every
    text in them is secret. A run that fails is a result; ``WorkflowInvalid`` is raised for a document that is wrong.
    """
    clock = clock or FrozenClock()
    held = MemoryStore(clock) if store is None else store
    registry = Registry.installed([source for source in steps if isinstance(source, str)])
    registry = registry.under([one for one in steps if isinstance(one, StepType)])
    with Flo(held, registry, clock, vaults=_vaults(secrets, connections)) as engine:
        result = engine.run(engine.load(document), initial)
        return WorkflowResult(
            status=result.state.value,
            success=result.success,
            output=result.output,
            error=result.error,
            steps=whole_object(result.steps),
            logs=engine.executions.lines(result.execution_id, limit=1_000_000),
            store=held.data,
        )


def _checked_input(found: StepType, input: Mapping[str, Any]) -> JsonObject:
    """The input as a step would be given it. Raises ``StepFailed``."""
    given = plain(input, ("input",))
    assert isinstance(given, dict)
    if wrong := against(validator(found.schema), given):
        said = "; ".join(f"{place_under('input', place_text(each.place))}: {each.message}" for each in wrong)
        raise StepFailed(said, code="invalid_input", retryable=False)
    return given


def _outcome(found: StepType, call: StepCall, given: JsonObject, net: Callable[[], Net]) -> Outcome:
    """Run the body, and bring what it gives, or fails with, into shape."""
    try:
        made = found.body(call, given)
    except RunReturned as returned:
        made = returned.output
    except StepFailed as error:
        message, code = net().mask(error.message), net().mask(error.code)
        if (message, code) == (error.message, error.code):
            raise
        raise StepFailed(
            message, code=code, retryable=error.retryable, retry_after=error.retry_after
        ) from None  # what caused it would show the secret
    except (RunCancelled, NotInARun):
        raise
    except StoreError as error:
        raise StepFailed(net().mask(str(error)), code="store_error") from error
    except (Exception, SystemExit) as error:
        raise StepFailed(net().mask(worded(error)), code="step_error") from error
    outcome = made if isinstance(made, Outcome) else Outcome(made)
    output = plain(outcome.output, ("output",))
    if not isinstance(output, dict):
        what = f"{found.name} gave {kind_of(outcome.output)}, a step gives an object"
        raise StepFailed(what, code="invalid_output", retryable=False)
    if wrong := against(validator(found.output_schema), output):
        said = "; ".join(f"{place_under('output', place_text(each.place))}: {each.message}" for each in wrong)
        raise AssertionError(f"{found.name} does not give what its output schema promises: {net().mask(said)}")
    mask = net().mask
    return replace(
        outcome,
        output=cast(JsonObject, net().catch(output)),
        operational_errors=tuple(map(mask, outcome.operational_errors)),
        warnings=tuple(map(mask, outcome.warnings)),
    )


def _vaults(secrets: Mapping[str, Json] | None, connections: Mapping[str, JsonObject] | None) -> Vaults:
    env = {name: marked(value) for name, value in (secrets or {}).items()}
    settings = NoSettings(env, {name: as_connection(value) for name, value in (connections or {}).items()})
    return Vaults(lambda name: settings)


class _NoEngine:
    """Stands where the engine is in a run."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, asked: str) -> NoReturn:
        raise NotInARun(f"{self._name} asks for call.engine.{asked}, which only a run has: test it with run_workflow")
