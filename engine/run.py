"""One execution while it runs: what its steps share, and where in it a list of steps stands."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime

from flo.engine.cancellation import Cancellation
from flo.engine.clock import Clock
from flo.engine.errors import TemplateFailed
from flo.engine.events import Bus, LineLogged, StepEnded
from flo.engine.executions import Execution, LogLine, StepRecord
from flo.engine.instants import write_instant
from flo.engine.language.scope import Fresh, Missing, OnMissing, Scope
from flo.engine.language.workflow import Workflow
from flo.engine.recorder import MAX_MESSAGE, Recorder
from flo.engine.renewal import Renewer
from flo.engine.step import Failure
from flo.engine.stores.base import DataStore
from flo.engine.values import Json, JsonObject, new_id

MAX_ERRORS = 1_000
"""``$errors`` keeps so many failures of a run, the first ones."""


@dataclass(slots=True)
class Run:
    """What the steps of one execution share. ``ended`` has how each step outside a loop ended, by stepId, in that
    order."""

    execution: Execution
    workflow: Workflow
    data: DataStore
    clock: Clock
    bus: Bus
    recorder: Recorder
    renewer: Renewer
    scope: Scope
    errors: list[Json]
    tolerated: int = 0
    ended: dict[str, StepRecord] = field(default_factory=dict)
    _warned: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def log(self, level: str, message: str, data: Json = None, step: str | None = None) -> None:
        """Write a line to the execution's log; a message past 64 Ki characters is cut, and says so."""
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}… ({len(message)} characters)"
        line = LogLine(self.execution.id, self.clock.now(), level, message, step, data)
        self.recorder.line(line)
        self.bus.announce(LineLogged(line))

    def ended_step(self, record: StepRecord, characters: int) -> None:
        """Take note of how a step, or an iteration, ended. A loop's results lie in the records of its iterations."""
        if record.path == record.step_id and record.index is None:
            self.ended[record.step_id] = record
        self.recorder.step(record, characters)
        self.bus.announce(StepEnded(record))

    def failed(self, failure: Failure) -> None:
        """Add a failure to ``$errors``."""
        with self._lock:
            if len(self.errors) < MAX_ERRORS:
                self.errors.append(failure.as_json())

    def tolerate(self) -> None:
        """A failure was tolerated: the run will end ``completed_with_errors``."""
        with self._lock:
            self.tolerated += 1

    def set_variables(self, pairs: JsonObject) -> None:
        """Merge into ``$vars``. Who reads it meanwhile sees it before or after, never between."""
        with self._lock:
            held = self.scope.names["$vars"]
            assert isinstance(held, dict)
            self.scope.names["$vars"] = {**held, **pairs}

    def on_missing(self, place: str, step_id: str) -> OnMissing:
        """What a missing value does in the template at ``place``: one warning, or a failure where the workflow is
        strict."""
        if self.workflow.options.strict:
            return refuse_missing(place)

        def told(missing: Missing) -> None:
            with self._lock:
                known = (step_id, missing.path) in self._warned
                self._warned.add((step_id, missing.path))
            if not known:
                message = f"{place}: {missing.path!r} is missing, null is used{missing.hint}"
                self.log("warn", message, step=step_id)

        return told


def refuse_missing(place: str) -> OnMissing:
    """What a missing value does where it is never tolerated: it fails, and names the nearest key that is there."""

    def told(missing: Missing) -> None:
        raise TemplateFailed(f"{missing.path!r} is missing{missing.hint}", place=place)

    return told


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a list of steps runs. ``prefix`` begins the paths of its steps: nothing, or ``process-each[3].`` in a
    loop."""

    run: Run
    scope: Scope
    cancellation: Cancellation
    prefix: str = ""

    def path(self, step_id: str) -> str:
        return self.prefix + step_id

    def under(self, cancellation: Cancellation) -> Frame:
        """The same place under another request to stop."""
        return self if cancellation is self.cancellation else replace(self, cancellation=cancellation)


def root_scope(
    execution: Execution, initial: JsonObject, environment: JsonObject, errors: list[Json], clock: Clock
) -> Scope:
    """The scope that every expression of a run can see: its roots, before any step has ended."""
    started = execution.started_at or execution.created_at
    return Scope(
        {
            "initial": initial,
            "$vars": {},
            "$env": environment,
            "$connections": {},
            "$errors": errors,
            "$util": utilities(clock),
            "$execution": {
                "id": execution.id,
                "workflow": execution.workflow,
                "version": execution.version,
                "startedAt": write_instant(started),
                "attempt": execution.attempt,
                "trigger": execution.trigger,
            },
        }
    )


def utilities(clock: Clock) -> Fresh:
    """``$util``: a fresh value at each reference. ``timestamp`` is in milliseconds since 1970."""

    def now() -> datetime:
        return clock.now()

    return Fresh(
        {
            "uuid": new_id,
            "now": lambda: write_instant(now()),
            "timestamp": lambda: int(now().timestamp() * 1000),
            "today": lambda: now().date().isoformat(),
            "emptyArray": list,
            "emptyObject": dict,
        }
    )
