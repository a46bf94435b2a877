"""One execution while it runs: what its steps share, and where in it a list of steps stands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol, TypeVar, cast

from flo.engine.bet import Bet
from flo.engine.cancellation import Cancellation
from flo.engine.clock import Clock
from flo.engine.errors import TemplateFailed
from flo.engine.events import Bus, LineLogged, StepEnded
from flo.engine.executions import Execution, LogLine, StepRecord
from flo.engine.frozen import frozen
from flo.engine.hiding import lacks_secret
from flo.engine.history import History
from flo.engine.instants import write_instant
from flo.engine.jobs import Enqueued, JobOptions
from flo.engine.journal import MAX_MESSAGE, Journal, Strand
from flo.engine.language.paths import reached
from flo.engine.language.scope import Fresh, Missing, OnMissing, Scope
from flo.engine.language.workflow import Paths, Workflow
from flo.engine.past import Past
from flo.engine.renewal import Renewer
from flo.engine.secrecy import NOT_KEPT
from flo.engine.step import Failure, Outcome, StepCall, StepType
from flo.engine.stores.base import DataStore
from flo.engine.values import Json, JsonObject, new_id, place_text, place_under, whole
from flo.engine.vault import Vault

T = TypeVar("T", bound=Json)

MAX_ERRORS = 1_000
"""``$errors`` keeps so many failures of a run, the first ones."""


@dataclass(slots=True)
class Run:
    """What the steps of one execution share. ``again`` says that an earlier owner may have done some of it. ``ended``
    has how each step outside a loop ended, by stepId, in that order."""

    execution: Execution
    workflow: Workflow
    data: DataStore
    past: Past
    clock: Clock
    bus: Bus
    journal: Journal
    renewer: Renewer
    calls: Calls
    vault: Vault
    isolation: Isolation
    scope: Scope
    errors: list[Json]
    tolerated: int = 0
    again: bool = False
    ended: dict[str, StepRecord] = field(default_factory=dict)
    _warned: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> tuple[JsonObject, int]:
        """``$vars``, as they may be stored, and the count of tolerated failures, as they are now."""
        with self._lock:
            variables = self.vault.hide(self.scope.names["$vars"])
            assert isinstance(variables, dict)
            return variables, self.tolerated

    def failed(self, failure: Failure) -> None:
        """Add a failure to ``$errors``."""
        with self._lock:
            if len(self.errors) < MAX_ERRORS:
                self.errors.append(failure.as_json())

    def forget_failure(self, path: str) -> None:
        """Take what failed at ``path`` in an earlier attempt out of ``$errors``: it is tried again."""
        with self._lock:
            self.errors[:] = [held for held in self.errors if not (isinstance(held, dict) and held["path"] == path)]

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

    def has_warned(self, step_id: str, path: str) -> bool:
        """Whether it was said that ``path`` is missing in this step."""
        return (step_id, path) in self._warned

    def warns_first(self, step_id: str, path: str) -> bool:
        """Whether it is the first time that ``path`` is missing in this step."""
        with self._lock:
            known = (step_id, path) in self._warned
            self._warned.add((step_id, path))
        return not known


class Isolation(Protocol):
    """Runs bodies of step types in processes of their own."""

    def run(self, step_type: StepType, call: StepCall, input: JsonObject) -> JsonObject | Outcome:
        """Run the body as ``step_type.body(call, input)`` would: it gives and raises the same. Soon after
        ``call.cancelled`` is set, or ``call.deadline`` has passed, its process is ended, whatever it does."""


_OF_ITEMS: Final = frozenset({"$item", "$index", "$isFirst", "$isLast", "$parent", "$util"})
"""What these give is looked at where it comes from."""


class Calls(Protocol):
    """How an execution starts others."""

    def run_child(self, frame: Frame, path: str, target: str | JsonObject, initial: JsonObject) -> JsonObject:
        """Run a workflow as the child at the step ``path``; gives what it returned."""

    def enqueue(self, frame: Frame, path: str, target: str, initial: JsonObject, options: JobOptions) -> Enqueued:
        """Put a job into a queue, once for the step ``path``."""


@frozen
class Frame:
    """Where a list of steps runs. ``prefix`` begins the paths of its steps: nothing, or ``process-each[3].`` in a
    loop. ``strand`` takes down what is done here; ``history`` is what was done before, in an earlier delivery.
    ``bet`` is the transaction in which all of it happens, and which may be undone: None where each step has its own.
    ``wary`` says that a bet on this or its like was lost a moment ago.
    """

    run: Run
    scope: Scope
    cancellation: Cancellation
    strand: Strand
    history: History | None = None
    prefix: str = ""
    bet: Bet | None = None
    wary: bool = False

    def path(self, step_id: str) -> str:
        return self.prefix + step_id

    def under(self, cancellation: Cancellation) -> Frame:
        """The same place under another request to stop."""
        return self if cancellation is self.cancellation else replace(self, cancellation=cancellation)

    def beside(self) -> Frame:
        """The same place for work that runs at the same time as other work here."""
        return replace(self, strand=self.strand.fork())

    def refuse_lost(self, paths: Paths, place: str) -> None:
        """Fail where one of these paths leads to a value in which a secret was lost: what would be made of it is not
        what was meant. Raises ``TemplateFailed`` with the place under ``place``."""
        if not self.run.vault.lacking:
            return
        for inside, path in paths:
            if path.root not in _OF_ITEMS and lacks_secret(reached(path, self.scope)):
                where = place_under(place, place_text(inside))
                raise TemplateFailed(f"{path.text!r} {NOT_KEPT}", text=path.source, position=path.position, place=where)

    def decide(self, path: str, name: str, value: Callable[[], T]) -> T:
        """What the step at ``path`` decides, which is no null: the same in every delivery, once its children have done
        something."""
        vault = self.run.vault
        if self.run.again and (decided := self.strand.decided(path, name)) is not None:
            return cast(T, vault.open(decided))
        decision = value()
        self.strand.decide(path, name, vault.hide(decision))
        return decision

    def log(self, level: str, message: str, data: Json = None, step: str | None = None) -> None:
        """Write a line to the execution's log, secrets hidden; a message past 64 Ki characters is cut, and says so."""
        run = self.run
        data = whole(data)
        if run.vault.active:
            message, data = run.vault.net.mask(message), run.vault.shown(data)
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}… ({len(message)} characters)"
        line = LogLine(run.execution.id, run.clock.now(), level, message, step, data)
        self.strand.line(line)
        if run.bus.heard:
            run.bus.announce(LineLogged(line))

    def ended_step(self, record: StepRecord, *, returned: bool = False) -> None:
        """Take note of how a step, or an iteration, ended; ``returned``: by the run's return. A loop's results lie in
        the records of its iterations."""
        run = self.run
        if returned:
            if record.path == record.step_id:
                run.ended[record.step_id] = record
            self.strand.cut_short(record)
        elif record.index is not None:
            self.strand.iteration(record, record.characters)
        else:
            if record.path == record.step_id and self.bet is None:
                run.ended[record.step_id] = record
            self.strand.step(record, record.characters)
        if run.bus.heard:
            run.bus.announce(StepEnded(record))

    def committed_step(self, record: StepRecord) -> None:
        """Take note of how a step ended whose record is stored already."""
        if record.path == record.step_id:
            self.run.ended[record.step_id] = record
        self.run.bus.announce(StepEnded(record))

    def tolerate(self) -> None:
        """A failure was tolerated."""
        self.run.tolerate()
        self.strand.state_changed()

    def set_variables(self, pairs: JsonObject) -> None:
        """Merge into ``$vars``."""
        if self.bet is not None:  # others would see what may be undone
            raise self.bet.lose()
        self.run.set_variables(pairs)
        self.strand.state_changed()

    def on_missing(self, place: str, step_id: str) -> OnMissing:
        """What a missing value does in the template at ``place``: one warning, or a failure where the workflow is
        strict."""
        if self.run.workflow.options.strict:
            return refuse_missing(place)

        def told(missing: Missing) -> None:
            if self.bet is not None and not self.run.has_warned(step_id, missing.path):
                raise self.bet.lose()
            if self.run.warns_first(step_id, missing.path):
                message = f"{place}: {missing.path!r} is missing, null is used{missing.hint}"
                self.log("warn", message, step=step_id)

        return told


def refuse_missing(place: str) -> OnMissing:
    """What a missing value does where it is never tolerated: it fails, and names the nearest key that is there."""

    def told(missing: Missing) -> None:
        raise TemplateFailed(f"{missing.path!r} is missing{missing.hint}", place=place)

    return told


def root_scope(
    execution: Execution, initial: Json, variables: JsonObject, settings: JsonObject, errors: list[Json], util: Fresh
) -> Scope:
    """The scope that every expression of a run can see: its roots, before any step has ended. ``settings`` are
    ``$env`` and ``$connections``, ``util`` is ``$util``."""
    started = execution.started_at or execution.created_at
    return Scope(
        {
            "initial": initial,
            "$vars": dict(variables),
            **settings,
            "$errors": errors,
            "$util": util,
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
