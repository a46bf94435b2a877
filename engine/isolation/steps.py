"""How an engine runs isolated steps. The pool of processes, and all that it imports, is had when the first one runs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from flo.engine.errors import RunCancelled, StepFailed
from flo.engine.step import Outcome, StepCall, StepType
from flo.engine.values import JsonObject

if TYPE_CHECKING:
    from flo.engine.isolation.pool import Pool


class IsolatedSteps:
    """Runs bodies of step types in processes of their own. ``source`` gives where a process can import a step type
    from, by its name: a module name or a Python file. Safe to use from many threads."""

    def __init__(self, source: Callable[[str], str]) -> None:
        self._source = source
        self._pool: Pool | None = None
        self._closed = False
        self._lock = threading.Lock()

    def run(self, step_type: StepType, call: StepCall, input: JsonObject) -> JsonObject | Outcome:
        """Run the body as ``step_type.body(call, input)`` would: it gives and raises the same.

        An error that the body does not mean for the engine is ``StepFailed`` (``step_error``), with its traceback in
        the log. A process that dies is ``StepFailed`` (``process_died``), and may be tried again. One that has to be
        ended raises ``RunCancelled``, or ``StepFailed`` (``timeout``), once it has ended.
        """
        if not hasattr(os, "killpg") or not sys.executable:
            message = f"{step_type.name} is isolated: that needs a POSIX system, and a Python that can be started"
            raise StepFailed(message, code="not_supported", retryable=False)
        return self._opened().run(step_type, call, input)

    def close(self) -> None:
        """End every process. A call under way raises ``RunCancelled``."""
        with self._lock:
            self._closed = True
        if self._pool is not None:
            self._pool.close()

    def _opened(self) -> Pool:
        with self._lock:
            if self._closed:
                raise RunCancelled("the engine was closed")
            if self._pool is None:
                from flo.engine.isolation.pool import Pool

                self._pool = Pool(self._source)
            return self._pool
