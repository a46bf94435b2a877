"""Places at which a test can let this process die: ``FLO_FAULT=checkpoint.before-commit:3`` in the environment kills it
there, the third time that it comes by. For tests only; without the variable nothing happens."""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

VARIABLE: Final = "FLO_FAULT"

_point, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count or 1)
_lock = threading.Lock()


def reach(point: str) -> None:
    """Come by ``point``; die there, by SIGKILL, if that was asked for."""
    global _left
    if point != _point:
        return
    with _lock:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
