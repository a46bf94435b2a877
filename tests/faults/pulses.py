"""How processes tell one another, without anybody asking again and again: pipes that have a name."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from types import TracebackType


class Pulses:
    """The end at which a test hears what step types in other processes say. It is there before they speak."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # both ends: nobody has to wait for the other

    def wait(self, count: int = 1, seconds: float = 300) -> None:
        """Wait until so many more were heard."""
        deadline = time.monotonic() + seconds
        while count:
            left = deadline - time.monotonic()
            assert left > 0, f"{count} pulses did not come"
            if select.select([self._descriptor], [], [], left)[0]:
                count -= len(os.read(self._descriptor, count))

    def __enter__(self) -> Pulses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class Barrier:
    """What step types in other processes stand at until a test opens it; then it stays open."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._descriptor: int | None = None

    def open(self) -> None:
        """Let all pass, those who come later too."""
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self) -> Barrier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open()  # nobody stays behind
        assert self._descriptor is not None
        os.close(self._descriptor)
