"""Space set aside on the disk of a SQLite file, so that how a run ended can be written when the disk is full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 128 * 1024


class Reserve:
    """A file beside the database that only takes up room. Without room for it there is none."""

    def __init__(self, database: Path) -> None:
        self._path = Path(f"{database}-reserve")

    def fill(self) -> None:
        """Set the space aside, if it is not."""
        with suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                missing = RESERVE_BYTES - os.fstat(file).st_size
                # bytes that no file system can make smaller
                if missing > 0 and os.pwrite(file, os.urandom(RESERVE_BYTES), 0) < RESERVE_BYTES:
                    os.ftruncate(file, 0)
            except OSError:
                os.ftruncate(file, 0)
            finally:
                os.close(file)

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Give the space up for a write, and set it aside again as soon as there is room."""
        with suppress(OSError):
            os.truncate(self._path, 0)
        try:
            yield
        finally:
            self.fill()
