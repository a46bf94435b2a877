"""What a step type is, and what it is given when it runs: the contract for authors."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from flo.engine.clock import Clock
from flo.engine.jobs import Enqueued, JobOptions
from flo.engine.values import Json, JsonObject

if TYPE_CHECKING:  # a store's port is much to import for a name: the command starts faster without
    from flo.engine.stores.base import DataStore


class StepLog(Protocol):
    """Writes lines to the execution's log."""

    def __call__(self, level: str, message: str, data: Json = None) -> None:
        """Write one line; ``level`` is ``debug``, ``info``, ``warn`` or ``error``."""


@dataclass(frozen=True, slots=True)
class Loop:
    """How a loop ended. ``items`` are the results in input order, read from the store when something refers to them."""

    count: int
    succeeded: int
    failed: int
    skipped: int
    items: Sequence[Json]


class Engine(Protocol):
    """What a running step may ask of the engine. Branches and conditions are named by their path in the step's
    input."""

    def has_branch(self, branch: str) -> bool:
        """Say whether the input has this child list."""

    def run_children(self, branch: str, *, shielded: bool = False) -> JsonObject:
        """Run a child list in a scope that later steps see. Gives the children's outputs by stepId. Raises the
        ``StepFailed`` of the first child whose failure was not tolerated. A ``shielded`` list runs also when the run is
        to stop, save where it only stops here and goes on with another worker."""

    def run_parallel(self, branch: str, concurrency: int | None) -> JsonObject:
        """As ``run_children``, all children at once, at most ``concurrency`` of them at a moment."""

    def loop(
        self,
        branch: str,
        items: Iterable[Json],
        *,
        concurrency: int = 1,
        tolerate: bool = False,
        before: Callable[[int], bool] | None = None,
    ) -> Loop:
        """Run a child list once for each item, each in a scope of its own with ``$item``, ``$index``, ``$isFirst``,
        ``$isLast`` and ``$parent``. ``before`` is asked before each iteration and ends the loop when it says no. After
        a failure no new iteration starts unless ``tolerate``; those under way end, then the failure is raised."""

    def holds(self, condition: str, names: Mapping[str, Json] | None = None) -> bool:
        """Evaluate a condition of the input now, with ``names`` added to its scope."""

    def set_variables(self, pairs: JsonObject) -> None:
        """Merge into ``$vars``."""

    def wait(
        self,
        kind: Literal["time", "signal", "approval", "execution"],
        *,
        name: str = "",
        until: datetime | None = None,
        details: JsonObject | None = None,
    ) -> JsonObject | None:
        """Wait at this step, once in its execution: until a time, for the signal or the end of the execution called
        ``name``, or for somebody's decision. Gives the answer, or None once ``until`` has passed.

        What was asked for first stands: the step, run again, waits until the same instant. A wait that is not over
        raises ``Suspended``: the execution leaves its worker, and the step runs again when there is something to
        give."""

    def run_workflow(self, target: str | JsonObject, initial: JsonObject) -> JsonObject:
        """Run a workflow as an execution of its own, a child of this one, once: a stored one by its name or id, or a
        document. Gives what it returned (without ``core.return``: nothing). Raises ``StepFailed`` with the child's
        error, and ``Suspended`` where the child waits."""

    def enqueue(self, target: str, initial: JsonObject, options: JobOptions) -> Enqueued:
        """Put a stored workflow, or a step type by its name, into a queue, once. Cancelling this execution cancels
        it. Raises ``StepFailed``."""

    def keep_claimed(self, table: str, held: Mapping[str, int], every_seconds: float) -> None:
        """Renew these claims of this execution (key: ``claimCount``) from a thread of the engine, until they are let
        go or the execution ends."""


@dataclass(frozen=True, slots=True)
class StepCall:
    """What a running step may reach besides its own input.

    ``idempotency_key`` is the same for every attempt at this step of this execution. ``deadline`` is on
    ``clock.monotonic()``; None without a timeout. A step that takes long watches ``cancelled`` and gives way by
    raising ``RunCancelled``.
    """

    step_id: str
    path: str
    execution_id: str
    attempt: int
    idempotency_key: str
    store: DataStore
    clock: Clock
    log: StepLog
    cancelled: threading.Event
    deadline: float | None
    engine: Engine


