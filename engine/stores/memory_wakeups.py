"""How the threads of one process tell each other that something came due in a queue."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence


class Bell:
    """Counts, for each queue, how often something came due by the act of somebody."""

    def __init__(self) -> None:
        self.rung = threading.Condition()
        self._counts: Counter[str] = Counter()

    def ring(self, queues: Iterable[str]) -> None:
        """Tell those who listen to one of ``queues``."""
        with self.rung:
            self._counts.update(set(queues))
            self.rung.notify_all()

    def count(self, queues: Iterable[str]) -> int:
        """How often it rang for ``queues``. Only rises, so that nobody misses what was before he listened again."""
        return sum(self._counts[queue] for queue in queues)


class MemoryWakeups:
    """The ``Wakeups`` of the memory store."""

    def __init__(self, bell: Bell, queues: Sequence[str]) -> None:
        self._bell, self._queues = bell, frozenset(queues)
        self._woken = False
        with bell.rung:
            self._seen = bell.count(self._queues)

    def wait(self, seconds: float) -> bool:
        with self._bell.rung:
            came = self._bell.rung.wait_for(self._came, max(seconds, 0.0))
            self._seen, self._woken = self._bell.count(self._queues), False
            return came

    def wake(self) -> None:
        with self._bell.rung:
            self._woken = True
            self._bell.rung.notify_all()

    def close(self) -> None:
        self.wake()

    def _came(self) -> bool:
        return self._woken or self._bell.count(self._queues) != self._seen
