"""Huey on SQLite with ``fsync``, whose results are kept as records of what ended."""

from __future__ import annotations

from huey import SqliteHuey


class Contestant:
    """One queue, and a worker that does what its consumer's worker does: take one, execute it, look for the next."""

    def __init__(self, url: str) -> None:
        self._huey = SqliteHuey("default", filename=url.removeprefix("sqlite:"), fsync=True, timeout=30)
        self._huey.task(name="nothing")(_nothing)
        hasty = SqliteHuey("default", filename=url.removeprefix("sqlite:"), fsync=False, timeout=30)
        self._enqueue = hasty.task(name="nothing")(_nothing)

    def fill(self, jobs: int) -> None:
        """Have so many tasks wait, and nothing else."""
        self._huey.storage.flush_all()
        for number in range(jobs):
            self._enqueue(number)

    def drain(self) -> int:
        """Work until nothing waits; gives how many."""
        done = 0
        while (task := self._huey.dequeue()) is not None:
            self._huey.execute(task)
            done += 1
        return done

    def succeeded(self) -> int:
        """How many results there are."""
        return int(self._huey.result_count())

    def close(self) -> None:
        """Close the connection."""
        self._huey.storage.close()


def _nothing(number: int) -> bool:
    return True
