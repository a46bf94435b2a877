"""One delivery of an execution, from its claim to how that ends: started, watched from outside, concluded."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Protocol, cast

from flo.engine.body import GRACE_SECONDS, Body
from flo.engine.cancellation import Cancellation
from flo.engine.children import Children
from flo.engine.clock import Clock
from flo.engine.delivered import Delivered
from flo.engine.ending import conclude
from flo.engine.errors import FloError, NotFound, StoreError, WorkflowInvalid
from flo.engine.events import Bus, ExecutionEnded, ExecutionStarted
from flo.engine.executions import Execution
from flo.engine.finishing import Finisher
from flo.engine.frozen import frozen
from flo.engine.history import History
from flo.engine.interpreter import Interpreter
from flo.engine.jobs import LEASE, NOTHING, Again, Conclusion, Delivery, Ended, Ending, Entries, Hold, LeaseLost
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


class Told(Protocol):
    """Whoever gave a delivery to work on. Called from any thread; what it does is quick."""

    def ended(self, execution: Execution | None) -> None:
        """The claim has ended, and how is written: the execution as it stands then, None where the claim was lost."""

    def failed(self, error: BaseException) -> None:
        """How it ended cannot be written."""

    def given_up(self) -> None:
        """The work does not come to its end, though it was asked to: its thread may hang for ever. One of the others
        is called afterwards."""


@frozen
class _Task:
    """A delivery that is worked on, since ``started``."""

    hold: Hold
    run: Run
    frame: Frame
    body: Body
    started: float

    @property
    def lost(self) -> LeaseLost | None:
        """What said that the claim is lost, if the work came back with that."""
        return self.body.raised if isinstance(self.body.raised, LeaseLost) else None


@frozen
class Runner:
    """Works on deliveries in this process."""

    store: Store
    interpreter: Interpreter
    requests: Requests
    clock: Clock
    bus: Bus
    renewer: Renewer
    isolation: Isolation
    finisher: Finisher
    lease: timedelta = LEASE
    grace_seconds: float = GRACE_SECONDS

    def deliver(self, delivery: Delivery, cancellation: Cancellation, told: Told) -> None:
        """Work on a delivery in this thread until its work ends, and have it written how. Who called renews the lease
        until ``told`` is. May raise what ``told.failed`` would be called with."""
        started = self.clock.monotonic()
        try:
            task = self._begin(delivery, cancellation, started)
        except (WorkflowInvalid, NotFound) as unknown:
            told.ended(self._refused(delivery, unknown, started).execution)
            return

        def give_up() -> None:
            told.given_up()
            try:
                self._end(task, told)
            except BaseException as error:
                told.failed(error)

        mine = task.body.run_here(
            timeout_seconds=self._timeout(delivery.execution, task.run.workflow, None),
            grace_seconds=self.grace_seconds,
            given_up=give_up,
        )
        if mine:
            self._end(task, told)

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
        """Work on a delivery until its claim ends, write how, and give all there is to know. ``workflow`` is what the
        execution runs, where the caller has it; ``initial`` its input with the secrets in it, where the caller has
        that; ``timeout_ms`` bounds this delivery besides ``options.timeoutMilliseconds``; ``look`` watches it. Raises
        ``StoreError`` where the end could not be written."""
        started, hold = self.clock.monotonic(), delivery.hold
        self.renewer.hold(hold, self.lease)
        try:
            try:
                task = self._begin(delivery, cancellation, started, workflow, initial)
            except (WorkflowInvalid, NotFound) as unknown:
                return self._refused(delivery, unknown, started)
            try:
                task.body.run(
                    timeout_seconds=self._timeout(delivery.execution, task.run.workflow, timeout_ms),
                    grace_seconds=self.grace_seconds,
                    look=None if look is None else partial(look, hold, cancellation),
                )
            except BaseException:
                self._finish(task)
                raise
            return self._finish(task)
        finally:
            self.renewer.drop(hold)

    def _begin(
        self,
        delivery: Delivery,
        cancellation: Cancellation,
        started: float,
        workflow: Workflow | None = None,
        initial: JsonObject | None = None,
    ) -> _Task:
        workflow = workflow or self.requests.definition(delivery.execution)
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
            scope=root_scope(execution, given, variables, vault.roots, errors, self.requests.utilities),
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
        return _Task(delivery.hold, run, frame, Body(self.interpreter, frame), started)

    def _timeout(self, execution: Execution, workflow: Workflow, timeout_ms: float | None) -> float | None:
        """Seconds that this delivery has, by its timeouts and by the deadline of its execution."""
        own = workflow.options.timeout_ms
        if timeout_ms is None and own is None and execution.deadline is None:
            return None
        bounds = [milliseconds / 1000 for milliseconds in (timeout_ms, own) if milliseconds]
        if execution.deadline is not None:
            now = patiently(self.clock, "read the clock", lambda doubt: self.store.data.now())
            bounds.append(max((execution.deadline - now).total_seconds(), 0.0))
        return min(bounds, default=None)

    def _end(self, task: _Task, told: Told) -> None:
        """Have it written how the claim ended: an end together with others."""
        try:
            conclusion, entries, characters = self._close(task)
            if isinstance(conclusion, Ended):
                ending = Ending(task.hold, conclusion, entries, task.run.execution)
                self.finisher.put(ending, characters, partial(self._written, task, conclusion, told))
                return
            execution = None if conclusion is None else self._conclude(task, conclusion, entries)
        except LeaseLost as gone:
            self._tell(task, told, None, None, gone)
        else:
            self._tell(task, told, conclusion, execution, task.lost)

    def _written(self, task: _Task, ended: Ended, told: Told, result: Execution | LeaseLost | StoreError) -> None:
        try:
            if isinstance(result, StoreError):
                raise result
            if isinstance(result, LeaseLost):
                self._tell(task, told, None, None, result)
            else:
                self._tell(task, told, ended, result, None)
        except BaseException as error:  # of a listener, for one: whoever waits for the end is told
            told.failed(error)

    def _tell(
        self,
        task: _Task,
        told: Told,
        conclusion: Conclusion | None,
        execution: Execution | None,
        lost: LeaseLost | None,
    ) -> None:
        self._announce(task, conclusion, execution, lost)
        told.ended(execution)
        if task.body.done:  # results of loops refer to their run, and it to them: nobody needs them any more
            task.run.scope.names.clear()

    def _finish(self, task: _Task) -> Delivered:
        """Write how the claim ended, and the last records with it."""
        try:
            conclusion, entries, _ = self._close(task)
            execution = None if conclusion is None else self._conclude(task, conclusion, entries)
        except LeaseLost as gone:
            return self._ended(task, None, None, gone)
        return self._ended(task, conclusion, execution, task.lost)

    def _close(self, task: _Task) -> tuple[Conclusion | None, Entries, int]:
        """Say how the claim ends, None where it was lost, and give the last records with the number of their
        characters. What a step that was given up does later finds the journal sealed and its claim gone."""
        run, frame, body = task.run, task.frame, task.body
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
        self.renewer.let_go(run.execution.id)
        if conclusion is None:
            return None, NOTHING, 0
        if not isinstance(conclusion, Ended):
            frame.strand.keep_decisions()
        characters = frame.strand.characters
        return conclusion, frame.strand.take(returned=body.done and body.raised is None), characters

    def _conclude(self, task: _Task, conclusion: Conclusion, entries: Entries) -> Execution:
        return conclude(self.store, self.clock, task.hold, conclusion, entries, of=task.run.execution)

    def _ended(
        self, task: _Task, conclusion: Conclusion | None, execution: Execution | None, lost: LeaseLost | None
    ) -> Delivered:
        """Tell how the claim ended, as it is written."""
        duration = self._announce(task, conclusion, execution, lost)
        return Delivered(execution, conclusion, task.run, duration, lost, task.body.raised, task.body.output)

    def _announce(
        self, task: _Task, conclusion: Conclusion | None, execution: Execution | None, lost: LeaseLost | None
    ) -> float:
        """Let listeners know how the claim ended; gives the milliseconds that it took."""
        if conclusion is None:
            log.warning("%s", lost or f"the claim on execution {task.run.execution.id} is lost")
        duration = (self.clock.monotonic() - task.started) * 1000
        if isinstance(conclusion, Ended) and execution is not None:
            self.requests.vaults.forget(execution.id)
            self.bus.announce(ExecutionEnded(execution, duration))
        return duration

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
