"""A process that fires slots of a trigger, for the tests of several processes at once.

``trigger_claimant.py URL MODE TRIGGER COUNT``. Says ``ready`` when the store is open, waits for a line, works, and
writes what it did to stdout as JSON lines. ``slots``: fire so many slots as the trigger was at first; print those that
were fired here. ``chase``: the same, but as the trigger is at each moment. ``change``: switch the trigger off and on,
and change its document, so many times, each time after something was fired, while there are slots; print after each
change the revision, whether the trigger is on, and how many firings there were.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scripts import begin, opened, say

from flo.engine.jobs import Request
from flo.engine.stores.store import Store
from flo.engine.triggers import Fire, Trigger, WantedTrigger

START = datetime(2026, 1, 1, tzinfo=UTC)
DOCUMENT = '{"steps": []}'
DIGEST = hashlib.sha256(DOCUMENT.encode()).hexdigest()
SLOTS = 100


def read(store: Store, trigger_id: str) -> Trigger:
    trigger = store.triggers.get(trigger_id)
    assert trigger is not None
    return trigger


def slot(trigger: Trigger, number: int) -> Fire:
    at = START + timedelta(minutes=number)
    request = Request(DOCUMENT, DIGEST, {"slot": number, "revision": trigger.revision}, workflow="report")
    return Fire(trigger.id, trigger.revision, str(number), request, scheduled_at=at, cursor=at, look_at=at)


def slots(store: Store, trigger_id: str, count: int) -> None:
    trigger = read(store, trigger_id)
    for number in range(1, count + 1):
        fire = slot(trigger, number)
        assert fire.cursor is not None
        while True:
            if store.triggers.fire(fire) is not None:
                say(number)
            if read(store, trigger_id).cursor >= fire.cursor:  # else another process was at another slot
                break


def chase(store: Store, trigger_id: str, count: int) -> None:
    for number in range(1, count + 1):
        while True:
            trigger = read(store, trigger_id)
            if store.triggers.fire(replace(slot(trigger, number), cursor=None)) is not None:
                say(number)
                break
            if any(firing.slot == str(number) for firing in store.triggers.firings(trigger_id, limit=SLOTS)):
                break


def change(store: Store, trigger_id: str, count: int) -> None:
    def tell() -> None:
        trigger = read(store, trigger_id)
        say([trigger.revision, trigger.enabled, fired(store, trigger_id)])

    for number in range(count):
        store.triggers.enable(trigger_id, False)
        tell()
        wanted = WantedTrigger("hourly", "schedule", {"n": number}, timing="hourly")
        store.workflows.save("report", f'{{"n": {number}}}', triggers=[wanted])
        tell()
        before = fired(store, trigger_id)
        store.triggers.enable(trigger_id, True)
        tell()
        while before == fired(store, trigger_id) <= SLOTS:
            pass


def fired(store: Store, trigger_id: str) -> int:
    return len(store.triggers.firings(trigger_id, limit=10_000))


def main(url: str, mode: str, trigger_id: str, count: str) -> None:
    store = opened(url)
    read(store, trigger_id)
    begin()
    {"slots": slots, "chase": chase, "change": change}[mode](store, trigger_id, int(count))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
