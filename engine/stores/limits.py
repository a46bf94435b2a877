"""What no store takes: names out of bounds, values over the size limit, times past the calendar."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from flo.engine.errors import StepFailed, ValueRefused
from flo.engine.values import Json, dump, is_storable, place_under, plain

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""A row's value has at most this many bytes as JSON in UTF-8."""

MAX_NAME: Final = 512
"""The names of tables and keys have at most this many characters."""

MAX_TTL: Final = timedelta(days=366_000)
"""A row expires within a thousand years, so that its instant has a year of four digits."""


def check_name(kind: str, name: str) -> None:
    """Hold a table's name or a key to 1 to 512 characters that every store can keep. Raises ``StepFailed``."""
    if not 1 <= len(name) <= MAX_NAME:
        raise StepFailed(
            f"a {kind} has 1 to {MAX_NAME} characters; {len(name)} came", code="invalid_input", retryable=False
        )
    if not is_storable(name):
        unstorable = next(character for character in name if not is_storable(character))
        raise ValueRefused(kind, f"the character U+{ord(unstorable):04X}")


def check_storable(value: Json, place: str) -> None:
    """Refuse what no store can hold, U+0000 and lone surrogates included. Raises ``ValueRefused`` with its place."""
    try:
        plain(value)
    except ValueRefused as refused:
        raise ValueRefused(place_under(place, refused.place), refused.what) from None


def stored_text(table: str, key: str, value: Json) -> str:
    """Write a row's value as it is stored. Raises ``ValueRefused`` with the place of what no store can hold, and
    ``StepFailed`` with code ``too_large`` that names size and limit."""
    try:
        text = dump(value)
        size = len(text.encode())
    except UnicodeEncodeError:
        check_storable(value, "value")
        raise
    except ValueError as error:  # NaN, or an integer with more digits than Python writes
        check_storable(value, "value")
        raise ValueRefused(f"row {key!r} of table {table!r}", f"its value ({error})") from error
    if "\\u0000" in text:  # also how a backslash before u0000 is written
        check_storable(value, "value")
    if size > MAX_VALUE_BYTES:
        raise value_too_large(table, key, size)
    return text


def value_too_large(table: str, key: str, size: int) -> StepFailed:
    """The error of a value that would have ``size`` bytes."""
    return StepFailed(
        f"row {key!r} of table {table!r} would have {size:,} bytes as JSON; the limit is {MAX_VALUE_BYTES:,}",
        code="too_large",
        retryable=False,
    )


def check_ttl(ttl: timedelta | None) -> None:
    """Hold a time to live to what a calendar can hold. Raises ``StepFailed``."""
    if ttl is not None and ttl > MAX_TTL:
        raise StepFailed(
            f"a row can live {MAX_TTL.days:,} days at most; {ttl.days:,} came", code="invalid_input", retryable=False
        )


def expiry(now: datetime, ttl: timedelta | None) -> datetime | None:
    """When a row written ``now`` expires."""
    check_ttl(ttl)
    return None if ttl is None else now + ttl
