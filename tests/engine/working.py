"""A small deliverer for the tests of workers, and a worker with it as a process of its own.

``working.py URL SETTINGS`` runs a worker over the store of a URL; it says what starts and ends as JSON lines on stdout.
SETTINGS is a JSON object: ``lease`` in seconds, ``concurrency``, ``drain``, ``process`` (whether it has a renewal
process).
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flo.engine.cancellation import Cancellation
from flo.engine.clock import SystemClock
from flo.engine.events import Bus
from flo.engine.executions import ExecutionState
from flo.engine.jobs import Again, Conclusion, Delivery, Ended, LeaseLost, Released, Request
from flo.engine.lifecycle import Told
from flo.engine.renewal import Renewer
from flo.engine.stores.store import Store
from flo.engine.worker import Worker

DEFINITION = '{"steps": []}'


def job(do: str, **more: Any) -> Request:
    """A request that a ``Deliverer`` understands."""
    options = {name: more.pop(name) for name in ("queue", "delay", "key", "deadline", "priority") if name in more}
    return Request(DEFINITION, "d" * 64, {"do": do, **more}, handler=f"test.{do}", **options)


def enqueued(store: Store, do: str, **more: Any) -> str:
    """Enqueue one job; gives its id."""
    [made] = store.queue.enqueue([job(do, **more)])
    return made.execution_id


class Deliverer:
    """Does what an execution's input says under ``do``, and tells what it does.

    ``end``: it succeeds. ``fail``: it fails. ``again``: it is tried again in an hour. ``block``: the interpreter stands
    still for so many ``seconds``. ``wait``: until it is asked to stop, or ``go`` is set. ``hang``: it hears nothing
    until ``go`` is set. ``break``: the deliverer itself fails.
    """

    def __init__(self, store: Store, say: Callable[[dict[str, Any]], object]) -> None:
        self._store, self._say = store, say
        self.go = threading.Event()

    def deliver(self, delivery: Delivery, cancellation: Cancellation, told: Told) -> None:
        name = delivery.execution.id
        self._say({"started": name, "fence": delivery.hold.fence})
        conclusion = self._work(delivery.execution.input, cancellation)
        if cancellation.event.is_set():
            self._say({"stopped": name, "reason": cancellation.reason})
            conclusion = Released()
        try:
            execution = self._store.queue.conclude(delivery.hold, conclusion)
        except LeaseLost:
            self._say({"lost": name, "fence": delivery.hold.fence})
            told.ended(None)
            return
        self._say({"ended": name, "fence": delivery.hold.fence})
        told.ended(execution)

    def _work(self, wanted: dict[str, Any], cancellation: Cancellation) -> Conclusion:
        match wanted["do"]:
            case "fail":
                return Ended(ExecutionState.FAILED, error={"code": "bad", "message": "no"})
            case "again":
                return Again(timedelta(hours=1), {"code": "bad", "message": "not yet"})
            case "block":
                ctypes.PyDLL(None).sleep(wanted["seconds"])  # it keeps the interpreter's lock
            case "wait":
                cancellation.tell(self.go.set)
                self.go.wait(30)
            case "hang":
                self.go.wait(30)
            case "break":
                raise RuntimeError("a mistake")
        return Ended(ExecutionState.SUCCESS)


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    from flo.engine.app import open_store
    from flo.engine.renewal_process import starter

    url, settings = sys.argv[1], json.loads(sys.argv[2])
    store, clock, stop = open_store(url), SystemClock(), threading.Event()
    renewer = Renewer(store, clock, starter(url) if settings.get("process", True) else None)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker = Worker(
        store,
        Deliverer(store, say),
        renewer,
        clock,
        Bus(),
        concurrency=settings.get("concurrency", 1),
        lease=timedelta(seconds=settings["lease"]),
        grace_seconds=settings.get("grace", 10),
    )
    say({"worker": worker.id})
    tally = worker.run(stop, drain=settings.get("drain", False))
    say({"tally": tally.as_json()})
    renewer.close()
    store.close()


if __name__ == "__main__":
    main()
