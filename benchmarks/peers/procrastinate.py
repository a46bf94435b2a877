"""Procrastinate, with its own pool and many jobs at once, that keeps what ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

import procrastinate
import psycopg

from benchmarks.contestant import Taken

CONCURRENCY: Final = 32


class Contestant:
    """One application, which is open while it is asked for something."""

    def __init__(self, url: str) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        self._url = url
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=CONCURRENCY + 2))
        self._loop = asyncio.new_event_loop()
        self._done = 0

        @self._app.task(name="nothing")
        async def nothing(number: int) -> None:
            self._done += 1

        self._nothing = nothing
        with psycopg.connect(url) as session:
            there = session.execute("SELECT to_regclass('procrastinate_jobs')").fetchall()[0][0]
        if there is None:
            self._opened(self._app.schema_manager.apply_schema_async)

    def _opened(self, work: Callable[[], Awaitable[Any]]) -> Taken:
        """Work with the pool open; opening it does not count."""

        async def opened() -> Taken:
            async with self._app.open_async():
                began = monotonic()
                await work()
                return Taken(began, monotonic(), self._done)

        return self._loop.run_until_complete(opened())

    def fill(self, jobs: int) -> None:
        """Have so many jobs wait, and nothing else."""
        self.clear()
        self.enqueue(jobs, 1_000)
        with psycopg.connect(self._url, autocommit=True) as session:
            session.execute("VACUUM (ANALYZE) procrastinate_jobs")

    def clear(self) -> None:
        """Forget every job."""
        with psycopg.connect(self._url) as session:
            session.execute("TRUNCATE procrastinate_jobs CASCADE")

    def enqueue(self, jobs: int, size: int) -> Taken:
        """Enqueue so many, ``size`` in a call."""

        async def work() -> None:
            for at in range(0, jobs, size):
                if size == 1:
                    await self._nothing.defer_async(number=at)
                else:
                    numbers = range(at, min(jobs, at + size))
                    given: list[dict[str, Any]] = [{"number": number} for number in numbers]
                    await self._nothing.batch_defer_async(*given)

        return self._opened(work)

    def drain(self) -> Taken:
        """Work until nothing waits; gives how many."""
        self._done = 0

        async def work() -> None:
            await self._app.run_worker_async(
                concurrency=CONCURRENCY, wait=False, install_signal_handlers=False, listen_notify=False
            )

        return self._opened(work)

    def succeeded(self) -> int:
        """How many have ended well."""
        with psycopg.connect(self._url) as session:
            sql = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
            return int(session.execute(sql).fetchall()[0][0])

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()
