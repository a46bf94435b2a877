"""How workers on a SQLite file notice that something came due: the file changed."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from flo.engine.stores.sqlite_files import open_reader

_SHORTEST_SECONDS: Final = 0.005
_LONGEST_SECONDS: Final = 0.25
_GROWTH: Final = 1.5


class SqliteWakeups:
    """The ``Wakeups`` of the SQLite store. SQLite tells nobody of a change, so this asks, often after there was one and
    ever less often while there is none; that costs a few microseconds. Any change of the file counts, in whichever
    queue, and by this process too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._woken = threading.Event()
        self._pause = _SHORTEST_SECONDS
        self._connection: sqlite3.Connection | None = None
        self._seen = self._version()

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._changed():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._woken.wait(min(left, self._pause * random.uniform(0.8, 1.2))):
                self._woken.clear()
                break
            self._pause = min(self._pause * _GROWTH, _LONGEST_SECONDS)
        self._pause = _SHORTEST_SECONDS
        return True

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._drop()

    def _changed(self) -> bool:
        """Whether the file changed since this was asked last. One that could not be read may have changed."""
        version = self._version()
        if version is None or version == self._seen:
            return False
        self._seen = version
        return True

    def _version(self) -> int | None:
        """A number that another connection's commit changes. None while the file cannot be read; the connection after
        that counts anew."""
        try:
            if self._connection is None:
                self._connection = open_reader(self._path)
                self._seen = None
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            self._drop()
            return None
        return version

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
