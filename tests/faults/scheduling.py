"""A process that schedules by a clock in a file, for tests that stop it: ``scheduling.py URL FILE``.

Says on standard output, a line each, what became of slots: ``flow/name fired 12:01:00``. A line on standard input ends
it.
"""

from __future__ import annotations

import sys
import threading
import time
from datetime import datetime
from pathlib import Path

from flo.engine import app
from flo.engine.events import Event, TriggerFired


class FileClock:
    """A clock whose time stands in a file: other processes move it. Waits go by the machine's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, moment: str) -> None:
        """Move it, for everybody, to a time of the day."""
        beside = self._path.with_suffix(".new")
        beside.write_text(f"2027-01-01T{moment}+00:00")
        beside.replace(self._path)  # whoever reads sees the one or the other

    def now(self) -> datetime:
        return datetime.fromisoformat(self._path.read_text())

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


def say(event: Event) -> None:
    if isinstance(event, TriggerFired):
        at = event.firing.scheduled_at
        moment = "" if at is None else at.strftime(" %H:%M:%S")
        sys.stdout.write(f"{event.trigger.full_name} {event.firing.outcome}{moment}\n")
        sys.stdout.flush()


def main(url: str, file: str) -> None:
    with app.open(url, clock=FileClock(Path(file)), listeners=[say]) as engine:
        stop = threading.Event()
        running = threading.Thread(target=engine.scheduler().run, args=(stop,))
        running.start()
        sys.stdin.readline()
        stop.set()
        running.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
