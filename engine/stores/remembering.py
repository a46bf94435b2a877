"""Readers that remember: in a loop the same condition, or the same change, comes again with each iteration."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

Reader = TypeVar("Reader", bound=Callable[..., object])
"""Takes JSON, and what else it may be told."""

_MOST: Final = 256
"""So many readings of each reader are remembered."""

_MOST_BYTES: Final = 2048
"""What is larger is read anew each time."""

_WITHOUT_REFERENCES: Final = 2
"""The format of ``marshal`` in which equal values are written the same."""


def remembering(read: Reader) -> Reader:
    """The same reader, which gives what it gave before for what is written the same, its other arguments included.

    What it gives must not be changed by anybody; it is made from a copy of what was read. Failures are not remembered.
    """

    @lru_cache(_MOST)
    def remembered(written: bytes, *more: Any) -> object:
        return read(marshal.loads(written), *more)

    @wraps(read)
    def reader(value: Any, *more: Any, **named: Any) -> object:
        try:
            written = marshal.dumps(value, _WITHOUT_REFERENCES)
        except ValueError:  # something in it is not of Python's own types, such as a secret
            return read(value, *more, **named)
        return remembered(written, *more) if len(written) <= _MOST_BYTES and not named else read(value, *more, **named)

    return cast(Reader, reader)
