"""Absurd, by its synchronous client: claims of 100, with the connection that its worker has."""

from __future__ import annotations

from typing import Any, Final

import absurdctl
import psycopg
from absurd_sdk import Absurd

BATCH: Final = 100
STEPS: Final = 10
QUEUE: Final = "default"


class Contestant:
    """One client."""

    def __init__(self, url: str) -> None:
        self._session = psycopg.connect(url, autocommit=True)
        self._app = Absurd(self._session, queue_name=QUEUE)
        if self._session.execute("SELECT to_regnamespace('absurd')").fetchall()[0][0] is None:
            self._session.execute(absurdctl.BUNDLED_SCHEMA_SQL.encode())
            self._app.create_queue(QUEUE)
        self._done = 0

        @self._app.register_task("nothing")
        def nothing(params: Any, context: Any) -> dict[str, Any]:
            self._done += 1
            return {}

        @self._app.register_task("ten-steps")
        def ten_steps(params: Any, context: Any) -> dict[str, Any]:
            for number in range(STEPS):
                context.step(f"step-{number}", lambda number=number: {"number": number})
            self._done += 1
            return {}

    def fill(self, jobs: int) -> None:
        """Have so many tasks wait, and nothing else."""
        self.clear()
        self._spawn("nothing", jobs)
        self._session.execute(f"VACUUM (ANALYZE) absurd.t_{QUEUE}, absurd.r_{QUEUE}".encode())

    def clear(self) -> None:
        """Forget every task."""
        names = ", ".join(f"absurd.{kind}_{QUEUE}" for kind in "trcew")
        self._session.execute(f"TRUNCATE {names} CASCADE".encode())

    def _spawn(self, task: str, count: int) -> None:
        with self._session.transaction():
            for number in range(count):
                self._app.spawn(task, {"number": number})

    def drain(self) -> int:
        """Work until nothing waits; gives how many."""
        self._done, before = 0, -1
        while self._done != before:
            before = self._done
            self._app.work_batch(batch_size=BATCH)
        return self._done

    def succeeded(self) -> int:
        """How many have ended well."""
        sql = f"SELECT count(*) FROM absurd.t_{QUEUE} WHERE state = 'completed'"
        return int(self._session.execute(sql.encode()).fetchall()[0][0])

    def prepare(self, executions: int) -> None:
        """Have so many tasks of ten steps wait."""
        self.clear()
        self._spawn("ten-steps", executions)

    def run(self, executions: int, does: str) -> int:
        """Work on them, one after the other; gives how many ended."""
        return self.drain()

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
