"""JSON as jsonb keeps it: numbers as decimals, so that a float has to be written with its fraction."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_TEXT_OR_EXPONENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?[eE][+-]?\d+')
_EXPONENT: Final = re.compile(r"\d[eE][+-]?\d")


def to_jsonb(text: str) -> str:
    """Write JSON text so that each number comes back from jsonb as it was: ``1e300`` as its digits and ``.0``.

    jsonb keeps a decimal's digits and would give ``1e300`` back as an integer. It has no negative zero: ``-0.0`` comes
    back as ``0.0``. Objects come back with their keys in an order of jsonb's own.
    """
    return _TEXT_OR_EXPONENT.sub(_with_fraction, text) if _EXPONENT.search(text) else text


def _with_fraction(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith('"'):
        return text
    digits = format(Decimal(text), "f")
    return digits if "." in digits else digits + ".0"
