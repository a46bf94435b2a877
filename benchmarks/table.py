"""How lines are shown: a table for people, JSON for programs."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import psycopg

from benchmarks.lines import Line

HEADER: Final = ("work", "store", "compared with", "flo", "the other", "figure", "spread", "aim", "memory", "note")
LEGEND: Final = (
    "x: the other's time through flo's, so that 0.5 is half as fast and 2 twice as fast.",
    "The figure is the median of the rounds, the spread is their least and greatest. Memory is the most that a process",
    "had which did the work: flo's, and the other's.",
)

Environment = dict[str, str]


def environment(postgres: str, peers: Mapping[str, str]) -> Environment:
    """What was measured on."""
    with psycopg.connect(postgres) as connection:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        version, fsync, commit, pages = (connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in names)
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "python": f"{platform.python_version()}, psycopg {psycopg.__version__}",
        "sqlite": f"{sqlite3.sqlite_version}, synchronous FULL",
        "postgresql": f"{version}, fsync {fsync}, synchronous_commit {commit}, full_page_writes {pages}",
        "peers": "; ".join(peers.values()) or "none is installed",
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
    yield from LEGEND


def _drawn(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"


def _cells(line: Line) -> tuple[str, ...]:
    figures = line.figures
    return (
        line.what,
        line.store,
        line.other,
        "" if line.seconds is None else duration(line.seconds),
        "" if line.other_seconds is None else duration(line.other_seconds),
        _figure(line.figure, line.unit) if figures else "-",
        f"{_figure(min(figures), line.unit)} to {_figure(max(figures), line.unit)}" if figures else "",
        _aim(line),
        _memory(line),
        line.note.replace("|", "/"),
    )


def _figure(value: float, unit: str) -> str:
    if unit == "times":
        return f"{value:.2f} x" if value < 10 else f"{value:.0f} x"
    sign = "+" if unit.endswith("more") else ""
    return f"{value:{sign}.{0 if abs(value) >= 10 else 2}f} {unit.removesuffix(' more')}"


def _aim(line: Line) -> str:
    if line.aim is None:
        return ""
    said = f"{line.aim.value:g} x" if line.unit == "times" else f"below {_figure(line.aim.value, line.unit)}"
    return said if not line.figures else f"{said}: {'yes' if line.aim.met(line.figure) else 'no'}"


def _memory(line: Line) -> str:
    return ", ".join(f"{peak / 1e6:.0f} MB" for peak in (line.peak, line.other_peak) if peak)


def duration(seconds: float) -> str:
    """Write a time for one operation, and how many that are in a second."""
    rate = f"{1 / seconds:,.0f}/s" if seconds < 0.1 else f"{1 / seconds:.1f}/s"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs ({rate})"
    return f"{seconds * 1e3:.1f} ms ({rate})"


def as_json(environment: Environment, lines: Sequence[Line]) -> dict[str, Any]:
    """The same as one object, the figure of every round with it."""
    return {"environment": environment, "lines": [_object(line) for line in lines]}


def _object(line: Line) -> dict[str, Any]:
    aim = line.aim
    return asdict(line) | {
        "figure": line.figure if line.figures else None,
        "aim": None if aim is None else aim.value,
        "met": aim.met(line.figure) if aim is not None and line.figures else None,
    }
