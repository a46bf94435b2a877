"""A process that writes many rows from one loop: ``python -m benchmarks.long_loop STORE ITEMS`` prints what it took.

One JSON object: ``rows`` in the table afterwards, ``seconds`` of the run, ``firstTenth`` and ``lastTenth`` of the
loop in seconds, ``peakBytes`` of memory.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path

from flo.engine import app
from flo.engine.events import Event, LoopAdvanced
from flo.engine.stores.filters import EVERY
from flo.engine.values import Json, JsonObject

CONCURRENCY = 5
ITEM_CHARACTERS = 200

WORKFLOW: JsonObject = {
    "steps": [
        {
            "stepId": "each",
            "stepType": "core.for-each",
            "input": {
                "items": "<< initial.items >>",
                "concurrency": CONCURRENCY,
                "steps": [
                    {
                        "stepId": "write",
                        "stepType": "data-store.set",
                        "input": {"tableName": "items", "key": "item-<< $index >>", "value": "<< $item >>"},
                    }
                ],
            },
        }
    ]
}


class Tenths:
    """Listens to a loop of ``total`` iterations, and notes when a tenth and nine tenths of them are done."""

    def __init__(self, total: int) -> None:
        self._wanted = {0, total // 10, total - total // 10, total}
        self._seen = {0: time.perf_counter()}

    def __call__(self, event: Event) -> None:
        if isinstance(event, LoopAdvanced) and event.done in self._wanted:
            self._seen[event.done] = time.perf_counter()

    def seconds(self) -> tuple[float, float]:
        """How long the first tenth took, and the last."""
        start, first, last, end = (self._seen[done] for done in sorted(self._wanted))
        return first - start, end - last


def main(store: str, items: int) -> None:
    given: list[Json] = [{"number": number, "text": "x" * (ITEM_CHARACTERS - 30)} for number in range(items)]
    with app.open(store) as engine:
        tenths = Tenths(items)
        engine.bus.subscribe(tenths)
        result = engine.run(WORKFLOW, {"items": given})
        first, last = tenths.seconds()
        told = {
            "status": result.state.value,
            "rows": engine.data.count("items", EVERY),
            "seconds": result.duration_ms / 1000,
            "firstTenth": first,
            "lastTenth": last,
            "peakBytes": peak_bytes(),
        }
    sys.stdout.write(json.dumps(told) + "\n")


def peak_bytes() -> int:
    """The most memory that this process has had.

    Linux counts that of the process which started this one into ``getrusage``, so its own figure comes first.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)):
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