class RunReturned(Exception):
    """Ends the run at once with ``output``; ``core.return`` raises it. No step type may swallow it."""

    def __init__(self, output: JsonObject) -> None:
        self.output = output
        super().__init__("the run returned")


class Suspended(BaseException):
    """Ends the work on an execution for now: it waits until ``until`` (None: for an answer alone). No step type may
    swallow it, and it is no failure: nothing is cleaned up."""

    def __init__(self, until: datetime | None) -> None:
        self.until = until
        super().__init__("the run waits")

    @classmethod
    def first(cls, waits: Iterable[Suspended]) -> Suspended:
        """What the whole waits for where several parts of it wait: the first of their times, or an answer."""
        return cls(min((held.until for held in waits if held.until is not None), default=None))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step type may return instead of a plain object: an output whose outcome is bad (an *operational error*).

    The output stays readable; with ``operational_errors`` the step counts as failed, with ``warnings`` it does not.
    ``retryable`` says whether another attempt may help against the errors.
    """

    output: JsonObject
    operational_errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    retryable: bool = True


Body = Callable[[StepCall, JsonObject], "JsonObject | Outcome"]


@dataclass(frozen=True, slots=True)
class StepType:
    """A named kind of step.

    ``schema`` and ``output_schema`` are JSON Schemas (2020-12) of its input and output; ``example`` is an input.
    ``branches`` are the places of child lists in the input (``steps``, ``cases[].steps``), ``conditions`` those of
    conditions (``while``, ``cases[].when``): neither is resolved with the input, a branch runs by
    ``call.engine.run_children``. ``sees`` gives the names that a condition sees because the step hands them over when
    it asks (``{"while": ("$index",)}``). ``loops`` names the branches that run as iterations: what ran in them is not
    seen afterwards. ``exact`` are fields in which a missing value is an error. ``documents`` are fields that hold a
    whole workflow: it is checked with the document around it, and given to the body as it is written, its templates
    untouched. ``touches`` says that it acts outside the engine. A ``transactional`` type does nothing but short calls
    of ``call.store``: they commit together with the record that the step ended, or not at all; its body may be run
    again after a conflict.
    """

    name: str
    body: Body
    schema: JsonObject
    output_schema: JsonObject
    summary: str
    description: str
    example: JsonObject
    branches: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    follows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    sees: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exact: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    stepwise: bool = False
    touches: bool = True
    transactional: bool = False


def step_type(
    name: str,
    *,
    schema: JsonObject,
    output: JsonObject,
    example: JsonObject,
    branches: tuple[str, ...] = (),
    loops: tuple[str, ...] = (),
    parallel: tuple[str, ...] = (),
    follows: Mapping[str, tuple[str, ...]] | None = None,
    conditions: tuple[str, ...] = (),
    sees: Mapping[str, tuple[str, ...]] | None = None,
    exact: tuple[str, ...] = (),
    documents: tuple[str, ...] = (),
    stepwise: bool = False,
    touches: bool = True,
    transactional: bool = False,
) -> Callable[[Body], StepType]:
    """Declare a function as a step type. Its docstring's first line becomes the summary. Registers nothing: a registry
    finds the ``StepType`` in its module."""

    def declare(body: Body) -> StepType:
        summary, _, description = (body.__doc__ or "").strip().partition("\n")
        return StepType(
            name=name,
            body=body,
            schema=schema,
            output_schema=output,
            summary=summary.strip(),
            description=inspect.cleandoc(description),
            example=example,
            branches=branches,
            loops=loops,
            parallel=parallel,
            follows=follows or {},
            conditions=conditions,
            sees=sees or {},
            exact=exact,
            documents=documents,
            stepwise=stepwise,
            touches=touches,
            transactional=transactional,
        )

    return declare


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a run, as ``$errors`` and ``$meta.error`` show it."""

    step_id: str
    path: str
    code: str
    message: str
    kind: str = "execution"

    def as_json(self) -> JsonObject:
        """``stepId path code message kind``."""
        return {
            "stepId": self.step_id, "path": self.path, "code": self.code,
            "message": self.message, "kind": self.kind,
        }  # fmt: skip
