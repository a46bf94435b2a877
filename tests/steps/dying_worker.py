"""A worker that dies by SIGKILL when the step of a path has ended, before that is recorded.

``dying_worker.py URL PATH``.
"""

import os
import signal
import sys
import threading

from flo.engine import app
from flo.engine.events import Event, StepEnded


def main() -> None:
    url, path = sys.argv[1:]

    def die(event: Event) -> None:
        if isinstance(event, StepEnded) and event.record.path == path:
            os.kill(os.getpid(), signal.SIGKILL)

    with app.open(url, listeners=[die]) as engine:
        engine.worker(concurrency=1).run(threading.Event(), drain=True)


if __name__ == "__main__":
    main()
