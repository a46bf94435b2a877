"""How an execution starts others: a workflow as a part of it, and jobs that go into a queue."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import timedelta
from typing import Final, Protocol

from flo.engine.cancellation import Cancellation
from flo.engine.delivered import Delivered
from flo.engine.errors import FloError, InputInvalid, RunCancelled, StepFailed, StoreError
from flo.engine.executions import Execution, ExecutionState
from flo.engine.frozen import frozen
from flo.engine.jobs import MAX_DEPTH, Delivery, Ended, Enqueued, JobOptions, Parked, Request
from flo.engine.language.workflow import Workflow
from flo.engine.patience import patiently
from flo.engine.requests import Requests, misfit
from flo.engine.run import Frame
from flo.engine.step import Suspended
from flo.engine.stores.queueing import Owned, QueueStore
from flo.engine.values import Json, JsonObject

_DONE: Final = (ExecutionState.SUCCESS, ExecutionState.COMPLETED_WITH_ERRORS)
_ENQUEUED: Final = "enqueue"


class Work(Protocol):
    """Works on a delivery, and gives how that ended."""

    def __call__(
        self,
        delivery: Delivery,
        cancellation: Cancellation,
        *,
        workflow: Workflow | None = ...,
        initial: JsonObject | None = ...,
    ) -> Delivered: ...


@frozen
class Children:
    """What one run starts. A child at a step that is tried again is another one."""

    queue: QueueStore
    requests: Requests
    work: Work
    lease: timedelta
    _failed: dict[str, int] = field(default_factory=dict)
    """How often a child at a step has failed, by its path."""

    def run_child(self, frame: Frame, path: str, target: str | JsonObject, initial: JsonObject) -> JsonObject:
        """Run a workflow as the child at the step ``path``; gives what it returned. Raises ``StepFailed`` as the child
        failed, ``Suspended`` while it waits."""
        execution = frame.run.execution
        if execution.depth >= MAX_DEPTH:
            raise StepFailed(self._too_deep(frame, target), code="too_deep", retryable=False)
        clock = frame.run.clock
        request = patiently(clock, "read a workflow", lambda doubt: self._request(frame, target, initial))
        tries = self._failed.get(path, 0)
        at = path if not tries else f"{path}#{tries + 1}"
        request = replace(request, parent_id=execution.id, parent_path=at, trigger="sub-workflow")
        kept, vault = self.requests.vaults.stored(request), frame.run.vault
        frame.strand.flush()
        hold = frame.run.journal.hold
        adopted = patiently(  # a child that an earlier try made is taken over
            clock, "start a workflow", lambda doubt: self.queue.adopt(hold, kept, lease=self.lease)
        )
        if isinstance(adopted, Execution):
            return self._result(path, adopted, vault.open(adopted.output, of=adopted.id))
        child = adopted.execution
        said = f"runs {_name(child)} as execution {child.id} (digest {child.digest[:12]})"
        frame.log("debug", said, step=path)
        cancellation = frame.cancellation.inner()
        try:
            given = request.input
            if child.id != request.id:  # one that was begun before goes on with what it was given then
                given = self.requests.vaults.filled(child.input, child.id, given)
            delivered = self.work(adopted, cancellation, initial=given)
        finally:
            frame.cancellation.release(cancellation)
        if isinstance(delivered.conclusion, Parked):
            raise Suspended(delivered.conclusion.until)
        if delivered.execution is None or not isinstance(delivered.conclusion, Ended):
            frame.cancellation.check()
            raise delivered.lost or RunCancelled("the child was stopped")
        return self._result(path, delivered.execution, vault.meet(delivered.output))

    def enqueue(self, frame: Frame, path: str, target: str, initial: JsonObject, options: JobOptions) -> Enqueued:
        """Put a job into a queue, once for the step ``path``."""
        execution = frame.run.execution
        if execution.depth >= MAX_DEPTH:
            raise StepFailed(self._too_deep(frame, target), code="too_deep", retryable=False)
        request = patiently(
            frame.run.clock, "read a workflow", lambda doubt: self._job(frame, target, initial, options)
        )
        request = replace(request, parent_id=execution.id, parent_path=path, trigger="workflow")

        def put(owned: Owned) -> Enqueued:
            if (kept := owned.effect(path, _ENQUEUED, 0)) is not None:
                return Enqueued(str(kept["executionId"]), bool(kept["created"]), ExecutionState(str(kept["status"])))
            enqueued = owned.enqueue([request])[0]
            owned.keep_effect(path, _ENQUEUED, 0, enqueued.as_json())
            return enqueued

        try:
            return frame.strand.own(put, exclusive=True)
        except StepFailed:
            raise
        except FloError as error:
            if error.exit_code != FloError.exit_code:  # the store, or the claim
                raise
            raise StepFailed(str(error), code="invalid_input", retryable=False) from error

    def _request(self, frame: Frame, target: str | JsonObject, initial: JsonObject) -> Request:
        """The request for a child. The version is the newest when it is called."""
        try:
            if isinstance(target, str):
                stored = self.requests.stored(target)
                workflow = self.requests.compiled(stored.document, stored.digest, f"workflow {stored.name!r}")
                version: int | None = stored.version
            else:
                workflow, version = self.requests.inline(target), None
            request = self.requests.of_workflow(workflow, version, initial, None, *_environments(frame))
        except StoreError:
            raise
        except FloError as error:
            raise StepFailed(str(error), code="invalid_workflow", retryable=False) from error
        if said := misfit(workflow, request.input):
            raise StepFailed(said, code="invalid_input", retryable=False)
        return request

    def _job(self, frame: Frame, target: str, initial: JsonObject, options: JobOptions) -> Request:
        try:
            if frame.run.vault.holds_secret([options.queue, options.key, options.concurrency_key]):
                raise InputInvalid("queue, key and concurrencyKey", "they are stored to be read, and one is a secret")
            found = self.requests.find(target, options.kind)
            chosen, inherited = _environments(frame)
            chosen = options.environment or chosen
            options = replace(options, environment=chosen, inherited_environment=inherited)
            if isinstance(found, str):
                request = self.requests.of_handler(found, initial, options)
            else:
                request = self.requests.of_document(*found, initial, options)
            return self.requests.vaults.stored(request)
        except StoreError:
            raise
        except FloError as error:
            raise StepFailed(str(error), code="invalid_input", retryable=False) from error

    def _result(self, path: str, child: Execution, output: Json) -> JsonObject:
        if child.state in _DONE:
            return output if isinstance(output, dict) else {}
        self._failed[path] = self._failed.get(path, 0) + 1
        error: JsonObject = child.error or {}
        why = error.get("message", "no reason is kept")
        message = f"{_name(child)} (execution {child.id}) ended {child.state}: {why}"
        raise StepFailed(message, code=str(error.get("code", child.state.value)))

    def _too_deep(self, frame: Frame, target: str | JsonObject) -> str:
        """The message for one call too many, with the chain that led to it."""
        chain: list[str] = [target if isinstance(target, str) else "a workflow"]
        held: Execution | None = frame.run.execution
        while held is not None and len(chain) <= MAX_DEPTH + 1:
            chain.append(_name(held))
            held = None if held.parent_id is None else frame.run.past.get(held.parent_id)
        return f"executions call executions {MAX_DEPTH} deep, which is the limit: {' > '.join(reversed(chain))}"


def _environments(frame: Frame) -> tuple[str | None, str | None]:
    """Where something runs that this run starts: where who started this one said; and where it runs if its own workflow
    does not say, which is where this one does."""
    execution = frame.run.execution
    runs_in = execution.environment or frame.run.workflow.environment
    return (execution.environment if execution.environment_chosen else None), runs_in


def _name(execution: Execution) -> str:
    name = execution.workflow or execution.handler or "a workflow"
    return name if execution.version is None else f"{name} version {execution.version}"
