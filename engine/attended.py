"""Runs executions that no queue delivers, in this process, for somebody who waits for their end."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from typing import Final

from flo.engine.cancellation import Cancellation
from flo.engine.delivered import Delivered
from flo.engine.errors import IllegalState, NotFound, StoreError
from flo.engine.events import ExecutionWaits
from flo.engine.executions import Execution, ExecutionState, IllegalMove
from flo.engine.frozen import frozen
from flo.engine.housekeeping import Housekeeper
from flo.engine.jobs import Delivery, Hold, Parked, Request, owner_id
from flo.engine.language.workflow import Workflow
from flo.engine.lifecycle import Runner
from flo.engine.run import Run
from flo.engine.secrecy import shown_forms
from flo.engine.values import Json, JsonObject

WATCH_SECONDS: Final = 0.05
"""How often it is looked whether the run was asked to stop."""

_VALID_SECONDS: Final = 0.5
"""How often it is looked whether the run was cancelled, or taken over, from elsewhere."""

_WAIT_SECONDS: Final = 0.5
"""How often it is looked whether a run that waits can go on."""


@frozen
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


@frozen
class Attendant:
    """Starts executions and stays with them to their end, through every wait."""

    runner: Runner
    housekeeper: Housekeeper
    worker: str = field(default_factory=owner_id)

    def run(
        self,
        request: Request,
        workflow: Workflow,
        *,
        cancelled: threading.Event | None = None,
        timeout_ms: float | None = None,
    ) -> RunResult:
        """Run a request to its end. Where its concurrency key is full it waits for its turn, or is rejected.

        After ``cancelled`` is set nothing new starts; steps under way have the grace period to end, then they are
        given up. Raises ``StoreError`` where the end cannot be recorded, ``LeaseLost`` where another process has the
        execution now.
        """
        stop = cancelled or threading.Event()
        queue, clock = self.runner.store.queue, self.runner.clock
        deadline = _deadline(timeout_ms)
        if timeout_ms is not None:  # it holds while the run is suspended, too, and outlives this process
            request = replace(request, deadline=self.runner.store.data.now() + timedelta(milliseconds=timeout_ms))
        kept = self.runner.requests.vaults.stored(request)
        while (started := queue.start(kept, worker=self.worker, lease=self.runner.lease)) is None:
            if clock.wait(stop, _WAIT_SECONDS) or _over(deadline):
                return self._never_started(request, timed_out=not stop.is_set())
        if isinstance(started, Execution):
            return _result(started, None, 0.0)
        return self._attend(started, workflow, stop, deadline, initial=request.input)

    def go_on(
        self, execution_id: str, *, cancelled: threading.Event | None = None, timeout_ms: float | None = None
    ) -> RunResult:
        """Run an execution that waits to go on: it was resumed, it was suspended, or its process is gone. Raises
        ``NotFound``, and ``IllegalState`` where it cannot be had."""
        held = self.runner.store.executions.get(execution_id)
        if held is None:
            raise NotFound("execution", execution_id)
        workflow = self.runner.requests.definition(held)  # what cannot run here is not taken
        delivery = self.runner.store.queue.take(execution_id, worker=self.worker, lease=self.runner.lease)
        if delivery is None:
            raise IllegalState(f"execution {execution_id} is {held.state}, and cannot go on here now")
        return self._attend(delivery, workflow, cancelled or threading.Event(), _deadline(timeout_ms))

    def _attend(
        self,
        delivery: Delivery,
        workflow: Workflow,
        stop: threading.Event,
        deadline: float | None,
        initial: JsonObject | None = None,
    ) -> RunResult:
        begun = self.runner.clock.monotonic()
        while True:
            left = None if deadline is None else max((deadline - time.monotonic()) * 1000, 1.0)
            delivered = self.runner.work(
                delivery,
                Cancellation(),
                workflow=workflow,
                timeout_ms=left,
                look=_Look(self.runner, stop),
                initial=initial,
            )
            if not isinstance(delivered.conclusion, Parked):
                break
            again = self._wait(delivery.execution.id, stop, deadline)
            if isinstance(again, Execution):
                return _result(again, delivered.run, (self.runner.clock.monotonic() - begun) * 1000)
            delivery = again
        return self._ended(delivery, delivered, (self.runner.clock.monotonic() - begun) * 1000)

    def _wait(self, execution_id: str, stop: threading.Event, deadline: float | None) -> Delivery | Execution:
        """Wait until a suspended execution can go on, or ends where it stands."""
        store, clock = self.runner.store, self.runner.clock
        waits = [wait for wait in store.executions.waits(execution_id) if wait.answer is None]
        self.runner.bus.announce(ExecutionWaits(execution_id, waits))
        at_most = _WAIT_SECONDS
        only_time = bool(waits) and all(wait.kind == "time" for wait in waits)
        while True:
            delivery = store.queue.take(execution_id, worker=self.worker, lease=self.runner.lease)
            if delivery is not None:
                return delivery
            held = store.executions.get(execution_id)
            if held is None:
                raise NotFound("execution", execution_id)
            if held.state.final:
                return held
            seconds, begun = at_most, time.monotonic()
            if held.due_at is not None:
                seconds = min(max((held.due_at - store.data.now()).total_seconds(), 0.0), seconds)
            if clock.wait(stop, seconds) or (_over(deadline) and held.deadline is None):
                with suppress(IllegalMove):  # it has ended meanwhile
                    store.executions.cancel(execution_id)
            elif _over(deadline):
                store.queue.bury()
            if only_time and time.monotonic() - begun < seconds / 2:  # a clock that waiting moves: a test's
                at_most *= 2

    def _ended(self, delivery: Delivery, delivered: Delivered, duration_ms: float) -> RunResult:
        execution, run = delivered.execution, delivered.run
        raised = delivered.raised
        if isinstance(raised, StoreError):
            raise raised
        if execution is None:
            execution = self.runner.store.executions.get(delivery.execution.id)
            if execution is None or not execution.state.final:
                assert delivered.lost is not None
                raise delivered.lost
        self.housekeeper.sweep()
        return _result(execution, run, duration_ms)

    def reject(self, request: Request, why: str) -> RunResult:
        """Record that an input does not fit the workflow's input schema; nothing runs."""
        request = self.runner.requests.vaults.stored(request)
        error: JsonObject = {"code": "invalid_input", "message": why}
        store = self.runner.store
        now = store.data.now()
        rejected = Execution(
            id=request.id,
            workflow=request.workflow,
            version=request.version,
            digest=request.digest,
            definition=request.definition,
            input=request.input,
            state=ExecutionState.REJECTED,
            created_at=now,
            finished_at=now,
            error=error,
            environment=request.environment,
            environment_chosen=request.environment_chosen,
        )
        store.executions.create(rejected)
        return _result(rejected, None, 0.0)

    def _never_started(self, request: Request, *, timed_out: bool) -> RunResult:
        """Its turn did not come: nothing is stored of it."""
        state = ExecutionState.TIMED_OUT if timed_out else ExecutionState.CANCELLED
        error: JsonObject = {
            "code": "timeout" if timed_out else "cancelled",
            "message": f"it waited for one of {request.concurrency_limit or 1} places under the concurrency key"
            f" {request.concurrency_key!r}, and was stopped before it began",
        }
        return RunResult(request.id, request.workflow, state, None, {}, error, 0.0)


