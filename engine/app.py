"""The composition root: a store, the step types and the interpreter, put together. The command and programs use
this."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from flo.engine.clock import Clock
from flo.engine.events import Listener
from flo.engine.executions import ExecutionState
from flo.engine.language.workflow import Workflow
from flo.engine.registry import Registry
from flo.engine.stores.base import DataStore, ExecutionStore, Store, StoredWorkflow
from flo.engine.values import Json, JsonObject


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. ``steps`` gives for each step by its id ``stepType status output error attempts
    durationMilliseconds``."""

    execution_id: str
    workflow: str | None
    state: ExecutionState
    output: Json
    steps: JsonObject
    error: JsonObject | None
    duration_ms: float

    @property
    def success(self) -> bool:
        return self.state in (ExecutionState.SUCCESS, ExecutionState.COMPLETED_WITH_ERRORS)

    def as_json(self) -> JsonObject:
        """``executionId workflow status success output steps error durationMilliseconds``."""
        raise NotImplementedError


class Flo:
    """An open engine. Use it as a context manager, or close it."""

    store: Store
    registry: Registry
    data: DataStore
    executions: ExecutionStore

    def load(self, document: str | bytes | Mapping[str, Json] | Path, source: str = "") -> Workflow:
        """Read, check and compile a document. Raises ``InputInvalid`` (no such file) or ``WorkflowInvalid``."""
        raise NotImplementedError

    def stored(self, name: str, version: int | None = None) -> Workflow:
        """Load a stored workflow. Raises ``NotFound``."""
        raise NotImplementedError

    def run(
        self,
        workflow: Workflow | str | Mapping[str, Json] | Path,
        initial: JsonObject | None = None,
        *,
        cancelled: threading.Event | None = None,
        timeout_ms: int | None = None,
        environment: str | None = None,
    ) -> RunResult:
        """Run now, in this process, to its end. A text is the name of a stored workflow."""
        raise NotImplementedError

    def add(self, workflow: Workflow | Mapping[str, Json] | Path) -> StoredWorkflow:
        """Store a workflow under its name."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the store."""

    def __enter__(self) -> Flo:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    url: str | None = None, *, clock: Clock | None = None, steps: Sequence[str] = (), listeners: Sequence[Listener] = ()
) -> Flo:
    """Open an engine over the store of ``url`` (``memory:``, ``sqlite:PATH``, ``postgresql://…``; None: ``FLO_STORE``,
    else ``.flo/flo.sqlite`` under the working folder), and migrate it. ``steps`` names files or modules with more step
    types."""
    raise NotImplementedError
