"""The order of rows: what ``orderBy`` says, as records, sort keys, and the cursors that continue a query."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import total_ordering
from typing import Final

from flo.engine.comparison import SortKey, sort_key
from flo.engine.errors import FilterInvalid
from flo.engine.frozen import frozen
from flo.engine.stores.fields import ABSENT, Absent, check_keys
from flo.engine.stores.filters import Field, RowLike, find, parse_field
from flo.engine.stores.remembering import remembering
from flo.engine.values import Json, dump, kind_of, shown

_DIRECTIONS: Final = ("asc", "desc")
_KEYS: Final = ("field", "direction")


@frozen
class By:
    """Order by one field. A row without it comes last, in both directions."""

    field: Field
    descending: bool = False


Order = tuple[By, ...]


@frozen
class Position:
    """Where a row stands in an order: what its fields hold, and its number in the insertion order, which breaks ties.

    A list or object that a field holds is written as an empty list: they all tie.
    """

    values: tuple[Json | Absent, ...]
    number: int


@remembering
def parse_order(order_by: Json, place: str = "orderBy") -> Order:
    """Read ``orderBy``: one ``{field, direction}`` or a list of them. Raises ``FilterInvalid``."""
    if isinstance(order_by, Mapping):
        return (_by(order_by, place),)
    if isinstance(order_by, str) or not isinstance(order_by, Sequence):
        raise FilterInvalid(place, f"it must be {{field, direction}} or a list of them; {kind_of(order_by)} came")
    return tuple(_by(held, f"{place}[{index}]") for index, held in enumerate(order_by))


def _by(held: Json, place: str) -> By:
    if not isinstance(held, Mapping):
        raise FilterInvalid(place, f"it must be {{field, direction}}; {kind_of(held)} came")
    check_keys(held, _KEYS, place)
    if "field" not in held:
        raise FilterInvalid(place, "it has no field")
    field = parse_field(held["field"], f"{place}.field")
    direction = held.get("direction", "asc")
    if not isinstance(direction, str) or direction.lower() not in _DIRECTIONS:
        raise FilterInvalid(f"{place}.direction", f'it must be "asc" or "desc"; {shown(direction)} came')
    return By(field, direction.lower() == "desc")


def position(order: Order, row: RowLike, number: int) -> Position:
    """Where ``row``, the ``number``-th one ever inserted, stands in ``order``."""
    return Position(tuple(_sortable(find(by.field, row)) for by in order), number)


def _sortable(found: Json | Absent) -> Json | Absent:
    return [] if isinstance(found, Mapping | Sequence) and not isinstance(found, str) else found


@total_ordering
class _Reversed:
    """A sort key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: _Reversed) -> bool:
        return other.key < self.key


PositionKey = tuple[tuple[tuple[int, SortKey | _Reversed | None], ...], int]


def position_key(order: Order, at: Position) -> PositionKey:
    """Give a key that sorts rows by where they stand in ``order``."""
    parts = tuple(_part(by, value) for by, value in zip(order, at.values, strict=True))
    return parts, at.number


def _part(by: By, value: Json | Absent) -> tuple[int, SortKey | _Reversed | None]:
    if value is ABSENT:
        return 1, None
    key = sort_key(value)
    return 0, _Reversed(key) if by.descending else key


def write_cursor(order: Order, at: Position) -> str:
    """Write where a page ended, so that the next one starts after it, whatever becomes of that row."""
    values: list[Json] = [[] if value is ABSENT else [value] for value in at.values]
    return urlsafe_b64encode(dump([_digest(order), values, at.number]).encode()).decode().rstrip("=")


def read_cursor(order: Order, cursor: str) -> Position:
    """Read what ``write_cursor`` wrote for the same order. Raises ``FilterInvalid`` for everything else."""
    try:
        digest, values, number = json.loads(urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
        wanted = digest == _digest(order)
        if wanted and (len(values) != len(order) or type(number) is not int or not 0 <= number < 2**63):
            raise ValueError
        at = Position(tuple(held[0] if held else ABSENT for held in values), number)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FilterInvalid("cursor", f"{shown(cursor)} is no nextCursor of a query") from None
    if not wanted:
        raise FilterInvalid("cursor", "it belongs to a query with another orderBy; start without a cursor")
    return at


def _digest(order: Order) -> str:
    written = [[by.field.column, list(by.field.path), by.descending] for by in order]
    return hashlib.sha256(json.dumps(written).encode()).hexdigest()[:16]
