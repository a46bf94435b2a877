"""A process that prunes a store, and says what that took: ``pruner.py URL`` prints a JSON object.

``gone`` executions; ``removed`` rows in each transaction, as the triggers of the test count them in the table
``removed``; ``before`` and ``peak`` bytes of memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psutil

from flo.engine import app
from flo.engine.jobs import Retention


def main(url: str) -> None:
    process = psutil.Process()
    with app.open(url) as engine:
        database: Any = engine.store._database  # type: ignore[attr-defined]
        write = database.write
        before = process.memory_info().rss
        seen = [(0, before)]

        def watched(work: Callable[..., object], **how: Any) -> object:
            result = write(work, **how)
            seen.append((database.read("SELECT n FROM removed")[0][0], process.memory_info().rss))
            return result

        database.write = watched
        gone = engine.prune(Retention(timedelta(days=14), None))
    removed = [later - earlier for (earlier, _), (later, _) in pairwise(seen)]
    peak = max(memory for _, memory in seen)
    sys.stdout.write(json.dumps({"gone": gone, "removed": removed, "before": before, "peak": peak}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
