"""A process that works on a queue in a SQLite file, for the tests of several processes.

``claimant.py FILE NAME MODE [ROUNDS]`` writes what it did to stdout as JSON lines. ``drain``: claim until nothing is
pending, and print the keys. ``rounds``: so many times claim one row and update it, with a row of its own added, and
print how often each failed. ``hold``: claim three rows, print them, and wait to be killed. ``fork``: write before and
after a fork, from both processes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from flo.engine.clock import SystemClock
from flo.engine.errors import FloError
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.stores.sqlite import SqliteStore

PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])
OLDEST = parse_order({"field": "createdAt"})
DONE = parse_changes([{"field": "status", "operation": "set", "value": "done"}])


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def drain(store: SqliteStore, name: str) -> None:
    while rows := store.data.claim("queue", PENDING, OLDEST, limit=10, holder=name, changes=()):
        say([row.key for row in rows])


def rounds(store: SqliteStore, name: str, count: int) -> None:
    failures: list[str] = []
    slowest = 0.0
    for number in range(count):
        started = time.monotonic()
        try:
            store.data.set("queue", f"{name}-{number}", {"status": "pending"})
            for row in store.data.claim("queue", PENDING, OLDEST, limit=1, holder=name, changes=()):
                store.data.update("queue", row.key, EVERY, DONE)
        except FloError as error:
            failures.append(str(error))
        slowest = max(slowest, time.monotonic() - started)
    say({"failures": failures, "slowest": slowest})


def hold(store: SqliteStore, name: str) -> None:
    say([row.key for row in store.data.claim("queue", PENDING, OLDEST, limit=3, holder=name, changes=())])
    threading.Event().wait()


def fork(store: SqliteStore, name: str) -> None:
    store.data.set("queue", "before", {})
    child = os.fork()
    who = "parent" if child else "child"
    for number in range(20):
        store.data.set("queue", f"{who}-{number}", {})
    if not child:
        os._exit(0)
    say(os.waitpid(child, 0)[1])


def main(file: str, name: str, mode: str, count: str = "0") -> None:
    store = SqliteStore.open(Path(file), SystemClock())
    match mode:
        case "drain":
            drain(store, name)
        case "rounds":
            rounds(store, name, int(count))
        case "hold":
            hold(store, name)
        case "fork":
            fork(store, name)
        case "migrate":
            say(store.migrate())
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
