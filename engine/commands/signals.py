"""SIGINT and SIGTERM while a workflow runs: the first asks it to stop, the second ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """While it is entered, a first signal sets ``asked`` and nothing else; ``exit_code`` is what it ends with.

    ``say`` is called once after that signal, from a thread.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.asked = threading.Event()
        self.exit_code = 128 + signal.SIGINT
        self._before: dict[int, Any] = {}
        self._over = False

    def __enter__(self) -> Stop:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        threading.Thread(target=self._tell, name="flo-signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if not self.asked.is_set():
            self._over = True
            self.asked.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            os._exit(128 + number)  # nothing waits in a buffer: events are flushed one by one, the result comes later
        self.exit_code = 128 + number
        self.asked.set()

    def _tell(self) -> None:
        """Say from a thread of its own what a handler must not."""
        self.asked.wait()
        if not self._over:
            self._say("stopping: steps under way are given time to end; a second signal ends at once")
