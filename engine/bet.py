"""A bet: steps, or iterations, run in one transaction as long as all goes well. Where it is lost, all is undone."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from flo.engine.stores.queueing import Owned
from flo.engine.writing import Apart

MOST_SECONDS: Final = 0.02
"""Nothing more begins in it after so long, of the machine's own time: others wait for what it has locked."""


class Bet:
    """One transaction, and whether the bet on it stands. ``afterwards`` is done once it is won."""

    def __init__(self, owned: Owned) -> None:
        self.owned = owned
        self.afterwards: list[Callable[[], object]] = []
        self.is_lost = self.is_late = False
        self._until = monotonic() + MOST_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether it is time to commit."""
        return monotonic() >= self._until

    def lose(self) -> Apart:
        """What to raise where something is not as it should be. Whoever catches that does not win it back."""
        self.is_lost = True
        return Apart(doubt=False)

    def check(self) -> None:
        """Raise ``Apart`` where it is lost, or where one piece of it takes too long."""
        self.is_late = self.is_late or monotonic() >= self._until + MOST_SECONDS
        if self.is_lost or self.is_late:
            raise self.lose()
