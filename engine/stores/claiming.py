"""What a claim writes into a row's value, and when its holder still has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeGuard

from flo.engine.instants import write_instant
from flo.engine.stores.changes import Change, apply
from flo.engine.values import Json, JsonObject

IN_FLIGHT: Final = "in_flight"
STATUS_LENGTH: Final = 200


def claimed(value: Json, holder: str, changes: Sequence[Change], now: datetime) -> Json:
    """The value after a claim: what every claim writes, then ``changes``. Raises ``FilterInvalid``."""
    assert isinstance(value, Mapping), "no other value is claimed"
    return apply({**renewed(value, now), "status": IN_FLIGHT, "claimedBy": holder}, changes, now)


def renewed(value: JsonObject, now: datetime) -> dict[str, Json]:
    """The value with ``claimedAt`` = now."""
    return {**value, "claimedAt": write_instant(now)}


def is_held(value: Json, holder: str) -> TypeGuard[JsonObject]:
    """Whether ``holder`` has the row of this value, as far as the value tells."""
    return isinstance(value, Mapping) and value.get("claimedBy") == holder and value.get("status") == IN_FLIGHT


def status_of(value: Json) -> str | None:
    """What an adapter keeps beside a value to find it by: its top-level ``status``, the first 200 characters."""
    status = value.get("status") if isinstance(value, Mapping) else None
    return status[:STATUS_LENGTH] if isinstance(status, str) else None
