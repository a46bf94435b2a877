"""A workflow as it runs: frozen records, made by ``checking`` from a document that passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from flo.engine.frozen import frozen
from flo.engine.language.paths import Path
from flo.engine.language.scope import OnMissing, Scope
from flo.engine.retry import ONCE, Retry
from flo.engine.triggers import WantedTrigger
from flo.engine.values import Json, JsonObject, Place

Paths = tuple[tuple[Place, Path], ...]
"""Paths that a value refers to, each with the place of the string that it stands in."""


class Resolver(Protocol):
    """A JSON value with templates in it, compiled. ``language.templates`` makes them."""

    @property
    def constant(self) -> bool:
        """Whether nothing in it is a template."""

    @property
    def paths(self) -> Paths:
        """Every path that it refers to."""

    def resolve(self, scope: Scope, on_missing: OnMissing) -> Json:
        """Give the value, all or nothing. Raises ``TemplateFailed`` whose place is relative to this value."""


class Condition(Protocol):
    """A condition, compiled. ``language.conditions`` makes them."""

    @property
    def paths(self) -> Paths:
        """Every path that it refers to."""

    def holds(self, scope: Scope, on_missing: OnMissing) -> bool:
        """Say whether it holds. Raises ``TemplateFailed``."""


class Rule(Protocol):
    """A rule, compiled. ``language.rules`` makes them."""

    @property
    def paths(self) -> Paths:
        """Every path that it refers to."""

    @property
    def give(self) -> Callable[[Scope, OnMissing], Json]:
        """Evaluates it. Raises ``TemplateFailed`` whose place is relative to the rule."""


OnFailure = Literal["halt", "skip", "continue"]


@frozen
class Step:
    """One step. ``place`` is its JSON path in the document.

    ``input`` gives each field of its input but the child lists, conditions and rules, compiled one by one, so that the
    fields of ``exact`` (``where``), in which a missing value is an error, can be told apart, and those of a step type
    that is ``stepwise`` resolved one after the other. ``branches`` holds child lists by their path in the input
    (``steps``, ``cases[0].steps``), ``conditions`` the compiled conditions likewise (``condition``, ``cases[0].when``),
    ``rules`` the compiled rules (``value``, ``by[0].value``).
    ``depends_on`` is None where the step follows the one before it. ``recheck`` checks the resolved input against the
    step type's schema, as far as templates left it open; it raises ``StepFailed`` with code ``invalid_input``.
    ``volatile`` says of a step with children that its input may be another one when it is asked for again. ``shares``
    says that neither it nor a child of it waits for more than the store, so that it may share a transaction, and
    ``commits`` that one of them would make a transaction by itself.
    """

    id: str
    type: str
    place: str
    input: Mapping[str, Resolver]
    recheck: Recheck
    branches: Mapping[str, Block] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    skip: Condition | None = None
    depends_on: tuple[str, ...] | None = None
    on_failure: OnFailure = "halt"
    retry: Retry = ONCE
    timeout_ms: int | None = None
    exact: frozenset[str] = frozenset()
    volatile: bool = False
    shares: bool = False
    commits: bool = True


class Recheck(Protocol):
    """Checks a resolved input, as far as templates left it open."""

    def __call__(self, value: JsonObject) -> None: ...


@frozen
class Block:
    """A list of steps. ``needs`` gives for each step the positions of those it waits for; ``plain`` says that it is
    sequential. ``together`` gives for each step how many from it on may share a transaction, 0 where they would not
    make several."""

    steps: tuple[Step, ...]
    needs: tuple[tuple[int, ...], ...]
    plain: bool
    together: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "together", _together(self.steps))

    @property
    def shares(self) -> bool:
        """Whether nothing in it waits for more than the store."""
        return self.plain and all(step.shares for step in self.steps)


def _together(steps: Sequence[Step]) -> tuple[int, ...]:
    given: list[int] = []
    following = commits = 0
    for step in reversed(steps):
        following, commits = (following + 1, commits + step.commits) if step.shares else (0, 0)
        given.append(following if commits > 1 else 0)
    return tuple(reversed(given))


@frozen
class Options:
    """``options`` of the document, with their defaults."""

    timeout_ms: int | None = None
    stop_on_error: bool = True
    strict: bool = False
    max_concurrent: int | None = None
    when_full: Literal["queue", "reject"] = "queue"
    concurrency_key: Resolver | None = None
    retry: Retry | None = None
    retention: JsonObject | None = None


@frozen
class Workflow:
    """A workflow that passed every check. ``document`` is what it was made from, in full; ``text`` its JSON as it
    came."""

    document: JsonObject
    text: str
    digest: str
    source: str
    block: Block
    options: Options
    name: str | None = None
    pinned_id: str | None = None
    initial: JsonObject = field(default_factory=dict)
    input_schema: JsonObject | None = None
    environment: str | None = None
    triggers: Sequence[WantedTrigger] = ()
