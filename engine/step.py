"""What a step type is, and what it is given when it runs: the contract for authors."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol

from flo.engine.clock import Clock
from flo.engine.declaring import Declaration, Given, check_call, declared
from flo.engine.frozen import frozen
from flo.engine.jobs import Enqueued, JobOptions
from flo.engine.values import Json, JsonObject

if TYPE_CHECKING:  # a store's port is much to import for a name: the command starts faster without
    from _typeshed import DataclassInstance

    from flo.engine.stores.base import DataStore


class StepLog(Protocol):
    """Writes lines to the execution's log."""

    def __call__(self, level: str, message: str, data: Json = None) -> None:
        """Write one line; ``level`` is ``debug``, ``info``, ``warn`` or ``error``."""


@frozen
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

    def has_rule(self, field: str) -> bool:
        """Say whether the input has this condition or rule."""

    def rule(self, field: str, over: str = "items") -> Rule:
        """A field of the input that is a condition or a rule (``StepType.rules``), to be evaluated for many items: what
        it gives, a condition true or false. Not decided once and kept: asked again, it is evaluated again. ``over`` is
        the list that the items are of: with ``$index`` it says in an error which one it was (``items[17]``)."""

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


class Rule(Protocol):
    """A rule of a step's input: JSONLogic, or templates in any JSON value."""

    def __call__(self, names: Mapping[str, Json]) -> Json:
        """What it gives with ``names`` (``{"$item": …}``) added to the step's scope, in which ``$parent`` is the
        iteration around the step. Raises ``TemplateFailed``."""


class Secrets(Protocol):
    """What the owner of the engine set up: the environment of the run, which is ``$env``, and the connections.

    Secret values are text with a mark (``Secret``): used as text they are what they are, and in logs, records and
    errors of the step ``***`` stands for them.
    """

    def __getitem__(self, name: str) -> Json:
        """A value of the run's environment. Raises ``StepFailed`` (``unknown_secret``) with the nearest name."""

    def get(self, name: str, default: Json = None) -> Json:
        """A value of the run's environment, or ``default``."""

    def connection(self, name: str) -> JsonObject:
        """A connection. Raises ``StepFailed`` (``unknown_connection``) with the nearest name."""


@frozen
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
    secrets: Secrets
    engine: Engine

    def run_children(self, branch: str = "steps") -> JsonObject:
        """Run a child list of the input: see ``Engine.run_children``."""
        return self.engine.run_children(branch)


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


@frozen
class Outcome:
    """What a step type may return instead of a plain object: an output whose outcome is bad (an *operational error*).

    The output stays readable; with ``operational_errors`` the step counts as failed, with ``warnings`` it does not.
    ``retryable`` says whether another attempt may help against the errors, ``retry_after`` (seconds) that it will not
    before.
    """

    output: JsonObject
    operational_errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    retryable: bool = True
    retry_after: float | None = None

    def __post_init__(self) -> None:
        if self.operational_errors == () == self.warnings:
            return
        for name in ("operational_errors", "warnings"):  # a text alone is one of them, not its letters
            said = getattr(self, name)
            texts = (said,) if isinstance(said, str) else tuple(said)
            object.__setattr__(self, name, tuple(text if isinstance(text, str) else str(text) for text in texts))


Body = Callable[[StepCall, JsonObject], "JsonObject | Outcome"]

Function = Callable[[StepCall, Any], "Mapping[str, Any] | Mapping[str, object] | DataclassInstance | Outcome"]
"""What an author writes: its input may be a type of the author's own, and so may its output."""


