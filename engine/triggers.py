"""What starts workflows by itself: triggers as they are stored, and how each of their slots was dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from typing import Final, Literal

from flo.engine.errors import FloError
from flo.engine.executions import ExecutionState
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.jobs import Request
from flo.engine.values import JsonObject

Kind = Literal["schedule", "event", "webhook", "manual"]

KINDS: Final[Sequence[Kind]] = ("schedule", "event", "webhook", "manual")

EVENT: Final = "workflow.finished"
"""The one event there is: an execution of another workflow has ended."""


@frozen
class WantedTrigger:
    """A trigger as a document, or a person, wants it.

    ``config`` is what stands under ``config.<type>``, as it came. ``awaits`` is the name of the workflow whose ends
    fire an event trigger, ``states`` those of its final states that do. ``timing`` says when a schedule fires: while
    it stays the same, a schedule keeps what it counts from.
    """

    name: str
    kind: Kind
    config: JsonObject = field(default_factory=dict)
    enabled: bool = True
    timing: str = ""
    awaits: str | None = None
    states: frozenset[ExecutionState] = frozenset()


@frozen
class Trigger:
    """A trigger as it is stored, of the workflow ``workflow_id``, whose name is ``workflow``.

    ``declared`` says that the workflow's document has it. ``revision`` rises with every change and every switch on or
    off. ``anchor`` is what intervals count from. ``cursor`` is the last slot that was dealt with; before the first one,
    and after a change of the schedule, the moment from which it counts. ``look_at`` is when a scheduler has to look at
    it next; None: never.
    """

    id: str
    workflow_id: str
    workflow: str
    name: str
    kind: Kind
    config: JsonObject
    enabled: bool
    declared: bool
    revision: int
    anchor: datetime
    cursor: datetime
    look_at: datetime | None
    created_at: datetime
    updated_at: datetime
    awaits: str | None = None

    @property
    def full_name(self) -> str:
        """``workflow/name``, which no other trigger has."""
        return f"{self.workflow}/{self.name}"


Outcome = Literal["due", "fired", "skipped", "failed"]
"""``due``: an event that no scheduler has dealt with yet."""


@frozen
class Firing:
    """How one slot of a trigger was dealt with.

    ``slot`` names it, once in a trigger: of a schedule its instant as text, of an event the execution that ended.
    ``scheduled_at`` is the slot of a schedule. ``reason`` says why it was ``skipped`` (``overlap``, ``misfire``,
    ``disabled``), ``error`` why it ``failed`` (``code``, ``message``). A ``misfire`` stands for ``passed`` slots that
    were passed over, the first at ``since``; None: so many that nobody counted.
    """

    trigger_id: str
    slot: str
    outcome: Outcome
    at: datetime
    scheduled_at: datetime | None = None
    execution_id: str | None = None
    reason: str | None = None
    error: JsonObject | None = None
    passed: int | None = None
    since: datetime | None = None

    def as_json(self) -> JsonObject:
        """``slot outcome at scheduledAt executionId reason error passed since``."""
        return {
            "slot": self.slot,
            "outcome": self.outcome,
            "at": write_instant(self.at),
            "scheduledAt": None if self.scheduled_at is None else write_instant(self.scheduled_at),
            "executionId": self.execution_id,
            "reason": self.reason,
            "error": self.error,
            "passed": self.passed,
            "since": None if self.since is None else write_instant(self.since),
        }


@frozen
class Fire:
    """What is to be done with one slot of a trigger, as it was at ``revision`` (None: whatever it is by now, switched
    off or not).

    With a ``request`` it is enqueued, unless ``alone`` and an execution of the trigger is unfinished (``skipped``,
    ``overlap``). Without one the slot is only recorded, as ``outcome`` says. ``cursor`` and ``look_at`` are the
    trigger's afterwards; ``cursor`` None leaves both. ``of_end``: the slot is an end that was seen.
    """

    trigger_id: str
    revision: int | None
    slot: str
    request: Request | None = None
    alone: bool = False
    outcome: Outcome = "fired"
    scheduled_at: datetime | None = None
    reason: str | None = None
    error: JsonObject | None = None
    passed: int | None = None
    since: datetime | None = None
    cursor: datetime | None = None
    look_at: datetime | None = None
    of_end: bool = False


@frozen
class EndSeen:
    """An execution ended that an event trigger waits for: a slot that is ``due``. ``state`` is how its ``attempt``
    ended then, ``at`` when that was; it may have been resumed since."""

    trigger: Trigger
    slot: str
    execution_id: str
    attempt: int
    state: ExecutionState
    at: datetime


@frozen
class Due:
    """What a scheduler has to look at: schedules whose ``look_at`` has come, and ends that were seen; ``now`` is the
    store's clock, ``look_at`` the next time there will be more."""

    now: datetime
    schedules: Sequence[Trigger]
    ends: Sequence[EndSeen]
    look_at: datetime | None


class TriggerExists(FloError):
    """A workflow has a trigger of that name already."""

    def __init__(self, full_name: str) -> None:
        self.full_name = full_name
        super().__init__(f"there is a trigger {full_name!r} already; choose another name, or remove it first")
