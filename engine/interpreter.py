"""Runs the steps of a workflow: what a step may ask of the engine, and one run from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Literal

from flo.engine.attempt import Catch, End
from flo.engine.blocks import GRAPH_THREADS, run_block, run_graph
from flo.engine.cancellation import Cancellation
from flo.engine.errors import RunCancelled, StepFailed, TemplateFailed
from flo.engine.executions import StepRecord, StepState
from flo.engine.frozen import frozen
from flo.engine.hiding import has_secret
from flo.engine.jobs import Enqueued, JobOptions, Wait
from flo.engine.language.scope import Missing, OnMissing, Scope
from flo.engine.language.workflow import Block, Step
from flo.engine.loop import enclosing, run_loop
from flo.engine.pipeline import run_step, skip_step
from flo.engine.registry import Registry
from flo.engine.results import Results
from flo.engine.run import Frame
from flo.engine.sharing import can_share
from flo.engine.step import Engine, Loop, Rule, RunReturned
from flo.engine.values import Json, JsonObject, place_under, whole_object
from flo.engine.waiting import wait


@frozen
class Interpreter:
    """Runs lists of steps with the step types it was given."""

    registry: Registry

    def run(self, frame: Frame) -> JsonObject | None:
        """Run the workflow of ``frame.run`` to its end; gives what ``core.return`` returned, None without one.

        Raises ``ChildFailed`` for the failure that ended it, ``RunCancelled`` where it was asked to stop.
        """
        try:
            self.block(frame, frame.run.workflow.block)
        except RunReturned as returned:
            return returned.output
        return None

    def block(self, frame: Frame, block: Block) -> None:
        """Run one list of steps."""
        run_block(frame, block, self.step, self.skip)

    def step(self, frame: Frame, step: Step) -> End:
        """Run one step."""
        return run_step(frame, step, self.registry, self.engine)

    def skip(self, frame: Frame, step: Step) -> None:
        """Skip one step, because one that it depends on failed."""
        skip_step(frame, step, self.registry[step.type])

    def engine(self, frame: Frame, step: Step, catch: Catch) -> Engine:
        """What ``step`` may ask for while it runs in ``frame``."""
        return _StepEngine(self, frame, step, catch)


@frozen
class _StepEngine:
    """The engine as one running step sees it."""

    interpreter: Interpreter
    frame: Frame
    step: Step
    catch: Catch

    def has_branch(self, branch: str) -> bool:
        return branch in self.step.branches

    def run_children(self, branch: str, *, shielded: bool = False) -> JsonObject:
        block = self.step.branches.get(branch)
        if block is None:
            return {}
        if shielded and self.frame.cancellation.elsewhere:
            raise RunCancelled("it goes on elsewhere")
        frame = self.frame.under(Cancellation()) if shielded else self.frame
        self.interpreter.block(frame, block)
        return _outputs(frame, block)

    def run_parallel(self, branch: str, concurrency: int | None) -> JsonObject:
        block = self.step.branches[branch]
        none = tuple(() for _ in block.steps)
        bound = GRAPH_THREADS if concurrency is None else concurrency
        run_graph(self.frame, block.steps, none, self.interpreter.step, self.interpreter.skip, bound)
        return _outputs(self.frame, block)

    def loop(
        self,
        branch: str,
        items: Iterable[Json],
        *,
        concurrency: int = 1,
        tolerate: bool = False,
        before: Callable[[int], bool] | None = None,
    ) -> Loop:
        run, block, path = self.frame.run, self.step.branches[branch], self.frame.path(self.step.id)
        results = Results(run.execution.id, path, run.past, run.vault.open)

        def iteration(inside: Frame) -> bool:
            self.interpreter.block(inside, block)
            return not block.steps or any(not _was_skipped(inside, step) for step in block.steps)

        loop = run_loop(
            self.frame,
            path,
            self.step.type,
            items,
            iteration,
            results,
            concurrency=concurrency,
            tolerate=tolerate,
            before=before,
            shares=can_share(self.frame, block),
        )
        if not results.kept:  # who refers to them may be in a transaction, which sees no more than is stored
            self.frame.strand.flush()
        return loop

    def holds(self, condition: str, names: Mapping[str, Json] | None = None) -> bool:
        if self.interpreter.registry[self.step.type].loops:  # asked anew before each turn
            return self._holds(condition, names)
        return self.frame.decide(self.frame.path(self.step.id), condition, lambda: self._holds(condition, names))

    def _holds(self, condition: str, names: Mapping[str, Json] | None) -> bool:
        scope = self.frame.scope.child(dict(names)) if names else self.frame.scope
        place = f"{self.step.place}.input.{condition}"
        self.frame.refuse_lost(self.step.conditions[condition].paths, place)
        try:
            return self.step.conditions[condition].holds(scope, self.frame.on_missing(place, self.step.id))
        except TemplateFailed as failed:
            raise failed.at(place) from failed

    def has_rule(self, field: str) -> bool:
        return field in self.step.rules or field in self.step.conditions

    def rule(self, field: str, over: str = "items") -> Rule:
        step, frame = self.step, self.frame
        place = f"{step.place}.input.{field}"
        frame.refuse_lost((step.rules.get(field) or step.conditions[field]).paths, place)
        evaluate = step.rules[field].give if field in step.rules else step.conditions[field].holds
        around = frame.scope.child({"$parent": enclosing(frame.scope)})
        told = _without_place(frame.on_missing(place, step.id))

        def rule(names: Mapping[str, Json]) -> Json:
            try:
                return evaluate(Scope(names if type(names) is dict else dict(names), around), told)
            except TemplateFailed as failed:
                item = f" for {over}[{names['$index']}]" if "$index" in names else ""
                raise failed.at(place_under(place, failed.place) + item) from failed

        return rule

    def set_variables(self, pairs: JsonObject) -> None:
        self.frame.set_variables(self._caught(pairs))

    def wait(
        self,
        kind: Literal["time", "signal", "approval", "execution"],
        *,
        name: str = "",
        until: datetime | None = None,
        details: JsonObject | None = None,
    ) -> JsonObject | None:
        vault = self.frame.run.vault
        if has_secret(self.catch(name)):
            message = "the name of what is waited for is stored to be read, and it is a secret"
            raise StepFailed(message, code="secret_refused", retryable=False)
        asked = vault.shown(self._caught(details or {}))
        assert isinstance(asked, Mapping)
        answer = wait(self.frame, Wait(self.frame.path(self.step.id), kind, name, until, asked))
        if answer is None or kind != "execution":
            return answer
        opened = vault.open(answer, of=name)  # what the other execution returned
        assert isinstance(opened, Mapping)
        return opened

    def run_workflow(self, target: str | JsonObject, initial: JsonObject) -> JsonObject:
        path = self.frame.path(self.step.id)
        return self.frame.run.calls.run_child(self.frame, path, target, self._caught(initial))

    def enqueue(self, target: str, initial: JsonObject, options: JobOptions) -> Enqueued:
        path = self.frame.path(self.step.id)
        return self.frame.run.calls.enqueue(self.frame, path, target, self._caught(initial), options)

    def _caught(self, given: JsonObject) -> JsonObject:
        """What a step hands over, read, and its secrets marked."""
        caught = self.catch(whole_object(given))
        assert isinstance(caught, Mapping)
        return caught

    def keep_claimed(self, table: str, held: Mapping[str, int], every_seconds: float) -> None:
        if self.frame.cancellation.event.is_set():  # nobody works on what a given-up claim took: it may go stale
            return
        run, bet = self.frame.run, self.frame.bet
        keep = partial(run.renewer.keep, table, held, holder=run.execution.id, every=every_seconds)
        if bet is None:
            keep()
        else:  # what is not committed cannot be renewed
            bet.afterwards.append(keep)


def _without_place(told: OnMissing) -> OnMissing:
    """The same, where it fails without saying where: the rule that something is missing in knows more of its place."""

    def missing(held: Missing) -> None:
        try:
            told(held)
        except TemplateFailed as failed:
            raise failed.at("") from failed

    return missing


def _outputs(frame: Frame, block: Block) -> JsonObject:
    return {step.id: frame.scope.names[step.id] for step in block.steps if step.id in frame.scope.names}


def _was_skipped(frame: Frame, step: Step) -> bool:
    record = frame.scope.metas.get(step.id)
    return isinstance(record, StepRecord) and record.state is StepState.SKIPPED
