"""The engine's events as JSON objects: what ``flo run --events`` prints, a line each."""

from __future__ import annotations

import sys
import threading

from flo.engine.commands.output import abandon_stdout
from flo.engine.errors import FloError
from flo.engine.events import (
    ClaimEnded,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    ExecutionWaits,
    LineLogged,
    LoopAdvanced,
    StepEnded,
    StepRetried,
    StepStarted,
    TriggerFired,
)
from flo.engine.instants import write_instant
from flo.engine.secrecy import shown_forms
from flo.engine.values import JsonObject, dump


def as_json(event: Event) -> JsonObject:
    """One event, its name under ``event``."""
    match event:
        case ExecutionStarted(execution):
            return {
                "event": "executionStarted",
                "executionId": execution.id,
                "workflow": execution.workflow,
                "version": execution.version,
                "startedAt": None if execution.started_at is None else write_instant(execution.started_at),
            }
        case ExecutionEnded(execution, duration):
            return {
                "event": "executionEnded",
                "executionId": execution.id,
                "status": execution.state.value,
                "output": shown_forms(execution.output),
                "error": execution.error,
                "durationMilliseconds": round(duration, 3),
            }
        case ExecutionWaits(execution_id, waits):
            return {
                "event": "executionWaits",
                "executionId": execution_id,
                "waits": [wait.as_json() for wait in waits],
            }
        case ClaimEnded(execution, duration, lost):
            return {
                "event": "claimEnded",
                "executionId": execution.id,
                "status": "lost" if lost else execution.state.value,
                "error": execution.error,
                "durationMilliseconds": round(duration, 3),
            }
        case StepStarted(path, step_id, step_type):
            return {"event": "stepStarted", "path": path, "stepId": step_id, "stepType": step_type}
        case StepEnded(record):
            return {"event": "stepEnded", **record.as_json()}
        case StepRetried(path, attempt, delay, message):
            return {
                "event": "stepRetried",
                "path": path,
                "attempt": attempt,
                "delaySeconds": delay,
                "message": message,
            }
        case LoopAdvanced(path, done, total):
            return {"event": "loopAdvanced", "path": path, "done": done, "total": total}
        case LineLogged(line):
            told = {key: value for key, value in line.as_json().items() if key != "number"}  # the store gives it later
            return {"event": "lineLogged", **told}
        case TriggerFired(trigger, firing):
            return {"event": "triggerFired", "trigger": trigger.full_name, **firing.as_json()}


class EventPrinter:
    """Prints every event at once. A reader that goes away does not stop the run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stream = sys.stdout  # while steps run, theirs is another one
        self._failed: OSError | None = None

    def __call__(self, event: Event) -> None:
        with self._lock:
            if self._failed is not None:
                return
            try:
                self._stream.write(dump(as_json(event)) + "\n")
                self._stream.flush()
            except OSError as failed:
                self._failed = failed
                abandon_stdout(self._stream)

    def check(self) -> None:
        """Raise ``FloError`` if events were lost for another reason than that nobody reads them."""
        if self._failed is not None and not isinstance(self._failed, BrokenPipeError):
            raise FloError(f"standard output cannot be written: {self._failed.strerror}; events were lost")
