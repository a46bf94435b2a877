"""The recipes that a person pastes from QuickFlo's page, cut out of a copy of that page and run unchanged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flo.engine.app import Flo
from flo.engine.stores.filters import EVERY

PAGE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "000_ba04fca74626b83b.txt"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the page of recipes does not lie beside the checkout")

KilledAt = Callable[[str, Path, dict[str, Any]], None]
Blocks = tuple[Path, Path, Path]


@pytest.fixture
def blocks(tmp_path: Path) -> Blocks:
    """The page's JSON blocks as files: dispatcher, producer, recovery."""
    text = PAGE.read_text(encoding="utf-8")
    found: list[Path] = []
    at = text.find("\n{\n")
    while at >= 0:
        _, end = json.JSONDecoder().raw_decode(text, at + 1)
        found.append(tmp_path / f"block-{len(found)}.json")
        found[-1].write_text(text[at + 1 : end], encoding="utf-8")
        at = text.find("\n{\n", end)
    dispatcher, producer, recovery = found
    return dispatcher, producer, recovery


def test_a_thousand_rows_are_done_although_a_dispatcher_was_killed(
    shared: Flo, blocks: Blocks, killed_at: KilledAt
) -> None:
    """The producer a thousand times, a dispatcher that dies between claim and mark, dispatchers until the queue is
    empty, the recovery."""
    dispatcher, producer, recovery = blocks
    work = shared.load(producer)
    for _ in range(1_000):
        assert shared.run(work).success

    killed_at("process-each[2].mark-done", dispatcher, {})
    drained = Counter[str]()
    workflow = shared.load(dispatcher)
    while True:
        result: Any = shared.run(workflow)
        assert result.success
        claimed = result.steps["drain"]["output"]["claimed"]
        if not claimed:
            break
        drained.update(row["key"] for row in claimed)
    assert len(drained) == drained.total() == 990

    recovered: Any = shared.run(recovery, {"staleBeforeTimestamp": "2100-01-01T00:00:00Z"})
    assert recovered.success
    assert 1 <= recovered.steps["reclaim-stale"]["output"]["count"] <= 10
    rows = shared.data.query("pending_ops", EVERY, limit=2_000).rows
    assert len(rows) == 1_000
    assert {row.value["status"] for row in rows} == {"done"}  # type: ignore[index,call-overload]
