"""What an isolated step writes to its standard output and error, as lines of the execution's log."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from flo.engine.step import StepLog
from flo.engine.values import storable

MAX_LINES: Final = 1_000
"""So many lines of one call are logged; the rest is read and thrown away."""

MAX_LINE_BYTES: Final = 8 * 1024
"""A line is logged up to so many bytes."""

_PIECE: Final = 64 * 1024
_PIPE: Final = 1024 * 1024
"""A pipe can be made to hold so much."""


class Output:
    """The two streams of one call: each the descriptor of a pipe that does not block, and the level of its lines."""

    def __init__(self, log: StepLog, streams: tuple[tuple[int, str], ...]) -> None:
        self._log = log
        self._streams = {descriptor: _Stream(level) for descriptor, level in streams}
        self._left = MAX_LINES

    def read(self, descriptor: int) -> bool:
        """Take what is there now of one stream, a bounded piece; false once it has ended."""
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return True
        stream = self._streams[descriptor]
        for line in stream.lines(piece):
            self._say(stream.level, line)
        return bool(piece)

    def finish(self) -> None:
        """Take what is left: of a process that has ended, or has written all that it will. At most as much as the pipes
        hold, for a process that it left behind may write on."""
        for descriptor, stream in self._streams.items():
            with suppress(BlockingIOError):
                for _ in range(_PIPE // _PIECE):
                    piece = os.read(descriptor, _PIECE)
                    for line in stream.lines(piece):
                        self._say(stream.level, line)
                    if not piece:
                        break
            for line in stream.rest():
                self._say(stream.level, line)

    def _say(self, level: str, line: str) -> None:
        if self._left > 0:
            self._log(level, line)
        elif self._left == 0:
            self._log("warn", f"the step wrote more than {MAX_LINES:,} lines; the rest is not logged")
        self._left -= 1


class _Stream:
    """One stream: the beginning of a line whose end has not come yet."""

    def __init__(self, level: str) -> None:
        self.level = level
        self._begun = b""
        self._cut = False

    def lines(self, piece: bytes) -> list[str]:
        """The lines that end with this piece."""
        *ended, begun = piece.split(b"\n")
        found = []
        for part in ended:
            self._take(part)
            found += self.rest()
        self._take(begun)
        return found

    def rest(self) -> list[str]:
        """The line that was begun, if it says something."""
        text = storable(self._begun.decode("utf-8", "replace").rstrip()) + ("…" if self._cut else "")
        self._begun, self._cut = b"", False
        return [text] if text else []

    def _take(self, part: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._begun)
        self._begun += part[:room]
        self._cut = self._cut or len(part) > room
