"""What a queue takes and gives: a request to run something, the claim of a worker on it, and how that claim ends."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final, Literal

from flo.engine.errors import FloError
from flo.engine.executions import DeadReason, Execution, ExecutionState, LogLine, StepRecord
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.retry import Retry
from flo.engine.secrecy import shown_forms
from flo.engine.values import Json, JsonObject, new_id

LEASE: Final = timedelta(seconds=30)
"""How long a claim holds without being renewed."""

MAX_EXPIRIES: Final = 5
"""An execution whose worker was lost so often, and then once more, is not given to another one."""

MAX_BATCH: Final = 1_000
"""So many requests can be enqueued together."""

MAX_DEPTH: Final = 10
"""How deep executions may call executions, the first one counted."""

JOB_RETRY: Final = Retry(4, "exponential", 60.0, 3600.0, 0.1)
"""A queued step type: three retries. A workflow is retried as its ``options.retry`` says."""


@frozen
class Request:
    """What is to run: a workflow, or one step type (``handler``), with its input.

    ``definition`` is the document as JSON text, ``digest`` its SHA-256. ``queue`` None: it is started by who asks for
    it. ``delay`` counts from the store's now and replaces ``run_at``. At most ``concurrency_limit`` executions of one
    ``concurrency_key`` run at a moment (None: what the queue allows, or one); ``when_full`` says whether another one
    waits, or is rejected. ``identity`` is what two requests of one idempotency ``key`` must have in common.
    ``trigger_id`` is of the trigger that fired it, ``led_by`` the depth of the execution whose end did. ``environment``
    names what fills ``$env``, None for the default one; ``environment_chosen`` says that somebody chose it, whatever
    the workflow says. ``input_text`` is the input as JSON, where that was written already.
    """

    definition: str
    digest: str
    input: JsonObject
    workflow: str | None = None
    version: int | None = None
    handler: str | None = None
    queue: str | None = "default"
    priority: int = 0
    run_at: datetime | None = None
    delay: timedelta | None = None
    deadline: datetime | None = None
    key: str | None = None
    identity: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    when_full: Literal["queue", "reject"] = "queue"
    trigger: str = "manual"
    trigger_id: str | None = None
    led_by: int = 0
    parent_id: str | None = None
    parent_path: str | None = None
    replay_of: str | None = None
    environment: str | None = None
    environment_chosen: bool = False
    id: str = field(default_factory=new_id)
    input_text: str | None = field(default=None, compare=False, repr=False)


def owner_id() -> str:
    """A name for an owner that no other one has, nor a later start of the same process: ``host-pid-random``."""
    return f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"


@frozen
class JobOptions:
    """How a job is enqueued: the fields of ``Request`` that a producer chooses.

    ``kind`` says what its target is; None: a stored workflow of that name, or else a step type. ``environment`` is
    where it runs; without, it is what its workflow says, or else ``inherited_environment``.
    """

    queue: str = "default"
    priority: int = 0
    run_at: datetime | None = None
    delay: timedelta | None = None
    deadline: datetime | None = None
    key: str | None = None
    concurrency_key: str | None = None
    kind: Literal["workflow", "handler"] | None = None
    environment: str | None = None
    inherited_environment: str | None = None


AS_USUAL: Final = JobOptions()
"""The queue ``default``, at once."""


@frozen
class Enqueued:
    """The execution of a request, and whether this call made it. ``state`` is ``rejected`` where its concurrency key
    was full."""

    execution_id: str
    created: bool
    state: ExecutionState

    def as_json(self) -> JsonObject:
        """``executionId created status``."""
        return {"executionId": self.execution_id, "created": self.created, "status": self.state.value}


@frozen
class Hold:
    """The claim of one owner on one execution. ``token`` is secret and new with each claim, ``fence`` one higher."""

    execution_id: str
    token: str
    fence: int
    worker: str


@frozen
class Delivery:
    """An execution as its owner got it: its claim, and what an earlier owner left behind.

    ``variables`` is ``$vars``, ``tolerated`` the failures that were tolerated, ``last_line`` the number of the last log
    line. ``begun`` says that an earlier owner may have recorded steps.
    """

    execution: Execution
    hold: Hold
    variables: JsonObject = field(default_factory=dict)
    tolerated: int = 0
    last_line: int = 0
    begun: bool = False


@frozen
class Claimed:
    """What a claim gave, in order. ``next_due`` says when to look again: None, when nothing is known to come due."""

    deliveries: Sequence[Delivery]
    next_due: datetime | None = None


@frozen
class Entries:
    """What an owner writes down about its execution.

    Records of steps (one of the same path is replaced), log lines, and the paths of steps whose outputs lie in the
    record of their iteration by now. ``variables`` and ``tolerated`` are written where they are given.
    """

    steps: Sequence[StepRecord] = ()
    lines: Sequence[LogLine] = ()
    covered: Sequence[str] = ()
    variables: JsonObject | None = None
    tolerated: int | None = None

    def __bool__(self) -> bool:
        return bool(self.steps or self.lines or self.covered) or not (self.variables is None and self.tolerated is None)


NOTHING: Final = Entries()


@frozen
class Ended:
    """A claim ends with the execution: a final state. ``reason`` makes it a dead letter."""

    state: ExecutionState
    output: Json = None
    error: JsonObject | None = None
    reason: DeadReason | None = None


@frozen
class Again:
    """A claim ends with a failure that is tried again after ``delay``: ``retrying``, the attempt one higher."""

    delay: timedelta
    error: JsonObject


@frozen
class Released:
    """A claim ends as if it had not been: ``pending``, due after ``delay``. Its owner stops working."""

    delay: timedelta = timedelta()


@frozen
class Parked:
    """A claim ends since the execution waits: ``suspended``, due at ``until`` or when one of its waits is answered."""

    until: datetime | None = None


Conclusion = Ended | Again | Released | Parked
"""How the claim of an owner ends."""


@frozen
class Ending:
    """The end of an execution, which is to be written: who holds it, how it ends, the last entries, and the execution
    as its owner got it."""

    hold: Hold
    ended: Ended
    entries: Entries
    of: Execution


@frozen
class Wait:
    """What an execution waits for at one step: a time, a signal by its name, an approval, another execution's end.

    ``until`` is when it stops waiting. ``details`` are for people, and hold ``approvers`` of an approval. ``answer`` is
    None until it came.
    """

    path: str
    kind: Literal["time", "signal", "approval", "execution"]
    name: str = ""
    until: datetime | None = None
    details: JsonObject = field(default_factory=dict)
    answer: JsonObject | None = None

    def as_json(self) -> JsonObject:
        """``step kind name until details answer``."""
        return {
            "step": self.path,
            "kind": self.kind,
            "name": self.name,
            "until": None if self.until is None else write_instant(self.until),
            "details": self.details,
            "answer": shown_forms(self.answer),
        }


@frozen
class Attempt:
    """One claim of an execution that did not end it: whose it was, from when to when, and how it ended: ``retrying``,
    ``released``, ``suspended``, ``expired``, or the final state of an execution that was resumed."""

    fence: int
    worker: str | None
    claimed_at: datetime | None
    ended_at: datetime
    outcome: str
    error: JsonObject | None = None

    def as_json(self) -> JsonObject:
        """``claim worker claimedAt endedAt outcome error``."""
        return {
            "claim": self.fence,
            "worker": self.worker,
            "claimedAt": None if self.claimed_at is None else write_instant(self.claimed_at),
            "endedAt": write_instant(self.ended_at),
            "outcome": self.outcome,
            "error": self.error,
        }


@frozen
class Limits:
    """The bounds of a queue, None for no bound: how many run at a moment, in all and of one concurrency key; and how
    many of one key start within ``per_key_seconds``."""

    running: int | None = None
    running_per_key: int | None = None
    starts_per_key: int | None = None
    per_key_seconds: float | None = None


@frozen
class QueueInfo:
    """How a queue stands. ``due`` waits now, ``later`` has a time to come (retries too), ``running`` has a live lease.

    ``oldest_due`` is when the one that waits longest came due. ``finished_last_minute`` counts those that ended within
    the last 60 seconds.
    """

    name: str
    paused: bool = False
    limits: Limits = field(default_factory=Limits)
    due: int = 0
    later: int = 0
    running: int = 0
    suspended: int = 0
    dead: int = 0
    finished_last_minute: int = 0
    oldest_due: datetime | None = None

    def as_json(self) -> JsonObject:
        """``name paused due later running suspended dead finishedLastMinute oldestDue limits``."""
        limits: Mapping[str, Json] = {
            "running": self.limits.running,
            "runningPerKey": self.limits.running_per_key,
            "startsPerKey": self.limits.starts_per_key,
            "perKeySeconds": self.limits.per_key_seconds,
        }
        return {
            "name": self.name,
            "paused": self.paused,
            "due": self.due,
            "later": self.later,
            "running": self.running,
            "suspended": self.suspended,
            "dead": self.dead,
            "finishedLastMinute": self.finished_last_minute,
            "oldestDue": None if self.oldest_due is None else write_instant(self.oldest_due),
            "limits": {name: value for name, value in limits.items() if value is not None},
        }


@frozen
class Retention:
    """How long finished executions are kept: by age, and the newest so many. None: without that bound."""

    age: timedelta | None = timedelta(days=14)
    count: int | None = 10_000


class LeaseLost(FloError):
    """An owner's claim is not valid any more: nothing was written. Says who has the execution now, or how it stands."""

    exit_code = 3

    def __init__(
        self, execution_id: str, state: ExecutionState | None, worker: str | None = None, fence: int | None = None
    ) -> None:
        self.execution_id, self.state, self.worker, self.fence = execution_id, state, worker, fence
        if state is None:
            now = "it is gone"
        elif state is ExecutionState.RUNNING:
            now = f"worker {worker!r} holds it, by claim {fence}"
        else:
            now = f"it is {state}"
        super().__init__(f"the claim on execution {execution_id} is lost: {now}; nothing was written")


class KeyConflict(FloError):
    """The idempotency key is that of another request."""

    def __init__(self, key: str, execution_id: str) -> None:
        self.key, self.execution_id = key, execution_id
        super().__init__(
            f"the key {key!r} belongs to execution {execution_id}, which has another workflow, queue or input;"
            " a new request needs a new key"
        )
