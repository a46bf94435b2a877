"""Fires triggers when they come due, beside any number of other schedulers of the same store, until it is asked to
stop."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Final

from flo.engine.chores import Chore, Outage, around, hand_on, listen, start_thread
from flo.engine.errors import StoreError
from flo.engine.events import Bus
from flo.engine.frozen import frozen
from flo.engine.schedule.dealing import Dealer, LeftToOthers
from flo.engine.schedule.firing import Firer
from flo.engine.schedule.leaving import Leaving
from flo.engine.stores.store import Store
from flo.engine.triggers import Due, Trigger

log = logging.getLogger("flo.scheduler")

POLL_SECONDS: Final = 5.0
"""A scheduler that nothing wakes looks so often: a clock that jumps, or a message that is lost, costs no more."""

_BATCH: Final = 100
_AGAIN: Final = timedelta(milliseconds=50)
"""So long after something was due that another scheduler has dealt with."""

_SPACING: Final = 0.1
"""On SQLite a scheduler is woken by every change of the file, the work of others too."""


@frozen
class _Task:
    """Something that is due: how to deal with it, and what to do where that cannot be done. Both say whether they did
    anything."""

    trigger: Trigger
    deal: Callable[[], bool]
    give_up: Callable[[], bool]


class Scheduler:
    """Looks after the triggers of a store. The store decides who fires a slot; this asks it at the right moment."""

    def __init__(self, store: Store, firer: Firer, bus: Bus) -> None:
        self._store = store
        self._leaving = Leaving(firer.clock.monotonic)
        self._dealer = Dealer(store, firer, bus, self._leaving)
        self._looked_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Fire what comes due until ``stop`` is set. A store that is away is waited for."""
        self._dealer.stop = stop
        wakeups = listen("scheduler", self._store.triggers.wakeups, stop)
        if wakeups is None:
            return
        over = threading.Event()
        start_thread("flo-scheduler-stop", lambda: hand_on(stop, over, wakeups.wake))
        looking = Chore("look at its schedules", self._look, Outage("scheduler"))
        try:
            while not stop.is_set():
                looking.attempt()
                if wakeups.wait(looking.wait()):
                    looking.hasten(self._looked_at + _SPACING)
        finally:
            over.set()
            wakeups.close()

    def tick(self) -> timedelta | None:
        """Deal with what is due now, once around, a few slots of each trigger; gives when to look again: at once where
        something was done, None where nothing will come due by time. Raises ``StoreError``; the next one deals with
        what is left then."""
        due = self._store.triggers.due(_BATCH, apart=self._leaving.ids())
        self._leaving.forget(due.now)
        met = done = False
        for task in self._tasks(due):
            if self._dealer.stop.is_set():
                return timedelta()
            if not self._leaving.leaves(task.trigger):
                met = True
                done = self._guarded(task) or done
        if done:
            return timedelta()
        waits = [*self._leaving.waits(), *([_AGAIN] if met else [])]
        if due.look_at is not None:
            waits.append(max(due.look_at - due.now, timedelta()))
        return min(waits, default=None)

    def _tasks(self, due: Due) -> Iterator[_Task]:
        dealer = self._dealer
        for one in random.sample(due.schedules, len(due.schedules)):  # other schedulers begin with other ones
            yield _Task(one, partial(dealer.schedule, one, due.now), partial(dealer.put_off, one, due.now))
        for end in due.ends:
            yield _Task(end.trigger, partial(dealer.end, end, due.now), partial(dealer.give_up, end))

    def _look(self) -> float:
        self._looked_at = time.monotonic()
        pause = self.tick()
        return around(POLL_SECONDS) if pause is None else min(pause.total_seconds(), around(POLL_SECONDS))

    def _guarded(self, task: _Task) -> bool:
        """Do a task, and say whether that did anything; what goes wrong with it keeps no other one from being done."""
        try:
            return task.deal()
        except StoreError:
            raise
        except LeftToOthers as left:
            log.warning("trigger %r is left to other schedulers for now: %s", task.trigger.full_name, left)
            return False
        except Exception:
            log.exception("trigger %r cannot be dealt with", task.trigger.full_name)
            return task.give_up()
