"""The composition root: a store, the step types and the interpreter, put together. The command and programs use
this."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import parse_qsl, unquote

from flo.engine.checking.load import Checked, check_input, load
from flo.engine.clock import Clock, SystemClock
from flo.engine.errors import FloError, InputInvalid, NotFound, did_you_mean
from flo.engine.events import Bus, Listener
from flo.engine.housekeeping import Sweeper
from flo.engine.interpreter import Interpreter
from flo.engine.language.workflow import Workflow
from flo.engine.lifecycle import Runner, RunResult
from flo.engine.registry import Registry
from flo.engine.renewal import Renewer
from flo.engine.stores.base import DataStore, ExecutionStore, Store, StoredWorkflow, WorkflowStore
from flo.engine.values import Json, JsonObject, plain

DEFAULT_URL: Final = "sqlite:.flo/flo.sqlite"
SCHEMES: Final = ("memory", "sqlite", "postgresql", "postgres", "postgresql+psycopg")


class Flo:
    """An open engine: use it as a context manager, or close it.

    ``data``, ``executions`` and ``workflows`` are the parts of its store. Safe to use from many threads.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock, listeners: Sequence[Listener] = ()) -> None:
        self.store, self.registry, self.clock = store, registry, clock
        self.bus = Bus(*listeners)
        self._renewer = Renewer(store.data, clock)
        interpreter = Interpreter(registry, store.executions)
        self._runner = Runner(store, interpreter, clock, self.bus, self._renewer, Sweeper(store.data, clock))

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
        found = self.workflows.get(name, version)
        if found is not None:
            return found
        if version is not None and self.workflows.get(name) is not None:
            raise NotFound("version", f"{version} of {name}")
        raise NotFound("stored workflow", name, (held.name for held in self.workflows.list()))

    def run(
        self,
        workflow: Workflow | str | Mapping[str, Json] | Path,
        initial: JsonObject | None = None,
        *,
        cancelled: threading.Event | None = None,
        timeout_ms: float | None = None,
    ) -> RunResult:
        """Run now, in this process, to its end. A text is the name of a stored workflow.

        ``initial`` is merged over the document's own ``initial``, shallowly. ``cancelled`` asks the run to stop;
        ``timeout_ms`` bounds it, together with ``options.timeoutMilliseconds``. A run that fails is a result, not an
        exception; ``NotFound``, ``WorkflowInvalid``, ``StoreError`` and ``ValueRefused`` (input that is no JSON) are
        raised.
        """
        version: int | None = None
        if isinstance(workflow, str):
            stored = self.stored(workflow)
            workflow, version = self.load(stored.document, f"workflow {stored.name!r}"), stored.version
        elif not isinstance(workflow, Workflow):
            workflow = self.load(workflow)
        given = plain({**workflow.initial, **(initial or {})}, ("initial",))
        assert isinstance(given, dict)
        if problems := check_input(workflow, given):
            return self._runner.reject(workflow, version, given, problems)
        timeouts = [timeout for timeout in (timeout_ms, workflow.options.timeout_ms) if timeout]
        return self._runner.run(workflow, version, given, cancelled=cancelled, timeout_ms=min(timeouts, default=None))

    def add(self, workflow: Workflow | Mapping[str, Json] | Path) -> StoredWorkflow:
        """Store a workflow under its name: a new version, unless the newest is the same."""
        if not isinstance(workflow, Workflow):
            workflow = self.load(workflow)
        if workflow.name is None:
            raise FloError(f"{workflow.source} has no name: a workflow needs one to be stored")
        return self.workflows.save(workflow.name, workflow.text, pinned_id=workflow.pinned_id)

    def close(self) -> None:
        """End the engine's threads and give the store's connections back."""
        self._renewer.close()
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
) -> Flo:
    """Open an engine over a store, and bring the store's schema up to date.

    ``url`` is ``memory:``, ``sqlite:PATH`` or ``postgresql://user:password@host:port/database``; None takes
    ``FLO_STORE`` from the environment, else ``.flo/flo.sqlite`` under the working folder. ``steps`` names Python files
    or modules with more step types, besides those of ``FLO_STEPS``. Raises ``StoreUnavailable``, ``StoreTooNew``.
    """
    registry = Registry.installed([*steps, *filter(None, os.environ.get("FLO_STEPS", "").split(os.pathsep))])
    store = open_store(url or os.environ.get("FLO_STORE") or DEFAULT_URL, clock)
    try:
        if migrate:
            store.migrate()
    except BaseException:
        store.close()
        raise
    return Flo(store, registry, clock or SystemClock(), listeners)


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store of ``url``; its schema is left as it is. An adapter's driver is imported when it is asked for."""
    scheme, colon, rest = url.partition(":")
    match scheme.lower() if colon else "":
        case "memory":
            from flo.engine.stores.memory import MemoryStore

            return MemoryStore(clock or SystemClock())
        case "sqlite":
            from flo.engine.stores.sqlite import SqliteStore

            path, synchronous = _sqlite_parts(url, rest)
            return SqliteStore.open(path, clock or SystemClock(), synchronous=synchronous)
        case "postgresql" | "postgres" | "postgresql+psycopg":
            from flo.engine.stores.postgres import PostgresStore

            return PostgresStore.open(url, clock)
    near = did_you_mean(scheme.partition("/")[0], SCHEMES) or f"; did you mean {f'sqlite:{url}'!r}?"
    raise InputInvalid("store", f"{url!r} is no store: write memory:, sqlite:PATH or postgresql://…{near}")


def _sqlite_parts(url: str, rest: str) -> tuple[Path, str]:
    """The file of a URL, and how sure a commit has to be that it is on the disk.

    ``sqlite:PATH`` is relative to the working folder unless PATH is absolute; ``sqlite:///PATH`` is absolute. The one
    option is ``?synchronous=``.
    """
    path, _, query = rest.removeprefix("//").partition("?")
    if not path:
        raise InputInvalid("store", f"{url!r} names no file: write sqlite:PATH")
    synchronous = "FULL"
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name != "synchronous":
            raise InputInvalid("store", f"{url!r} has an unknown option {name!r}; there is 'synchronous'")
        synchronous = value
    return Path(unquote(path)), synchronous


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
