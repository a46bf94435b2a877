"""A process that writes many rows from one loop: ``long_loop.py STORE ITEMS`` prints ``{status, rows, peakBytes}``."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from flo.engine import app
from flo.engine.stores.filters import EVERY
from flo.engine.values import Json, JsonObject

ITEM_CHARACTERS = 200

WRITE: JsonObject = {
    "stepId": "write",
    "stepType": "data-store.set",
    "input": {"tableName": "items", "key": "item-<< $index >>", "value": "<< $item >>"},
}
EACH: JsonObject = {"items": "<< initial.items >>", "concurrency": 5, "steps": [WRITE]}


def main(store: str, count: int) -> None:
    items: list[Json] = [{"number": number, "text": "x" * (ITEM_CHARACTERS - 30)} for number in range(count)]
    with app.open(store) as engine:
        workflow: JsonObject = {"steps": [{"stepId": "each", "stepType": "core.for-each", "input": EACH}]}
        result = engine.run(workflow, {"items": items})
        rows = engine.data.count("items", EVERY)
    told = {"status": result.state.value, "rows": rows, "peakBytes": peak_bytes()}
    sys.stdout.write(json.dumps(told) + "\n")


def peak_bytes() -> int:
    """The most memory that this process has had. Linux counts that of the process which started this one into
    ``getrusage``, so its own figure comes first."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
