"""A worker in a thread of a test, over any store, with a deliverer that does what jobs say."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flo.engine.clock import SystemClock
from flo.engine.events import Bus, ClaimEnded, Event
from flo.engine.executions import Execution
from flo.engine.renewal import Renewer
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.store import Store
from flo.engine.worker import Worker

from .working import Deliverer

PATIENCE = 20.0


def opened(url: str) -> Store:
    clock = SystemClock()
    if url == "memory:":
        return MemoryStore(clock)
    if url.startswith("sqlite:"):
        return SqliteStore.open(Path(url.removeprefix("sqlite:")), clock, synchronous="OFF")
    return PostgresStore.open(url)


class Shop:
    """A worker in a thread, and what it says."""

    def __init__(self, store: Store, **settings: Any) -> None:
        self.store = store
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: list[Event] = []
        self.deliverer = Deliverer(store, self.said.put)
        self.clock = SystemClock()
        self.renewer = Renewer(store, self.clock)
        self.worker = Worker(
            settings.pop("over", store), self.deliverer, self.renewer, self.clock, Bus(self._listen), **settings
        )
        self.stop, self.now = threading.Event(), threading.Event()
        self._tally: dict[str, Any] | None = None
        self._thread: threading.Thread | None = None

    def start(self, *, drain: bool = False) -> Shop:
        def work() -> None:
            self._tally = self.worker.run(self.stop, drain=drain, now=self.now).as_json()

        self._thread = threading.Thread(target=work)
        self._thread.start()
        return self

    def _listen(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ClaimEnded):
            self.said.put({"claim ended": event.execution.id})

    def heard(self, word: str) -> dict[str, Any]:
        """What it says next with this word in it; what it says before is passed over."""
        while True:
            message = self.said.get(timeout=PATIENCE)
            if word in message:
                return message

    def ended(self) -> dict[str, Any]:
        """The tally, once it has ended by itself."""
        assert self._thread is not None
        self._thread.join(PATIENCE)
        assert self._tally is not None, "the worker has not ended"
        return self._tally

    def stopped(self) -> dict[str, Any]:
        self.stop.set()
        return self.ended()

    def close(self) -> None:
        self.stop.set()
        self.now.set()
        self.deliverer.go.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)
        self.renewer.close()


def found(store: Store, execution_id: str) -> Execution:
    execution = store.executions.get(execution_id)
    assert execution is not None
    return execution


Make = Callable[..., Shop]
