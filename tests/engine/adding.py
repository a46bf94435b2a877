"""Steps that add to rows, and what they left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flo.engine.executions import StepState

from .delivering import House, step

ITEMS = [f"k{number}" for number in range(30)]
SAY = step("say", "core.log", {"message": "at << $item >>"})


def add(step_id: str = "add", key: str = "<< $item >>", by: Any = 1, **fields: Any) -> dict[str, Any]:
    """Add to the number in a row, which is that of the item."""
    change = {"field": "n", "operation": "increment", "value": by}
    given = {"tableName": "t", "key": key, "upsert": True, "set": [change]}
    return step(step_id, "data-store.atomic-update", given, **fields)


TWO = add("add-k10", key="k10"), add("add-k11", key="k11")


def values(house: House, items: Sequence[str] = ITEMS) -> list[Any]:
    rows = [house.store.data.get("t", item) for item in items]
    return [None if row is None else row.value for row in rows]


def each_once(house: House, name: str) -> None:
    """Each iteration has run, and nothing of it was done twice."""
    assert values(house) == [{"n": 1}] * len(ITEMS)
    assert house.messages(name) == [f"at {item}" for item in ITEMS]
    records = house.records(name)
    assert [path for path in records if path.endswith("]")] == [f"each[{at}]" for at in range(len(ITEMS))]
    assert {record.state for record in records.values()} == {StepState.SUCCESS}
    assert records["each"].output == {"count": 30, "succeeded": 30, "failed": 0, "skipped": 0}
