"""A process of its own for tests of contention and of crashes: runs one workflow again and again.

``rounds.py URL FILE INPUT RESULTS [--times N | --until-empty STEP] [--die-at PATH]``. Says ``ready`` when the store is
open, waits for a line, then writes the result of each round as one line of JSON to ``RESULTS``. ``--until-empty`` ends
after a round in which that claim got nothing. ``--die-at`` kills the process, as SIGKILL does, at the moment when the
step of that path starts.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from flo.engine import app
from flo.engine.events import Event, StepStarted
from flo.engine.values import dump


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("file", type=Path)
    parser.add_argument("input", type=json.loads)
    parser.add_argument("results", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--until-empty")
    parser.add_argument("--die-at")
    asked = parser.parse_args()

    def die(event: Event) -> None:
        if isinstance(event, StepStarted) and event.path == asked.die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        app.open(asked.url, listeners=[die] if asked.die_at else []) as engine,
        asked.results.open("w", encoding="utf-8") as results,
    ):
        workflow = engine.load(asked.file)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        done = 0
        while asked.until_empty or done < asked.times:
            result: Any = engine.run(workflow, asked.input).as_json()
            results.write(dump(result) + "\n")
            done += 1
            if asked.until_empty and not result["steps"][asked.until_empty]["output"]["count"]:
                break


if __name__ == "__main__":
    main()
