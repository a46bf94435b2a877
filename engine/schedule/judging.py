"""Which slots of a schedule are fired now, and which were missed: pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from flo.engine.frozen import frozen
from flo.engine.schedule.schedules import Schedule
from flo.engine.triggers import Trigger

ON_TIME: Final = timedelta(seconds=10)
"""A slot that is dealt with within that time was not missed: a busy machine is no misfire."""

MOST: Final = 1_000
"""So many slots are caught up at most, the newest."""


@frozen
class Passed:
    """Slots in a row that are not fired: the first, the last, and how many; None: so many that nobody counted."""

    first: datetime
    last: datetime
    count: int | None


@frozen
class Judgement:
    """What becomes of the slots that have come due: ``passed`` first, then ``fire``, in order. ``look_at`` is when the
    next slot comes due; None: there is none."""

    passed: Passed | None
    fire: Sequence[datetime]
    look_at: datetime | None


def judge(schedule: Schedule, trigger: Trigger, now: datetime) -> Judgement:
    """Judge the slots after the trigger's cursor by the clock on the wall.

    As long as none is late by more than ``ON_TIME``, each is fired. Else ``misfire`` says what to do: ``once`` fires
    the newest alone, ``all`` each in order, both as far as they are within ``grace``; ``skip`` those that are on time.
    """
    slots, total, look_at = _pending(schedule, trigger, now)
    if total == len(slots) and all(now - moment <= ON_TIME for _, moment in slots):
        return Judgement(None, [slot for slot, _ in slots], look_at)
    allowed = ON_TIME if schedule.misfire == "skip" else max(schedule.grace, ON_TIME)
    fire = [slot for slot, moment in slots if now - moment <= allowed]
    fire = fire[-1:] if schedule.misfire == "once" else fire[-MOST:]
    left = slots[: len(slots) - len(fire)]
    if not left:
        return Judgement(None, fire, look_at)
    first, last = next(schedule.slots(trigger.cursor, trigger.anchor)), left[-1][0]
    return Judgement(Passed(first, last, None if total is None else total - len(fire)), fire, look_at)


def _pending(
    schedule: Schedule, trigger: Trigger, now: datetime
) -> tuple[list[tuple[datetime, datetime]], int | None, datetime | None]:
    """The slots that have come due since the cursor with the moments at which they did, in order; where there are many
    the newest, more than ``MOST``. How many there are in all, None where nobody counted; and when the next one will."""
    since_cursor = max(now - trigger.cursor, timedelta())
    window = min(MOST * min(schedule.every or timedelta(minutes=1), since_cursor), since_cursor)
    while True:
        after = trigger.cursor if window >= since_cursor else now - window
        found: deque[tuple[datetime, datetime]] = deque(maxlen=2 * MOST)
        total, following = 0, None
        for slot, moment in _moments(schedule, trigger, after):
            if moment > now:
                following = moment
                break
            found.append((slot, moment))
            total += 1
        if after == trigger.cursor:
            return list(found), total, following
        if total > MOST:
            return list(found), None, following
        window *= 2


def _moments(schedule: Schedule, trigger: Trigger, after: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Slots with the moments at which they come due: none before the one of the slot before it, whatever the jitter."""
    latest = after
    for slot in schedule.slots(after, trigger.anchor):
        latest = max(latest, schedule.due(trigger.id, slot))
        yield slot, latest
