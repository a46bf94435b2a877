"""``python -m benchmarks``: measure everything, or what is named, and print one table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from benchmarks.claims import claim_lines, history_lines, update_lines
from benchmarks.databases import Server, serving
from benchmarks.dispatching import dispatcher_lines
from benchmarks.loops import long_loop_lines, template_lines
from benchmarks.measuring import Line
from benchmarks.processes import process_lines
from benchmarks.queue import pruning_lines, queue_lines, resume_lines
from benchmarks.schedules import schedule_lines
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.table import as_json, environment, text_table

PARTS: Final[Mapping[str, Callable[[Server, Sizes], Iterator[Line]]]] = {
    "claims": claim_lines,
    "history": history_lines,
    "updates": update_lines,
    "dispatcher": dispatcher_lines,
    "long-loop": long_loop_lines,
    "templates": template_lines,
    "processes": process_lines,
    "queue": queue_lines,
    "resume": resume_lines,
    "pruning": pruning_lines,
    "schedules": schedule_lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(PARTS)}; all without")
    parser.add_argument("--quick", action="store_true", help="less of everything, in some minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--postgres", metavar="URL", help="a server to use, as one who may make databases there")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    lines: list[Line] = []
    with serving(given.postgres) as server:
        measured_on = environment(server.postgres)
        for name in given.parts or PARTS:
            sys.stderr.write(f"measuring {name}\n")
            lines.extend(PARTS[name](server, QUICK if given.quick else FULL))
    if given.json:
        sys.stdout.write(json.dumps(as_json(measured_on, lines), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text_table(measured_on, lines))


if __name__ == "__main__":
    main()
