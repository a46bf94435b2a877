"""When Python looks for cycles of objects that nobody refers to: its own number is after every 700 new ones."""

from __future__ import annotations

import gc
from typing import Final

_WHILE_STARTING: Final = 50_000
_WHILE_WORKING: Final = 20_000


def collect_late() -> None:
    """Look for none while a command starts: it makes 30,000 objects, nearly all by imports, and they stay."""
    gc.set_threshold(_WHILE_STARTING)


def collect_rarely() -> None:
    """Look for few while executions run: they leave no cycles, and what many of them hold at the same moment would be
    looked through again and again, for a fifth of the processor's time. What is there already is passed over."""
    gc.freeze()
    gc.set_threshold(_WHILE_WORKING)
