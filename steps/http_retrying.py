"""Whether a request is tried again, and when. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from flo.steps.http_exchange import Hop

REFUSED: Final = frozenset({408, 429, 503})
"""The server did not act on the request."""

UNKNOWN: Final = frozenset({502, 504})
"""A gateway answered: the server behind it may have acted."""

MAX_WAIT: Final = 60.0
"""Seconds between two tries at most, whatever ``Retry-After`` says."""


def worth_another(status: int, hop: Hop) -> bool:
    """Say whether another try may help against a status, and does no harm."""
    return status in REFUSED or (status in UNKNOWN and hop.repeatable)


def wait_before(number: int, retry_after: float | None, chance: float) -> float:
    """Seconds to wait before the try after ``number`` (from 1): what the server asks for and up to a tenth more, or
    somewhere between none and 1, 2, 4, … seconds, so that those that failed together do not come back together.
    ``chance`` (0..1) picks the place."""
    if retry_after is not None:
        return min(retry_after * (1 + chance / 10), MAX_WAIT)
    return min(2.0 ** (number - 1), MAX_WAIT) * chance


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """What ``Retry-After`` asks for: a number of seconds, or a date (RFC 9110 section 10.2.3). None if it says
    neither."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:18])
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max((date - now).total_seconds(), 0.0)
