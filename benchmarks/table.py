"""How lines are shown: a table for people, JSON for programs."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator, Sequence

import psycopg

from benchmarks.measuring import Line

HEADER = ("what", "store", "way", "floor", "way takes", "floor takes", "ratio", "spread", "note")
Environment = dict[str, str | int]


def environment(postgres: str) -> Environment:
    """What was measured on."""
    with psycopg.connect(postgres) as connection:
        names = ("server_version", "fsync", "synchronous_commit")
        version, fsync, commit = (connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in names)
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "python": platform.python_version(),
        "sqlite": f"{sqlite3.sqlite_version}, synchronous FULL",
        "postgresql": f"{version}, fsync {fsync}, synchronous_commit {commit}",
    }


def text_table(environment: Environment, lines: Sequence[Line]) -> Iterator[str]:
    """The lines of a Markdown table, after what was measured on."""
    yield from (f"{name}: {value}" for name, value in environment.items())
    yield ""
    cells = [HEADER, *map(_cells, lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADER))]
    for number, row in enumerate(cells):
        yield _drawn(row, widths)
        if number == 0:
            yield _drawn(tuple("-" * width for width in widths), widths)
    yield ""
    yield "ratio: the floor's time through the way's, the median of the rounds, and their spread"


def _drawn(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"


def _cells(line: Line) -> tuple[str, ...]:
    wanted = "" if line.wanted is None else f"wanted: {line.wanted:g}"
    return (
        line.name,
        line.store,
        line.way,
        line.floor,
        duration(line.seconds),
        duration(line.floor_seconds),
        f"{line.ratio:.2f}",
        f"{min(line.ratios):.2f} to {max(line.ratios):.2f}",
        "; ".join(filter(None, (wanted, line.note))),
    )


def duration(seconds: float) -> str:
    """Write a time for one operation, and how many that are in a second."""
    rate = f"{1 / seconds:,.0f}/s" if seconds < 0.1 else f"{1 / seconds:.1f}/s"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs ({rate})"
    return f"{seconds * 1e3:.1f} ms ({rate})"


def as_json(environment: Environment, lines: Sequence[Line]) -> dict[str, object]:
    """The same as one object, every ratio with it."""
    return {
        "environment": environment,
        "lines": [
            {
                "name": line.name,
                "store": line.store,
                "way": line.way,
                "floor": line.floor,
                "seconds": line.seconds,
                "floorSeconds": line.floor_seconds,
                "ratio": line.ratio,
                "ratios": line.ratios,
                "wanted": line.wanted,
                "note": line.note,
            }
            for line in lines
        ],
    }
