"""What the tests of isolated steps share: a gate that bodies come to, and what their calls may reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flo.engine.errors import StepFailed
from flo.engine.executions import ExecutionState
from flo.engine.jobs import Enqueued, JobOptions
from flo.engine.secrecy import Secret

SOURCE = str(Path(__file__).with_name("isolated_types.py"))
PATIENCE = 30.0


class Given:
    """The ``Secrets`` and the ``Engine`` of a call. ``asked`` has what the engine was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getitem__(self, name: str) -> Any:
        if name != "TOKEN":
            raise StepFailed(f"no {name!r}", code="unknown_secret")
        return Secret("s3cret", "***")

    def get(self, name: str, default: Any = None) -> Any:
        return default

    def connection(self, name: str) -> Any:
        return {"url": f"https://{name}.example", "password": Secret("pa55")}

    def set_variables(self, pairs: Any) -> None:
        self.asked.append(pairs)

    def keep_claimed(self, table: str, held: Mapping[str, int], every_seconds: float) -> None:
        self.asked.append((table, held, every_seconds))

    def wait(self, kind: str, **named: Any) -> Any:
        self.asked.append((kind, named))
        return {"answer": threading.current_thread().name}

    def run_workflow(self, target: Any, initial: Any) -> Any:
        return {"ran": [target, initial]}

    def enqueue(self, target: str, initial: Any, options: JobOptions) -> Enqueued:
        return Enqueued(f"{target}-{options.priority}", True, ExecutionState.PENDING)


class Gate:
    """Where bodies come to, and what tells that all who came along are gone."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen()
        self._listening.settimeout(PATIENCE)
        self._came: list[socket.socket] = []

    def come(self) -> tuple[socket.socket, int]:
        """Wait for one who comes; gives its end, and its pid."""
        came, _ = self._listening.accept()
        came.settimeout(PATIENCE)
        self._came.append(came)
        return came, int(came.makefile("rb", buffering=0).readline())

    def close(self) -> None:
        for held in (self._listening, *self._came):
            held.close()
