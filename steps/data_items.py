"""What the step types on lists share: the list, what a rule sees of it, and how much they may give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flo.engine.errors import RunCancelled, StepFailed
from flo.engine.step import StepCall
from flo.engine.values import Json, JsonObject, LazyList

ITEMS: Final[JsonObject] = {"type": "array", "description": "The list."}
COUNT: Final[JsonObject] = {"type": "integer", "description": "How many `items` there are."}
RULE: Final = "JSONLogic, or a template, or JSON with such in it; it sees `$item` and `$index`."
SEEN: Final = ("$item", "$index", "$isFirst", "$isLast", "$parent")
"""What a rule sees of an item, as the steps of a loop do."""

MAX_CHARACTERS: Final = 64 * 1024 * 1024
"""A step's output may have so many characters as JSON; what a rule makes of small items can be much more."""
MAX_ROWS: Final = 1_000_000
"""A list that is longer than those it was made of has this many items at most."""

_SCALARS: Final = frozenset({int, float, bool, type(None)})
_EVERY: Final = 1_024
"""After so many items a step looks whether it is to stop."""


def listed(items: JsonObject) -> JsonObject:
    """The schema of an output of ``items`` and their ``count``."""
    return {
        "type": "object",
        "required": ["items", "count"],
        "additionalProperties": False,
        "properties": {"items": items, "count": COUNT},
    }


def list_in(input: JsonObject, field: str = "items") -> Sequence[Json]:
    """A field that the schema holds to be a list."""
    held = input[field]
    assert isinstance(held, Sequence)
    return held


def each(call: StepCall, items: Sequence[Json]) -> Iterator[tuple[Json, dict[str, Json]]]:
    """Each item, with the names that a rule sees for it. Raises ``RunCancelled`` where the step is to stop."""
    last = len(items) - 1
    for index, item in enumerate(items):
        if index % _EVERY == 0 and call.cancelled.is_set():
            raise RunCancelled("gave way")
        yield item, {"$item": item, "$index": index, "$isFirst": index == 0, "$isLast": index == last}


def written_size(value: Json) -> int:
    """About how many characters a value has as JSON, never more than it has; past ``MAX_CHARACTERS`` the count stops.

    What is in a value many times is looked at once, and counts as often as it is written.
    """
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, Mapping | Sequence):
        return 1
    sizes: dict[int, int] = {}
    waiting: list[Any] = [value]
    while waiting:
        held = waiting[-1]
        inside = held.values() if isinstance(held, Mapping) else held
        before, size = len(waiting), 2 * len(held)
        for part in inside:
            kind = type(part)
            if kind in _SCALARS:
                size += 1
            elif kind is str or isinstance(part, str | LazyList):
                size += len(part)
            elif (known := sizes.get(id(part))) is not None:
                size += known
            else:
                waiting.append(part)
        if len(waiting) == before:
            waiting.pop()
            keys = sum(map(len, held)) if isinstance(held, Mapping) else 0
            sizes[id(held)] = min(size + keys, MAX_CHARACTERS + 1)
    return sizes[id(value)]


def too_large(place: str) -> StepFailed:
    """What ends a step whose output grows past ``MAX_CHARACTERS`` at a place."""
    message = f"the output grows past {MAX_CHARACTERS:,} characters as JSON at {place}"
    return StepFailed(message, code="too_large", retryable=False)
