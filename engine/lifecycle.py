"""One run from its record to its result: started, watched from outside, brought to a final state."""

from __future__ import annotations

import contextvars
import threading
import time
from dataclasses import dataclass, replace

from flo.engine.cancellation import Cancellation
from flo.engine.clock import Clock
from flo.engine.ending import write_end
from flo.engine.errors import Problem, RunCancelled, StepFailed, StoreError
from flo.engine.events import Bus, ExecutionEnded, ExecutionStarted
from flo.engine.executions import Execution, ExecutionState
from flo.engine.housekeeping import Sweeper
from flo.engine.interpreter import Interpreter
from flo.engine.language.workflow import Workflow
from flo.engine.pipeline import MAX_ERROR, ChildFailed
from flo.engine.recorder import Recorder
from flo.engine.renewal import Renewer
from flo.engine.run import Frame, Run, root_scope
from flo.engine.stores.base import Store
from flo.engine.values import Json, JsonObject, new_id

WATCH_SECONDS = 0.05
"""How often the watching thread looks whether the run was asked to stop."""

TIMEOUT_GRACE_SECONDS = 0.5
"""A run past its timeout is given so long to end by itself; then what still hangs is given up."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. ``steps`` has for each step outside a loop, by its id, ``stepType status output error attempts
    durationMilliseconds``; the results of loops in it are read from the store when something refers to them. ``output``
    is plain JSON."""

    execution_id: str
    workflow: str | None
    state: ExecutionState
    output: Json
    steps: JsonObject
    error: JsonObject | None
    duration_ms: float

    @property
    def success(self) -> bool:
        """Whether the run came to its end, failures that were tolerated included."""
        return self.state in (ExecutionState.SUCCESS, ExecutionState.COMPLETED_WITH_ERRORS)

    def as_json(self) -> JsonObject:
        """``executionId workflow status success output steps error durationMilliseconds``."""
        return {
            "executionId": self.execution_id,
            "workflow": self.workflow,
            "status": self.state.value,
            "success": self.success,
            "output": self.output,
            "steps": self.steps,
            "error": self.error,
            "durationMilliseconds": round(self.duration_ms, 3),
        }


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs workflows in this process, each as an execution in the store."""

    store: Store
    interpreter: Interpreter
    clock: Clock
    bus: Bus
    renewer: Renewer
    sweeper: Sweeper
    grace_seconds: float = 10.0

    def run(
        self,
        workflow: Workflow,
        version: int | None,
        initial: JsonObject,
        *,
        cancelled: threading.Event | None = None,
        timeout_ms: float | None = None,
    ) -> RunResult:
        """Run ``workflow`` to its end. After ``cancelled`` is set nothing new starts; steps under way have the grace
        period to end, then they are given up. Raises ``StoreError`` where the end cannot be recorded."""
        run = self._start(workflow, version, initial)
        cancellation = Cancellation()
        body = _Body(self.interpreter, Frame(run, run.scope, cancellation))
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(body.work,), name="flo-run", daemon=True).start()
        try:
            _watch(body.done, cancellation, cancelled or threading.Event(), timeout_ms, self.grace_seconds)
        except BaseException:  # an interrupt of the waiting thread: what runs is stopped, and its end recorded
            cancellation.cancel()
            body.done.wait(self.grace_seconds)
            self._finish(run, body, cancellation)
            raise
        return self._finish(run, body, cancellation)

    def reject(
        self, workflow: Workflow, version: int | None, initial: JsonObject, problems: tuple[Problem, ...]
    ) -> RunResult:
        """Record that ``initial`` does not fit the workflow's input schema; nothing runs."""
        execution = self._record(workflow, version, initial, ExecutionState.PENDING)
        error: JsonObject = {
            "code": "invalid_input",
            "message": "the input does not fit inputSchema: " + "; ".join(str(problem) for problem in problems),
        }
        self.store.executions.move(execution.id, ExecutionState.REJECTED, error=error)
        return RunResult(execution.id, workflow.name, ExecutionState.REJECTED, None, {}, error, 0.0)

    def _record(self, workflow: Workflow, version: int | None, initial: JsonObject, state: ExecutionState) -> Execution:
        now = self.store.data.now()
        execution = Execution(
            id=new_id(),
            workflow=workflow.name,
            version=version,
            digest=workflow.digest,
            definition=workflow.text,
            input=initial,
            state=state,
            created_at=now,
            started_at=now if state is ExecutionState.RUNNING else None,
        )
        self.store.executions.create(execution)
        return execution

    def _start(self, workflow: Workflow, version: int | None, initial: JsonObject) -> Run:
        execution = self._record(workflow, version, initial, ExecutionState.RUNNING)
        errors: list[Json] = []
        run = Run(
            execution=execution,
            workflow=workflow,
            data=self.store.data,
            clock=self.clock,
            bus=self.bus,
            recorder=Recorder(self.store.executions, self.clock),
            renewer=self.renewer,
            scope=root_scope(execution, initial, {}, errors, self.clock),
            errors=errors,
        )
        self.bus.announce(ExecutionStarted(execution))
        return run

    def _finish(self, run: Run, body: _Body, cancellation: Cancellation) -> RunResult:
        """Record how the run ended. What a step that was given up does later finds the recorder sealed.

        The final state is written also where the records of the steps cannot be, a full disk for one.
        """
        self.renewer.let_go(run.execution.id)
        lost: StoreError | None = body.raised if isinstance(body.raised, StoreError) else None
        try:
            run.recorder.flush()
        except StoreError as unrecorded:
            lost = lost or unrecorded
        run.recorder.seal()
        state, error = _verdict(run, lost or body.raised, body, cancellation)
        write_end(self.store.executions, self.clock, run.execution.id, state, output=body.output, error=error)
        execution = replace(run.execution, state=state, output=body.output, error=error)
        duration = (self.clock.monotonic() - body.started) * 1000
        self.bus.announce(ExecutionEnded(execution, duration))
        if lost is not None:
            raise lost
        self.sweeper.sweep()
        return RunResult(execution.id, run.workflow.name, state, body.output, _steps(run), error, duration)


