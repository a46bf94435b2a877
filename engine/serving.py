"""Runs the services of one process side by side, until it is asked to stop or one of them fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

_JOIN_SECONDS: Final = 0.2

Service = Callable[[threading.Event], object]
"""Runs until the event is set, and winds down then."""


def serve(services: Mapping[str, Service], stop: threading.Event) -> Mapping[str, object]:
    """Run each of ``services`` in a thread of its own, until ``stop`` is set; gives what each returned, by its name.

    One that raises stops all of them; once they have wound down, what it raised is raised here. One that returns
    leaves the others running.
    """
    results: dict[str, object] = {}
    failures: list[BaseException] = []

    def run(name: str, service: Service) -> None:
        try:
            results[name] = service(stop)
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    threads = [threading.Thread(target=run, args=pair, name=f"flo-{pair[0]}") for pair in services.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # not for ever at once: signals are handled between
            thread.join(_JOIN_SECONDS)
    if failures:
        raise failures[0]
    return results
