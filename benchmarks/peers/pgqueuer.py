"""PgQueuer, with asyncpg, batches of 100, and a log that keeps what ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH: Final = 100


class Contestant:
    """One connection, as its own benchmark has it."""

    def __init__(self, url: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._connection, self._queries = self._loop.run_until_complete(_connect(url))

    def fill(self, jobs: int) -> None:
        """Have so many jobs wait, and nothing else."""
        self.clear()
        self.enqueue(jobs, 1_000)

    def clear(self) -> None:
        """Forget every job."""
        self._loop.run_until_complete(self._connection.execute("TRUNCATE pgqueuer, pgqueuer_log"))

    def enqueue(self, jobs: int, size: int) -> None:
        """Enqueue so many, ``size`` in a call."""

        async def work() -> None:
            for at in range(0, jobs, size):
                payloads: list[bytes | None] = [
                    b'{"number": %d}' % number for number in range(at, min(jobs, at + size))
                ]
                count = len(payloads)
                if size == 1:
                    await self._queries.enqueue("nothing", payloads[0])
                else:
                    await self._queries.enqueue(["nothing"] * count, payloads, [0] * count)

        self._loop.run_until_complete(work())

    def drain(self) -> int:
        """Work until nothing waits; gives how many."""
        queuer, done = PgQueuer.from_asyncpg_connection(self._connection), 0

        @queuer.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            nonlocal done
            done += 1

        running = queuer.qm.run(dequeue_timeout=timedelta(seconds=1), batch_size=BATCH, mode=QueueExecutionMode.drain)
        self._loop.run_until_complete(running)
        return done

    def succeeded(self) -> int:
        """How many have ended well, as its log says."""
        sql = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"
        return int(self._loop.run_until_complete(self._connection.fetchval(sql)))

    def close(self) -> None:
        """Close the connection."""
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


async def _connect(url: str) -> tuple[asyncpg.Connection, Queries]:
    connection = await asyncpg.connect(dsn=url)
    queries = Queries(AsyncpgDriver(connection))
    if not await queries.has_table("pgqueuer"):
        await queries.install()
    return connection, queries
