"""What the command prints: data on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout, suppress
from typing import TextIO

from flo.engine.errors import FloError
from flo.engine.values import Json, LazyList, dump

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ReaderGone(Exception):
    """Nobody reads standard output any more."""


def speak_utf8() -> None:
    """Take arguments and file names, read and write as UTF-8, whatever the locale says.

    Python has decoded the arguments by then: where it went by another encoding it is started anew.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stdout is None:  # closed by the caller
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # for the life of the process


def steps_print_aside() -> AbstractContextManager[object]:
    """While steps run, what they print goes to standard error: standard output is for data."""
    return redirect_stdout(sys.stderr)


def write(text: str) -> None:
    """Write data. Raises ``ReaderGone``, and ``FloError`` where the place it goes to takes no more."""
    with _told():
        sys.stdout.write(text)


def flush() -> None:
    """Hand over what was written; raises as ``write`` does."""
    with _told():
        sys.stdout.flush()


@contextmanager
def _told() -> Iterator[None]:
    """Say in our words why standard output takes no more, and let the rest vanish."""
    try:
        yield
    except OSError as failed:
        abandon_stdout()
        if isinstance(failed, BrokenPipeError):
            raise ReaderGone from failed
        raise FloError(f"standard output cannot be written: {failed.strerror}") from failed


def abandon_stdout(stream: TextIO | None = None) -> None:
    """Let everything that is still to be written vanish: nobody reads it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (stream or sys.stdout).fileno())
        os.close(nowhere)


def print_json(value: Json, *, indented: bool | None = None) -> None:
    """Print one JSON value, on a terminal with indentation, else on one line, unless ``indented`` says which. Results
    of loops are read and written piece by piece."""
    if sys.stdout.isatty() if indented is None else indented:
        write(json.dumps(json.loads("".join(pieces(value))), ensure_ascii=False, indent=2))
    else:
        for piece in pieces(value):
            write(piece)
    write("\n")


def print_json_list(values: Iterable[Json]) -> None:
    """Print a JSON array, an element a line, as the elements come."""
    before = "["
    for value in values:
        write(before + dump(value))
        before = ",\n"
    write("[]\n" if before == "[" else "]\n")


def pieces(value: Json) -> Iterator[str]:
    """Write a value as JSON, piece by piece where it holds results that lie in the store."""
    match value:
        case LazyList():
            yield "["
            for number, held in enumerate(value):
                yield f",{dump(held)}" if number else dump(held)
            yield "]"
        case Mapping():
            before = "{"
            for key, held in value.items():
                yield f"{before}{dump(key)}:"
                yield from pieces(held)
                before = ","
            yield "{}" if before == "{" else "}"
        case _:
            yield dump(value)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, the last one as long as it is."""
    lines = [[one_line(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        write("  ".join(cells).rstrip() + "\n")


def one_line(text: str) -> str:
    """Show what would move the cursor, or colour the screen, as its escape."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shown_text(text: str, indent: str) -> str:
    """Text of several lines, the later ones indented, without control characters."""
    return f"\n{indent}".join(one_line(line) for line in text.expandtabs(4).split("\n"))


def note(text: str) -> None:
    """Say something on standard error. What comes from a document cannot move the cursor."""
    with suppress(OSError, ValueError):
        sys.stderr.write(shown_text(text, "") + "\n")
        sys.stderr.flush()


def warn(text: str) -> None:
    """Say what is probably not meant."""
    note(f"warning: {text}")


def error(text: str) -> None:
    """Say what went wrong."""
    note(f"error: {text}")
