"""One delivery of an execution, from its claim to how that ends: started, watched from outside, concluded."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import cast

from flo.engine.body import GRACE_SECONDS, Body
from flo.engine.cancellation import Cancellation
from flo.engine.children import Children
from flo.engine.clock import Clock
from flo.engine.delivered import Delivered
from flo.engine.ending import conclude
from flo.engine.errors import FloError, NotFound, WorkflowInvalid
from flo.engine.events import Bus, ExecutionEnded, ExecutionStarted
from flo.engine.executions import Execution
from flo.engine.history import History
from flo.engine.interpreter import Interpreter
from flo.engine.jobs import LEASE, NOTHING, Again, Conclusion, Delivery, Ended, Hold, LeaseLost
from flo.engine.journal import Journal, Strand
from flo.engine.language.workflow import Workflow
from flo.engine.past import Past
from flo.engine.patience import patiently
from flo.engine.renewal import Renewer
from flo.engine.requests import Requests
from flo.engine.run import MAX_ERRORS, Frame, Isolation, Run, root_scope
from flo.engine.stores.store import Store
from flo.engine.values import Json, JsonObject
from flo.engine.vault import Vault
from flo.engine.verdict import unknown_handler, verdict

log = logging.getLogger("flo.lifecycle")

Look = Callable[[Hold, Cancellation], float | None]
"""Looks after a delivery now and then, and may stop it; gives the seconds until it wants to look again."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Works on deliveries in this process."""

    store: Store
    interpreter: Interpreter
    requests: Requests
    clock: Clock
    bus: Bus
    renewer: Renewer
    isolation: Isolation
    lease: timedelta = LEASE
    grace_seconds: float = GRACE_SECONDS

    def deliver(self, delivery: Delivery, cancellation: Cancellation) -> Execution | None:
        """Work on a delivery until its claim ends, and write how. Gives the execution as it stands then, None where
        the claim was lost. Raises ``StoreError`` where the end could not be written."""
        return self.work(delivery, cancellation).execution

    def work(
        self,
        delivery: Delivery,
        cancellation: Cancellation,
        *,
        workflow: Workflow | None = None,
        timeout_ms: float | None = None,
        look: Look | None = None,
        initial: JsonObject | None = None,
    ) -> Delivered:
        """As ``deliver``, and gives all there is to know. ``workflow`` is what the execution runs, where the caller
        has it; ``initial`` its input with the secrets in it, where the caller has that; ``timeout_ms`` bounds this
        delivery besides ``options.timeoutMilliseconds``; ``look`` watches it."""
        started = self.clock.monotonic()
        execution, hold = delivery.execution, delivery.hold
        self.renewer.hold(hold, self.lease)
        try:
            try:
                workflow = workflow or self.requests.definition(execution)
            except (WorkflowInvalid, NotFound) as unknown:
                return self._refused(delivery, unknown, started)
            run, frame = self._begin(delivery, workflow, cancellation, initial)
            body = Body(self.interpreter, frame)
            try:
                body.run(
                    timeout_seconds=self._timeout(execution, workflow, timeout_ms),
                    grace_seconds=self.grace_seconds,
                    look=None if look is None else partial(look, hold, cancellation),
                )
            except BaseException:
                self._finish(run, frame, body, started)
                raise
            return self._finish(run, frame, body, started)
        finally:
            self.renewer.drop(hold)

    def _begin(
        self, delivery: Delivery, workflow: Workflow, cancellation: Cancellation, initial: JsonObject | None
    ) -> tuple[Run, Frame]:
        execution, past = delivery.execution, Past(self.store.executions, self.clock)
        errors: list[Json] = []
        history = None
        if delivery.begun:
            history = History(past, execution.id, execution.attempt)
            failures = past.failures(execution.id, limit=MAX_ERRORS)
            errors = [held.error for held in failures if held.error is not None and held.error["path"] == held.path]
        journal = Journal(
            self.store.queue,
            delivery.hold,
            self.clock,
            last_line=delivery.last_line,
            on_lost=lambda lost: cancellation.cancel("lost"),
        )
        environment = execution.environment or workflow.environment
        vault = self.requests.vaults.of(execution.id, environment, begun=delivery.begun)
        given = vault.open(execution.input, of=execution.id) if initial is None else vault.meet(initial)
        variables = cast(JsonObject, vault.open(delivery.variables))
        run = Run(
            execution=execution,
            workflow=workflow,
            data=self.store.data,
            past=past,
            clock=self.clock,
            bus=self.bus,
            journal=journal,
            renewer=self.renewer,
            calls=Children(self.store.queue, self.requests, self.work, self.lease),
            vault=vault,
            isolation=self.isolation,
            scope=root_scope(execution, given, variables, vault.roots, errors, self.clock),
            errors=errors,
            tolerated=delivery.tolerated,
            again=delivery.begun,
        )
        frame = Frame(run, run.scope, cancellation, Strand(journal, run.state), history)
        self.bus.announce(ExecutionStarted(execution))
        if delivery.begun:
            level = "warn" if execution.expiries else "debug"
            lost = f", lost by {execution.expiries} workers" if execution.expiries else ""
            frame.log(level, f"goes on: attempt {execution.attempt}, delivery {execution.deliveries}{lost}")
        return run, frame

    def _timeout(self, execution: Execution, workflow: Workflow, timeout_ms: float | None) -> float | None:
        """Seconds that this delivery has, by its timeouts and by the deadline of its execution."""
        bounds = [milliseconds / 1000 for milliseconds in (timeout_ms, workflow.options.timeout_ms) if milliseconds]
        if execution.deadline is not None:
            now = patiently(self.clock, "read the clock", lambda doubt: self.store.data.now())
            bounds.append(max((execution.deadline - now).total_seconds(), 0.0))
        return min(bounds, default=None)

    def _finish(self, run: Run, frame: Frame, body: Body, started: float) -> Delivered:
        """Write how the claim ended, and the last records with it. What a step that was given up does later finds the
        journal sealed and its claim gone."""
        run.journal.seal()
        conclusion = verdict(
            run.execution,
            body.raised,
            done=body.done,
            output=run.vault.hide(body.output),
            tolerated=run.tolerated,
            reason=frame.cancellation.reason if frame.cancellation.event.is_set() else None,
            retry=self.requests.retry(run.execution, run.workflow),
            chance=random.random(),
        )
        conclusion = _masked(conclusion, run.vault)
        lost = body.raised if isinstance(body.raised, LeaseLost) else None
        execution: Execution | None = None
        if conclusion is not None:
            self.renewer.let_go(run.execution.id)
            try:
                if not isinstance(conclusion, Ended):
                    frame.strand.keep_decisions()
                entries = frame.strand.take(returned=body.done and body.raised is None)
                execution = conclude(self.store, self.clock, run.journal.hold, conclusion, entries, of=run.execution)
            except LeaseLost as gone:
                lost, conclusion = gone, None
        if conclusion is None:
            self.renewer.let_go(run.execution.id)
            log.warning("%s", lost or f"the claim on execution {run.execution.id} is lost")
        duration = (self.clock.monotonic() - started) * 1000
        if isinstance(conclusion, Ended) and execution is not None:
            self.requests.vaults.forget(execution.id)
            self.bus.announce(ExecutionEnded(replace(execution, output=conclusion.output), duration))
        return Delivered(execution, conclusion, run, duration, lost, body.raised, body.output)

    def _refused(self, delivery: Delivery, unknown: FloError, started: float) -> Delivered:
        """A worker that does not know a step type gives the execution back."""
        conclusion = unknown_handler(delivery.execution, unknown, random.random())
        log.warning("execution %s cannot run here: %s", delivery.execution.id, unknown)
        duration = (self.clock.monotonic() - started) * 1000
        try:
            execution = conclude(self.store, self.clock, delivery.hold, conclusion, NOTHING)
        except LeaseLost as lost:
            return Delivered(None, None, None, duration, lost)
        return Delivered(execution, conclusion, None, duration)


def _masked(conclusion: Conclusion | None, vault: Vault) -> Conclusion | None:
    """The same conclusion, its error as it may be shown."""
    if vault.active and isinstance(conclusion, Ended | Again) and conclusion.error is not None:
        return replace(conclusion, error=cast(JsonObject, vault.shown(conclusion.error)))
    return conclusion
