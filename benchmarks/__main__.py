"""``python -m benchmarks``: measure the table of the aims, or the parts that are named, and print one table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import monotonic
from typing import Final

from benchmarks.contestants import ContestantFailed
from benchmarks.databases import serving
from benchmarks.ground import Ground
from benchmarks.lines import Line
from benchmarks.parts.claims import claim_lines, history_lines, update_lines
from benchmarks.parts.dispatching import dispatcher_lines
from benchmarks.parts.drain import drain_lines
from benchmarks.parts.enqueueing import enqueue_lines
from benchmarks.parts.loops import long_loop_lines, template_lines
from benchmarks.parts.pruning import pruning_lines
from benchmarks.parts.resuming import resume_lines
from benchmarks.parts.schedules import schedule_lines
from benchmarks.parts.starting import start_lines
from benchmarks.parts.waking import wake_lines
from benchmarks.parts.workflows import workflow_lines
from benchmarks.peers import installed
from benchmarks.sizes import FULL, QUICK
from benchmarks.table import as_json, environment, text_table

Part = Callable[[Ground], Iterator[Line]]

AIMS: Final[Mapping[str, Part]] = {
    "claims": claim_lines,
    "drain": drain_lines,
    "workflows": workflow_lines,
    "dispatcher": dispatcher_lines,
    "enqueue": enqueue_lines,
    "wake-up": wake_lines,
    "templates": template_lines,
    "processes": start_lines,
    "long-loop": long_loop_lines,
    "history": history_lines,
}
"""What is measured if nothing is named."""

MORE: Final[Mapping[str, Part]] = {
    "updates": update_lines,
    "resume": resume_lines,
    "pruning": pruning_lines,
    "schedules": schedule_lines,
}
"""What is measured only if it is named."""


def main() -> None:
    parts = {**AIMS, **MORE}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"what to measure: {', '.join(AIMS)}; without any all of these. Only by name: {', '.join(MORE)}",
    )
    parser.add_argument("--quick", action="store_true", help="less of everything, in about two minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--postgres", metavar="URL", help="a server to use, as one who may make databases there")
    parser.add_argument("--no-peers", action="store_true", help="leave the other systems out")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(parts):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    peers = {} if given.no_peers else installed()
    lines: list[Line] = []
    with serving(given.postgres) as server:
        measured_on = environment(server.postgres, peers)
        ground = Ground(server, QUICK if given.quick else FULL, peers)
        with suppress(KeyboardInterrupt):  # what was measured by then is printed
            for name in given.parts or AIMS:
                lines.extend(_measured(name, parts[name], ground))
    if given.json:
        sys.stdout.write(json.dumps(as_json(measured_on, lines), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text_table(measured_on, lines))


def _measured(name: str, part: Part, ground: Ground) -> Iterator[Line]:
    """The lines of a part, told one by one on standard error. One that cannot go on ends with the reason."""
    began = monotonic()
    try:
        for line in part(ground):
            sys.stderr.write(f"{monotonic() - began:5.0f} s {name}: {line.what}, {line.store}, {line.other}\n")
            yield line
    except ContestantFailed as failure:
        yield Line(name, "", "", note=f"failed: {failure}")


if __name__ == "__main__":
    main()
