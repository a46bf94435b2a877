"""Paths into a row's value: how they are written, and where they lead."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from flo.engine.errors import FilterInvalid, did_you_mean
from flo.engine.values import MAX_DEPTH, Json, kind_of, shown

Path = tuple[str, ...]


class Absent(Enum):
    """The type of ``ABSENT``."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""What a path gives that leads nowhere: not null, which is a value."""

_NAME: Final = re.compile(r"[^.\[\]]+")
_BRACKET: Final = re.compile(
    r"""\[(?:(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>[^']*)'|(?P<index>0|-?[1-9]\d*))\]""", re.ASCII | re.DOTALL
)
_INDEX: Final = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)


def read_path(text: object, place: str) -> tuple[Path, bool]:
    """Read ``payload.user.id``, ``payload["a.b"].c`` or ``items[0].name``: the segments, and whether the first one is a
    bare name. Raises ``FilterInvalid``."""
    if not isinstance(text, str) or not text:
        what = "an empty text" if text == "" else f"{kind_of(text)} {shown(text)}" if text is not None else "null"
        raise FilterInvalid(place, f'it must be a field such as "status" or "payload.user.id"; {what} came')
    segments: list[str] = []
    position, bare = 0, not text.startswith("[")
    while position < len(text):
        if text[position] == "[":
            found, segment = _bracket(text, position)
        else:
            found = _NAME.match(text, position + (position > 0)) if position == 0 or text[position] == "." else None
            segment = found[0] if found else ""
        if found is None:
            raise FilterInvalid(place, _unreadable(text, position))
        segments.append(segment)
        position = found.end()
    if len(segments) > MAX_DEPTH:
        raise FilterInvalid(place, f"the path has {len(segments)} segments; the limit is {MAX_DEPTH}")
    return tuple(segments), bare


def _bracket(text: str, position: int) -> tuple[re.Match[str] | None, str]:
    found = _BRACKET.match(text, position)
    if found is None:
        return None, ""
    if found["double"] is None:
        return found, found["single"] if found["index"] is None else found["index"]
    try:
        return found, str(json.loads(found["double"], strict=False))
    except ValueError:
        return None, ""


def _unreadable(text: str, position: int) -> str:
    where = f"character {position + 1} of {shown(text)}"
    return f'{where} starts no segment: segments are parted by single dots; write ["a.b"] for a name with a dot'


def check_keys(record: Mapping[str, Json], known: Sequence[str], place: str) -> None:
    """Refuse a key that is not one of ``known``. Raises ``FilterInvalid``."""
    for key in record:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known are {', '.join(known)}"
            raise FilterInvalid(place, f"unknown key {key!r}{hint}")


def index_of(segment: str) -> int | None:
    """The index that a segment means on a list: an integer as JSON writes one, negative from the end. Else None."""
    return int(segment) if _INDEX.fullmatch(segment) else None


def follow(value: Json, path: Path) -> Json | Absent:
    """Go down ``path``: keys of objects, indexes of lists, negative ones from the end."""
    found: Json = value
    for segment in path:
        if isinstance(found, Mapping):
            if segment not in found:
                return ABSENT
            found = found[segment]
        elif isinstance(found, Sequence) and not isinstance(found, str):
            index = index_of(segment)
            if index is None or not -len(found) <= index < len(found):
                return ABSENT
            found = found[index]
        else:
            return ABSENT
    return found