@frozen
class StepType:
    """A named kind of step.

    ``schema`` and ``output_schema`` are JSON Schemas (2020-12) of its input and output; ``example`` is an input.
    ``branches`` are the places of child lists in the input (``steps``, ``cases[].steps``), ``conditions`` those of
    conditions (``while``, ``cases[].when``): neither is resolved with the input, a branch runs by
    ``call.engine.run_children``. ``sees`` gives the names that a condition sees because the step hands them over when
    it asks (``{"while": ("$index",)}``). ``loops`` names the branches that run as iterations: what ran in them is not
    seen afterwards. ``exact`` are fields in which a missing value is an error. ``documents`` are fields that hold a
    whole workflow: it is checked with the document around it, and given to the body as it is written, its templates
    untouched. ``rules`` are fields that the step evaluates itself, once for each item, by ``call.engine.rule``:
    JSONLogic or templates; ``sees`` says what names they see besides. Where one is inside another (``by`` and
    ``by[].value``), the inner one is the rule. ``touches`` says that it acts outside the engine. A ``transactional``
    type does nothing but short calls of ``call.store``: they commit together with the record that the step ended, or
    not at all; its body may be run again after a conflict. One that ``joins`` waits for nothing but the store, and
    computes for a moment only: it may share its transaction with other steps of the execution. So may one that
    ``joins`` and touches nothing. What happened in it may be undone, and its body run again; and while it waits in a
    call of ``call.store`` another one may run in its thread, so it holds no lock of its own there. An ``isolated`` type
    runs in a process of its own, which its timeout ends whatever it does; it has no branches, conditions, rules or
    documents, and is not transactional.
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
    rules: tuple[str, ...] = ()
    stepwise: bool = False
    touches: bool = True
    transactional: bool = False
    joins: bool = False
    isolated: bool = False

    @property
    def shares(self) -> bool:
        """Whether it may run in a transaction with others."""
        return self.joins and (self.transactional or not self.touches)


def step_type(
    name: str,
    *,
    schema: JsonObject | None = None,
    output: JsonObject | None = None,
    example: JsonObject | None = None,
    branches: tuple[str, ...] = (),
    loops: tuple[str, ...] = (),
    parallel: tuple[str, ...] = (),
    follows: Mapping[str, tuple[str, ...]] | None = None,
    conditions: tuple[str, ...] = (),
    sees: Mapping[str, tuple[str, ...]] | None = None,
    exact: tuple[str, ...] = (),
    documents: tuple[str, ...] = (),
    rules: tuple[str, ...] = (),
    stepwise: bool = False,
    touches: bool = True,
    transactional: bool = False,
    joins: bool = False,
    isolated: bool = False,
) -> Callable[[Function], StepType]:
    """Declare a function of a call and an input as a step type. Its docstring's first line becomes the summary.
    Registers nothing: a registry finds the ``StepType`` in its module.

    An input that is annotated as a dataclass or a ``TypedDict`` is made one, and ``schema`` is derived from that; else
    it is a plain dict. What the function returns may be a dataclass or a ``TypedDict`` too. Schemas that are given
    here stand; an ``example`` is made up where none is given. Raises ``FloError`` for a declaration that is wrong.
    """
    check_call(name, alone=isolated, with_others=bool(branches or conditions or rules or documents or transactional))
    children = _children(branches, (*conditions, *rules))

    def declare(function: Function) -> StepType:
        names = sys._getframe(1).f_locals  # of the function in which a test may declare both
        found = declared(name, function, Given(schema, output, example, children, names, Outcome))
        summary, _, description = (function.__doc__ or "").strip().partition("\n")
        return StepType(
            name=name,
            body=_body(function, found),
            schema=found.schema,
            output_schema=found.output,
            summary=summary.strip(),
            description=inspect.cleandoc(description),
            example=found.example,
            branches=branches,
            loops=loops,
            parallel=parallel,
            follows=follows or {},
            conditions=conditions,
            sees=sees or {},
            exact=exact,
            documents=documents,
            rules=rules,
            stepwise=stepwise,
            touches=touches,
            transactional=transactional,
            joins=joins,
            isolated=isolated,
        )

    return declare


def _children(branches: Sequence[str], rules: Sequence[str]) -> Mapping[str, JsonObject]:
    """The fields at the top of an input that the engine keeps to itself, with their schemas."""
    lists: JsonObject = {"type": "array"}
    fields = {**{rule: {} for rule in rules}, **dict.fromkeys(branches, lists)}
    return {field: schema for field, schema in fields.items() if field.isidentifier()}


def _body(function: Function, found: Declaration) -> Body:
    """A function as the engine calls it: with JSON, for JSON."""
    take, give = found.take, found.give
    if take is None and give is None:
        return function  # type: ignore[return-value]  # it returns an object, as it says

    @wraps(function)
    def body(call: StepCall, input: JsonObject) -> JsonObject | Outcome:
        given: Any = function(call, input if take is None else take(input))
        if give is None:
            return given  # type: ignore[no-any-return]
        return replace(given, output=give(given.output)) if isinstance(given, Outcome) else give(given)

    return body


@frozen
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
