"""Whether one more execution may run, by the limits of queues and of concurrency keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from flo.engine.jobs import Limits

_UNBOUND: Final = Limits()


class Gates:
    """Counts what runs, and what it lets through: for one claim, under the lock that makes claims take turns.

    ``running`` counts the executions with a live lease by queue ("" where no queue delivers them) and concurrency key
    (None: they have none); those of a key in all queues, so that the key's own limit holds over all of them.
    ``starts`` counts the executions by queue and key whose newest claim is younger than the queue's
    ``per_key_seconds``. A queue that is not in ``limits`` has none.
    """

    def __init__(
        self,
        limits: Mapping[str, Limits],
        running: Mapping[tuple[str, str | None], int],
        starts: Mapping[tuple[str, str], int],
    ) -> None:
        self._limits = limits
        self._in_queue: Counter[str] = Counter()
        self._in_queue_by_key: Counter[tuple[str, str]] = Counter()
        self._by_key: Counter[str] = Counter()
        self._starts: Counter[tuple[str, str]] = Counter(starts)
        for (queue, key), count in running.items():
            self._count(queue, key, count)

    def admits(self, queue: str, key: str | None, limit: int | None) -> bool:
        """Say whether one more of ``queue`` and ``key`` may run, and count it if so. ``limit`` is the execution's own
        ``concurrency_limit``; None means what the queue allows of one key, or one."""
        if self.full(queue, key, limit):
            return False
        self._count(queue, key, 1)
        if key is not None:
            self._starts[queue, key] += 1
        return True

    def full(self, queue: str, key: str | None, limit: int | None) -> bool:
        """Say whether one more would be too many. Counts nothing."""
        limits = self._limits.get(queue, _UNBOUND)
        if _reached(self._in_queue[queue], limits.running):
            return True
        if key is None:
            return False
        return (
            _reached(self._in_queue_by_key[queue, key], limits.running_per_key)
            or _reached(self._by_key[key], limit or limits.running_per_key or 1)
            or self.too_fast(queue, key)
        )

    def too_fast(self, queue: str, key: str | None) -> bool:
        """Say whether the rate of ``key`` in ``queue`` is reached: time alone lets the next one through. A rate needs
        both its numbers."""
        limits = self._limits.get(queue, _UNBOUND)
        if key is None or limits.per_key_seconds is None:
            return False
        return _reached(self._starts[queue, key], limits.starts_per_key)

    def _count(self, queue: str, key: str | None, count: int) -> None:
        self._in_queue[queue] += count
        if key is not None:
            self._in_queue_by_key[queue, key] += count
            self._by_key[key] += count


def _reached(count: int, bound: int | None) -> bool:
    return bound is not None and count >= bound
