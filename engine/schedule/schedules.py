"""Schedules as they are written in ``config.schedule``, and the slots that they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from flo.engine.errors import FloError
from flo.engine.frozen import frozen
from flo.engine.instants import parse_duration, parse_instant, write_instant
from flo.engine.schedule.cron import Cron
from flo.engine.schedule.crontab import CronInvalid, parse_cron
from flo.engine.schedule.zones import ZoneInvalid, parse_zone
from flo.engine.values import Json, JsonObject, dump

Misfire = Literal["once", "skip", "all"]
Overlap = Literal["allow", "skip", "queue"]

GRACE: Final = timedelta(days=7)
"""What was missed is caught up for so long, unless ``graceSeconds`` says something else."""

SHORTEST: Final = timedelta(seconds=1)

_TIMING: Final = ("cron", "every", "timezone", "startAt", "endAt")
_END_OF_TIME: Final = datetime(9990, 1, 1, tzinfo=UTC)
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9000


class ScheduleInvalid(FloError):
    """A schedule means nothing. ``problems`` are pairs of a field of its config (``""``: the whole) and what is wrong
    there."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{field}: {what}" if field else what for field, what in problems))


@frozen
class Schedule:
    """When something fires, and what happens where that goes wrong: ``cron`` in a ``zone``, or ``every`` so long.

    Slots lie between ``start_at`` and ``end_at``, both included. ``grace`` is how late a slot may be caught up,
    ``jitter`` by how much fires are spread at most.
    """

    zone: ZoneInfo
    cron: Cron | None = None
    every: timedelta | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    misfire: Misfire = "once"
    grace: timedelta = GRACE
    overlap: Overlap = "allow"
    jitter: timedelta = timedelta()

    def slots(self, after: datetime, anchor: datetime) -> Iterator[datetime]:
        """The slots after an instant, rising: aware UTC. ``anchor`` is what intervals count from where there is no
        ``start_at``; it is no slot itself, ``start_at`` is one."""
        found = self._cron_slots(after) if self.cron is not None else self._interval_slots(after, anchor)
        for slot in found:
            if self.end_at is not None and slot > self.end_at:
                return
            yield slot

    def due(self, trigger_id: str, slot: datetime) -> datetime:
        """When a slot is fired: up to ``jitter`` after it, by a share that every scheduler finds for it."""
        if not self.jitter:
            return slot
        digest = sha256(f"{trigger_id} {write_instant(slot)}".encode()).digest()
        return slot + self.jitter * (int.from_bytes(digest[:6]) / 2**48)

    def _cron_slots(self, after: datetime) -> Iterator[datetime]:
        assert self.cron is not None
        if self.start_at is not None:
            after = max(after, self.start_at - timedelta(microseconds=1))
        return self.cron.after(after, self.zone)

    def _interval_slots(self, after: datetime, anchor: datetime) -> Iterator[datetime]:
        assert self.every is not None
        base, first = (anchor, 1) if self.start_at is None else (self.start_at, 0)
        number = max(first, (after - base) // self.every + 1)
        while (slot := base + number * self.every) < _END_OF_TIME:
            yield slot
            number += 1


def timing(config: JsonObject) -> str:
    """What of a schedule's config says when it fires, as text: the same for the same timing."""
    return dump({name: config[name] for name in _TIMING if name in config})


def read_schedule(config: Mapping[str, Json]) -> Schedule:
    """Read ``config.schedule``, whose fields have the types that ``schemas/workflow.schema.json`` says. Raises
    ``ScheduleInvalid`` with everything that is wrong."""
    problems: list[tuple[str, str]] = []
    cron, every = _repetition(config, problems)
    zone = _zone(config.get("timezone", "UTC"), problems)
    start_at, end_at = _instant(config, "startAt", problems), _instant(config, "endAt", problems)
    if start_at is not None and end_at is not None and start_at > end_at:
        problems.append(("endAt", f"{config['endAt']!r} is before 'startAt', {config['startAt']!r}: it never fires"))
    if problems:
        raise ScheduleInvalid(problems)
    given: Any = config
    return Schedule(
        zone=zone,
        cron=cron,
        every=every,
        start_at=start_at,
        end_at=end_at,
        misfire=given.get("misfire", "once"),
        grace=timedelta(seconds=given["graceSeconds"]) if "graceSeconds" in given else GRACE,
        overlap=given.get("overlap", "allow"),
        jitter=timedelta(seconds=given.get("jitterSeconds", 0)),
    )


def read_interval(text: str) -> timedelta:
    """Read ``every``. Raises ``ScheduleInvalid``."""
    every = parse_duration(text)
    if every is None:
        raise ScheduleInvalid([("every", f"{text!r} is no duration; write 30s, 65m, 12h, 1d")])
    if every < SHORTEST:
        raise ScheduleInvalid([("every", f"{text!r} is too short: the shortest interval is 1s")])
    return every


def _repetition(config: Mapping[str, Json], problems: list[tuple[str, str]]) -> tuple[Cron | None, timedelta | None]:
    cron, every = config.get("cron"), config.get("every")
    if (cron is None) == (every is None):
        came = "both came" if cron is not None else "neither came"
        problems.append(("", f"a schedule has either 'cron' or 'every', {came}"))
    try:
        return (
            parse_cron(cron) if isinstance(cron, str) else None,
            read_interval(every) if isinstance(every, str) else None,
        )
    except CronInvalid as invalid:
        problems.append(("cron", str(invalid)))
    except ScheduleInvalid as invalid:
        problems += invalid.problems
    return None, None


def _zone(name: Json, problems: list[tuple[str, str]]) -> ZoneInfo:
    try:
        return parse_zone(str(name))
    except ZoneInvalid as invalid:
        problems.append(("timezone", str(invalid)))
    return ZoneInfo("UTC")


def _instant(config: Mapping[str, Json], field: str, problems: list[tuple[str, str]]) -> datetime | None:
    if (text := config.get(field)) is None:
        return None
    found = parse_instant(text) if isinstance(text, str) else None
    if found is None:
        problems.append(
            (field, f"{text!r} is no instant; write a date, a time and an offset, such as '2027-01-31T08:00:00+01:00'")
        )
    elif not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        problems.append((field, f"{text!r} is too far away; the years {_FIRST_YEAR} to {_LAST_YEAR} can be written"))
        return None
    return found
