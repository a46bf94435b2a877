"""How far text, lists and numbers may grow while a template computes them. Past it: ``ValueError``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flo.engine.language.operators import MAX_TEXT

MAX_ELEMENTS: Final = 1_000_000
_MAX_BITS: Final = 14_280
"""Integers stay below the 4,300 digits that Python writes out."""


def check_length(length: int) -> None:
    """Refuse to build text of more than ``MAX_TEXT`` characters."""
    if length > MAX_TEXT:
        raise ValueError(f"the text would have more than {MAX_TEXT:,} characters")


def check_elements(count: int) -> None:
    """Refuse to build a list of more than ``MAX_ELEMENTS``."""
    if count > MAX_ELEMENTS:
        raise ValueError(f"the list would have more than {MAX_ELEMENTS:,} elements")


def bounded(text: str) -> str:
    """Give ``text`` back if it is not too long."""
    check_length(len(text))
    return text


def joined(parts: Sequence[str], separator: str = "") -> str:
    """Join parts of text; the length is checked before the text is built."""
    check_length(sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0))
    return separator.join(parts)


def checked(number: int) -> int:
    """Give ``number`` back if it has fewer than 4,300 digits."""
    if number.bit_length() > _MAX_BITS:
        raise ValueError("the number would have more than 4,300 digits")
    return number


def product(left: int, right: int) -> int:
    """Multiply integers; the size is checked before the work is done."""
    if left.bit_length() + right.bit_length() > _MAX_BITS + 1:
        raise ValueError("the number would have more than 4,300 digits")
    return checked(left * right)
