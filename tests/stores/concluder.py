"""A process that ends executions in batches, for the tests of several processes at once.

``concluder.py URL HOLDS NAME``: ``HOLDS`` is a file with the claims to end, as JSON. Ends all of them, ten at a time,
in an order by chance, and tells the ids of those that it ended.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from scripts import begin, opened, say

from flo.engine.executions import Execution, ExecutionState, LogLine
from flo.engine.jobs import Ended, Ending, Entries, Hold
from flo.engine.stores.store import Store


def ending(store: Store, hold: Hold, name: str) -> Ending:
    of = store.executions.get(hold.execution_id)
    assert of is not None
    line = LogLine(of.id, of.created_at, "info", name, number=1)
    return Ending(hold, Ended(ExecutionState.SUCCESS, name), Entries(lines=[line]), of)


def main(url: str, holds: str, name: str) -> None:
    store = opened(url)
    endings = [ending(store, Hold(*given), name) for given in json.loads(Path(holds).read_text("utf-8"))]
    random.Random(name).shuffle(endings)
    begin()
    for at in range(0, len(endings), 10):
        results = store.queue.conclude_many(endings[at : at + 10])
        say([result.id for result in results if isinstance(result, Execution)])
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
