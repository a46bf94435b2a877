"""A line for the log as a step says it, checked before anything of it is kept."""

from __future__ import annotations

from typing import Final

from flo.engine.errors import StepFailed, did_you_mean
from flo.engine.values import Json, plain, storable, whole

LEVELS: Final = ("debug", "info", "warn", "error")
_SPELLINGS: Final = {**dict(zip(LEVELS, LEVELS, strict=True)), "warning": "warn", "critical": "error", "fatal": "error"}


def checked_line(level: str, message: object, data: object) -> tuple[str, str, Json]:
    """The level in its one spelling, the message as text, the data as JSON. Raises ``StepFailed`` for a level that is
    none, and for data that is no JSON, with the place in it."""
    known = _SPELLINGS.get(level.lower()) if isinstance(level, str) else None
    if known is None:
        said = f"a line of the log has no level {level!r}{did_you_mean(str(level), LEVELS)}"
        raise StepFailed(f"{said}; there are {', '.join(LEVELS)}", code="invalid_value", retryable=False)
    text = message if isinstance(message, str) else str(message)
    return known, storable(text), None if data is None else whole(plain(data, ("data",)))