class _Body:
    """The interpreter's work, in a thread that can be given up."""

    def __init__(self, interpreter: Interpreter, frame: Frame) -> None:
        self._interpreter, self._frame = interpreter, frame
        self.started = frame.run.clock.monotonic()
        self.done = threading.Event()
        self.output: JsonObject | None = None
        self.raised: BaseException | None = None

    def work(self) -> None:
        try:
            self.output = self._interpreter.run(self._frame)
        except BaseException as error:  # the watching thread gives the verdict
            self.raised = error
        finally:
            self.done.set()


def _watch(
    done: threading.Event,
    cancellation: Cancellation,
    cancelled: threading.Event,
    timeout_ms: float | None,
    grace_seconds: float,
) -> None:
    """Wait for the run to end, and stop it when it is asked to or its time is over.

    Timeouts go by the machine's own time, so that a clock which is held still cannot keep a hanging run alive.
    """
    deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    while not done.wait(WATCH_SECONDS):
        if cancelled.is_set():
            cancellation.cancel("cancelled")
            done.wait(grace_seconds)
            return
        if deadline is not None and time.monotonic() >= deadline:
            cancellation.cancel("timed_out")
            done.wait(TIMEOUT_GRACE_SECONDS)
            return


def _verdict(
    run: Run, raised: BaseException | None, body: _Body, cancellation: Cancellation
) -> tuple[ExecutionState, JsonObject | None]:
    """The final state, and the error that goes with it. A run that came to its end before it could be stopped has
    ended."""
    match raised:
        case None if body.done.is_set():
            tolerated = run.tolerated > 0
            return (ExecutionState.COMPLETED_WITH_ERRORS if tolerated else ExecutionState.SUCCESS), None
        case None | RunCancelled():
            if cancellation.reason == "timed_out":
                return ExecutionState.TIMED_OUT, {"code": "timeout", "message": "the run is over its timeout"}
            return ExecutionState.CANCELLED, {"code": "cancelled", "message": "the run was cancelled"}
        case ChildFailed() as failed:
            return ExecutionState.FAILED, failed.failure.as_json()
        case StepFailed() as failed:
            return ExecutionState.FAILED, {"code": failed.code, "message": failed.message[:MAX_ERROR]}
        case error:
            code = "store_error" if isinstance(error, StoreError) else "internal_error"
            return ExecutionState.FAILED, {"code": code, "message": f"{type(error).__name__}: {error}"[:MAX_ERROR]}


def _steps(run: Run) -> JsonObject:
    return {
        step_id: {
            "stepType": record.step_type,
            "status": record.state.value,
            "output": run.scope.names.get(step_id),
            "error": record.error,
            "attempts": record.attempts,
            "durationMilliseconds": round(record.duration_ms, 3),
        }
        for step_id, record in tuple(run.ended.items())
    }
