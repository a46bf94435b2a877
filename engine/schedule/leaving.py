"""Triggers that a scheduler leaves to others, since it cannot load their workflow: for how long, and until when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from flo.engine.frozen import frozen
from flo.engine.triggers import Trigger

HANDOVER: Final = timedelta(seconds=60)
"""What this process cannot fire (a step type is not there) is left to other schedulers for so long."""

_PAUSE_SECONDS: Final = 5.0
_MEMORY: Final = timedelta(days=1)


@frozen
class _Left:
    """``until`` on the machine's clock it is not looked at, ``since`` on the store's it cannot be fired, and its cursor
    as far as this scheduler knows."""

    until: float
    since: datetime
    cursor: datetime


class Leaving:
    """What one scheduler leaves to others. ``monotonic`` is the machine's clock, in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._left: dict[str, _Left] = {}

    def leave(self, trigger: Trigger, now: datetime, cursor: datetime) -> None:
        """Leave a trigger alone for a few seconds. ``cursor`` is where it stands."""
        left = self._left.get(trigger.id, _Left(0.0, now, cursor))
        self._left[trigger.id] = replace(left, until=self._monotonic() + _PAUSE_SECONDS)

    def leaves(self, trigger: Trigger) -> bool:
        """Whether it is left alone at this moment."""
        left = self._left.get(trigger.id)
        return left is not None and left.until > self._monotonic()

    def ids(self) -> Sequence[str]:
        """Those that are left alone at this moment."""
        now = self._monotonic()
        return [trigger_id for trigger_id, left in self._left.items() if left.until > now]

    def waits(self) -> Sequence[timedelta]:
        """How long each of them still is."""
        now = self._monotonic()
        return [timedelta(seconds=left.until - now) for left in self._left.values() if left.until > now]

    def is_patient(self, trigger: Trigger, now: datetime) -> bool:
        """Whether slots that cannot be fired here are still to be left: for ``HANDOVER`` from the first one on, and
        anew where somebody else has moved the trigger on since."""
        left = self._left.get(trigger.id)
        if left is None or left.cursor != trigger.cursor:
            self._left.pop(trigger.id, None)
            return True
        return now - left.since < HANDOVER

    def moved(self, trigger: Trigger, cursor: datetime) -> None:
        """This scheduler itself has moved a trigger on, without firing it."""
        if (left := self._left.get(trigger.id)) is not None:
            self._left[trigger.id] = replace(left, cursor=cursor)

    def fired(self, trigger: Trigger) -> None:
        """This scheduler can fire it, after all."""
        self._left.pop(trigger.id, None)

    def forget(self, now: datetime) -> None:
        """Forget what was left long ago: the trigger may be gone."""
        self._left = {name: left for name, left in self._left.items() if now - left.since < _MEMORY}
