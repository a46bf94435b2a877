"""What people do to executions: cancel, resume, replay, answer, and remove old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from flo.engine.comparison import identical
from flo.engine.errors import IllegalState, InputInvalid, NotFound
from flo.engine.executions import Execution
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.jobs import Enqueued, Request, Wait
from flo.engine.requests import Requests
from flo.engine.stores.store import Store
from flo.engine.values import Json, JsonObject, plain


@frozen
class Operations:
    """Acts on executions of one store. Ids may be prefixes that only one execution has."""

    store: Store
    requests: Requests

    def find(self, execution_id: str) -> Execution:
        """One execution. Raises ``NotFound`` that names the nearest."""
        found = self.store.executions.get(execution_id)
        if found is None:
            raise NotFound("execution", execution_id, (held.id for held in self.store.executions.list()))
        return found

    def cancel(self, execution_id: str) -> Sequence[str]:
        """Cancel an execution and all that it started; gives the ids of what was cancelled. Raises ``IllegalMove``
        where it has ended."""
        return self.store.executions.cancel(self.find(execution_id).id)

    def resume(self, execution_id: str, initial: JsonObject | None = None) -> Execution:
        """Let a failed execution go on from the failed step: ``pending`` again, with the definition it started with.
        Raises ``InputInvalid`` where another input is given, ``IllegalMove`` where it did not fail."""
        found = self.find(execution_id)
        if initial is not None and not identical({**found.input, **initial}, found.input):
            raise InputInvalid(
                f"execution {found.id}",
                "it goes on with the input that it started with; for another input start a new one",
            )
        return self.store.executions.resume(found.id)

    def replay(self, execution_id: str) -> Enqueued:
        """Enqueue an execution anew, with the same input, in the same queue. Raises ``IllegalState`` for one that no
        queue delivers."""
        found = self.find(execution_id)
        if found.queue is None:
            raise IllegalState(f"execution {found.id} came from no queue: it is replayed where it is called")
        return self.store.queue.enqueue([self.requests.vaults.stored(self.again(found))])[0]

    def replay_dead(self, execution_id: str) -> Enqueued:
        """Enqueue a dead letter anew, once. Raises ``NotFound`` where it is none."""
        found = self.find(execution_id)
        return self.store.executions.replay_dead(found.id, self.requests.vaults.stored(self.again(found)))

    def again(self, execution: Execution) -> Request:
        """The request for the same once more: the newest version of a stored workflow, else the definition that the
        execution kept; its priority and concurrency key, but neither its time nor its idempotency key."""
        request = Request(
            definition=execution.definition,
            digest=execution.digest,
            input=cast(JsonObject, self.requests.vaults.opened(execution.input, execution.id)),
            workflow=execution.workflow,
            version=execution.version,
            handler=execution.handler,
            queue=execution.queue,
            priority=execution.priority,
            concurrency_key=execution.concurrency_key,
            concurrency_limit=execution.concurrency_limit,
            trigger="replay",
            replay_of=execution.id,
            environment=execution.environment,
            environment_chosen=execution.environment_chosen,
        )
        stored = self.requests.newest(execution.workflow) if execution.version is not None else None
        if stored is None:
            return request
        workflow = self.requests.compiled(stored.document, stored.digest, f"workflow {stored.name!r}")
        chosen = execution.environment if execution.environment_chosen else None
        newest = self.requests.of_workflow(workflow, stored.version, request.input, None, chosen, execution.environment)
        return replace(
            request,
            definition=newest.definition,
            digest=newest.digest,
            version=newest.version,
            concurrency_key=newest.concurrency_key or execution.concurrency_key,
            concurrency_limit=newest.concurrency_limit or execution.concurrency_limit,
            when_full=newest.when_full,
            environment=newest.environment,
        )

    def signal(self, execution_id: str, name: str, payload: JsonObject | None = None) -> None:
        """Leave a signal for an execution. Raises ``IllegalMove`` where it has ended."""
        given = plain(payload or {}, ("payload",))
        assert isinstance(given, dict)
        self.store.executions.signal(self.find(execution_id).id, name, given)

    def approve(
        self,
        execution_id: str,
        *,
        actor: str,
        approved: bool = True,
        reason: str | None = None,
        path: str | None = None,
    ) -> Wait:
        """Decide an approval that an execution waits for: the one at the step ``path``, or the only one. Gives it with
        the decision. Raises ``NotFound`` where none waits, ``InputInvalid`` where several do and ``path`` names none,
        or ``actor`` is not one of its approvers."""
        found = self.find(execution_id)
        open_ = [
            wait for wait in self.store.executions.waits(found.id) if wait.kind == "approval" and wait.answer is None
        ]
        wanted = [wait for wait in open_ if path in (None, wait.path)]
        if not wanted:
            raise NotFound("open approval", path or found.id, (wait.path for wait in open_))
        if len(wanted) > 1:
            names = ", ".join(repr(wait.path) for wait in wanted)
            raise InputInvalid(f"execution {found.id}", f"several steps wait for an approval, name one of {names}")
        wait = wanted[0]
        approvers = wait.details.get("approvers")
        if isinstance(approvers, Sequence) and actor not in approvers:
            names = ", ".join(repr(name) for name in approvers)
            raise InputInvalid(f"step {wait.path!r}", f"{actor!r} may not decide here, but {names} may")
        decision: Mapping[str, Json] = {
            "approved": approved,
            "actor": actor,
            "reason": reason,
            "at": write_instant(self.store.data.now()),
        }
        self.store.executions.decide(found.id, wait.path, decision)
        return replace(wait, answer=decision)
