"""The order of rows: what ``orderBy`` says, as records, and sort keys."""

from __future__ import annotations

from dataclasses import dataclass

from flo.engine.stores.filters import Field
from flo.engine.values import Json


@dataclass(frozen=True, slots=True)
class By:
    """Order by one field. A row without it comes last, in both directions."""

    field: Field
    descending: bool = False


Order = tuple[By, ...]


def parse_order(order_by: Json, place: str = "orderBy") -> Order:
    """Read ``orderBy``: one ``{field, direction}`` or a list of them."""
    raise NotImplementedError
