"""Triggers in words and as JSON: when they fire, what became of their slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from flo.engine.commands.output import print_table
from flo.engine.errors import FloError, StoreError
from flo.engine.instants import write_instant
from flo.engine.triggers import Firing, Trigger, WantedTrigger
from flo.engine.values import Json, JsonObject

if TYPE_CHECKING:
    from flo.engine.schedule.operating import Triggers


def when(trigger: Trigger | WantedTrigger) -> str:
    """What fires a trigger: ``0 2 * * * Europe/Berlin``, ``every 65m``, ``when 'x' has finished``, ``by hand``."""
    config = trigger.config
    match trigger.kind:
        case "schedule":
            return f"every {config['every']}" if "every" in config else _cron(config)
        case "event":
            states = config.get("status")
            ended = f"ended as {', '.join(map(str, states))}" if isinstance(states, list | tuple) else "finished"
            return f"when {config.get('workflow')!r} has {ended}"
        case "webhook":
            return f"{config.get('method', 'POST')} {config.get('path', '')}".rstrip()
        case "manual":
            return "by hand"


def next_fires(triggers: Triggers, trigger: Trigger, now: datetime, count: int = 1) -> Sequence[datetime]:
    """When a trigger fires next, as things stand: nothing where it is off, fires by no time, or was stored by a flo
    whose schedules this one cannot read."""
    if trigger.kind != "schedule" or not trigger.enabled:
        return ()
    try:
        return triggers.coming(trigger, start=max(now, trigger.cursor), count=count)
    except StoreError:
        raise
    except (FloError, TypeError, ValueError):  # what was stored was checked, but by another version
        return ()


def standing(trigger: Trigger, following: Sequence[datetime]) -> str:
    """How a trigger stands, as the rest of a sentence that begins with its name."""
    if not trigger.enabled:
        return f"is off; 'flo triggers enable {trigger.full_name}' switches it on"
    match trigger.kind:
        case "schedule" if following:
            return f"fires next at {write_instant(following[0])}; 'flo serve' runs it"
        case "schedule":
            return "has no next fire"
        case "event":
            return f"fires {when(trigger)}; 'flo serve' runs it"
        case "webhook":
            return f"is for {when(trigger)}"
        case "manual":
            return f"is fired by hand: 'flo triggers fire {trigger.full_name}'"


def trigger_json(trigger: Trigger, following: Sequence[datetime], last: Firing | None) -> JsonObject:
    """``id workflow name type enabled declared revision config next last``."""
    return {
        "id": trigger.id,
        "workflow": trigger.workflow,
        "name": trigger.name,
        "type": trigger.kind,
        "enabled": trigger.enabled,
        "declared": trigger.declared,
        "revision": trigger.revision,
        "config": trigger.config,
        "next": write_instant(following[0]) if following else None,
        "last": None if last is None else last.as_json(),
    }


def why_not(firing: Firing) -> str:
    """Why a slot was skipped or failed, and how many others with it; empty where it was fired."""
    if firing.error:
        return str(firing.error.get("message", ""))
    if firing.reason == "misfire" and firing.since is not None:
        many = "more slots than were counted" if firing.passed is None else f"{firing.passed:,} slots"
        return f"misfire: {'1 slot' if firing.passed == 1 else many} passed over, from {write_instant(firing.since)} on"
    return firing.reason or ""


def times_json(slots: Sequence[datetime], zone: ZoneInfo) -> list[Json]:
    """Slots as ``{local, utc}``: local with the offset of the zone."""
    return [{"local": slot.astimezone(zone).isoformat(), "utc": write_instant(slot)} for slot in slots]


def print_times(slots: Sequence[datetime], zone: ZoneInfo) -> None:
    """Print slots as a table, in a zone and in UTC."""
    print_table(("LOCAL", "UTC"), [(_local(slot.astimezone(zone)), write_instant(slot)) for slot in slots])


def _local(local: datetime) -> str:
    name = local.tzname() or ""
    return f"{local:%a} {local.isoformat()}{f' {name}' if name.isalpha() else ''}"


def _cron(config: Mapping[str, Json]) -> str:
    return f"{config.get('cron', '')} {config.get('timezone', 'UTC')}"
