"""Loops: whether a long one grows slow, and what the engine adds to templates."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.databases import Server
from benchmarks.long_loop import CONCURRENCY
from benchmarks.measuring import Line, Way, compare
from benchmarks.sizes import Sizes
from flo.engine import app
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import compile_text
from flo.engine.values import Json, JsonObject

STEPS = 1_000
MESSAGE = "working on << $item.key >>: << $item.value.payload >>"


def long_loop_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """Write rows from one loop in a process of its own: its last tenth against its first."""
    for make in server.each():
        runs = []
        for _ in range(sizes.long_rounds):
            with make() as database:
                store = database.store
                runs.append(_in_a_process(database.url, sizes.looped))
        tenth = sizes.looped // 10
        peak = max(run["peakBytes"] for run in runs) / 1e6
        rate = sizes.looped / median(run["seconds"] for run in runs)
        yield Line(
            f"for-each of {sizes.looped:,}, concurrency {CONCURRENCY}",
            store,
            "last tenth",
            "first tenth",
            median(run["lastTenth"] for run in runs) / tenth,
            median(run["firstTenth"] for run in runs) / tenth,
            tuple(run["firstTenth"] / run["lastTenth"] for run in runs),
            wanted=0.5,
            note=f"{rate:,.0f} items/s over all, peak {peak:.0f} MB (wanted: below 150)",
        )


def _in_a_process(url: str, items: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.long_loop", url, str(items)]
    told: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if told["rows"] != items:
        raise AssertionError(f"{told['rows']} of {items} rows are there")
    return told


def template_lines(server: Server, sizes: Sizes) -> Iterator[Line]:
    """A loop of ``core.log`` steps on the memory store against a bare loop over the same compiled templates."""
    items: list[Json] = [{"key": f"row-{number}", "value": {"payload": {"number": number}}} for number in range(STEPS)]
    step: JsonObject = {"stepId": "say", "stepType": "core.log", "input": {"message": MESSAGE}}
    loop: JsonObject = {"items": "<< initial.items >>", "steps": [step]}
    with app.open("memory:") as engine:
        workflow = engine.load({"steps": [{"stepId": "each", "stepType": "core.for-each", "input": loop}]})
        template = compile_text(MESSAGE)
        root = Scope({"initial": {"items": items}})

        def by_engine() -> None:
            if (result := engine.run(workflow, {"items": items})).error:
                raise AssertionError(result.error)

        def by_hand() -> None:
            for item in items:
                template.evaluate(root.child({"$item": item}), _refuse)

        yield from compare(
            "log step, 2 templates",
            "memory",
            [Way("step in a loop", by_engine)],
            [Way("bare templates", by_hand)],
            operations=STEPS,
            rounds=sizes.rounds,
        )


def _refuse(missing: Missing) -> None:
    raise AssertionError(f"{missing.path} is missing")
