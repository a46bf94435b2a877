"""DBOS on PostgreSQL or SQLite: its queue, asked every 20 ms for up to 100 at once, and workflows of ten steps."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig

from benchmarks.contestant import Taken

NAME: Final = "benchmark"
QUEUE: Final = "jobs"
CONCURRENCY: Final = 100
POLL_SECONDS: Final = 0.02
STEPS: Final = 10


@DBOS.workflow(name="nothing")
def nothing(number: int) -> int:
    return number


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow(name="ten-steps")
def ten_steps(number: int) -> int:
    return sum(step(at) for at in range(STEPS))


class Contestant:
    """An application that is launched while it works: it asks its queue for work from then on."""

    def __init__(self, url: str) -> None:
        self._url = _sqlalchemy_url(url)
        self._engine = sqlalchemy.create_engine(self._url)
        self._table = "workflow_status" if url.startswith("sqlite:") else "dbos.workflow_status"
        with self._launched():
            DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_SECONDS)

    @contextmanager
    def _launched(self) -> Iterator[None]:
        config: DBOSConfig = {
            "name": NAME,
            "system_database_url": self._url,
            "application_version": "1",
            "executor_id": str(os.getpid()),
            "log_level": "ERROR",
        }
        DBOS(config=config)
        DBOS.launch()
        try:
            yield
        finally:
            DBOS.destroy()

    def fill(self, jobs: int) -> None:
        """Have so many workflows wait, and nothing else."""
        self.clear()
        client = DBOSClient(system_database_url=self._url, application_name=NAME)
        options: Any = {"workflow_name": "nothing", "queue_name": QUEUE}
        with self._engine.begin() as connection:
            for number in range(jobs):
                client.enqueue_in_transaction(connection, options, number)
        client.destroy()

    def clear(self) -> None:
        """Forget every workflow."""
        with self._engine.begin() as connection:
            connection.execute(sqlalchemy.text(f"DELETE FROM {self._table}"))

    def drain(self) -> Taken:
        """Work until nothing waits. The launch does not count."""
        with self._launched():
            began = time.monotonic()
            while self._number(f"SELECT count(*) FROM {self._table} WHERE status IN ('ENQUEUED', 'PENDING')"):
                time.sleep(POLL_SECONDS)
            return Taken(began, time.monotonic())

    def succeeded(self) -> int:
        """How many have ended well."""
        return self._number(f"SELECT count(*) FROM {self._table} WHERE status = 'SUCCESS'")

    def prepare(self, executions: int) -> None:
        """Forget every workflow."""
        self.clear()

    def run(self, executions: int, does: str) -> Taken:
        """Run workflows of ten steps, one after the other; gives how many ended. The launch does not count."""
        with self._launched():
            began = time.monotonic()
            done = [ten_steps(number) for number in range(executions)]
            return Taken(began, time.monotonic(), len(done))

    def _number(self, sql: str) -> int:
        with closing(self._engine.connect()) as connection:
            return int(connection.execute(sqlalchemy.text(sql)).scalar_one())

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def _sqlalchemy_url(url: str) -> str:
    if url.startswith("sqlite:"):
        return f"sqlite:///{url.removeprefix('sqlite:')}"
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