class _Look:
    """Looks whether somebody wants a run to stop: here, or in another process."""

    def __init__(self, runner: Runner, stop: threading.Event) -> None:
        self._queue, self._stop = runner.store.queue, stop
        self._next = time.monotonic() + _VALID_SECONDS

    def __call__(self, hold: Hold, cancellation: Cancellation) -> float:
        if self._stop.is_set():
            cancellation.cancel("cancelled")
        elif (now := time.monotonic()) >= self._next:
            self._next = now + _VALID_SECONDS
            try:
                if not self._queue.valid([hold]):
                    cancellation.cancel("lost")
            except StoreError:  # the run's own writes tell, and wait for it
                pass
        return WATCH_SECONDS


def _deadline(timeout_ms: float | None) -> float | None:
    """By the machine's own time, whatever the clock says."""
    return None if timeout_ms is None else time.monotonic() + timeout_ms / 1000


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _result(execution: Execution, run: Run | None, duration_ms: float) -> RunResult:
    return RunResult(
        execution_id=execution.id,
        workflow=execution.workflow,
        state=execution.state,
        output=shown_forms(execution.output),
        steps={} if run is None else _steps(run),
        error=execution.error,
        duration_ms=duration_ms,
    )


def _steps(run: Run) -> JsonObject:
    return {
        step_id: {
            "stepType": record.step_type,
            "status": record.state.value,
            "output": run.vault.shown(run.scope.names.get(step_id)),
            "error": record.error,
            "attempts": record.attempts,
            "durationMilliseconds": round(record.duration_ms, 3),
        }
        for step_id, record in tuple(run.ended.items())
    }
