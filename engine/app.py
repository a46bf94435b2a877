"""The composition root: a store, the step types and the interpreter, put together. The command and programs use
this. What a plain run does without is imported where it is used: each call of the command waits for the imports."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from flo.engine.attended import Attendant, RunResult
from flo.engine.body import GRACE_SECONDS
from flo.engine.checking.load import Checked, load
from flo.engine.clock import Clock, SystemClock
from flo.engine.errors import FloError, InputInvalid, did_you_mean
from flo.engine.events import Bus, Listener
from flo.engine.executions import Execution
from flo.engine.finishing import Finisher
from flo.engine.housekeeping import Housekeeper
from flo.engine.interpreter import Interpreter
from flo.engine.isolation.steps import IsolatedSteps
from flo.engine.jobs import AS_USUAL, LEASE, Enqueued, JobOptions, Retention, Wait
from flo.engine.language.workflow import Workflow
from flo.engine.lifecycle import Runner
from flo.engine.opening import DEFAULT_URL, open_environments, open_keyring, open_store
from flo.engine.patience import patiently
from flo.engine.registry import Registry
from flo.engine.renewal import Renewer, StartDeputy
from flo.engine.renewal_process import starter
from flo.engine.requests import Requests, misfit
from flo.engine.sealing import KEY_VARIABLE
from flo.engine.stores.base import DataStore, ExecutionStore, StoredWorkflow, WorkflowStore
from flo.engine.stores.store import Store
from flo.engine.values import Json, JsonObject
from flo.engine.vaults import Vaults

if TYPE_CHECKING:
    from flo.engine.environments.loading import Loaded
    from flo.engine.operating import Operations
    from flo.engine.schedule.firing import Firer
    from flo.engine.schedule.operating import Triggers
    from flo.engine.schedule.scheduler import Scheduler
    from flo.engine.worker import Worker


class Flo:
    """An open engine: use it as a context manager, or close it.

    ``data``, ``executions`` and ``workflows`` are the parts of its store. Safe to use from many threads.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        listeners: Sequence[Listener] = (),
        start: StartDeputy | None = None,
        vaults: Vaults | None = None,
    ) -> None:
        self.store, self.registry, self.clock = store, registry, clock
        self.bus = Bus(*listeners)
        self._renewer = Renewer(store, clock, start)
        self._requests = Requests(registry, store.workflows, clock, vaults)
        self._isolation = IsolatedSteps(registry.source)
        self._runner = Runner(
            store,
            Interpreter(registry),
            self._requests,
            clock,
            self.bus,
            self._renewer,
            self._isolation,
            Finisher(store, clock),
        )
        self._housekeeper = Housekeeper(store, self._requests, clock)
        self._attendant = Attendant(self._runner, self._housekeeper)

    @property
    def data(self) -> DataStore:
        """The rows."""
        return self.store.data

    @property
    def executions(self) -> ExecutionStore:
        """The executions."""
        return self.store.executions

    @property
    def workflows(self) -> WorkflowStore:
        """The stored workflows."""
        return self.store.workflows

    @cached_property
    def triggers(self) -> Triggers:
        """What people do with triggers."""
        from flo.engine.schedule.operating import Triggers

        return Triggers(self.store, self._requests, self._firer, self.bus)

    def check(self, document: str | bytes | Mapping[str, Json] | Path, source: str = "workflow") -> Checked:
        """Read, check and compile a document: JSON text, its bytes, an object, or a file.

        Gives the workflow and the warnings. Raises ``InputInvalid`` for a file that cannot be read,
        ``WorkflowInvalid`` with every problem of a document that is wrong.
        """
        if isinstance(document, Path):
            return load(read_file(document), self.registry, str(document))
        return load(document, self.registry, source)

    def load(self, document: str | bytes | Mapping[str, Json] | Path, source: str = "workflow") -> Workflow:
        """As ``check``, without the warnings."""
        return self.check(document, source).workflow

    def stored(self, name: str, version: int | None = None) -> StoredWorkflow:
        """A stored workflow, the newest version unless one is named. Raises ``NotFound``."""
        return self._requests.stored(name, version)

    def run(
        self,
        workflow: Workflow | str | Mapping[str, Json] | Path,
        initial: JsonObject | None = None,
        *,
        cancelled: threading.Event | None = None,
        timeout_ms: float | None = None,
        environment: str | None = None,
    ) -> RunResult:
        """Run now, in this process, to its end. A text is the name of a stored workflow.

        ``initial`` is merged over the document's own ``initial``, shallowly. ``cancelled`` asks the run to stop;
        ``timeout_ms`` bounds it, together with ``options.timeoutMilliseconds``. ``environment`` fills ``$env``,
        whatever the workflow says. A run that fails is a result, not an exception; ``NotFound``, ``WorkflowInvalid``,
        ``StoreError`` and ``ValueRefused`` (input that is no JSON) are raised. A run that waits (``core.wait``, a
        signal, an approval) is waited for.
        """
        found, version = self._find(workflow)
        if environment is not None:
            self._requests.vaults.load(environment)  # one that is not there is told before anything runs
        request = self._requests.of_workflow(found, version, initial, None, environment=environment)
        if said := misfit(found, request.input):
            return self._attendant.reject(request, said)
        return self._attendant.run(request, found, cancelled=cancelled, timeout_ms=timeout_ms)

    def enqueue(
        self,
        workflow: Workflow | str | Mapping[str, Json] | Path,
        initial: JsonObject | None = None,
        options: JobOptions = AS_USUAL,
    ) -> Enqueued:
        """Put an execution into a queue: of a workflow, or of a step type, by its name, with ``initial`` as its input.

        What this returned is stored, and a worker will run it. Raises ``NotFound``, ``WorkflowInvalid``,
        ``InputInvalid`` where the input does not fit, ``KeyConflict``, ``StoreError``.
        """
        return self.enqueue_many(workflow, [initial], options)[0]

    def enqueue_many(
        self,
        workflow: Workflow | str | Mapping[str, Json] | Path,
        initials: Sequence[JsonObject | None],
        options: JobOptions = AS_USUAL,
    ) -> Sequence[Enqueued]:
        """As ``enqueue``, for many inputs: all or none. With a key, they get ``key-1``, ``key-2``, …"""
        asked = self._requests
        found = asked.find(workflow, options.kind) if isinstance(workflow, str) else self._find(workflow)
        requests = []
        wanted, numbered = options, options.key is not None and len(initials) > 1
        for number, initial in enumerate(initials, 1):
            if numbered:
                wanted = replace(options, key=f"{options.key}-{number}")
            if isinstance(found, str):
                requests.append(asked.of_handler(found, initial, wanted))
            else:
                requests.append(asked.of_document(*found, initial, wanted))
        return self.store.queue.enqueue([asked.vaults.stored(request) for request in requests])

    def worker(
        self,
        queues: Sequence[str] = ("default",),
        *,
        concurrency: int = 4,
        lease: timedelta = LEASE,
        grace_seconds: float = GRACE_SECONDS,
    ) -> Worker:
        """A worker for these queues: ``run`` it."""
        from flo.engine.worker import Worker

        runner = replace(self._runner, lease=lease, grace_seconds=grace_seconds)
        return Worker(
            self.store,
            runner,
            self._renewer,
            self.clock,
            self.bus,
            queues=queues,
            concurrency=concurrency,
            lease=lease,
            grace_seconds=grace_seconds,
            housekeeper=self._housekeeper.sweep,
        )

    def scheduler(self) -> Scheduler:
        """A scheduler for the triggers of the store: ``run`` it. What it fires, workers run."""
        from flo.engine.schedule.scheduler import Scheduler

        return Scheduler(self.store, self._firer, self.bus)

    def run_pending(
        self, execution_id: str, *, cancelled: threading.Event | None = None, timeout_ms: float | None = None
    ) -> RunResult:
        """Let an execution go on here that no queue delivers: one that was resumed, that waits, or whose process is
        gone. Raises ``NotFound``, ``IllegalState`` where it cannot be had now."""
        found = self._operations.find(execution_id)
        return self._attendant.go_on(found.id, cancelled=cancelled, timeout_ms=timeout_ms)

    def replay_here(
        self, execution_id: str, *, cancelled: threading.Event | None = None, timeout_ms: float | None = None
    ) -> RunResult:
        """Run an execution anew, here and now, with the same input."""
        request = replace(self._operations.again(self._operations.find(execution_id)), queue=None)
        workflow = self._requests.compiled(request.definition, request.digest, f"workflow {request.workflow!r}")
        return self._attendant.run(request, workflow, cancelled=cancelled, timeout_ms=timeout_ms)

    def cancel(self, execution_id: str) -> Sequence[str]:
        """Cancel an execution, and everything unfinished that it started, wherever it runs; gives the ids. Raises
        ``IllegalMove`` where it has ended."""
        return self._operations.cancel(execution_id)

    def resume(self, execution_id: str, initial: JsonObject | None = None) -> Execution:
        """Let a failed or timed out execution go on after the last finished step: it is ``pending`` again. One that no
        queue delivers goes on by ``run_pending``. Raises ``InputInvalid`` for another input, ``IllegalMove``."""
        return self._operations.resume(execution_id, initial)

    def replay(self, execution_id: str) -> Enqueued:
        """Enqueue an execution anew with the same input and the newest version of its workflow."""
        return self._operations.replay(execution_id)

    def replay_dead(self, execution_id: str) -> Enqueued:
        """As ``replay``, for a dead letter, once: a second time gives the first one's execution."""
        return self._operations.replay_dead(execution_id)

    def signal(self, execution_id: str, name: str, payload: JsonObject | None = None) -> None:
        """Leave a signal for an execution, which takes it when it waits for one of that name."""
        self._operations.signal(execution_id, name, payload)

    def approve(
        self,
        execution_id: str,
        *,
        actor: str,
        approved: bool = True,
        reason: str | None = None,
        path: str | None = None,
    ) -> Wait:
        """Decide the approval that an execution waits for. Raises ``InputInvalid`` where ``actor`` may not."""
        return self._operations.approve(execution_id, actor=actor, approved=approved, reason=reason, path=path)

    def prune(self, retention: Retention | None = None, *, workflow: str | None = None) -> int:
        """Remove the ended executions that are past their retention; gives how many."""
        return self._housekeeper.prune(retention, workflow=workflow)

    @cached_property
    def _operations(self) -> Operations:
        from flo.engine.operating import Operations

        return Operations(self.store, self._requests)

    @cached_property
    def _firer(self) -> Firer:
        from flo.engine.schedule.firing import Firer

        return Firer(self._requests, self.clock)

    def _find(self, workflow: Workflow | str | Mapping[str, Json] | Path) -> tuple[Workflow, int | None]:
        """A workflow, and its version where it is a stored one."""
        if isinstance(workflow, str):
            stored = self.stored(workflow)
            source = f"workflow {stored.name!r}"
            return self._requests.compiled(stored.document, stored.digest, source), stored.version
        return workflow if isinstance(workflow, Workflow) else self.load(workflow), None

    def add(self, workflow: Workflow | Mapping[str, Json] | Path) -> StoredWorkflow:
        """Store a workflow under its name: a new version, unless the newest is the same; its triggers are brought in
        step with it."""
        if not isinstance(workflow, Workflow):
            workflow = self.load(workflow)
        if workflow.name is None:
            raise FloError(f"{workflow.source} has no name: a workflow needs one to be stored")
        return self.workflows.save(
            workflow.name, workflow.text, pinned_id=workflow.pinned_id, triggers=workflow.triggers
        )

    def close(self) -> None:
        """End the engine's threads and give the store's connections back."""
        self._renewer.close()
        self._isolation.close()
        self.store.close()

    def __enter__(self) -> Flo:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    steps: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
    migrate: bool = True,
    strict_plugins: bool = False,
) -> Flo:
    """Open an engine over a store, and bring the store's schema up to date.

    ``url`` is ``memory:``, ``sqlite:PATH`` or ``postgresql://user:password@host:port/database``; None takes
    ``FLO_STORE`` from the environment, else ``.flo/flo.sqlite`` under the working folder. ``steps`` names Python files
    or modules with more step types, besides those of ``FLO_STEPS``; one that is broken is left aside, unless
    ``strict_plugins``, or ``FLO_STRICT_PLUGINS=1`` in the environment, makes an error of it. Raises ``FloError`` for
    that, ``InputInvalid`` for a file that is not there, ``StoreUnavailable``, ``StoreTooNew``.
    """
    registry = Registry.installed([*steps, *filter(None, os.environ.get("FLO_STEPS", "").split(os.pathsep))])
    if strict_plugins or os.environ.get("FLO_STRICT_PLUGINS", "0") not in ("", "0"):
        registry.refuse_broken()
    full = url or os.environ.get("FLO_STORE") or DEFAULT_URL
    store = open_store(full, clock)
    try:
        if migrate:
            store.migrate()
    except BaseException:
        store.close()
        raise
    start = None if clock is not None or store.url == "memory:" else starter(full)
    ticking = clock or SystemClock()
    keyring = open_keyring(full, os.environ)
    if os.environ.get(KEY_VARIABLE):
        keyring.find()  # one that is none is told now, and not by the first step that has a secret
    environments = open_environments(store, keyring, os.environ)

    def load(name: str | None) -> Loaded:
        return patiently(ticking, "read the environment", lambda doubt: environments.load(name))

    return Flo(store, registry, ticking, listeners, start, Vaults(load, keyring.find))


def read_file(path: Path) -> bytes:
    """Read a document. Raises ``InputInvalid`` that names the nearest file of the folder where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent
        near = [str(folder / held.name) for held in folder.iterdir()] if folder.is_dir() else []
        raise InputInvalid(str(path), f"there is no such file{did_you_mean(str(path), near)}") from None
    except IsADirectoryError:
        raise InputInvalid(str(path), "it is a folder, not a file") from None
    except OSError as error:
        raise InputInvalid(str(path), f"it cannot be read: {error.strerror}") from error
