"""A process that works on queues, for the tests of several processes at once.

``queue_claimant.py URL NAME MODE [NUMBER]``. Says ``ready`` when the store is open, waits for a line, works, and writes
what it did to stdout as JSON lines. ``drain``: claim until nothing is due, and print the ids of each claim. ``key``:
enqueue one key, and print what became of it. ``keyed``: claim, own and conclude until the queue is idle; print for each
claim the execution, its key, and between which moments (seconds of the machine's monotonic clock) it was certainly
held. ``mixed``: so many operations of all kinds by chance; print each end that was written. ``hold``: claim five, print
them, and wait to be killed.
"""

from __future__ import annotations

import hashlib
import random
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta

from scripts import begin, opened, say

from flo.engine.executions import ExecutionState, IllegalMove
from flo.engine.jobs import LEASE, Again, Conclusion, Delivery, Ended, Hold, LeaseLost, Parked, Released, Request, Wait
from flo.engine.stores.store import Store

DOCUMENT = '{"steps": []}'
DIGEST = hashlib.sha256(DOCUMENT.encode()).hexdigest()
QUEUES = ("default",)
NO_TIME = timedelta()


def drain(store: Store, name: str) -> None:
    while taken := store.queue.claim(QUEUES, worker=name, lease=60 * LEASE, limit=7).deliveries:
        say([delivery.execution.id for delivery in taken])


def key(store: Store, name: str) -> None:
    request = Request(DOCUMENT, DIGEST, {"by": name}, handler="core.log", key="k", identity="i")
    say([enqueued.as_json() for enqueued in store.queue.enqueue([request])])


def keyed(store: Store, name: str) -> None:
    wakeups = store.queue.wakeups(QUEUES)
    while not store.queue.idle(QUEUES):
        deliveries = store.queue.claim(QUEUES, worker=name, lease=60 * LEASE, limit=3).deliveries
        since = time.monotonic()
        for delivery in deliveries:
            store.queue.own(delivery.hold, lambda owned: owned.now())
        for delivery in deliveries:
            until = time.monotonic()
            store.queue.conclude(delivery.hold, Ended(ExecutionState.SUCCESS, name))
            say([delivery.execution.id, delivery.execution.concurrency_key, since, until])
        if not deliveries:
            wakeups.wait(0.02)
    wakeups.close()


class Mixed:
    """Operations by chance, and the holds and executions that they are about."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._chance = random.Random(name)
        self._holds: list[Hold] = []
        self._known: list[str] = []

    def work(self, count: int) -> None:
        kinds = [self._enqueue, self._claim, self._claim, self._conclude, self._conclude, self._renew, self._cancel,
                 self._write, self._bury]  # fmt: skip
        for number in range(count):
            with suppress(LeaseLost):
                self._chance.choice(kinds)(number)

    def _enqueue(self, number: int) -> None:
        requests = [self._request() for _ in range(self._chance.randint(1, 5))]
        self._known += [enqueued.execution_id for enqueued in self._store.queue.enqueue(requests)]

    def _request(self) -> Request:
        chance = self._chance
        limit = chance.choice([None, 2, 3])
        return Request(
            DOCUMENT,
            DIGEST,
            {},
            handler="core.log",
            priority=chance.randint(0, 3),
            key=chance.choice([None, f"k{chance.randint(0, 40)}"]),
            concurrency_key=None if limit is None else f"c{limit}",
            concurrency_limit=limit,
        )

    def _claim(self, number: int) -> None:
        lease = self._chance.choice([NO_TIME, 60 * LEASE, 60 * LEASE])
        claim = self._store.queue.claim(QUEUES, worker=self._name, lease=lease, limit=self._chance.randint(1, 4))
        self._holds += [delivery.hold for delivery in claim.deliveries]
        self._known += [hold.execution_id for hold in self._holds[-1:]]

    def _conclude(self, number: int) -> None:
        if not self._holds:
            return
        hold = self._holds.pop(self._chance.randrange(len(self._holds)))
        conclusion: Conclusion = self._chance.choice(
            [
                Ended(ExecutionState.SUCCESS, f"{self._name}-{number}"),
                Ended(ExecutionState.FAILED, f"{self._name}-{number}"),
                Again(NO_TIME, {"code": "busy"}),
                Released(),
                Parked(self._store.data.now()),
            ]
        )
        ended = self._store.queue.conclude(hold, conclusion)
        if ended.state.final:
            say([ended.id, ended.state.value, ended.output])

    def _renew(self, number: int) -> None:
        self._holds = list(self._store.queue.renew(self._holds, lease=60 * LEASE))

    def _cancel(self, number: int) -> None:
        if self._known and self._chance.random() < 0.3:
            execution_id = self._chance.choice(self._known)
            with suppress(IllegalMove):  # it has ended
                self._store.executions.cancel(execution_id)
                say([execution_id, "cancelled", None])

    def _write(self, number: int) -> None:
        if self._holds:
            hold = self._chance.choice(self._holds)
            self._store.queue.own(hold, lambda owned: owned.data.set("t", hold.execution_id, {"fence": hold.fence}))
            self._store.queue.own(hold, lambda owned: owned.wait(Wait("ask", "signal", "go")), exclusive=True)

    def _bury(self, number: int) -> None:
        for execution in self._store.queue.bury():
            say([execution.id, execution.state.value, execution.output])


def hold(store: Store, name: str) -> None:
    taken: list[Delivery] = list(store.queue.claim(QUEUES, worker=name, lease=60 * LEASE, limit=5).deliveries)
    say([[delivery.execution.id, delivery.hold.token] for delivery in taken])
    threading.Event().wait()


def main(url: str, name: str, mode: str, number: str = "0") -> None:
    store = opened(url)
    store.queue.idle(QUEUES)
    begin()
    match mode:
        case "drain":
            drain(store, name)
        case "key":
            key(store, name)
        case "keyed":
            keyed(store, name)
        case "mixed":
            Mixed(store, name).work(int(number))
        case "hold":
            hold(store, name)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
